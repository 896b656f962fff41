"""Weights in shards (ZeRO-3, FSDP): gathering a block's weights before each pass, scattering its gradients after.

docs/model.md derives it. A block is gathered while those before it compute: with `prefetch` blocks ahead, what is
longer than a block's computation is exposed, and the first block of a pass has nothing before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.groups import Group, Groups
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.optimizer import gradient_bytes
from codesign_opt.strategies import Datatype
from codesign_opt.strategies.options import BYTES

Array = NDArray[Any]

ELEMENT_BYTES = np.array([BYTES[word] for word in Datatype], dtype=np.float64)
"""Bytes of an element, by code of `Datatype`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightExchange:
    """Seconds a block.

    Attributes:
        gather: Of its weights; 0 where they are not in shards.
        backward: Of gathering once more, and of scattering gradients where that is done in every microbatch.
        ahead: Whether it happens while other blocks compute.
    """

    gather: Array
    backward: Array
    ahead: Array

    def exposed(self, exchanged: Array, computed: Array, *, first: bool) -> Array:
        """The part of an exchange that a block's computation does not hide; the first block of a pass hides nothing."""
        if first:
            return exchanged
        return np.where(self.ahead, np.maximum(exchanged - computed, 0.0), exchanged)


def weight_exchange(
    strategies: Mapping[str, Array], spaces: BlockSpaces, groups: Groups, hardware: Hardware
) -> WeightExchange | None:
    """The exchange of one block's weights and gradients; None where no strategy has its weights in shards."""
    sharded = strategies["weight_sharding"]
    if not np.any(sharded):
        return None
    gather = np.where(sharded, shard_seconds(spaces, groups, hardware, "all_gather", 1.0), 0.0)
    ratio = gradient_ratio(strategies)
    scatter = shard_seconds(spaces, groups, hardware, "reduce_scatter", ratio)
    scatter = scatter + replica_seconds(spaces, groups, hardware, ratio)
    training = strategies["training"]
    again = np.where(strategies["keep_gathered"], 0.0, gather)
    each = np.where(sharded & strategies["reduce_each_microbatch"], scatter, 0.0)
    return WeightExchange(gather=gather, backward=training * (again + each), ahead=strategies["prefetch"] > 0)


def gradient_ratio(strategies: Mapping[str, Array]) -> Array:
    """Bytes of an exchanged gradient for each byte of its weight."""
    e = ELEMENT_BYTES[strategies["datatype"]]
    # What adds up in 32 bits is exchanged in 32 bits, whatever is kept beside it.
    return np.where(gradient_bytes(e, strategies["gradient_precision"]) > e, 4.0, e) / e


def shard_seconds(
    spaces: BlockSpaces, groups: Groups, hardware: Hardware, collective: str, ratio: Array | float
) -> Array:
    """A gather or scatter of one block among those that share its state, the experts among theirs."""
    shared = spaces.spW - spaces.spX
    seconds = _seconds(shared * ratio, groups.shards, hardware, collective)
    if np.any(spaces.spX):
        seconds = seconds + _seconds(spaces.spX * ratio, groups.expert_shards, hardware, collective)
    return seconds


def replica_seconds(spaces: BlockSpaces, groups: Groups, hardware: Hardware, ratio: Array | float) -> Array:
    """An all-reduce of one block's shards among the groups that each have them all (HSDP); 0 where there is one."""
    seconds = _across((spaces.spW - spaces.spX) * ratio, groups.replicas, groups.shards, hardware)
    if np.any(spaces.spX):
        seconds = seconds + _across(spaces.spX * ratio, groups.expert_replicas, groups.expert_shards, hardware)
    return seconds


def _across(q: Array, replicas: Group, shards: Group, hardware: Hardware) -> Array:
    copies = replicas.n / shards.n
    if not np.any(copies > 1):
        return np.zeros(())
    across = Group(n=np.maximum(copies, 1), tier=replicas.tier, inner=np.ones_like(replicas.inner))
    return _seconds(q / shards.n, across, hardware, "all_reduce")


def _seconds(q: Array, group: Group, hardware: Hardware, collective: str) -> Array:
    n = np.where(group.n > 1, group.n, 2).astype(np.float64)
    alone = (group.n == 1) | (q == 0)
    return np.where(alone, 0.0, hardware.transfer_time(group.tier, collective, q, n, group.inner))
