"""Which processors form the groups of a strategy, where the parallel dimensions have an order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.strategies import Placement, Strategy

Array = NDArray[Any]

PLACEMENTS: Final = (
    "tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "dp-pp-tp", "pp-tp-dp", "pp-dp-tp",
    "tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp", "cp-tp-dp-pp",
)  # fmt: skip
"""Orders of the parallel dimensions over the processors, the first one between neighbours. Where context parallelism
is not named it stands before data parallelism. The last four are those of `strategies.Placement`."""


def default_placement(strategy: Strategy) -> str:
    """The order that a strategy names; tensor, data, then pipeline parallelism for one that names network tiers."""
    return PLACEMENTS[0] if strategy.placement is Placement.TIERS else strategy.placement.value


def processor_groups(strategy: Strategy, placement: str) -> dict[str, Array]:
    """Every kind of group by name, a row a group.

    tp, cp, dp and pp are those of the order. Experts are placed by themselves among the processors of each stage:
    their tensor parallelism (etp) between neighbours, then expert parallelism (ep). `shards` split the state of
    weights, `copies` are processors with equal shards; `expert_shards` and `expert_copies` the same of routed experts.
    `ends` are first and last stage of a pipeline.

    Raises:
        InputError: For an unknown placement.
    """
    if placement not in PLACEMENTS:
        raise InputError(f"placement '{placement}' is not known", "one of " + ", ".join(PLACEMENTS))
    names = placement.replace("dp", "dp" if "cp" in placement else "cp-dp").split("-")
    sizes = [getattr(strategy, name) for name in names]
    # The first dimension is between neighbours, so it is the last axis.
    numbers = np.arange(strategy.processors).reshape(sizes[::-1])
    axes = {name: len(names) - 1 - place for place, name in enumerate(names)}
    groups = {name: _along(numbers, [axis]) for name, axis in axes.items()}
    groups["ends"] = groups["pp"][:, [0, -1]]
    replicas = _along(numbers, sorted((axes["dp"], axes["cp"])))
    groups["shards"], groups["copies"] = _divided(replicas, strategy.shard_group)
    stages = np.moveaxis(numbers, axes["pp"], 0).reshape(strategy.pp, -1)
    experts = np.sort(stages, axis=1).reshape(strategy.pp, -1, strategy.ep, strategy.etp)
    groups["etp"], groups["ep"] = _along(experts, [3]), _along(experts, [2])
    groups["expert_shards"], groups["expert_copies"] = _divided(_along(experts, [1]), strategy.shard_group)
    return groups


def _along(numbers: Array, axes: list[int]) -> Array:
    """Groups whose members differ along some axes, a row each."""
    moved = np.moveaxis(numbers, axes, range(-len(axes), 0))
    return moved.reshape(-1, int(np.prod([numbers.shape[axis] for axis in axes])))


def _divided(groups: Array, size: int) -> tuple[Array, Array]:
    """Parts of so many neighbours of each group, and what stands at the same place in the parts; 0 for no division."""
    members = groups.shape[1]
    part = min(size, members) if size else members
    if members % part:
        raise InputError(
            f"shard_group {size} does not divide the {members} processors that hold the same weights",
            "a shard_group that does, or 0 for all of them",
        )
    parts = groups.reshape(len(groups), -1, part)
    return parts.reshape(-1, part), np.swapaxes(parts, 1, 2).reshape(-1, members // part)
