"""What people and programs are told about the run of a program graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign_opt.simulation.critical_path import CriticalStep
    from codesign_opt.simulation.result import Simulation
    from codesign_opt.tables import Table

ROWS = 16
"""Processors, links and entries of the critical path shown."""

_LONGEST = 44
"""Characters of a name shown: those that a translation makes say all the steps that led to them."""


def write_simulation(name: str, result: Simulation, *, json: bool) -> None:
    """How long the run took, what its processors and links did, and its critical path."""
    from codesign_opt.cli.output import table_document, titled_table, write, write_json

    steps = result.critical_path()
    processors, links, path = result.processors(), result.link_table(), _path_table(steps)
    if json:
        write_json(
            {
                "graph": name,
                "topology": result.topology.name,
                "makespan": result.makespan,
                "events": result.events,
                "processors": table_document(processors),
                "links": table_document(links),
                "critical_path": table_document(path),
            }
        )
        return
    sections = [_answer(name, result, steps), titled_table(processors, "processors", rows=ROWS)]
    if links["bytes"].any():
        sections.append(titled_table(_used_links(links), "links, the busiest first", rows=ROWS))
    sections.append(titled_table(_readable_path(path), "critical path, by instruction", rows=ROWS))
    write("\n\n".join(sections))


def _path_table(steps: Sequence[CriticalStep]) -> Table:
    """The critical path, the longest first: instruction, processor (of a message both), how often, and seconds."""
    from codesign_opt.tables import Table

    totals: dict[tuple[str, str], list[float]] = {}
    for step in steps:
        where = str(step.processor) if step.destination is None else f"{step.processor} → {step.destination}"
        totals.setdefault((step.name, where), []).append(step.end - step.start)
    ranked = sorted(totals.items(), key=lambda item: -sum(item[1]))
    return Table(
        {
            "instruction": [name for (name, _), _ in ranked],
            "processor": [where for (_, where), _ in ranked],
            "times": [len(seconds) for _, seconds in ranked],
            "seconds": [sum(seconds) for _, seconds in ranked],
        },
        {"seconds": "s"},
    )


def _answer(name: str, result: Simulation, steps: Sequence[CriticalStep]) -> str:
    """How long it took, and on what."""
    from codesign_opt.cli.simulation_output import largest_parts
    from codesign_opt.units import format_quantity

    kinds = {"instructions": 0.0, "messages": 0.0}
    for step in steps:
        kinds["instructions" if step.destination is None else "messages"] += step.end - step.start
    return "\n".join(
        [
            f"{name} on {result.topology.name}: {format_quantity(result.makespan, 's')}",
            f"critical path: {largest_parts(kinds)}",
        ]
    )


def _used_links(links: Table) -> Table:
    """Links that carried something, with shares as text."""
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    used = links.take((links["bytes"] > 0).nonzero()[0])
    busiest = used.take((-used["mean_utilisation"]).argsort(kind="stable"))
    shares = ("mean_utilisation", "peak_utilisation")
    return Table(
        {name: percentages(busiest[name].tolist()) if name in shares else busiest[name] for name in busiest},
        busiest.units,
    )


def _readable_path(path: Table) -> Table:
    """With shares as text, and long names cut in the middle."""
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    whole = path["seconds"].sum()
    names = [
        name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-(_LONGEST // 2 - 1) :]}"
        for name in path["instruction"].tolist()
    ]
    shares = percentages(seconds / whole if whole else 0.0 for seconds in path["seconds"].tolist())
    return Table({**dict(path), "instruction": names, "share": shares}, path.units)
