"""Groups of comparable runs: the same training on the same machine, run in different ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign_opt.validation.mapping import MappedRun

_ALIKE = (
    "family",
    "model",
    "layers",
    "hidden",
    "kv_heads",
    "feedforward",
    "train_type",
    "processor",
    "processor_memory",
    "processors",
    "sequence_length",
    "precision",
    "software",
)
"""What a user has settled before choosing a strategy."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs among which a strategy is chosen.

    Attributes:
        label: Family, model, processors, batch and sequence length, in words.
        family: The collection of runs that they belong to.
        rows: Indices of the runs in the sequence that was grouped, rising.
    """

    label: str
    family: str
    rows: tuple[int, ...]


def comparable_groups(runs: Sequence[MappedRun], *, minimum: int = 2) -> list[Group]:
    """Groups of at least `minimum` timed runs, in the order of their first ones.

    Runs of a group differ in their strategy alone: model, machine, number of processors, batch, sequence length,
    precision and software are the same. Runs without a measured time are in no group.
    """
    members: dict[tuple[object, ...], list[int]] = {}
    for index, mapped in enumerate(runs):
        if mapped.measured_seconds is not None:
            key = (*(getattr(mapped.run, name) for name in _ALIKE), mapped.strategy.batch)
            members.setdefault(key, []).append(index)
    return [
        Group(_label(runs[rows[0]]), runs[rows[0]].run.family, tuple(rows))
        for rows in members.values()
        if len(rows) >= minimum
    ]


def _label(mapped: MappedRun) -> str:
    run = mapped.run
    return (
        f"{run.family}: {run.model} ({run.layers} layers), {run.processors} {run.processor}, "
        f"batch {mapped.strategy.batch}, {run.sequence_length} tokens"
    )
