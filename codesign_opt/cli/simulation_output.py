"""What people and programs are told about a simulated step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate
    from codesign_opt.objectives import Metric
    from codesign_opt.simulation.step import SimulatedStep
    from codesign_opt.strategies import Strategy
    from codesign_opt.systems import System
    from codesign_opt.tables import Table
    from codesign_opt.workloads import Workload

STAGES = 16
"""Stages shown."""

ROWS = 8
"""Ports and instructions of the critical path shown."""

WORTH_TELLING = 0.0005
"""Share of the step from which on a difference of one of its parts is told."""

_KINDS = {
    "compute": ("forward", "backward", "recompute", "optimizer"),
    "communication": (
        "tp_communication", "recompute_communication", "cp_communication", "ep_communication", "dp_communication",
        "pp_communication",
    ),
    "offload": ("forward_offload", "backward_offload"),
    "bubble": ("bubble",),
}  # fmt: skip
"""What the parts of a stage's step are, in short."""

_SIZES = ("tp", "pp", "dp", "vpp", "batch", "microbatch")
_FURTHER_SIZES = ("cp", "ep", "etp")
_RATES = ("sample_rate", "token_rate", "mfu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The step to simulate; `candidate` says study, trial and rank where it is that of a study."""

    workload: Workload
    system: System
    strategy: Strategy
    reproduce: str
    candidate: Mapping[str, Any] = field(default_factory=dict)


def write_step(question: Question, settings: Mapping[str, Any], *, timeline: Path | None, json: bool) -> None:
    """Simulate a step as `api.simulate_strategy` does with these settings, and say what came out.

    Raises:
        InputError: For whatever is wrong, before anything is said.
        InfeasibleError: A strategy that does not fit in memory, after all is said.
    """
    from codesign_opt import api
    from codesign_opt.cli.estimate import require_fit
    from codesign_opt.cli.output import note, write, write_json
    from codesign_opt.simulation.timeline import write_timeline

    workload, system, strategy = question.workload, question.system, question.strategy
    # Other engines keep no record of what happens when.
    record = settings["engine"] == "events"
    step = api.simulate_strategy(workload, system, strategy, **settings, reproduce=question.reproduce, record=record)
    if timeline is not None and step.result.simulation is not None:
        labels = {stage: f"stage {stage}" for stage in range(step.result.step.work.stages)}
        write_timeline(timeline, step.result.simulation, labels=labels)
        note(f"wrote {timeline}: open it at ui.perfetto.dev")
    if json:
        write_json(_document(question, step))
    else:
        write("\n\n".join(_sections(question, step)))
    require_fit(api.estimate(workload, system, strategy, reproduce=question.reproduce).row(0), system)


def largest_parts(seconds: Mapping[str, float], count: int = 3) -> str:
    """The parts that take longest, and their shares of all: "backward 60.3%, forward 31.6%, bubble 4.4%"."""
    from codesign_opt.cli.output import percentages

    whole = sum(seconds.values())
    ranked = sorted(seconds.items(), key=lambda item: -item[1])[:count]
    shares = percentages(value / whole if whole else 0.0 for _, value in ranked)
    names = [name.replace("_", " ") for name, _ in ranked]
    return ", ".join(f"{name} {share.strip()}" for name, share in zip(names, shares, strict=True))


def stage_title(stage: int) -> str:
    """Which stage is told about."""
    return "the first stage" if stage == 0 else f"stage {stage}, the busiest"


def _document(question: Question, step: SimulatedStep) -> dict[str, Any]:
    """The step for programs: SI numbers, units named."""
    from codesign_opt.cli.output import table_document
    from codesign_opt.strategies.table import StrategyTable

    result, path = step.result, _critical_path(step)
    strategy = StrategyTable.from_strategies([question.strategy]).words()
    return {
        **question.candidate,
        "workload": question.workload.name,
        "system": question.system.name,
        "strategy": {name: column[0].item() for name, column in strategy.items()},
        "schedule": result.step.schedule,
        "granularity": result.step.options.granularity,
        "messages": result.step.options.messages,
        "contention": result.contention,
        "contention_seconds": step.contention,
        "step_time": {"estimate": float(step.estimated.times.total[0]), "simulated": result.seconds},
        "metrics": None if step.simulated is None else _metrics(step.estimated, step.simulated),
        "parts": None if step.parts is None else table_document(step.parts),
        "stages": table_document(result.stages),
        "ports": table_document(result.ports),
        "critical_path": None if path is None else table_document(path),
    }


def _critical_path(step: SimulatedStep) -> Table | None:
    """The critical path by what it consists of, the longest first; None where it is not known.

    Columns: instruction, what it counts as (`part`), the stage, or both of a message, `times`, and seconds in all.
    """
    import numpy as np

    from codesign_opt.graphs.step.pieces import PARTS
    from codesign_opt.tables import Table

    simulation = step.result.simulation
    if simulation is None:
        return None
    part = np.concatenate([stage.part for stage in step.result.step.stages])
    totals: dict[tuple[str, str, str], list[float]] = {}
    for link in simulation.critical_path():
        within = link.destination in (None, link.processor)
        stage = str(link.processor) if within else f"{link.processor} → {link.destination}"
        totals.setdefault((link.name, PARTS[part[link.instruction]], stage), []).append(link.end - link.start)
    ranked = sorted(totals.items(), key=lambda item: -sum(item[1]))
    columns: dict[str, Any] = {
        name: [key[place] for key, _ in ranked] for place, name in enumerate(("instruction", "part", "stage"))
    }
    columns["times"] = [len(seconds) for _, seconds in ranked]
    columns["seconds"] = [sum(seconds) for _, seconds in ranked]
    return Table(columns, {"seconds": "s"})


def _metrics(estimated: Estimate, simulated: Estimate) -> dict[str, dict[str, Any]]:
    """Metric to its unit, estimate and simulated value."""
    from codesign_opt.objectives import available_metrics

    return {
        metric.name: {
            "unit": "" if metric.unit == "1" else metric.unit,
            "estimate": _value(metric, estimated),
            "simulated": _value(metric, simulated),
        }
        for metric in available_metrics(estimated.system)
    }


def _value(metric: Metric, estimate: Estimate) -> float | None:
    """Of the only strategy; None where it is no number."""
    import math

    import numpy as np

    value = float(np.asarray(metric.evaluate(estimate)).reshape(-1)[0])
    return value if math.isfinite(value) else None


def _sections(question: Question, step: SimulatedStep) -> list[str]:
    """The step for people: the answer, then the tables that it is drawn from."""
    from codesign_opt.cli.output import titled_table

    heading, path = _heading(question, step), _critical_path(step)
    filled = _ports_table(step)
    ports = [titled_table(filled, "network ports, the fullest first", rows=ROWS)] if filled.rows else []
    if path is None or step.parts is None or step.simulated is None:
        return [heading, titled_table(step.result.stages, "stages end after", rows=STAGES), *ports]
    return [
        heading,
        "\n".join([_causes(step.parts, step.contention), _rates(step.simulated), _bottleneck(step, path)]),
        titled_table(_parts_table(step.parts), stage_title(step.stage), rows=step.parts.rows),
        titled_table(_stages_table(step), "stages; communication and offload where nothing computes", rows=STAGES),
        *ports,
        titled_table(_instructions_table(path), "critical path, by instruction", rows=ROWS),
    ]


def _heading(question: Question, step: SimulatedStep) -> str:
    """What was simulated, how, and how long it takes."""
    import textwrap

    from codesign_opt.cli.output import percentages, plural, width
    from codesign_opt.units import format_quantity

    result, work, strategy = step.result, step.result.step.work, question.strategy
    estimate = float(step.estimated.times.total[0])
    change = percentages([result.seconds / estimate - 1], signed=True)[0]
    named = (*_SIZES[:3], *(name for name in _FURTHER_SIZES if getattr(strategy, name) > 1), *_SIZES[3:])
    sizes = ", ".join(f"{name} {getattr(strategy, name)}" for name in named)
    lines = [
        ", ".join(f"{name} {value}" for name, value in question.candidate.items()),
        f"{question.workload.name} on {strategy.processors} × {question.system.name}: {sizes}",
        f"{plural(range(work.stages), 'stage')} of {plural(range(work.replicas), 'processor')}, "
        f"{plural(range(work.microbatches), 'microbatch', 'es')}; schedule "
        f"{result.step.schedule}, {result.step.options.messages} messages, "
        f"{'ports' if result.contention else 'nothing'} shared",
        f"step time: simulated {format_quantity(result.seconds, 's')}, estimate {format_quantity(estimate, 's')} "
        f"({change})",
    ]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width()))


