"""Every strategy of a space, table by table: as many rows as there are strategies, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.feasibility import MEMORY_CODES
from codesign_opt.analytical.grid import GridMemory, GridTimes
from codesign_opt.errors import InputError, nearest
from codesign_opt.objectives import METRICS, available_metrics
from codesign_opt.strategies.grid import AXES
from codesign_opt.strategies.table import COLUMNS, OPTION_COLUMNS
from codesign_opt.strategies.targets import refused_by
from codesign_opt.studies.exact.question import ExactQuestion, with_fitted
from codesign_opt.studies.exact.solver import PART_STRATEGIES
from codesign_opt.studies.exact.survey import Space, space_of, survey
from codesign_opt.tables import Table

Array = NDArray[Any]

BATCH_ROWS = 1 << 17
"""Rows of a table where nothing else is asked: some tens of megabytes."""

STATUS = "status"
"""The column that says what excludes a strategy: nothing (an empty word), a memory tier, or a constraint."""

KEY_METRICS = (
    "step_time",
    "sample_rate",
    "token_rate_per_processor",
    "mfu",
    "forward_time",
    "backward_time",
    "optimizer_time",
    "recompute_time",
    "recompute_communication_time",
    "tp_communication_time",
    "cp_communication_time",
    "ep_communication_time",
    "pp_communication_time",
    "dp_communication_time",
    "forward_offload_time",
    "backward_offload_time",
    "bubble_time",
    "memory_tier1_used",
    "memory_tier2_used",
    "processor_price",
    "system_price",
    "cost_per_million_tokens",
)
"""The metrics that are given where nothing else is asked and the system has what they need."""


def stream(
    question: ExactQuestion,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    codes: bool = False,
) -> Iterator[Table]:
    """Every strategy that the network allows, feasible or not, in the order of the space.

    That order is by grid, then layout, option, tensor-parallel tier, offload, optimizer sharding, pipeline tier,
    data-parallel tier and overlap, each in the order in which `StrategySpace.grids` lists it.

    Args:
        question: What is asked; `top` does not matter.
        columns: Names of the columns, in order: `STATUS`, strategy columns and metrics; `stream_columns` if None.
        batch_rows: Rows of every table but the last; at least 1.
        codes: Whether columns of words hold indices into `stream_words`, which is several times as fast.

    Returns:
        Tables with units; at least one, which has no rows where the network allows nothing.

    Raises:
        InfeasibleError: When the space is empty.
        InputError: For an unknown column, or none.
    """
    names = tuple(stream_columns(question) if columns is None else columns)
    _check_columns(names, question)
    return _tables(question, space_of(question), names, batch_rows, {} if codes else stream_words(question))


def stream_rows(question: ExactQuestion) -> int:
    """How many rows `stream` gives: `ExactAnswer.legal`, known before any time is computed."""
    return survey(question, space_of(question)).legal


def stream_columns(question: ExactQuestion) -> tuple[str, ...]:
    """Names of the columns that `stream` gives by default.

    `STATUS`, the strategy, the key metrics that are available, and every metric that is an objective or constrained.
    """
    available = {metric.name for metric in available_metrics(question.system)}
    asked = [objective.metric for objective in question.objectives]
    bounded = [constraint.metric for constraint in question.constraints]
    metrics = [name for name in (*KEY_METRICS, *asked, *bounded) if name in available]
    return tuple(dict.fromkeys((STATUS, *COLUMNS, *metrics)))


def stream_words(question: ExactQuestion) -> dict[str, tuple[str, ...]]:
    """For every column of words the words that may occur in it."""
    words = {name: tuple(word.value for word in options) for name, options in OPTION_COLUMNS.items()}
    return {STATUS: ("", *MEMORY_CODES, *map(str, question.constraints)), **words}


def _check_columns(names: Sequence[str], question: ExactQuestion) -> None:
    allowed = [STATUS, *COLUMNS, *(metric.name for metric in available_metrics(question.system))]
    if not names:
        raise InputError("no columns", "give at least one, such as 'step_time'")
    for name in names:
        if name not in allowed:
            raise InputError(f"no column '{name}'", nearest(name, allowed))


def _tables(
    question: ExactQuestion, space: Space, names: Sequence[str], batch_rows: int, words: Mapping[str, Sequence[str]]
) -> Iterator[Table]:
    units = {name: METRICS[name].unit for name in names if name in METRICS and METRICS[name].unit != "1"}
    for batch in _batches(_parts(question, space, names), batch_rows):
        decoded = {name: np.array(words[name])[batch[name]] for name in names if name in words}
        yield Table({**batch, **decoded}, units)


def _batches(parts: Iterable[Mapping[str, Array]], rows: int) -> Iterator[dict[str, Array]]:
    """The same rows in batches of `rows`; the last has what is left, and is the only one where there is nothing."""
    waiting: list[Mapping[str, Array]] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(next(iter(part.values())))
        if count <= rows:
            continue
        joined = {name: np.concatenate([one[name] for one in waiting]) for name in part}
        for first in range(0, count - rows, rows):
            yield {name: values[first : first + rows] for name, values in joined.items()}
        left = count - (count - 1) // rows * rows
        waiting, count = [{name: values[-left:] for name, values in joined.items()}], left
    yield {name: np.concatenate([one[name] for one in waiting]) for name in waiting[0]}


def _parts(question: ExactQuestion, space: Space, names: Sequence[str]) -> Iterator[dict[str, Array]]:
    """Columns of the strategies of one part of the space after the other; words as codes."""
    every = np.arange(len(space.keys.splits))
    times = GridTimes(question.workload, question.system, space.keys, every, question.reproduce)
    for memory in space.memories:
        layouts, all_options = np.arange(memory.grid.shape[-1]), np.arange(memory.grid.shape[-2])
        step = max(1, PART_STRATEGIES * len(layouts) // memory.grid.size)
        for first in layouts[::step]:
            part = memory.take(layouts[first : first + step], all_options)
            estimated = with_fitted(times.estimate(part, times.blocks(part)), question.fitted)
            rows = _Rows.placed(part, question)
            yield {name: rows.of(_column(name, question, part, estimated)) for name in names}


def _column(name: str, question: ExactQuestion, part: GridMemory, estimated: Estimate) -> Array:
    """Values of a column, which broadcast to the part's shape."""
    if name == STATUS:
        return _status(question, part, estimated)
    strategies = estimated.strategies
    if name in OPTION_COLUMNS:
        return strategies[name].astype(np.int8)
    return strategies[name] if name in strategies else METRICS[name].evaluate(estimated)


