"""Strategies as columns: a row a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.options import (
    Attention,
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.strategy import Strategy

OPTION_COLUMNS: Mapping[str, type[Enum]] = {
    "datatype": Datatype,
    "attention": Attention,
    "recompute": Recompute,
    "tp_communication": TpCommunication,
    "tp_overlap": TpOverlap,
    "product_precision": ProductPrecision,
    "gradient_precision": GradientPrecision,
    "attention_kernel": AttentionKernel,
    "cp_exchange": CpExchange,
    "schedule": Schedule,
    "placement": Placement,
}
"""Columns that hold words; the column has the word's index in the order of its Enum."""

FLAG_COLUMNS = (
    "fused_activation",
    "gather_redo",
    "optimizer_sharding",
    "dp_overlap",
    "weight_offload",
    "activation_offload",
    "optimizer_offload",
    "training",
    "gradient_sharding",
    "weight_sharding",
    "keep_gathered",
    "reduce_each_microbatch",
)
"""Columns that hold booleans."""

COLUMNS = tuple(field.name for field in fields(Strategy))
"""All columns, in the order of `Strategy`."""

OPTION_CODES: Mapping[Enum, int] = {
    word: index for words in OPTION_COLUMNS.values() for index, word in enumerate(words)
}
"""Each word's code in its column."""

DEFAULT_COLUMNS: Mapping[str, Any] = {
    field.name: OPTION_CODES[field.default] if field.name in OPTION_COLUMNS else field.default
    for field in fields(Strategy)
    if field.default is not MISSING
}
"""What a column holds where nothing is said."""

DEFAULT_WORDS: Mapping[str, Any] = {
    field.name: getattr(field.default, "value", field.default)
    for field in fields(Strategy)
    if field.default is not MISSING
}
"""The same in words: what a row holds that was stored before there was the column."""


class StrategyTable(Mapping[str, NDArray[Any]]):
    """Named columns of equal length: int64 counts, bool flags, and int8 codes of words (`OPTION_COLUMNS`).

    Columns that are not given hold the default of `Strategy`; those without one must be given.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        missing = [name for name in COLUMNS if name not in columns and name not in DEFAULT_COLUMNS]
        if missing:
            raise ValueError(f"missing columns: {', '.join(missing)}")
        rows = np.shape(columns["tp"])
        self._columns: dict[str, NDArray[Any]] = {
            name: np.asarray(columns[name], dtype=_dtype(name))
            if name in columns
            else np.full(rows, DEFAULT_COLUMNS[name], dtype=_dtype(name))
            for name in COLUMNS
        }
        if len({values.shape for values in self._columns.values()}) > 1 or self._columns["tp"].ndim != 1:
            raise ValueError("columns must be one-dimensional and of equal length")

    @classmethod
    def from_strategies(cls, strategies: Iterable[Strategy]) -> StrategyTable:
        """One row for each strategy, in order."""
        rows = list(strategies)
        return cls({name: [_encode(name, getattr(row, name)) for row in rows] for name in COLUMNS})

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns, as for any mapping; `rows` is the number of rows."""
        return len(self._columns)

    @property
    def rows(self) -> int:
        """Number of strategies."""
        return len(self._columns["tp"])

    def strategy(self, index: int) -> Strategy:
        """One row as a `Strategy`."""
        return Strategy(**{name: _decode(name, values[index]) for name, values in self._columns.items()})

    def strategies(self) -> list[Strategy]:
        """All rows."""
        return [self.strategy(index) for index in range(self.rows)]

    @classmethod
    def empty(cls) -> StrategyTable:
        """A table without rows."""
        return cls({name: [] for name in COLUMNS})

    def take(self, index: Any) -> StrategyTable:
        """The rows at `index`, in that order."""
        return StrategyTable({name: values[index] for name, values in self._columns.items()})

    def concatenated(self, other: StrategyTable) -> StrategyTable:
        """The rows of this table, then those of the other."""
        return StrategyTable({name: np.concatenate([values, other[name]]) for name, values in self.items()})

    def words(self) -> dict[str, NDArray[Any]]:
        """Columns for people: codes replaced by their words."""
        result = dict(self._columns)
        for name, words in OPTION_COLUMNS.items():
            result[name] = np.array([word.value for word in words])[self._columns[name]]
        return result


def strategy_of_words(words: Mapping[str, Any]) -> Strategy:
    """The strategy that a row of `StrategyTable.words` describes; what it lacks has its default."""
    options = {name: option(words[name]) for name, option in OPTION_COLUMNS.items() if name in words}
    values: dict[str, Any] = {**words, **options}
    return Strategy(**values)


def _dtype(name: str) -> type:
    if name in OPTION_COLUMNS:
        return np.int8
    return np.bool_ if name in FLAG_COLUMNS else np.int64


def _encode(name: str, value: Any) -> Any:
    words = OPTION_COLUMNS.get(name)
    return value if words is None else OPTION_CODES[words(value)]


def _decode(name: str, value: Any) -> Any:
    words = OPTION_COLUMNS.get(name)
    return value.item() if words is None else list(words)[value]
