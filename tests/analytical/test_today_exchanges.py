"""Bytes and seconds of what processors exchange in today's strategies, by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from analytical_cases import NO_LIMIT, network
from today_cases import (
    DENSE,
    FE,
    ROUTED,
    A,
    D,
    E,
    G,
    H,
    K,
    S,
    judged,
    machine,
    number,
    operations,
    sequence_parallel,
    strategy,
)

from codesign_opt.analytical.groups import Groups, groups, tier_sizes
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.strategies import CpExchange, GradientPrecision, Placement, Recompute, Strategy, StrategyTable
from codesign_opt.strategies.placement import default_tiers
from codesign_opt.systems import System

B = 2
M = B * S

NEAR, FAR = 1e4, 1e3
"""Bytes/s of the two tiers; 4 processors are near each other."""

TIERS = (replace(network(bandwidth=NEAR, latency=1.0), size=4), network(bandwidth=FAR, latency=2.0))
CLUSTER = machine(tiers=TIERS)


def ordered(placement: Placement, system: System = CLUSTER, **changes: Any) -> Strategy:
    """A strategy in an order of dimensions, with the tiers that it leads to."""
    chosen = sequence_parallel(placement=placement, **changes)
    degrees = {name: getattr(chosen, name) for name in ("tp", "pp", "dp", "cp", "ep", "etp")}
    return replace(chosen, **default_tiers(placement, degrees, system))


class TestExperts:
    """Dispatch and combine: an all-to-all among ep, and a gather or scatter among etp."""

    def test_on_one_tier(self) -> None:
        chosen = sequence_parallel(tp=2, dp=2, ep=2, etp=2, dp_tier=1, ep_tier=1)
        found = operations(ROUTED, chosen, CLUSTER)
        sent = 2 * (M / 2) * K * H
        dispatch, gather = found["MlpBlock_Dispatch"], found["MlpBlock_Dispatch_Tp"]
        assert dispatch["base_forward_communication_bytes"] == sent
        # Half of it stays: the other is among two.
        assert dispatch["base_forward_communication_time"] == pytest.approx(2 + sent / 2 / FAR)
        assert gather["base_forward_communication_bytes"] == 2 * sent
        assert gather["base_forward_communication_time"] == pytest.approx(1 + 2 * sent * (1 - 1 / 2) / NEAR)
        names = {name: (row["base_forward_collective"], row["base_backward_collective"]) for name, row in found.items()}
        assert names["MlpBlock_Dispatch"] == names["MlpBlock_Combine"] == ("all-to-all", "all-to-all")
        assert names["MlpBlock_Dispatch_Tp"] == ("all-gather", "reduce-scatter")
        assert names["MlpBlock_Combine_Tp"] == ("reduce-scatter", "all-gather")
        order = list(found)
        assert order.index("MlpBlock_Dispatch") + 1 == order.index("MlpBlock_Dispatch_Tp")
        assert order.index("MlpBlock_Combine_Tp") + 1 == order.index("MlpBlock_Combine")

    def test_over_two_tiers(self) -> None:
        chosen = ordered(Placement.TP_CP_DP_PP, dp=8, ep=8)
        dispatch = operations(ROUTED, chosen, CLUSTER)["MlpBlock_Dispatch"]
        sent = 2 * M * K * H
        # Both visits of a token stay near with a chance of 1/4; otherwise it goes far once.
        far, near = sent / K * (1 - 1 / 2**K) / FAR, sent * 3 / 8 / NEAR
        assert dispatch["base_forward_communication_time"] == pytest.approx(2 + max(far, near))

    def test_all_of_it_is_exposed_and_full_recompute_repeats_it(self) -> None:
        chosen = sequence_parallel(dp=2, ep=2)
        plain = judged(ROUTED, chosen, CLUSTER)
        one_way = 1 + 2 * M * K * H / 2 / NEAR
        assert number(plain.times.ep_communication) == pytest.approx(4 * 4 * one_way)
        assert number(plain.times.cp_communication) == 0
        full = replace(chosen, recompute=Recompute.FULL, gather_redo=False)
        found = judged(ROUTED, full, CLUSTER).times
        assert number(found.recompute_communication) == pytest.approx(4 * 2 * one_way)

    def test_one_processor_exchanges_nothing(self) -> None:
        assert number(judged(ROUTED, strategy(), CLUSTER).times.ep_communication) == 0


class TestContext:
    """Keys and values meet all queries: in a ring beside attention, gathered before it, or all to all."""

    OWN = 2 * (2 * M / 4 * G * D)
    """Bytes of keys and values that one of four processors makes."""

    @pytest.mark.parametrize("rate", [1e3, 1e5, 1e12])
    def test_ring(self, rate: float) -> None:
        system = machine(matrix=rate, tiers=TIERS)
        ring = operations(DENSE, strategy(cp=4, cp_exchange=CpExchange.RING), system)["AttnBlock_ContextRing"]
        flop = 4 * B * A * S * S / 2 * D / 4
        for way, sent, computed in (("forward", self.OWN, flop), ("backward", 2 * self.OWN, 2.5 * flop)):
            step = 1 + sent / NEAR
            assert ring[f"base_{way}_communication_bytes"] == 3 * sent
            assert ring[f"base_{way}_communication_time"] == pytest.approx(3 * step)
            # Each step is beside a fourth of attention.
            exposed = 3 * max(step - computed / rate / 4, 0)
            assert ring[f"base_{way}_communication_exposed_time"] == pytest.approx(exposed)

    def test_a_ring_passes_once_more_where_attention_is_computed_again(self) -> None:
        for recompute, again in ((Recompute.NONE, 0), (Recompute.SELECTIVE, 1), (Recompute.FULL, 1)):
            ring = operations(DENSE, strategy(cp=4, recompute=recompute), CLUSTER)["AttnBlock_ContextRing"]
            assert ring["base_recompute_communication_bytes"] == again * 3 * self.OWN

    def test_gathered(self) -> None:
        chosen = strategy(cp=4, cp_exchange=CpExchange.ALL_GATHER)
        gather = operations(DENSE, chosen, CLUSTER)["AttnBlock_ContextGather"]
        seconds = 1 + 4 * self.OWN * 3 / 4 / NEAR
        # Backward, keys and values are gathered again, and their gradients scattered.
        assert gather["base_forward_communication_exposed_time"] == pytest.approx(seconds)
        assert gather["base_recompute_communication_exposed_time"] == pytest.approx(seconds)
        assert gather["base_backward_communication_exposed_time"] == pytest.approx(seconds)
        assert gather["base_backward_collective"] == "reduce-scatter"

    def test_all_to_all(self) -> None:
        found = operations(DENSE, strategy(cp=4, cp_exchange=CpExchange.ALL_TO_ALL), CLUSTER)
        queries = 2 * M / 4 * A * D
        for name, held in (("AttnBlock_ContextHeads", queries + self.OWN), ("AttnBlock_ContextRows", queries)):
            for way in ("forward", "backward"):
                assert found[name][f"base_{way}_communication_bytes"] == held
                assert found[name][f"base_{way}_communication_exposed_time"] == pytest.approx(1 + held * 3 / 4 / NEAR)

    def test_they_count_as_context_communication(self) -> None:
        for exchange in CpExchange:
            times = judged(DENSE, strategy(cp=4, cp_exchange=exchange), CLUSTER).times
            assert number(times.cp_communication) > 0
            assert number(times.ep_communication) == 0


def hardware(system: System) -> Hardware:
    zero = np.zeros((), dtype=np.int64)
    return hardware_columns([system], zero, zero, frozenset())


def test_rate_of_a_group_over_several_groups_of_the_tier_below() -> None:
    # The links of all members there, but no more than what connects them.
    tier = np.array(1)
    rates = {inner: float(hardware(CLUSTER).rate(tier, np.array(inner))) for inner in (1, 2, 4, 16)}
    assert rates == {1: FAR, 2: 2 * FAR, 4: 4 * FAR, 16: NEAR}
    slow_inside = machine(tiers=(replace(TIERS[0], bandwidth=FAR / 2), TIERS[1]))
    assert float(hardware(slow_inside).rate(tier, np.array(4))) == FAR


def coordinates(placement: Placement, degrees: dict[str, int]) -> list[dict[str, int]]:
    """For each processor its place along every dimension, the innermost of the order running fastest."""
    names = placement.value.split("-")[::-1]
    places = product(*(range(degrees[name]) for name in names))
    return [dict(zip(names, place, strict=True)) for place in places]


def members(placement: Placement, degrees: dict[str, int], along: set[str]) -> list[int]:
    """Processors of the first one's group along some dimensions."""
    return [
        number
        for number, place in enumerate(coordinates(placement, degrees))
        if all(place[name] == 0 for name in degrees if name not in along)
    ]