def _causes(parts: Table, contention: float) -> str:
    """Which parts make up the difference."""
    import textwrap

    from codesign_opt.cli.output import width

    *rows, total = parts.to_dicts()
    told = [(row["part"].replace("_", " "), row["share"]) for row in rows if abs(row["share"]) >= WORTH_TELLING]
    if contention >= WORTH_TELLING * total["estimate"]:
        told.append(("of that contention", contention / total["estimate"]))
    text = "why: " + (", ".join(f"{name} {share:+.2%}" for name, share in told) or "no part differs")
    return "\n".join(textwrap.wrap(text, width(), subsequent_indent="  "))


def _rates(simulated: Estimate) -> str:
    """What the simulated step is worth."""
    from codesign_opt.objectives import METRICS
    from codesign_opt.reports.values import human

    metrics = [METRICS[name] for name in _RATES]
    values = [f"{metric.name} {human(_value(metric, simulated), metric.unit)}" for metric in metrics]
    return f"rates: {', '.join(values)} (full attention)"


def _bottleneck(step: SimulatedStep, path: Table) -> str:
    """What the step waits for."""
    by_part: dict[str, float] = {}
    for row in path.to_dicts():
        by_part[row["part"]] = by_part.get(row["part"], 0.0) + row["seconds"]
    text = f"critical path: {largest_parts(by_part)}"
    for fullest in _ports_table(step).to_dicts()[:1]:
        text += "\nfullest port: stage {stage}, tier {tier}, {direction}: {share}".format(**fullest)
    return text