def _status(question: ExactQuestion, part: GridMemory, estimated: Estimate) -> Array:
    """0 for a strategy that nothing excludes, else 1 and more for the first of memory tiers and constraints."""
    system, needs = question.system, part.needs
    excluding = [needs.tier1 > system.memory_tier1.capacity, needs.tier2 > system.memory_tier2.capacity]
    for constraint in question.constraints:
        excluding.append(constraint.violation(METRICS[constraint.metric].evaluate(estimated)) > 0)
    code = np.zeros((1,) * len(AXES), dtype=np.int8)
    for number, excludes in reversed(list(enumerate(excluding, start=1))):
        code = np.where(excludes, np.int8(number), code)
    return code


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some strategies of a grid of a `shape`, in order: for each its `index` along every axis."""

    shape: tuple[int, ...]
    index: tuple[Array, ...]
    _flat: dict[tuple[int, ...], Array] = field(default_factory=dict)

    @classmethod
    def placed(cls, part: GridMemory, question: ExactQuestion) -> _Rows:
        """Those that network and target allow, in the order of the space (`StrategyGrid.order`)."""
        shape = part.grid.shape
        placed = part.grid.network_allows(question.system)
        refused = refused_by(question.space.target, part.grid.columns(), question.workload, question.system)
        allowed = np.broadcast_to(placed if refused is None else placed & ~refused, shape)
        index = np.unravel_index(np.flatnonzero(allowed.transpose()), shape[::-1])
        return cls(shape, index[::-1])

    def of(self, values: Array) -> Array:
        """The rows of values that broadcast to the grid's shape."""
        shape = (1,) * (len(self.shape) - values.ndim) + values.shape
        if values.size == 1:
            return np.full(len(self.index[0]), values.item(), dtype=values.dtype)
        if shape not in self._flat:
            flat = np.zeros(len(self.index[0]), dtype=np.intp)
            for length, index in zip(shape, self.index, strict=True):
                flat = flat if length == 1 else flat * length + index
            self._flat[shape] = flat
        return values.ravel()[self._flat[shape]]
