"""The program of one pipeline stage: its passes, each a copy of a template, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs import Graph, Ragged
from codesign_opt.graphs.step.orders import PassOrder
from codesign_opt.graphs.step.pass_writer import StepOptions, Template, end_template, pass_template
from codesign_opt.graphs.step.work import StepWork

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGraph:
    """The graph of a stage, and what its instructions are, as columns over them.

    Attributes:
        graph: The program; processors are stages.
        part: Index into `PARTS`.
        microbatch, chunk: Of the pass; -1 outside of any.
        backward: Whether it belongs to a backward pass.
        tier, wire, latency, aside: As in `pass_writer.Template`.
    """

    graph: Graph
    part: Array
    microbatch: Array
    chunk: Array
    backward: Array
    tier: Array
    wire: Array
    latency: Array
    aside: Array


def stage_graph(work: StepWork, stage: int, order: PassOrder, options: StepOptions) -> StageGraph:
    """The program of a stage."""
    last = order.microbatch == work.microbatches - 1
    keys = np.stack([order.backward, order.chunk, last], axis=1).astype(np.int64)
    kinds, kind = np.unique(keys, axis=0, return_inverse=True)
    templates = [
        pass_template(work, stage, options, backward=bool(backward), chunk=chunk, last=bool(is_last))
        for backward, chunk, is_last in kinds.tolist()
    ]
    tiling = _Tiling([*templates, end_template(work, stage, options)], np.append(kind.ravel(), len(templates)))

    def of_pass(values: Array) -> Array:
        return np.append(values, -1)[tiling.occurrence]

    return StageGraph(
        graph=tiling.graph(f"stage_{stage}", stage),
        part=tiling.column(lambda template: template.part),
        microbatch=of_pass(order.microbatch),
        chunk=of_pass(order.chunk),
        backward=np.append(order.backward, False)[tiling.occurrence],
        tier=tiling.column(lambda template: template.tier),
        wire=tiling.column(lambda template: template.wire),
        latency=tiling.column(lambda template: template.latency),
        aside=tiling.column(lambda template: template.aside),
    )


class _Tiling:
    """Templates laid one after the other, without the instruction of each that stands for what comes before.

    Attributes:
        occurrence: Of each instruction: which of the templates in the row it belongs to.
        offset: Of each occurrence: the position of its first instruction.
    """

    def __init__(self, templates: Sequence[Template], row: Array) -> None:
        self._templates, self._row = templates, row
        lengths = np.array([len(template.graph) - 1 for template in templates])
        self._inner = np.array([len(template.graph.root) - 1 for template in templates])
        self.occurrence = np.repeat(np.arange(len(row)), lengths[row])
        self.offset = _offsets(lengths[row])[:-1]
        self._source = _ranges(_offsets(lengths)[:-1][row], lengths[row])
        self._subroutine_source = _ranges(_offsets(self._inner)[:-1][row], self._inner[row])
        self._subroutine_offset = _offsets(self._inner[row])[:-1]

    def column(self, values: Callable[[Template], Array]) -> Array:
        """A column over instructions."""
        return np.concatenate([values(template)[1:] for template in self._templates])[self._source]

    def graph(self, name: str, processor: int) -> Graph:
        """The whole program; its root waits for everything."""
        bonded = self.column(_bonded_position)
        inner = self.column(lambda template: template.graph.subroutine)
        offset = self.offset[self.occurrence]
        first_inner = self._subroutine_offset[self.occurrence]
        of_inner = np.repeat(np.arange(len(self._row)), self._inner[self._row])
        count = len(self._source)
        return Graph(
            name=name,
            processor=processor,
            names=tuple(self._objects(lambda graph: graph.names)),
            identifier=np.arange(1, count + 1),
            subroutine=np.where(inner > 0, inner + first_inner, 0),
            bonded=np.where(bonded >= 0, bonded + offset + 1, 0),
            operands=self._operands(),
            groups=tuple(self._objects(lambda graph: graph.groups)),
            subroutine_names=("step", *self._inner_objects(lambda graph: graph.subroutine_names)),
            root=np.append(count - 1, self._inner_column(lambda graph: graph.root - 1) + self.offset[of_inner]),
            caller=np.append(-1, self._inner_column(lambda graph: graph.caller - 1) + self.offset[of_inner]),
            probability=np.append(1.0, self._inner_column(lambda graph: graph.probability)),
            count=np.append(1, self._inner_column(lambda graph: graph.count)),
            **{column: self.column(lambda template, c=column: getattr(template.graph, c)) for column in _PLAIN},  # type: ignore[misc]
        )

    def _operands(self) -> Ragged:
        """Of all instructions: within an occurrence, what the occurrence before ends with, and what is to be joined."""
        lists = [template.graph.operands for template in self._templates]
        lengths = np.concatenate([np.diff(of.offsets)[1:] for of in lists])
        values = np.concatenate([of.values[of.offsets[1] :] for of in lists]) - 1
        taken = lengths[self._source]
        value = values[_ranges(_offsets(lengths)[:-1][self._source], taken)]
        occurrence = np.repeat(self.occurrence, taken)
        value = np.where(value < 0, self._before()[occurrence], value + self.offset[occurrence])
        # Nothing comes before the first occurrence.
        kept = value >= 0
        instruction = np.repeat(np.arange(len(taken)), taken)[kept]
        return self._joined(instruction, value[kept])

    def _before(self) -> Array:
        """For each occurrence the position of what comes before it; -1 for nothing."""
        last = np.array([template.last - 1 for template in self._templates])[self._row]
        # An occurrence that ends with what comes before it, such as a pass without blocks, holds up nothing.
        latest = np.maximum.accumulate(np.where(last >= 0, np.arange(len(last)), -1))
        ends = np.where(latest >= 0, (last + self.offset)[latest], -1)
        return np.append(-1, ends[:-1])

    def _joined(self, instruction: Array, value: Array) -> Ragged:
        joins = [(len(self._source) - 1, self._all(lambda template: template.loose))]
        end = self._templates[self._row[-1]]
        if end.joins_exchanges >= 0:
            exchanged = self._all(lambda template: template.exchanges)
            joins.append((int(self.offset[-1]) + end.joins_exchanges - 1, exchanged))
        users = np.concatenate([instruction, *(np.full(len(of), user) for user, of in joins)])
        operands = np.concatenate([value, *(of for _, of in joins)])
        order = np.argsort(users, kind="stable")
        lengths = np.bincount(users, minlength=len(self._source))
        return Ragged(_offsets(lengths), operands[order])

    def _all(self, positions: Callable[[Template], Array]) -> Array:
        """Positions named by templates, in all their occurrences."""
        lists = [positions(template) - 1 for template in self._templates]
        parts = [lists[kind] + offset for kind, offset in zip(self._row.tolist(), self.offset, strict=True)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _objects(self, values: Callable[[Graph], Sequence[Any]]) -> list[Any]:
        listed = [value for template in self._templates for value in values(template.graph)[1:]]
        return [listed[source] for source in self._source.tolist()]

    def _inner_objects(self, values: Callable[[Graph], Sequence[Any]]) -> list[Any]:
        listed = [value for template in self._templates for value in values(template.graph)[1:]]
        return [listed[source] for source in self._subroutine_source.tolist()]

    def _inner_column(self, values: Callable[[Graph], Array]) -> Array:
        return np.concatenate([values(template.graph)[1:] for template in self._templates])[self._subroutine_source]


_PLAIN = ("opcode", "ops", "transcendentals", "bytes_in", "bytes_out", "seconds", "tag")
"""Columns that a copy has as its template has them."""


def _bonded_position(template: Template) -> Array:
    """For each instruction the position of its other half, without the first one counted; below 0 for none."""
    graph = template.graph
    position = np.zeros(int(graph.identifier.max()) + 1, dtype=np.int64)
    position[graph.identifier] = np.arange(len(graph))
    return np.where(graph.bonded > 0, position[graph.bonded] - 1, -1)


def _offsets(lengths: Array) -> Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _ranges(starts: Array, lengths: Array) -> Array:
    """start, start + 1, … of so many numbers, for each start."""
    offsets = _offsets(lengths)
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
