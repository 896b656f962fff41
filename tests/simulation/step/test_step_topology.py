"""Transfers of a step on a topology: closed forms, oversubscribed trees, placements."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from step_cases import StepCase, random_system, random_workload, step_cases
from step_works import handmade_work

from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepOptions, StepWork, Transfer, step_graph, step_work
from codesign_opt.graphs.step.pieces import Piece
from codesign_opt.simulation.step import PLACEMENTS, on_topology, simulate_step
from codesign_opt.simulation.step.topology_times import LinearTime, collective_time
from codesign_opt.simulation.topologies import (
    Link,
    Topology,
    full_mesh,
    leaf_spine,
    line,
    ring,
    switch,
    topology_of,
    uplink_bandwidth,
)
from codesign_opt.strategies import AttentionKernel, Strategy, TpCommunication, TpOverlap
from codesign_opt.systems import System
from codesign_opt.workloads.transformer import Experts

BANDWIDTH, LATENCY = 8e9, 2e-6


def strategy(**changes: Any) -> Strategy:
    values: dict[str, Any] = {"tp": 4, "pp": 1, "dp": 2, "microbatch": 1, "batch": 8, **changes}
    return Strategy(processors=values["tp"] * values["pp"] * values["dp"], **values)


def work_of(chosen: Strategy) -> StepWork:
    """A step of a small model on H100s."""
    return step_work(resolve_workload("megatron-126m"), resolve_system("h100-80g-nvl8"), chosen)


def tree(oversubscription: float, *, leaves: int = 2, per_leaf: int = 4) -> Topology:
    """Leaves of processors under one spine."""
    link = Link(bandwidth=BANDWIDTH, latency=LATENCY)
    up = uplink_bandwidth(link, children=per_leaf, parents=1, oversubscription=oversubscription)
    return leaf_spine(leaves, per_leaf, 1, link=link, uplink=Link(bandwidth=up, latency=LATENCY))


def seconds(transfer: Transfer) -> float:
    return transfer.wire + transfer.latency


def exchange(work: StepWork, size: float = 1e9) -> Transfer:
    """Of so many bytes of gradients."""
    return work.transfer("shards", "all-reduce", size)


@cache
def cases() -> list[StepCase]:
    return [case for case in step_cases(71, 40, most_pp=4) if case.strategy.tp > 1]


@pytest.mark.parametrize("system", ["a100-80g", "h100-80g-nvl8"])
@pytest.mark.parametrize("processors", [(2, 1), (8, 1), (4, 4), (8, 8), (1, 16)])
def test_rings_on_the_tiers_of_a_system(system: str, processors: tuple[int, int]) -> None:
    machine, (tp, dp) = resolve_system(system), processors
    chosen = strategy(tp=tp, dp=dp, batch=16)
    work = step_work(resolve_workload("megatron-126m"), machine, chosen)
    on_tiers = on_topology(work, chosen, topology_of(machine, chosen.processors))
    # Groups of 8 neighbours are on the first tier; data-parallel groups of processors 8 or 4 apart reach further.
    for members, apart, transfer in (
        (tp, 1, lambda opcode, size: on_tiers.transfer("tp", opcode, size)),
        (dp, tp, lambda opcode, size: on_tiers.transfer("shards", opcode, size)),
    ):
        if members == 1:
            continue
        tier = machine.network_tiers[0 if members * apart <= 8 else 1]
        bandwidth = tier.bandwidth * tier.efficiency
        for size in (1e3, 1e9):
            step = tier.latency + size / (members * bandwidth)
            assert seconds(transfer("all-reduce", size)) == pytest.approx(2 * (members - 1) * step, rel=1e-12)
    if tp > 1:
        for opcode in ("all-gather", "reduce-scatter"):
            tier = machine.network_tiers[0]
            step = tier.latency + 1e6 / (tp * tier.bandwidth * tier.efficiency)
            assert seconds(on_tiers.transfer("tp", opcode, 1e6)) == pytest.approx((tp - 1) * step, rel=1e-12)


@pytest.mark.parametrize("sharded", [False, True])
def test_exchange_and_gathering_of_weights(sharded: bool) -> None:
    chosen = strategy(tp=1, dp=4, optimizer_sharding=sharded)
    work = on_topology(work_of(chosen), chosen, full_mesh(4, Link(bandwidth=BANDWIDTH, latency=LATENCY)))
    steps = 3 if sharded else 6
    [block] = work.kinds
    [exchange] = work.exchanges([block])
    sent = exchange.size / 4 / BANDWIDTH
    assert exchange.opcode == ("reduce-scatter" if sharded else "all-reduce")
    assert (exchange.wire, exchange.latency) == pytest.approx((steps * sent, steps * LATENCY))
    assert [seconds(gather) for gather in work.gathers([block])] == [pytest.approx(3 * (LATENCY + sent))] * sharded


def test_an_oversubscribed_tree_slows_down_what_crosses_it() -> None:
    # Four groups of two, each with one member under each leaf, fill four links at once.
    chosen = strategy(tp=4, dp=2)
    full, half = (on_topology(work_of(chosen), chosen, tree(over)) for over in (1.0, 2.0))
    assert exchange(full).wire == pytest.approx(2 * 0.5e9 / BANDWIDTH)
    assert exchange(half).wire == pytest.approx(2 * exchange(full).wire, rel=1e-12)
    assert exchange(half).latency == exchange(full).latency == pytest.approx(2 * 4 * LATENCY)
    # Tensor parallelism stays under a leaf.
    assert half.transfer("tp", "all-reduce", 1e9) == full.transfer("tp", "all-reduce", 1e9)


def test_a_slower_exchange_makes_the_step_longer() -> None:
    chosen = strategy(tp=4, dp=2)
    full, half = (on_topology(work_of(chosen), chosen, tree(over)) for over in (1.0, 2.0))
    longer = simulate_step(step_graph(half)).seconds - simulate_step(step_graph(full)).seconds
    blocks, size = full.stage_blocks[0], full.kinds[0].gradient_bytes
    assert longer == pytest.approx(blocks * exchange(full, size).wire, rel=1e-9)


def test_placement_decides_what_stays_under_a_leaf() -> None:
    chosen = strategy(tp=4, dp=2)
    inside = on_topology(work_of(chosen), chosen, tree(4.0), placement="tp-dp-pp")
    across = on_topology(work_of(chosen), chosen, tree(4.0), placement="dp-tp-pp")
    # A ring of four under a leaf: 2 · 3 steps of a quarter, two links each. Across, two rings share the link up.
    alone = 6 * 0.25e9 / BANDWIDTH
    assert inside.transfer("tp", "all-reduce", 1e9) == Transfer(
        0, "all-reduce", 1e9, pytest.approx(alone), pytest.approx(12 * LATENCY)
    )
    assert across.transfer("tp", "all-reduce", 1e9).wire == pytest.approx(2 * alone)
    assert across.transfer("tp", "all-reduce", 1e9).latency == pytest.approx(24 * LATENCY)
    # Pairs of neighbours, instead of four pairs on one link with the bandwidth of one.
    assert exchange(across).wire == pytest.approx(2 * 0.5e9 / BANDWIDTH)
    assert exchange(inside).wire == pytest.approx(4 * exchange(across).wire)


def test_messages_between_stages() -> None:
    chosen = strategy(tp=4, dp=1, pp=2)
    work = work_of(chosen)
    assert work.message is not None
    for over, share in ((1.0, 1), (4.0, 4)):
        message = on_topology(work, chosen, tree(over)).message
        assert message == replace(
            work.message,
            wire=pytest.approx(work.message.size * share / BANDWIDTH),
            latency=pytest.approx(4 * LATENCY),
        )


@pytest.mark.parametrize(
    ("network", "vpp", "training", "hops"),
    [
        (line(4, Link(bandwidth=BANDWIDTH, latency=LATENCY)), 1, False, 1),
        # From the last stage to the next chunk of the first.
        (line(4, Link(bandwidth=BANDWIDTH, latency=LATENCY)), 2, False, 3),
        (ring(4, Link(bandwidth=BANDWIDTH, latency=LATENCY), bidirectional=False), 1, False, 1),
        # Back to the stage before on a ring that runs one way.
        (ring(4, Link(bandwidth=BANDWIDTH, latency=LATENCY), bidirectional=False), 1, True, 3),
    ],
)
def test_the_slowest_message_counts(network: Topology, vpp: int, training: bool, hops: int) -> None:
    chosen = strategy(tp=1, dp=1, pp=4, vpp=vpp, training=training, batch=4)
    message = on_topology(work_of(chosen), chosen, network).message
    assert message is not None
    assert message.latency == pytest.approx(hops * LATENCY)


def today(**changes: Any) -> tuple[StepWork, Strategy]:
    """A step of a small mixture of experts, whose attention is in one pass."""
    shape = replace(resolve_workload("megatron-126m"), experts=Experts(count=4, top_k=2, feedforward=512), rotary=True)
    chosen = strategy(tp=1, attention_kernel=AttentionKernel.FLASH, **changes)
    chosen = replace(chosen, processors=chosen.dp * chosen.cp)
    return step_work(shape, resolve_system("h100-80g-nvl8"), chosen), chosen


def test_a_ring_of_keys_and_values() -> None:
    work, chosen = today(dp=1, cp=4, batch=4)
    for bandwidth in (1e6, 1e15):
        placed = on_topology(work, chosen, full_mesh(4, Link(bandwidth=bandwidth, latency=LATENCY)))
        before, after = (
            next(piece for piece in of.kinds[0].base.forward if piece.collective == "ring") for of in (work, placed)
        )
        # Three messages of a third of the bytes each, beside the four parts of attention but the first.
        assert after.link == pytest.approx(before.size / bandwidth + 3 * LATENCY)
        parts = before.compute * 3 / 4
        wanted = max(0.0, before.exposed + after.link - before.link) if before.exposed else max(0, after.link - parts)
        assert after.exposed == pytest.approx(wanted, abs=1e-15)


def test_tokens_go_to_their_experts() -> None:
    work, chosen = today(dp=4, ep=4)
    links = full_mesh(4, Link(bandwidth=BANDWIDTH, latency=LATENCY))
    direct, ringed = (
        on_topology(work, chosen, links, algorithms=algorithms) for algorithms in ({}, {"all-to-all": "ring"})
    )
    # To each of three others a quarter; in a ring from hand to hand, so that three, two and one of them go on.
    assert direct.transfer("ep", "all-to-all", 4e6).wire == pytest.approx(3 * 1e6 / BANDWIDTH)
    assert ringed.transfer("ep", "all-to-all", 4e6).wire == pytest.approx(6 * 1e6 / BANDWIDTH)
    slow = on_topology(work, chosen, full_mesh(4, Link(bandwidth=1e3, latency=0.0)))
    for piece in slow.kinds[0].base.forward:
        if piece.group == "ep":
            assert piece.exposed == piece.link == pytest.approx(3 * piece.size / 4 / 1e3)


def test_a_time_is_linear_in_the_bytes() -> None:
    network = switch(4, Link(bandwidth=BANDWIDTH, latency=LATENCY))
    time = collective_time(network, np.arange(4)[np.newaxis], "all-reduce", "unidir-ring")
    assert time.latency == pytest.approx(6 * 2 * LATENCY)
    assert time.pace == pytest.approx(6 * 0.25 / BANDWIDTH)
    assert collective_time(network, np.arange(4)[:, np.newaxis], "all-reduce", "unidir-ring") == LinearTime(0.0, 0.0)


def test_algorithms() -> None:
    chosen = strategy(tp=8, dp=1)
    network = full_mesh(8, Link(bandwidth=BANDWIDTH, latency=LATENCY))
    rings = on_topology(work_of(chosen), chosen, network)
    halving = on_topology(work_of(chosen), chosen, network, algorithms={"all-reduce": "halving-doubling"})
    both = on_topology(work_of(chosen), chosen, network, algorithms={"all-reduce": "bidir-ring"})
    # The same bytes in 2 · 3 steps instead of 2 · 7; a ring in each direction carries half of them.
    ring_time, halving_time, both_time = (of.transfer("tp", "all-reduce", 8e6) for of in (rings, halving, both))
    assert ring_time.latency == pytest.approx(14 * LATENCY)
    assert halving_time.latency == pytest.approx(6 * LATENCY)
    assert halving_time.wire == pytest.approx(ring_time.wire)
    assert both_time.wire == pytest.approx(ring_time.wire / 2)


def test_pieces_take_the_time_of_the_topology() -> None:
    chosen = strategy(tp=4, dp=2, tp_communication=TpCommunication.SEQUENCE_PARALLEL)
    work = work_of(chosen)
    # Slow enough that nothing else than the bytes on the wire counts.
    slow = on_topology(work, chosen, full_mesh(8, Link(bandwidth=1e6, latency=LATENCY)))
    [before], [after] = work.kinds, slow.kinds
    for pieces in (after.base.forward, after.edge.forward, after.base.backward, after.edge.backward):
        transfers = [piece for piece in pieces if piece.collective]
        assert len(transfers) == 4
        for piece in transfers:
            assert piece.link == piece.exposed == pytest.approx(3 * (LATENCY + piece.size / 4 / 1e6))
    for old, new in zip(before.base.forward, after.base.forward, strict=True):
        assert replace(new, link=old.link, exposed=old.exposed) == old


def test_pieces_keep_what_touching_buffers_takes() -> None:
    # A network that takes no time leaves only that: what the piece took beyond its transfer.
    infinite = full_mesh(8, Link(bandwidth=1e30, latency=0.0))
    made = Piece(
        name="x", part="forward", communication="tp_communication", group="tp", collective="all-reduce", size=10.0,
        transfers=1, link=25.0, exposed=25.0,
    )  # fmt: skip
    # Of `handmade_work` 10 bytes take 10 s.
    for link, left in ((10.0, pytest.approx(0.0, abs=1e-20)), (25.0, 25.0)):
        piece = replace(made, link=link, exposed=link)
        work = on_topology(handmade_work((1,), pieces=((piece,), ())), strategy(), infinite)
        [found] = work.kinds[0].base.forward
        assert (found.link, found.exposed) == (left, left)


@pytest.mark.parametrize("latency", [0.0, 0.5, 25.0])
def test_hidden_pieces_expose_what_their_tiles_do_not_hide(latency: float) -> None:
    piece = Piece(
        name="x", part="forward", compute=7.5, communication="tp_communication", group="tp", collective="all-reduce",
        size=5.0, transfers=2, link=5.0, exposed=0.0,
    )  # fmt: skip
    network = full_mesh(2, Link(bandwidth=0.5, latency=latency))
    work = on_topology(handmade_work((1,), pieces=((piece,), ())), strategy(tp=2, dp=1), network)
    [found] = work.kinds[0].base.forward
    # An all-reduce of two is two steps of half the bytes; each of the two transfers has the latency of both.
    assert found.link == pytest.approx(10.0 + 2 * 2 * latency)
    # Of three tiles two run beside them, 5 of the 7.5 s.
    assert found.exposed == pytest.approx(found.link - 5.0)


def test_hidden_pieces_with_something_exposed() -> None:
    piece = Piece(
        name="x", part="forward", compute=3.0, communication="tp_communication", group="tp", collective="all-reduce",
        size=5.0, transfers=2, link=5.0, exposed=3.0,
    )  # fmt: skip
    for bandwidth, link, exposed in ((0.5, 10.0, 8.0), (1.25, 4.0, 2.0), (50.0, 0.1, 0.0)):
        network = full_mesh(2, Link(bandwidth=bandwidth, latency=0.0))
        work = on_topology(handmade_work((1,), pieces=((piece,), ())), strategy(tp=2, dp=1), network)
        [found] = work.kinds[0].base.forward
        assert (found.link, found.exposed) == (pytest.approx(link), pytest.approx(exposed))


def test_the_same_network_leaves_overlapped_products_as_they_are() -> None:
    # Where the tiers' closed forms are rings, latency apart, a step on the topology of the tiers stays the same.
    compared = 0
    for case in cases():
        free = _without_latency(case)
        if free.strategy.tp_overlap is TpOverlap.NONE:
            continue
        work = free.work
        on_tiers = on_topology(work, replace(free.strategy, pp=1, dp=1, processors=free.strategy.tp), _rings(free))
        for before, after in zip(work.kinds[0].edge.forward, on_tiers.kinds[0].edge.forward, strict=True):
            assert after.link == pytest.approx(before.link, rel=1e-9)
            assert after.exposed == pytest.approx(before.exposed, rel=1e-9, abs=1e-9 * before.link)
            compared += bool(before.collective)
    assert compared > 10


def _without_latency(case: StepCase) -> StepCase:
    """The case with ring collectives and without latency."""
    tiers = tuple(
        replace(
            tier,
            latency=0.0,
            all_reduce=replace(tier.all_reduce, scalar=2.0, offset=-1.0),
            reduce_scatter=replace(tier.reduce_scatter, scalar=1.0, offset=-1.0),
            all_gather=replace(tier.all_gather, scalar=1.0, offset=-1.0),
        )
        for tier in case.system.network_tiers
    )
    return StepCase(case.workload, replace(case.system, network_tiers=tiers), case.strategy)


def _rings(case: StepCase) -> Topology:
    tier = case.system.network_tiers[case.strategy.tp_tier]
    return full_mesh(case.strategy.tp, Link(bandwidth=tier.bandwidth, latency=0.0, efficiency=tier.efficiency))


def test_steps_on_topologies_run() -> None:
    chosen = strategy(tp=2, dp=2, pp=2, vpp=2, batch=8, dp_overlap=True)
    work = work_of(chosen)
    for placement in PLACEMENTS:
        placed = on_topology(work, chosen, tree(2.0), placement=placement)
        step = step_graph(placed, options=StepOptions(messages="serial"))
        assert simulate_step(step, contention=False).seconds > 0


def test_refused() -> None:
    chosen = strategy(tp=4, dp=4, batch=16)
    with pytest.raises(InputError, match="has 8 processors, and the strategy takes 16") as caught:
        on_topology(work_of(chosen), chosen, tree(1.0))
    assert "larger" in str(caught.value.hint)
    chosen = strategy(tp=4, dp=2)
    with pytest.raises(InputError, match="placement 'tp-pp' is not known") as caught:
        on_topology(work_of(chosen), chosen, tree(1.0), placement="tp-pp")
    assert "tp-pp-dp" in str(caught.value.hint)
    with pytest.raises(InputError, match="unidir-rings"):
        on_topology(work_of(chosen), chosen, tree(1.0), algorithms={"all-reduce": "unidir-rings"})


def test_random_systems_are_joined_by_their_tiers() -> None:
    random = Random(8)
    for _ in range(5):
        machine: System = random_system(random)
        shape = random_workload(random)
        chosen = strategy(tp=2, dp=2, batch=4)
        work = step_work(shape, machine, chosen)
        placed = on_topology(work, chosen, topology_of(machine, 4))
        tier = machine.network_tiers[0]
        step = tier.latency + 1e6 / (2 * tier.bandwidth * tier.efficiency)
        assert seconds(placed.transfer("tp", "all-reduce", 1e6)) == pytest.approx(2 * step)
        assert seconds(placed.transfer("shards", "all-reduce", 1e6)) == pytest.approx(2 * step)
