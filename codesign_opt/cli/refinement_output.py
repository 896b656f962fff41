"""What people and programs are told about the simulated candidates of a study."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.studies.study import Study
    from codesign_opt.tables import Table

ROWS = 20
"""Candidates shown."""

DIFFERENCES = 5
"""Candidates whose difference is explained."""

_STRATEGY = ("tp", "pp", "dp", "vpp")
_OTHERS = ("microbatch", "recompute", "optimizer_sharding", "dp_overlap", "tp_communication", "tp_overlap")


def refined_text(study: Study, *, rows: int = ROWS) -> str:
    """How far simulation and estimate are apart, the best candidates by simulation, and why notable ones differ."""
    from codesign_opt.cli.output import readable_table

    table = study.refined
    metric = study.objectives[0].metric
    best = table.take(list(range(min(table.rows, rows))))
    shown = _readable(best, metric)
    sections = [
        _answer(study, table),
        f"best by simulated {metric}, and their places by the estimates:\n"
        f"{readable_table(shown, _columns(shown), _OTHERS)}"
        + (f"\n{rows} of {table.rows}; --json shows all" if table.rows > rows else ""),
        _differences(table),
    ]
    return "\n\n".join(section for section in sections if section)


def refinement_document(study: Study) -> dict[str, Any]:
    """The simulated candidates for programs, best first."""
    from codesign_opt.cli.output import table_document
    from codesign_opt.simulation.version import SIMULATOR_VERSION

    return {"simulator_version": SIMULATOR_VERSION, "refined": table_document(study.refined)}


def next_commands(study: Study, database: str) -> str:
    """What to type next: a closer look at the best candidate, and the front."""
    from codesign_opt.cli.study_output import database_option

    best = study.refined.row(0)
    name, elsewhere = shlex.quote(study.name), database_option(database)
    return "\n".join(
        [
            f"  codesign-opt simulate --study {name} --trial {best['trial']} --rank {best['rank']} "
            f"--timeline step.json{elsewhere}",
            f"  codesign-opt pareto {name}{elsewhere}",
        ]
    )


def _answer(study: Study, table: Table) -> str:
    """What was simulated, how far it is from the estimates, and what the best candidate's step consists of."""
    from codesign_opt.cli.output import percentages, plural
    from codesign_opt.cli.simulation_output import largest_parts, stage_title
    from codesign_opt.studies.refinement import NOTABLE
    from codesign_opt.units import format_quantity

    changes = table["step_time_change"]
    low, high = percentages([float(changes.min()), float(changes.max())], signed=True)
    notable = int((abs(changes) >= NOTABLE).sum())
    best = table.row(0)
    place = best["estimated_place"]
    simulated, estimate = (format_quantity(best[name], "s") for name in ("step_time_simulated", "step_time"))
    change = percentages([best["step_time_change"]], signed=True)[0]
    candidate = next(row for row in study.stored_candidates if (row.trial, row.rank) == (best["trial"], best["rank"]))
    notes = study.refinements[candidate.id or 0].notes
    parts = dict(notes["parts"])
    parts.pop("total")
    stage = stage_title(notes.get("stage", 0)).removeprefix("the ")
    return "\n".join(
        [
            f"study '{study.name}': {plural(range(table.rows), 'candidate')} simulated",
            f"step times differ from the estimates by {low.strip()} to {high.strip()}, "
            f"{notable} of {table.rows} by {NOTABLE:.0%} or more",
            f"the best is trial {best['trial']}, rank {best['rank']}: "
            f"{'also the best' if place == 1 else f'place {place}'} by the estimates",
            f"  step time: simulated {simulated}, estimate {estimate} ({change})",
            f"  its {stage}: {largest_parts({name: after for name, (_, after) in parts.items()})}",
        ]
    )


def _readable(table: Table, metric: str) -> Table:
    """With short headings and shares as text."""
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    headings = {
        "trial": "trial", "rank": "rank", metric: metric, f"{metric}_simulated": "simulated",
        f"{metric}_change": "change", "estimated_place": "by estimate",
    }  # fmt: skip
    columns: dict[str, Any] = {heading: table[name] for name, heading in headings.items()}
    columns["change"] = percentages(columns["change"].tolist(), signed=True)
    columns |= {name: table[name] for name in (*_STRATEGY, *_OTHERS) if name in table}
    return Table(columns, dict.fromkeys((metric, "simulated"), table.units[metric]))


def _columns(shown: Table) -> list[str]:
    return [name for name in shown if name not in _OTHERS]


def _differences(table: Table) -> str:
    """What makes up the largest of the notable differences."""
    import textwrap

    from codesign_opt.cli.output import width

    notable = sorted((row for row in table.to_dicts() if row["because"]), key=lambda row: -abs(row["step_time_change"]))
    lines = [
        f"  trial {row['trial']}, rank {row['rank']}, {row['step_time_change']:+.1%}: {row['because']}"
        for row in notable[:DIFFERENCES]
    ]
    if len(notable) > DIFFERENCES:
        lines.append(f"  and {len(notable) - DIFFERENCES} more; --json shows all")
    wrapped = [part for line in lines for part in textwrap.wrap(line, width(), subsequent_indent="    ")]
    return "\n".join(["the largest differences, as shares of the estimated step:", *wrapped]) if notable else ""
