"""Routes put together from columns and from parts; choices that look random but are the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.topology import offsets_of

Array = NDArray[Any]

ABSENT = -1
"""Stands in a column for "no link here"."""


def from_columns(columns: Sequence[Array]) -> Ragged:
    """One list a row: the entries of the columns, left to right, without the absent ones."""
    table = np.stack(columns, axis=1)
    present = table != ABSENT
    return Ragged(offsets_of(present.sum(axis=1)), table[present])


def steps(lengths: Array) -> tuple[Array, Array]:
    """For lists of these lengths, the row and the place in it of every entry."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(len(rows)) - offsets_of(lengths)[rows]


def joined(parts: Sequence[Ragged]) -> Ragged:
    """Row by row, the lists of the parts one after the other."""
    lengths = [np.diff(part.offsets) for part in parts]
    offsets = offsets_of(np.sum(lengths, axis=0))
    values = np.empty(int(offsets[-1]), dtype=np.int64)
    first = offsets[:-1].copy()
    for part, length in zip(parts, lengths, strict=True):
        rows, places = steps(length)
        values[first[rows] + places] = part.values
        first += length
    return Ragged(offsets, values)


def spread(sources: Array, destinations: Array, salt: int, choices: Array | int) -> Array:
    """One of `choices` numbers from 0 for each pair, evenly spread: what a switch's hash of the addresses does.

    Depends on nothing but its arguments. Two rounds of xor-shift and multiplication mix the bits.
    """
    mixed = (sources.astype(np.uint64) << np.uint64(32)) ^ destinations.astype(np.uint64)
    mixed = mixed + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed % np.asarray(choices).astype(np.uint64)).astype(np.int64)
