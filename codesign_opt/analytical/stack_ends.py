"""Time and memory of what stands before the first block and after the last (docs/model.md derives it).

With one stage both ends are on it. With several, the first has the embedding and the last the output projection, and
either may have fewer blocks than others. What one of them takes beyond the fullest stage sets the pace; the rest of
both is passed once as the pipeline fills and drains.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.gradient_exchange import block_exchange
from codesign_opt.analytical.groups import Groups
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.optimizer import OptimizerSpaces, OptimizerTable
from codesign_opt.analytical.schedule import ScheduleCounts

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one end holds."""

    spaces: BlockSpaces
    state: OptimizerSpaces


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsHeld:
    """What both ends hold, as columns over strategies.

    Attributes:
        first, last: The ends; weights that both have on the same stage count at the first.
        own: Share of the last end's weights that are its own there.
        present: Whether the workload has ends; it has none where it is blocks alone.
        tied: Whether both have the same weights.
    """

    first: Held
    last: Held
    own: Array
    present: Array
    tied: Array

    @classmethod
    def of(cls, first: Held, last: Held, strategies: Mapping[str, Array], *, present: Array, tied: Array) -> EndsHeld:
        """The ends of strategies, each held as if it were alone."""
        some = np.where(last.spaces.spW > 0, last.spaces.spW, 1.0)
        rest = np.maximum(last.spaces.spW - first.spaces.spW, 0.0) / some
        own = np.where(tied & (strategies["pp"] == 1), rest, 1.0)
        return cls(
            first=first,
            last=Held(
                spaces=replace(last.spaces, spW=last.spaces.spW * own, wgu=last.spaces.wgu * own),
                state=OptimizerSpaces(space=last.state.space * own, gradient=last.state.gradient * own),
            ),
            own=own,
            present=present,
            tied=tied,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWork:
    """The passes of one end, and its optimizer."""

    blocks: BlockTable
    optimizer: OptimizerTable


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTimes:
    """Seconds of a step that the ends add, by what they count as.

    Attributes:
        forward, backward, tp_communication, optimizer, dp_communication: Of the end that sets the pace, over the batch.
        bubble: The rest of both, once.
    """

    forward: Array
    backward: Array
    tp_communication: Array
    optimizer: Array
    dp_communication: Array
    bubble: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Both ends, as columns over strategies."""

    first: EndWork
    last: EndWork
    held: EndsHeld

    def times(
        self,
        strategies: Mapping[str, Array],
        counts: ScheduleCounts,
        stage: Array,
        groups: Groups,
        hardware: Hardware,
        reproduce: Set[Erratum],
    ) -> EndTimes:
        """What the ends add to a step whose fullest stage takes `stage` seconds for a microbatch, without them."""
        p, m = counts.p, counts.m
        tr = strategies["training"].astype(np.float64)
        passes = [_Passes.of(end.blocks, tr) for end in (self.first, self.last)]
        # What an end takes beyond the blocks that its stage has fewer.
        over = [np.maximum(one.total - less * stage / counts.N, 0.0)
                for one, less in zip(passes, _fewer_blocks(strategies, counts), strict=True)]  # fmt: skip
        paces = [np.where(p == 1, True, chosen) for chosen in (over[0] > over[1], over[0] <= over[1])]
        shares = [
            np.where(pace, np.where(p == 1, 1.0, _share(extra, one.total)), 0.0)
            for pace, extra, one in zip(paces, over, passes, strict=True)
        ]
        here = self.held.present.astype(np.float64)

        def over_batch(name: str) -> Array:
            values = [share * getattr(end, name) for share, end in zip(shares, passes, strict=True)]
            return np.asarray(here * m * (values[0] + values[1]))

        waiting = passes[0].total + passes[1].total - np.maximum(*over)
        steps = [self.first.optimizer.T, self.last.optimizer.T * self.held.own]
        return EndTimes(
            forward=over_batch("forward"),
            backward=over_batch("backward"),
            tp_communication=over_batch("communication"),
            optimizer=here * np.where(p == 1, steps[0] + steps[1], np.maximum(*steps)),
            dp_communication=here * self._exchange(strategies, p, groups, hardware, reproduce),
            bubble=here * np.where(p == 1, 0.0, waiting),
        )

    def _exchange(
        self,
        strategies: Mapping[str, Array],
        p: Array,
        groups: Groups,
        hardware: Hardware,
        reproduce: Set[Erratum],
    ) -> Array:
        """Exposed exchange of the ends' gradients, and of tied weights between the first and the last stage.

        Gradients of the embedding are the last to be known, and nothing is left to hide them behind.
        """
        first, last = (
            block_exchange(strategies, end.spaces, groups, hardware, reproduce)
            for end in (self.held.first, self.held.last)
        )
        alone = groups.replicas.n == 1
        serial = np.where(p == 1, first.whole + last.whole, np.maximum(first.whole, last.whole))
        hidden = np.where(p == 1, first.whole + last.after_step, np.maximum(first.whole, last.after_step))
        exposed = np.where(alone, 0.0, np.where(strategies["dp_overlap"], hidden, serial))
        shared = np.where(self.held.tied & (p > 1), self.held.last.spaces.spW * first.ratio, 0.0)
        two = np.array(2.0)
        between = hardware.transfer_time(strategies["pp_tier"], "all_reduce", shared, two)
        return np.asarray(strategies["training"] * (exposed + np.where(shared > 0, between, 0.0)))


def _fewer_blocks(strategies: Mapping[str, Array], counts: ScheduleCounts) -> tuple[Array, Array]:
    """Blocks that the first and the last stage have fewer than the fullest; what does not divide is missing late."""
    first, last = strategies["first_stage_less"], strategies["last_stage_less"]
    uneven = first + last < counts.R
    return first, last + uneven


def _share(part: Array, whole: Array) -> Array:
    return part / np.where(whole > 0, whole, 1.0)


@dataclass(frozen=True, slots=True)
class _Passes:
    """Seconds of an end for one microbatch."""

    forward: Array
    backward: Array
    communication: Array

    @classmethod
    def of(cls, table: BlockTable, training: Array) -> _Passes:
        return cls(table.fw_T_b, training * (table.ag_T_b + table.wg_T_b), table.exf_b + training * table.exa_b)

    @property
    def total(self) -> Array:
        return self.forward + self.backward + self.communication