DEGREES = [
    {"tp": tp, "cp": cp, "dp": dp, "pp": pp} for tp, cp, dp, pp in product((1, 2, 4), (1, 2, 4), (1, 2, 8), (1, 2))
]
ORDERS = [placement for placement in Placement if placement is not Placement.TIERS]


def placed(chosen: Strategy, system: System) -> Groups:
    return groups(StrategyTable.from_strategies([chosen]), tier_sizes([system]), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("node", [2, 4, 8])
@pytest.mark.parametrize("placement", ORDERS)
def test_groups_of_an_order_are_where_counting_processors_finds_them(placement: Placement, node: int) -> None:
    system = machine(tiers=(replace(TIERS[0], size=node), TIERS[1]))
    for degrees in DEGREES:
        found = placed(ordered(placement, system, **degrees), system)
        named = {"tp": found.tp, "cp": found.cp, "replicas": found.replicas}
        for name, along in (("tp", {"tp"}), ("cp", {"cp"}), ("replicas", {"dp", "cp"})):
            group = members(placement, degrees, along)
            far = max(group) >= node
            inner = sum(number < node for number in group) if far else 1
            assert (number(named[name].n), number(named[name].tier)) == (len(group), int(far)), (name, degrees)
            assert number(named[name].inner) == inner, (name, degrees)


@pytest.mark.parametrize("placement", ORDERS)
def test_state_is_split_among_the_nearest_replicas(placement: Placement) -> None:
    for degrees, size in product(DEGREES, (2, 4, 8)):
        if degrees["dp"] * degrees["cp"] % size:
            continue
        shards = placed(ordered(placement, CLUSTER, **degrees, shard_group=size), CLUSTER).shards
        group = members(placement, degrees, {"dp", "cp"})[:size]
        far = max(group) >= 4
        inner = sum(number < 4 for number in group) if far else 1
        assert (number(shards.n), number(shards.tier), number(shards.inner)) == (size, int(far), inner), degrees


WEIGHTS = 2 * H * (A + G) * D + 3 * H * 96 + 2 * H
"""Of a dense block."""


class TestGradients:
    """One block's weights of 16 bits among eight replicas, four of them near each other."""

    BLOCKS = replace(DENSE, vocabulary=0, tied_embeddings=True, vocabulary_multiple=1)

    def link(self, **changes: Any) -> float:
        """Seconds of one block's exchange."""
        chosen = ordered(Placement.TP_CP_DP_PP, dp=8, **changes)
        return number(judged(self.BLOCKS, chosen, CLUSTER).model.exchange.link) / 4

    Q = 2 * WEIGHTS

    def test_all_reduce(self) -> None:
        # The slower tier carries it over the links of four members.
        assert self.link() == pytest.approx(2 + 2 * self.Q * (1 - 1 / 8) / (4 * FAR))

    def test_sharded_optimizer_scatters_and_gathers(self) -> None:
        assert self.link(optimizer_sharding=True) == pytest.approx(2 * (2 + self.Q * (1 - 1 / 8) / (4 * FAR)))

    def test_gradients_of_32_bits_are_twice_as_long(self) -> None:
        found = self.link(optimizer_sharding=True, gradient_precision=GradientPrecision.FLOAT32)
        assert found == pytest.approx(2 + 2 * self.Q * (1 - 1 / 8) / (4 * FAR) + 2 + self.Q * (1 - 1 / 8) / (4 * FAR))

    def test_shard_groups_exchange_near_and_their_shards_far(self) -> None:
        near = 1 + self.Q * (1 - 1 / 4) / NEAR
        across = 2 + 2 * self.Q / 4 * (1 - 1 / 2) / FAR
        assert self.link(optimizer_sharding=True, shard_group=4) == pytest.approx(2 * near + across)

    ROUTED_BLOCKS = replace(ROUTED, vocabulary=0, tied_embeddings=True, vocabulary_multiple=1)
    EXPERTS = 2 * E / 2 * 3 * H * FE
    """Bytes of the experts of one processor at ep 2, and of the rest of a block."""
    REST = 2 * (2 * H * (A + G) * D + 2 * H + H * E)

    def link_of_experts(self, shard_group: int) -> float:
        chosen = ordered(Placement.TP_CP_DP_PP, dp=16, ep=2, optimizer_sharding=True, shard_group=shard_group)
        return number(judged(self.ROUTED_BLOCKS, chosen, CLUSTER).model.exchange.link) / 4

    def test_experts_have_groups_of_their_own(self) -> None:
        # 16 replicas, four of them near; of experts eight at distance two, two of them near.
        rest, experts = 2 + self.REST * 15 / 16 / (4 * FAR), 2 + self.EXPERTS * 7 / 8 / (2 * FAR)
        assert self.link_of_experts(0) == pytest.approx(2 * (rest + experts))

    def test_experts_have_shard_groups_of_their_own(self) -> None:
        # Four neighbours share the rest; four at distance two, two of them near, the experts.
        rest, experts = 1 + self.REST * 3 / 4 / NEAR, 2 + self.EXPERTS * 3 / 4 / (2 * FAR)
        # Four such groups of the rest, two of the experts.
        across = 2 + 2 * self.REST / 4 * 3 / 4 / FAR + 2 + 2 * self.EXPERTS / 4 / 2 / FAR
        assert self.link_of_experts(4) == pytest.approx(2 * (rest + experts) + across)

    def test_every_microbatch_scatters_and_the_step_gathers_once(self) -> None:
        chosen = ordered(Placement.TP_CP_DP_PP, dp=8, batch=8 * 2 * 3, optimizer_sharding=True, gradient_sharding=True)
        one_way = 2 + self.Q * (1 - 1 / 8) / (4 * FAR)
        for each, times in ((False, 1 + 1), (True, 3 + 1)):
            found = judged(self.BLOCKS, replace(chosen, reduce_each_microbatch=each), CLUSTER)
            assert number(found.times.dp_communication) == pytest.approx(4 * times * one_way)


class TestWeightsInShards:
    """Each block's weights are gathered before its passes; one block of a pass has nothing to hide behind."""

    BLOCKS = TestGradients.BLOCKS
    GATHER = 1 + 2 * WEIGHTS * 3 / 4 / NEAR

    def exposed(self, matrix: float = NO_LIMIT, **changes: Any) -> float:
        chosen = ordered(
            Placement.TP_CP_DP_PP, dp=4, batch=4 * 2 * 3, optimizer_sharding=True, weight_sharding=True, **changes
        )
        system = machine(matrix=matrix, tiers=TIERS)
        return number(judged(self.BLOCKS, chosen, system).times.dp_communication)

    SCATTER = GATHER
    """Of gradients as long as their weights."""

    def test_nothing_hides_them(self) -> None:
        # Twice in each of three microbatches for four blocks, and gradients once a step.
        assert self.exposed() == pytest.approx(3 * 4 * 2 * self.GATHER + 4 * self.SCATTER)
        assert self.exposed(prefetch=0) == pytest.approx(3 * 4 * 2 * self.GATHER + 4 * self.SCATTER)

    def test_kept_from_forward_to_backward_pass(self) -> None:
        assert self.exposed(keep_gathered=True) == pytest.approx(3 * 4 * self.GATHER + 4 * self.SCATTER)

    def test_gradients_scattered_in_every_microbatch(self) -> None:
        found = self.exposed(reduce_each_microbatch=True)
        assert found == pytest.approx(3 * 4 * (2 * self.GATHER + self.SCATTER))

    def test_a_slow_processor_hides_all_but_the_first(self) -> None:
        assert self.exposed(matrix=1.0) == pytest.approx(3 * 2 * self.GATHER + 4 * self.SCATTER)
        assert self.exposed(matrix=1.0, prefetch=0) == pytest.approx(3 * 4 * 2 * self.GATHER + 4 * self.SCATTER)
