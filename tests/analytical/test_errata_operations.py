"""Each erratum of single operations, memory and efficiency: what correcting it alone changes, worked out by hand.

Sizes are those of the block of `analytical_cases` at two bytes an element: an activation of 32 elements, 4 tokens by
width 8; an MLP of 128 elements inside; attention scores of 32 elements.
"""

from __future__ import annotations

import math

import pytest
from analytical_cases import BLOCK_FLOPS, WEIGHT_BYTES, changed, machine, strategy, with_and_without

from codesign_opt.analytical import Erratum
from codesign_opt.strategies import Attention, Recompute, TpCommunication, TpOverlap

EFFICIENCIES = {"compute_efficiency", "system_efficiency", "total_efficiency"}
ACTIVATION = 2 * 32
WEIGHTS = 800

FORWARD_FLOPS = 8576
ACTIVATION_GRADIENT_FLOPS = (
    64, 448, 96, 512, 512, 512, 512, 256, 32, 512, 512, 32, 64,
    64, 448, 2048, 1664, 2048, 32, 64,
)  # fmt: skip
"""Of every operation of a block on one processor, in order, without the four collectives."""
WEIGHT_GRADIENT_FLOPS = 2 * 224 + 4 * 512 + 2 * 2048


def test_e12_inference_keeps_nothing_for_a_backward_pass() -> None:
    chosen = strategy(training=False, activation_offload=True)
    published, corrected = with_and_without(Erratum.E12, chosen, machine(memory2=784.0))
    working = 992  # every operation's input but those that share a buffer
    everything = working + 576
    assert published["proc_mem_tier1_cap_req"] == pytest.approx(4 * WEIGHT_BYTES + working + everything)
    assert corrected["proc_mem_tier1_cap_req"] == pytest.approx(4 * WEIGHT_BYTES + working)
    assert published["proc_mem_tier2_cap_req"] == working
    assert corrected["proc_mem_tier2_cap_req"] == 0
    # 1,568 bytes at 784 bytes/s take 2 s beside a block of 1 s.
    assert published["fw_offload_exposed_time"] == pytest.approx(4 * 1)
    assert corrected["fw_offload_exposed_time"] == 0
    assert published["fw_time"] == corrected["fw_time"]


@pytest.mark.parametrize(
    ("communication", "gap"), [("all_reduce", ACTIVATION), ("stage_boundary", ACTIVATION), ("sequence_parallel", 0)]
)
def test_e13_the_input_of_query_key_and_value_is_kept(communication: str, gap: int) -> None:
    chosen = strategy(tp=2, recompute=Recompute.SELECTIVE, tp_communication=TpCommunication(communication))
    published, corrected = with_and_without(Erratum.E13, chosen, machine())
    # Of four blocks, one is at work and three are stored.
    assert corrected["block_act_storage_space"] - published["block_act_storage_space"] == gap
    assert corrected["proc_mem_tier1_cap_req"] - published["proc_mem_tier1_cap_req"] == 3 * gap
    assert changed(published, corrected) == (
        set()
        if gap == 0
        else {
            "block_act_storage_space",
            "act_space",
            "act_space_with_offload",
            "proc_mem_tier1_cap_req",
            "act_offload_bw_req",
        }
    )


def test_e14_overlapped_products_keep_what_plain_ones_keep() -> None:
    chosen = strategy(tp=2, tp_communication=TpCommunication.ALL_REDUCE, tp_overlap=TpOverlap.RING)
    published, corrected = with_and_without(Erratum.E14, chosen, machine(memory1=1e6))
    # Elements kept and of gradients, of the products for QKV, attention output, MLP in and out; behind the plus, those
    # of the collective, which a row-split product receives forward and a column-split one backward.
    published_kept, published_gradients = 32 + 0 + 32 + 0, 0 + 2 * 32 + 0 + 2 * 32
    kept = 32 + (16 + 32) + 32 + (64 + 32)
    gradients = (48 + 32) + 32 + (64 + 32) + 32
    stored = 32 + 16 + 32 + 64
    touched = (32 + 48) + (16 + 32) + (32 + 64) + (64 + 32)
    published_touched = published_kept + published_gradients
    difference = {name: corrected[name] - published[name] for name in published}
    assert difference["block_act_working_space"] == 2 * (kept - published_kept)
    assert difference["block_act_storage_space"] == 2 * (stored - published_kept)
    assert difference["block_act_grad_space"] == 2 * (gradients - published_gradients)
    assert difference["block_agrad_mem_accessed"] == 2 * (touched - published_touched)
    assert difference["block_wgrad_mem_accessed"] == 2 * (touched - published_touched)
    assert difference["proc_mem_tier1_cap_req"] == pytest.approx(
        difference["block_act_working_space"]
        + 3 * difference["block_act_storage_space"]
        + difference["block_act_grad_space"]
    )
    assert {"block_fw_time", "block_fw_mem_accessed", "weight_space", "optimizer_space"}.isdisjoint(
        changed(published, corrected)
    )


def test_e17a_a_fused_activation_touches_no_memory() -> None:
    published, corrected = with_and_without(Erratum.E17A, strategy(), machine())
    for name in ("block_fw_mem_accessed", "block_agrad_mem_accessed"):
        assert published[name] - corrected[name] == 2 * (128 + 128)
    unfused = with_and_without(Erratum.E17A, strategy(fused_activation=False), machine())
    assert changed(*unfused) == set()


