"""Each erratum of compute, communication and schedule: what correcting it alone changes, worked out by hand.

Numbers are those of the block and machine of `analytical_cases`: 1 s forward and 2 s backward on one processor, and
1 s for an all-reduce among two. Half of that is the time of a reduce-scatter or an all-gather.
"""

from __future__ import annotations

from itertools import accumulate

import pytest
from analytical_cases import (
    ACTIVATION_BYTES,
    BLOCK_FLOPS,
    WEIGHT_BYTES,
    changed,
    machine,
    network,
    strategy,
    with_and_without,
)

from codesign_opt.analytical import Erratum
from codesign_opt.strategies import Recompute, TpCommunication, TpOverlap
from codesign_opt.systems import EfficiencyCurve

OFFLOAD_REQUIREMENTS = {
    "act_offload_bw_req",
    "weight_offload_bw_req",
    "optim_offload_bw_req",
    "offload_mem_bw_req",
}
TOTALS = {"total_time", "sample_rate", "total_efficiency", "system_efficiency"}
COMPUTE = TOTALS | {"compute_efficiency"}

FORWARD_FLOPS = (
    0, 288, 0, 0, 512, 512, 512, 256, 160, 32, 256, 512, 0, 32, 32,
    0, 288, 0, 2048, 1024, 2048, 0, 32, 32,
)  # fmt: skip
"""Of every operation of a block on one processor, in order; the four collectives are the third, 13th, 18th and 22nd."""

FORWARD_BYTES = (
    0, 160, 0, 0, 256, 256, 256, 192, 128, 160, 192, 256, 0, 160, 192,
    0, 160, 0, 832, 512, 832, 0, 160, 192,
)  # fmt: skip

COLLECTIVES = (2, 12, 17, 21)

HALF_MLP_OUT = 512 / 2 / BLOCK_FLOPS
"""Seconds of the attention's output product on each of two processors."""
HALF_MLP2 = 2048 / 2 / BLOCK_FLOPS
"""Seconds of either product of the MLP on each of two processors."""
HALF_QKV = 1536 / 2 / BLOCK_FLOPS
"""Seconds of the product for query, key and value together on each of two processors."""

ON_TWO = {"tp": 2, "tp_communication": TpCommunication.ALL_REDUCE}


def running_totals(values: tuple[int, ...]) -> int:
    """Over all operations but the collectives, the sum of everything up to and including the operation."""
    return sum(total for index, total in enumerate(accumulate(values)) if index not in COLLECTIVES)


def test_the_clock_block_takes_one_second_forward_and_two_backward() -> None:
    published, _ = with_and_without(Erratum.E1, strategy(), machine())
    assert published["block_fw_flops"] == sum(FORWARD_FLOPS)
    assert published["block_fw_mem_accessed"] == sum(FORWARD_BYTES)
    assert published["block_fw_time"] == pytest.approx(1)
    assert published["block_agrad_time"] + published["block_wgrad_time"] == pytest.approx(2)
    assert published["total_time"] == pytest.approx(4 * 3)


def test_e1_recompute_counts_each_operation_once() -> None:
    published, corrected = with_and_without(
        Erratum.E1, strategy(recompute=Recompute.FULL), machine(vector=10.0, memory1=100.0)
    )
    assert published["block_re_flops"] == running_totals(FORWARD_FLOPS)
    assert published["block_re_mem_accessed"] == running_totals(FORWARD_BYTES)
    assert published["block_re_mem_time"] == pytest.approx(running_totals(FORWARD_BYTES) / 100)
    assert corrected["block_re_flops"] == sum(FORWARD_FLOPS)
    assert corrected["block_re_mem_accessed"] == sum(FORWARD_BYTES)
    assert corrected["block_re_mem_time"] == pytest.approx(sum(FORWARD_BYTES) / 100)
    assert changed(published, corrected) == {
        "block_re_flops",
        "block_re_flops_time",
        "block_re_mem_accessed",
        "block_re_mem_time",
    }


def test_e1_reaches_the_total_through_the_gradient_window() -> None:
    chosen = strategy(recompute=Recompute.FULL, dp=2, dp_overlap=True, dp_tier=1)
    published, corrected = with_and_without(Erratum.E1, chosen, machine(memory1=1000.0))
    # The window is four backward passes without their memory time, less one whole pass; it is too short either way.
    lost = 4 * (running_totals(FORWARD_BYTES) - sum(FORWARD_BYTES)) / 1000
    assert published["dp_comm_exposed_time"] - corrected["dp_comm_exposed_time"] == pytest.approx(lost)
    assert published["total_time"] - corrected["total_time"] == pytest.approx(lost)


