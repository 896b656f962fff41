"""The program of one pipeline stage: its passes, each a copy of a template, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs import Graph, Ragged
from codesign_opt.graphs.step.end_writer import end_template
from codesign_opt.graphs.step.instructions import Template
from codesign_opt.graphs.step.layout import Layout
from codesign_opt.graphs.step.pass_writer import StepOptions, pass_template
from codesign_opt.graphs.step.passes import PassKind, PassOrder
from codesign_opt.graphs.step.slots import Pass
from codesign_opt.graphs.step.work import StepWork

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGraph:
    """The graph of a stage, and what its instructions are, as columns over them.

    Attributes:
        graph: The program; processors are stages.
        part: Index into `PARTS`.
        kind, microbatch, chunk: Of the pass; -1 outside of any.
        tier, wire, latency, aside: As in `instructions.Template`.
    """

    graph: Graph
    part: Array
    kind: Array
    microbatch: Array
    chunk: Array
    tier: Array
    wire: Array
    latency: Array
    aside: Array

    @property
    def executions(self) -> Array:
        """How often each instruction runs: those in a loop as often as it turns."""
        turns = np.where(self.graph.caller >= 0, self.graph.count, 1)
        return np.asarray(turns[self.graph.subroutine])

    @property
    def alone(self) -> Array:
        """Seconds of each instruction in all its executions, when alone."""
        return np.asarray(self.graph.seconds * self.executions)


def stage_graph(work: StepWork, layout: Layout, stage: int, order: PassOrder, options: StepOptions) -> StageGraph:
    """The program of a stage."""
    kind, kinds = _distinct(_described(order))
    # A pass beside another is one occurrence with it.
    first = np.flatnonzero(~np.append(False, order.paired[:-1]))
    occurrences: list[tuple[int, ...]] = [tuple(members) for members in np.split(kind, first[1:]) if len(members)]
    templates = {members: number for number, members in enumerate(dict.fromkeys(occurrences))}
    written = [
        pass_template(work, layout, stage, options, [kinds[member] for member in members]) for members in templates
    ]
    row = np.array([templates[members] for members in occurrences] + [len(templates)])
    tiling = _Tiling([*written, end_template(work, layout, stage, options)], row)
    place = np.append(first, len(order))[tiling.occurrence] + tiling.column(lambda template: template.member)

    def of_pass(values: Array) -> Array:
        return np.asarray(np.append(values, -1)[place])

    return StageGraph(
        graph=tiling.graph(f"stage_{stage}", stage),
        part=tiling.column(lambda template: template.part),
        kind=of_pass(order.kind),
        microbatch=of_pass(order.microbatch),
        chunk=of_pass(order.chunk),
        tier=tiling.column(lambda template: template.tier),
        wire=tiling.column(lambda template: template.wire),
        latency=tiling.column(lambda template: template.latency),
        aside=tiling.column(lambda template: template.aside),
    )


def _described(order: PassOrder) -> list[Pass]:
    """The passes of a stage, whatever their microbatches."""
    following: set[tuple[int, PassKind]] = set()
    passes = []
    for kind, chunk in zip(reversed(order.kind.tolist()), reversed(order.chunk.tolist()), strict=True):
        like = _LIKE[PassKind(kind)]
        passes.append(
            Pass(
                kind=PassKind(kind),
                chunk=chunk,
                last=bool(like) and not any((chunk, other) in following for other in like),
                final=not any(other in _ENDS_BACKWARD for _, other in following),
            )
        )
        following.add((chunk, PassKind(kind)))
    return passes[::-1]


_ENDS_BACKWARD: Final = (PassKind.BACKWARD, PassKind.WEIGHT_GRADIENT)

_LIKE: Final = {
    PassKind.FORWARD: (),
    PassKind.BACKWARD: (PassKind.BACKWARD, PassKind.ACTIVATION_GRADIENT, PassKind.WEIGHT_GRADIENT),
    PassKind.ACTIVATION_GRADIENT: (PassKind.BACKWARD, PassKind.ACTIVATION_GRADIENT),
    PassKind.WEIGHT_GRADIENT: _ENDS_BACKWARD,
}
"""Kinds of passes that do some of what a backward pass or half of one does."""


def _distinct(passes: Sequence[Pass]) -> tuple[Array, list[Pass]]:
    """For each pass the number of an equal one, and these."""
    numbers: dict[Pass, int] = {}
    kind = [numbers.setdefault(one, len(numbers)) for one in passes]
    return np.array(kind, dtype=np.int64), list(numbers)


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
