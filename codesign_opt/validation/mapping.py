"""A measured run as the workload, the system and the strategy that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import first_broken, violations
from codesign_opt.systems import System
from codesign_opt.validation.layouts import strategy_of
from codesign_opt.validation.machines import system_of
from codesign_opt.validation.models import workload_of
from codesign_opt.validation.recipes import recipe_of
from codesign_opt.validation.runs import MeasuredRun
from codesign_opt.validation.unmapped import Unmapped
from codesign_opt.workloads import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedRun:
    """What a model can predict of a measured run.

    Attributes:
        run: The row.
        workload, system, strategy: What it stands for.
        measured_seconds: Time of a step; None where it was not measured.
        peak_memory: Most bytes in use at once on one processor; None where that was not measured.
        resident_memory: Bytes without activations; None where that was not measured.
        out_of_memory: Whether the run failed for want of memory.
        assumptions: What the row does not say and was assumed, in words.
    """

    run: MeasuredRun
    workload: Workload
    system: System
    strategy: Strategy
    measured_seconds: float | None
    peak_memory: float | None
    resident_memory: float | None
    out_of_memory: bool
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that cannot be mapped.

    Attributes:
        run: The row.
        reason: A word of `unmapped.REASONS`.
        sentence: What is wrong with this row, with its values.
    """

    run: MeasuredRun
    reason: str
    sentence: str


def map_run(run: MeasuredRun) -> MappedRun | Skipped:
    """The workload, the system and the strategy of a row, or why it has none."""
    return map_runs([run])[0]


def map_runs(runs: Iterable[MeasuredRun]) -> list[MappedRun | Skipped]:
    """What `map_run` says of every row, in order."""
    outcomes = [_outcome(run) for run in runs]
    mapped = [outcome for outcome in outcomes if isinstance(outcome, MappedRun)]
    illegal = {
        run.run.row_id: _illegal(run) for run, legal in zip(mapped, _are_legal(mapped), strict=True) if not legal
    }
    return [illegal.get(outcome.run.row_id, outcome) for outcome in outcomes]


def _outcome(run: MeasuredRun) -> MappedRun | Skipped:
    """Whatever the rules of strategies say."""
    try:
        return _mapped(run)
    except Unmapped as unmapped:
        return Skipped(run=run, reason=unmapped.reason, sentence=unmapped.sentence)


def _mapped(run: MeasuredRun) -> MappedRun:
    if run.train_type == "lora":
        raise Unmapped("adapters", f"{run.model}: low-rank adapters are trained, not the weights")
    recipe, of_software = recipe_of(run)
    workload, of_workload = workload_of(run, vocabulary_multiple=recipe.vocabulary_multiple)
    system, of_system = system_of(run)
    strategy, of_strategy = strategy_of(run, workload, system, recipe)
    seconds, memory = _seconds(run, strategy), _memory(run)
    if seconds is None and memory == (None, None) and not run.out_of_memory:
        raise Unmapped("no-measurement", "missing: time of a step, rate, memory")
    return MappedRun(
        run=run,
        workload=workload,
        system=system,
        strategy=strategy,
        measured_seconds=seconds,
        peak_memory=memory[0],
        resident_memory=memory[1],
        out_of_memory=bool(run.out_of_memory),
        assumptions=tuple(of_software + of_workload + of_system + of_strategy),
    )


def _are_legal(mapped: Sequence[MappedRun]) -> list[bool]:
    """Whether each strategy keeps the rules that every strategy keeps."""
    if not mapped:
        return []
    rows = np.arange(len(mapped))
    strategies = StrategyTable.from_strategies(run.strategy for run in mapped)
    facts = Facts(strategies, [run.workload for run in mapped], [run.system for run in mapped], rows, rows)
    return [int(rule) < 0 for rule in first_broken(facts)]


def _illegal(run: MappedRun) -> Skipped:
    broken = violations(run.strategy, run.workload, run.system)
    return Skipped(run=run.run, reason="illegal", sentence="; ".join(map(str, broken)))


def _seconds(run: MeasuredRun, strategy: Strategy) -> float | None:
    """Time of a step: as given, else what the printed rate gives."""
    if run.step_seconds is not None or not run.rate or run.sequence_length is None:
        return run.step_seconds
    return strategy.batch * run.sequence_length / (run.rate * run.processors)


def _memory(run: MeasuredRun) -> tuple[float | None, float | None]:
    """Peak and resident memory, bytes."""
    resident = (run.memory_kind or "").startswith("allocated without activations")
    peak = run.reserved_memory or (None if resident else run.memory)
    return peak, run.memory if resident else None