def test_e2_the_exposed_tile_counts_once() -> None:
    published, corrected = with_and_without(Erratum.E2, strategy(**ON_TWO, tp_overlap=TpOverlap.PIPE), machine())
    # Of two tiles, one of half a second is exposed: two reductions forward, two backward, on each of four blocks.
    assert published["block_fw_time"] == pytest.approx(0.5 + 2 * 0.5)
    assert corrected["block_fw_time"] == pytest.approx(0.5)
    assert published["block_agrad_time"] - corrected["block_agrad_time"] == pytest.approx(2 * 0.5)
    assert published["total_time"] - corrected["total_time"] == pytest.approx(4 * 4 * 0.5)
    hidden_behind_product = (1 - HALF_MLP_OUT) / 2 + (1 - HALF_MLP2) / 2
    for found in (published, corrected):
        assert found["baseblock_fw_tp_time_exposed"] == pytest.approx(2 * 0.5 + hidden_behind_product)
    assert changed(published, corrected) == COMPUTE | OFFLOAD_REQUIREMENTS - {"offload_mem_bw_req"} | {
        "block_fw_time",
        "block_agrad_time",
        "fw_time",
        "bw_time",
    }


def test_e3_edge_blocks_hide_the_collectives_that_they_run() -> None:
    chosen = strategy(tp=2, tp_communication=TpCommunication.STAGE_BOUNDARY, tp_overlap=TpOverlap.RING)
    published, corrected = with_and_without(Erratum.E3, chosen, machine())
    all_reduces = (1 - HALF_MLP_OUT) / 2 + (1 - HALF_MLP2) / 2
    gathers_and_scatters = sum((0.5 - product) / 2 for product in (HALF_QKV, HALF_MLP_OUT, HALF_MLP2, HALF_MLP2))
    assert published["edgeblock_fw_tp_time_exposed"] == pytest.approx(all_reduces)
    assert corrected["edgeblock_fw_tp_time_exposed"] == pytest.approx(gathers_and_scatters)
    assert corrected["baseblock_fw_tp_time_exposed"] == pytest.approx(all_reduces)
    # Four blocks, of which the last is an edge block; backward the same four collectives beside the same products.
    backward = (1 - HALF_QKV) / 2 + (1 - HALF_MLP2) / 2
    assert corrected["tp_comm_exposed_time"] - published["tp_comm_exposed_time"] == pytest.approx(
        2 * gathers_and_scatters - all_reduces - backward
    )
    assert changed(published, corrected) <= TOTALS | OFFLOAD_REQUIREMENTS | {
        "edgeblock_fw_tp_time_exposed",
        "edgeblock_agrad_tp_time_exposed",
        "tp_comm_exposed_time",
    }


def test_e4_full_recompute_communicates_again_once() -> None:
    chosen = strategy(
        tp=2,
        tp_communication=TpCommunication.SEQUENCE_PARALLEL,
        tp_overlap=TpOverlap.PIPE,
        recompute=Recompute.FULL,
    )
    published, corrected = with_and_without(Erratum.E4, chosen, machine())
    weight_gradient = 6144 / 2 / BLOCK_FLOPS
    # The four products of a block pay a tile of a half-second transfer in the weight gradient as well.
    assert corrected["block_wgrad_time"] == pytest.approx(weight_gradient)
    assert published["block_wgrad_time"] == pytest.approx(weight_gradient + 4 * 0.25)
    assert published["total_time"] - corrected["total_time"] == pytest.approx(4 * 4 * 0.25)
    assert changed(published, corrected) == COMPUTE | {
        "block_wgrad_time",
        "bw_time",
        "optim_offload_bw_req",
    }


def test_e5_messages_that_are_not_sent_cost_nothing() -> None:
    tiers = (network(bandwidth=ACTIVATION_BYTES), network(bandwidth=ACTIVATION_BYTES, latency=0.25))
    chosen = strategy(pp=2, pp_tier=1, training=False)
    published, corrected = with_and_without(Erratum.E5, chosen, machine(tiers=tiers))
    # Two blocks of 1 s and a message of 1.25 s forward; there is no backward pass whose message could take 0.25 s.
    assert corrected["bubble_time"] == pytest.approx(2 + 1.25)
    assert published["bubble_time"] == pytest.approx(2 + 1.25 + 0.25)
    assert corrected["pp_comm_link_time"] == published["pp_comm_link_time"] == pytest.approx(1.25)
    assert changed(published, corrected) == TOTALS | {"bubble_time"}


def test_e5_a_single_stage_hides_no_offload_behind_messages() -> None:
    tiers = (network(bandwidth=ACTIVATION_BYTES), network(bandwidth=ACTIVATION_BYTES, latency=0.25))
    published, corrected = with_and_without(
        Erratum.E5,
        strategy(pp_tier=1, weight_offload=True),
        machine(tiers=tiers, memory2=WEIGHT_BYTES / 3),
    )
    # A block's weights take 3 s: 2 s of them exposed forward and 1 s backward, less the latency in the last block.
    assert corrected["fw_offload_exposed_time"] == pytest.approx(4 * 2)
    assert published["fw_offload_exposed_time"] == pytest.approx(4 * 2 - 0.25)
    assert corrected["bw_offload_exposed_time"] == pytest.approx(4 * 1)
    assert published["bw_offload_exposed_time"] == pytest.approx(4 * 1 - 0.25)


