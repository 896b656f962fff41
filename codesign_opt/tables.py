"""A table of named columns: what every query, sweep and study returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from codesign_opt.errors import InputError, MissingExtraError, nearest


class Table(Mapping[str, np.ndarray]):
    """Columns of equal length, each with a unit; behaves as a mapping from name to array.

    Args:
        columns: Name to one-dimensional array (or sequence), in the order shown.
        units: Name to unit, SI symbols as in `codesign_opt.units` ("s", "B", "$"); "" for plain counts and words.
    """

    def __init__(self, columns: Mapping[str, Any], units: Mapping[str, str] | None = None) -> None:
        self._columns = {name: np.atleast_1d(np.asarray(values)) for name, values in columns.items()}
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self._length = lengths.pop() if lengths else 0
        given = units or {}
        self.units = {name: given.get(name, "") for name in self._columns}

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._columns[name]
        except KeyError:
            raise InputError(f"no column '{name}'", nearest(name, self._columns)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns, as for any mapping; `rows` is the number of rows."""
        return len(self._columns)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._length

    def row(self, index: int) -> dict[str, Any]:
        """One row as plain Python values."""
        return {name: _plain(values[index]) for name, values in self._columns.items()}

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows as plain Python values."""
        return [self.row(index) for index in range(self._length)]

    def take(self, index: Sequence[int] | np.ndarray) -> Table:
        """The rows at `index`, in that order."""
        return Table({name: values[index] for name, values in self._columns.items()}, self.units)

    def select(self, names: Sequence[str]) -> Table:
        """The named columns, in that order."""
        return Table({name: self[name] for name in names}, self.units)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; units are in its `attrs`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("to_pandas needs pandas", "pip install pandas") from None
        frame = pandas.DataFrame(dict(self._columns))
        frame.attrs["units"] = dict(self.units)
        return frame

    def to_arrow(self) -> Any:
        """A pyarrow Table; each field carries its unit in its metadata under the key `unit`."""
        try:
            import pyarrow
        except ImportError:
            raise MissingExtraError("to_arrow needs pyarrow", "pip install 'codesign-opt[parquet]'") from None
        arrays = [pyarrow.array(values) for values in self._columns.values()]
        fields = [
            pyarrow.field(name, array.type, metadata={"unit": self.units[name]})
            for name, array in zip(self._columns, arrays, strict=True)
        ]
        return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