def _parts_table(parts: Table) -> Table:
    """The parts that take time, the longest first, and the whole step."""
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    *rows, total = parts.to_dicts()
    used = sorted((row for row in rows if row["estimate"] or row["simulated"]), key=lambda row: -row["simulated"])
    shown = [*used, {**total, "part": "step"}]
    return Table(
        {
            "part": [row["part"].replace("_", " ") for row in shown],
            "estimate": [row["estimate"] for row in shown],
            "simulated": [row["simulated"] for row in shown],
            "share": percentages(row["simulated"] / total["simulated"] for row in shown),
            "difference": [row["difference"] for row in shown],
            "of the step": percentages((row["share"] for row in shown), signed=True),
        },
        {"estimate": "s", "simulated": "s", "difference": "s"},
    )


def _stages_table(step: SimulatedStep) -> Table:
    """Shares of the step by what they are, and when each stage ends."""
    import numpy as np

    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    stages, whole = step.result.stages, step.result.seconds
    shares = {kind: np.sum([stages[part] for part in parts], axis=0) / whole for kind, parts in _KINDS.items()}
    columns = {kind: percentages(share.tolist()) for kind, share in shares.items() if kind != "offload" or share.any()}
    return Table({"stage": stages["stage"], **columns, "ends after": stages["end"]}, {"ends after": "s"})


def _ports_table(step: SimulatedStep) -> Table:
    """The ports, the fullest first, with shares of the step as text."""
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    ports = step.result.ports
    ranked = ports.take((-ports["share"]).argsort(kind="stable"))
    return Table({**dict(ranked), "share": percentages(ranked["share"].tolist())}, ranked.units)


def _instructions_table(path: Table) -> Table:
    """The critical path by instruction, all stages together, the longest first."""
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    totals: dict[tuple[str, str], list[float]] = {}
    for row in path.to_dicts():
        sums = totals.setdefault((row["instruction"], row["part"].replace("_", " ")), [0, 0.0])
        sums[0], sums[1] = sums[0] + row["times"], sums[1] + row["seconds"]
    ranked = sorted(totals.items(), key=lambda item: -item[1][1])
    whole = sum(seconds for _, (_, seconds) in ranked)
    return Table(
        {
            "instruction": [name for (name, _), _ in ranked],
            "part": [part for (_, part), _ in ranked],
            "times": [times for _, (times, _) in ranked],
            "seconds": [seconds for _, (_, seconds) in ranked],
            "share": percentages(seconds / whole for _, (_, seconds) in ranked),
        },
        {"seconds": "s"},
    )