def test_e15_optimizer_state_moves_once_a_step() -> None:
    state = 12 * WEIGHT_BYTES / 2
    published, corrected = with_and_without(
        Erratum.E15, strategy(batch=3, optimizer_offload=True), machine(memory2=state / 3)
    )
    # A block's state takes 3 s beside a backward pass of 2 s: one second exposed, on four blocks.
    assert published["bw_offload_exposed_time"] == pytest.approx(3 * 4 * 1)
    assert corrected["bw_offload_exposed_time"] == pytest.approx(4 * 1)
    assert changed(published, corrected) == TOTALS | {"bw_offload_exposed_time"}


def test_e16_offload_waits_for_the_memory_traffic_of_recompute() -> None:
    published, corrected = with_and_without(
        Erratum.E16,
        strategy(recompute=Recompute.FULL, weight_offload=True),
        machine(memory1=1000.0, memory2=100.0),
        also={Erratum.E1},
    )
    recompute = sum(FORWARD_BYTES) / 1000
    assert corrected["bw_offload_exposed_time"] - published["bw_offload_exposed_time"] == pytest.approx(4 * recompute)
    assert corrected["total_time"] - published["total_time"] == pytest.approx(4 * recompute)
    assert changed(published, corrected) == TOTALS | {
        "bw_offload_exposed_time",
        "optim_offload_bw_req",
    }


def test_e23_every_tile_pays_latency() -> None:
    tiers = (network(bandwidth=ACTIVATION_BYTES, latency=0.25),)
    chosen = strategy(tp=2, tp_communication=TpCommunication.SEQUENCE_PARALLEL, tp_overlap=TpOverlap.RING)
    published, corrected = with_and_without(Erratum.E23, chosen, machine(tiers=tiers))
    assert published["baseblock_fw_tp_time"] == pytest.approx(4 * (0.5 + 0.25))
    assert corrected["baseblock_fw_tp_time"] == pytest.approx(4 * (0.5 + 2 * 0.25))
    # One of two tiles is exposed where communication is the longer: half of what was added.
    assert corrected["total_time"] - published["total_time"] == pytest.approx(4 * 8 * 0.25 / 2)
    assert corrected["block_fw_time"] == published["block_fw_time"]


def test_e23_leaves_collectives_without_overlap_alone() -> None:
    tiers = (network(bandwidth=ACTIVATION_BYTES, latency=0.25),)
    published, corrected = with_and_without(Erratum.E23, strategy(**ON_TWO), machine(tiers=tiers))
    assert changed(published, corrected) == set()


def test_e25_a_smaller_operation_is_never_slower() -> None:
    curve = EfficiencyCurve((600.0, 0.0), (1.0, 0.1))
    published, corrected = with_and_without(Erratum.E25, strategy(), machine(curve=curve))
    # Four products of 512 flop and two of 256 run at a tenth of the peak; padded to 600 flop, at all of it.
    assert published["block_fw_flops_time"] == pytest.approx(((4 * 512 + 2 * 256) / 0.1 + 2 * 2048) / BLOCK_FLOPS)
    assert corrected["block_fw_flops_time"] == pytest.approx((6 * 600 + 2 * 2048) / BLOCK_FLOPS)
    assert {"block_fw_flops", "block_fw_mem_accessed", "proc_mem_tier1_cap_req"}.isdisjoint(
        changed(published, corrected)
    )


def test_e26_roofline_hides_communication_behind_memory_time_too() -> None:
    chosen = strategy(**ON_TWO, tp_overlap=TpOverlap.RING, training=False)
    published, corrected = with_and_without(Erratum.E26, chosen, machine(roofline=True, memory1=320.0))
    # The attention's output product touches 160 bytes in 0.5 s and the MLP's 448 in 1.4 s, longer than their flop
    # take; the all-reduce beside each takes 1 s, half of which can be hidden.
    assert published["baseblock_fw_tp_time_exposed"] == pytest.approx((1 - HALF_MLP_OUT) / 2 + (1 - HALF_MLP2) / 2)
    assert corrected["baseblock_fw_tp_time_exposed"] == pytest.approx((1 - 160 / 320) / 2)
    assert changed(published, corrected) == TOTALS | {
        "baseblock_fw_tp_time_exposed",
        "edgeblock_fw_tp_time_exposed",
        "tp_comm_exposed_time",
        "weight_offload_bw_req",
        "act_offload_bw_req",
    }