def test_e17b_the_optimizer_reads_and_writes() -> None:
    published, corrected = with_and_without(Erratum.E17B, strategy(), machine())
    # A master copy and two moments of 4 bytes; the gradient is read and the weight written, at 2 bytes.
    assert published["block_optim_mem_accessed"] == 12 * WEIGHTS
    assert corrected["block_optim_mem_accessed"] == (2 * 12 + 2 + 2) * WEIGHTS
    assert published["block_optimizer_space"] == corrected["block_optimizer_space"] == 12 * WEIGHTS
    assert published["block_optim_flops"] == corrected["block_optim_flops"]


def test_e17c_two_backward_products_touch_memory_twice() -> None:
    published, corrected = with_and_without(Erratum.E17C, strategy(), machine())
    scores_product = 2 * (64 + 32)
    values_product = 2 * (64 + 32)
    assert corrected["block_agrad_mem_accessed"] - published["block_agrad_mem_accessed"] == (
        scores_product + values_product
    )
    assert published["block_act_grad_space"] == corrected["block_act_grad_space"]


def test_e17d_one_head_of_keys_and_values_is_read_once() -> None:
    chosen = strategy(attention=Attention.MULTIQUERY)
    published, corrected = with_and_without(Erratum.E17D, chosen, machine())
    # Either product reads 16 elements of keys or values for one head instead of two.
    saved = 2 * 2 * 16
    for name in ("block_fw_mem_accessed", "block_agrad_mem_accessed", "block_act_working_space"):
        assert published[name] - corrected[name] == saved
    assert published["proc_mem_tier1_cap_req"] - corrected["proc_mem_tier1_cap_req"] == 4 * saved
    assert changed(*with_and_without(Erratum.E17D, strategy(), machine())) == set()


@pytest.mark.parametrize(
    ("overlap", "published_forward", "published_again"),
    [(TpOverlap.NONE, 2 * (1 + 2), 2 * 1), (TpOverlap.RING, 2 * 1, 2 * 1)],
)
def test_e17e_collectives_stream_their_buffers(
    overlap: TpOverlap, published_forward: float, published_again: float
) -> None:
    chosen = strategy(tp=2, tp_communication=TpCommunication.ALL_REDUCE, tp_overlap=overlap, recompute=Recompute.FULL)
    published, corrected = with_and_without(Erratum.E17E, chosen, machine(memory1=64.0))
    # Each of two all-reduces is 1 s on the wire and touches two buffers of 64 bytes, in 2 s.
    assert published["baseblock_fw_tp_time"] == pytest.approx(published_forward)
    assert published["baseblock_recomm_time"] == pytest.approx(published_again)
    assert corrected["baseblock_fw_tp_time"] == pytest.approx(2 * 2)
    assert corrected["baseblock_recomm_time"] == pytest.approx(2 * 2)
    assert {"block_fw_mem_accessed", "baseblock_fw_tp_size", "pp_comm_link_time"}.isdisjoint(
        changed(published, corrected)
    )


def test_e18_inference_has_checkpoints_of_no_bytes() -> None:
    published, corrected = with_and_without(Erratum.E18, strategy(training=False), machine())
    assert math.isnan(published["act_checkpoint_size_with_offload"])
    assert corrected["act_checkpoint_size_with_offload"] == 0
    assert changed(published, corrected) == {"act_checkpoint_size_with_offload"}


def test_e22_checkpoints_are_sharded_under_sequence_parallelism() -> None:
    chosen = strategy(tp=2, tp_communication=TpCommunication.SEQUENCE_PARALLEL, recompute=Recompute.FULL)
    published, corrected = with_and_without(Erratum.E22, chosen, machine())
    assert published["act_checkpoint_size"] == 4 * ACTIVATION
    assert corrected["act_checkpoint_size"] == 4 * ACTIVATION / 2
    assert published["proc_mem_tier1_cap_req"] - corrected["proc_mem_tier1_cap_req"] == 4 * ACTIVATION / 2
    assert changed(published, corrected) == {
        "block_act_checkpoint_size",
        "act_checkpoint_size",
        "act_checkpoint_size_with_offload",
        "proc_mem_tier1_cap_req",
        "act_offload_bw_req",
    }


def test_e24_efficiency_is_that_of_the_whole_machine() -> None:
    published, corrected = with_and_without(Erratum.E24, strategy(pp=3, batch=2), machine())
    microbatch_flops = FORWARD_FLOPS + sum(ACTIVATION_GRADIENT_FLOPS) + WEIGHT_GRADIENT_FLOPS
    optimizer = 11 * WEIGHTS
    # Four blocks on three stages: two on the fullest, four thirds on the mean one.
    machine_seconds = BLOCK_FLOPS * published["total_time"]
    assert published["total_efficiency"] == pytest.approx(2 * 2 * (microbatch_flops + optimizer) / machine_seconds)
    assert corrected["total_efficiency"] == pytest.approx(4 / 3 * (2 * microbatch_flops + optimizer) / machine_seconds)
    assert changed(published, corrected) == EFFICIENCIES - {"system_efficiency"}


def test_e27_dropout_gradients_are_as_wide_as_activations() -> None:
    published, corrected = with_and_without(Erratum.E27, strategy(), machine())
    # One dropout on 32 attention scores and two on activations of 32 elements.
    assert corrected["block_act_grad_space"] - published["block_act_grad_space"] == 3 * 32
    assert corrected["proc_mem_tier1_cap_req"] - published["proc_mem_tier1_cap_req"] == 3 * 32
    assert changed(published, corrected) == {
        "block_act_grad_space",
        "act_grad_space",
        "act_grad_space_with_offload",
        "proc_mem_tier1_cap_req",
    }
