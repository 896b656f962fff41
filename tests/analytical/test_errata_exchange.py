"""Each erratum of the overlapped gradient exchange: what correcting it alone changes, worked out by hand.

Numbers are those of the block and machine of `analytical_cases`: a backward pass of 2 s a block on one processor, and
an all-reduce of a block's gradients among two replicas in 1 s on tier 1 (half that for its two halves), unless a test
makes the network slower. With one chunk of four blocks, the last block's exchange is always exposed, and the three
others can hide behind the backward passes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from analytical_cases import (
    ACTIVATION_BYTES,
    BLOCK_FLOPS,
    WEIGHT_BYTES,
    changed,
    machine,
    network,
    statistics_of,
    strategy,
    with_and_without,
)

from codesign_opt.analytical import Erratum
from codesign_opt.strategies import Strategy, TpOverlap
from codesign_opt.systems import System

EXCHANGE = {
    "dp_comm_exposed_time",
    "total_time",
    "sample_rate",
    "total_efficiency",
    "system_efficiency",
}
REQUIREMENTS = {"dp_bw_overlap_req_chunk", "dp_bw_overlap_req_tail"}


def replicated(**changes: Any) -> Strategy:
    """Two replicas whose gradients overlap with the backward pass."""
    return strategy(**{"dp": 2, "dp_overlap": True, "dp_tier": 1, **changes})


def exchange_in(seconds: float, *, usage: float = 0.0, latency: float = 0.0, message: float = 1e-30) -> System:
    """A machine that exchanges a block's gradients in `seconds` and sends a pipeline message in `message` seconds.

    Messages use tier 2, and pay its `latency` even where there is no pipeline, as the published tool has it.
    """
    return machine(
        tiers=(
            network(bandwidth=ACTIVATION_BYTES),
            network(bandwidth=WEIGHT_BYTES / seconds, usage=usage),
            network(bandwidth=ACTIVATION_BYTES / message, latency=latency),
        )
    )


def test_e6_the_last_window_loses_half_of_two_windows() -> None:
    published, corrected = with_and_without(Erratum.E6, replicated(pp_tier=2), exchange_in(3, latency=0.25))
    # Windows of 2, 2, 2 and (with the message) 2.25 s. Three exchanges of 3 s want to hide.
    windows = 2 + 2 + 2 + 2.25
    foreign_message = 0.25
    assert published["dp_comm_exposed_time"] == pytest.approx(3 + 9 - (windows - (2 + 2.25) / 2 - foreign_message))
    assert corrected["dp_comm_exposed_time"] == pytest.approx(3 + 9 - (windows - (2 + 2.25) / 2))
    assert changed(published, corrected) == EXCHANGE | {"dp_bw_overlap_req_tail"}


def test_e6_windows_that_share_the_tier_lose_their_own_length() -> None:
    chosen = replicated(tp=2, dp_tier=0, pp_tier=1)
    published, corrected = with_and_without(Erratum.E6, chosen, machine())
    # On two processors a backward pass computes for 1 s and communicates for 2 s on the same tier: its window is 1 s.
    exchange = (WEIGHT_BYTES - 2 * 384) / ACTIVATION_BYTES
    assert published["dp_comm_exposed_time"] == pytest.approx(exchange + 3 * exchange - (4 * 1 - 3))
    assert corrected["dp_comm_exposed_time"] == pytest.approx(exchange + 3 * exchange - (4 * 1 - 1))


def test_e7_exposure_does_not_jump_where_the_exchange_just_fits() -> None:
    published, corrected = with_and_without(Erratum.E7, replicated(pp_tier=2), exchange_in(2, usage=0.5))
    # Three exchanges of 2 s beside a window of 6 s; half of the compute of a block's 2 s is lost. Published: the
    # deficit of 6 + 1 - 6 s replaces the slow-down. Corrected: nothing is exposed and 6 s of transfer slow by half.
    assert published["dp_comm_exposed_time"] == pytest.approx(2 + 1)
    assert corrected["dp_comm_exposed_time"] == pytest.approx(2 + 6 * 0.5)
    assert changed(published, corrected) == EXCHANGE


@pytest.mark.parametrize(("seconds", "published_exposed"), [(1.6, 1.6 + 4.8 * 0.5), (1.7, 1.7 + 5.1 + 1 - 6)])
def test_e7_a_slower_network_was_faster(seconds: float, published_exposed: float) -> None:
    published, corrected = with_and_without(Erratum.E7, replicated(pp_tier=2), exchange_in(seconds, usage=0.5))
    assert published["dp_comm_exposed_time"] == pytest.approx(published_exposed)
    assert corrected["dp_comm_exposed_time"] == pytest.approx(seconds + 3 * seconds * 0.5)


def test_e8_what_cannot_be_hidden_is_exposed_once() -> None:
    chosen = replicated(tp=2, tp_overlap=TpOverlap.RING, dp_tier=0, pp_tier=1)
    published, corrected = with_and_without(Erratum.E8, chosen, machine())
    exchange = (WEIGHT_BYTES - 2 * 384) / ACTIVATION_BYTES
    # Two all-reduces of 1 s, half hidden beside products: the pass is shorter than its own link time.
    exposed = sum((1 - flops / 2 / BLOCK_FLOPS) / 2 for flops in (1536, 2048))
    backward = 1 + exposed
    window = backward - 2
    assert window < 0
    assert corrected["dp_comm_exposed_time"] == pytest.approx(4 * exchange)
    assert published["dp_comm_exposed_time"] == pytest.approx(4 * exchange - (4 * window - backward))
    assert changed(published, corrected) == EXCHANGE


def test_e9_every_block_of_the_last_chunk_is_slowed() -> None:
    published, corrected = with_and_without(Erratum.E9, replicated(pp_tier=2), exchange_in(2, usage=0.5))
    # The slow-down of three blocks instead of one, each losing half of 2 s of compute.
    assert published["dp_comm_exposed_time"] == pytest.approx(2 + 6 + 1 - 6)
    assert corrected["dp_comm_exposed_time"] == pytest.approx(2 + 6 + 3 - 6)
    assert changed(published, corrected) == EXCHANGE


def test_e9_a_lone_block_hides_nothing_and_is_not_slowed() -> None:
    chosen = replicated(pp=4, pp_tier=2)
    published, corrected = with_and_without(Erratum.E9, chosen, exchange_in(1, usage=0.5))
    assert published["dp_comm_exposed_time"] == pytest.approx(1 + 1)
    assert corrected["dp_comm_exposed_time"] == pytest.approx(1)


def test_e10_windows_have_as_many_passes_as_there_are_microbatches() -> None:
    chosen = replicated(pp=4, vpp=2, pp_tier=2)
    published, corrected = with_and_without(Erratum.E10, chosen, exchange_in(5), blocks=8)
    # Two chunks of one block, one microbatch: the first chunk's 5 s hide behind one pass of 2 s, not behind four.
    assert published["dp_comm_exposed_time"] == pytest.approx(5)
    assert corrected["dp_comm_exposed_time"] == pytest.approx(5 + (5 - 2))
    assert changed(published, corrected) == EXCHANGE | {"dp_bw_overlap_req_chunk"}


def test_e11_weights_are_gathered_after_the_optimizer_step() -> None:
    chosen = replicated(pp_tier=2, optimizer_sharding=True)
    published, corrected = with_and_without(Erratum.E11, chosen, exchange_in(1))
    # Half a second to reduce and scatter a block's gradients, half to gather its weights; everything fits its window.
    assert published["dp_comm_exposed_time"] == pytest.approx(1)
    assert corrected["dp_comm_exposed_time"] == pytest.approx(0.5 + 4 * 0.5)
    assert published["dp_comm_link_time"] == corrected["dp_comm_link_time"] == pytest.approx(4)
    # What cannot hide does not count for the bandwidth that would hide the rest behind 6 s.
    assert published["dp_bw_overlap_req_tail"] == pytest.approx(4 * 2 * WEIGHT_BYTES / 6)
    assert corrected["dp_bw_overlap_req_tail"] == pytest.approx(4 * WEIGHT_BYTES / 6)
    assert changed(published, corrected) == EXCHANGE | {"dp_bw_overlap_req_tail"}


def test_e11_leaves_an_exchange_without_sharding_alone() -> None:
    published, corrected = with_and_without(Erratum.E11, replicated(pp_tier=2), exchange_in(1))
    assert changed(published, corrected) == set()


def test_e28_requirements_compare_what_is_sent_with_the_time_for_it() -> None:
    chosen = replicated(pp=2, vpp=2, batch=4, pp_tier=2)
    published, corrected = with_and_without(Erratum.E28, chosen, exchange_in(1, usage=0.5), blocks=8)
    # Two chunks of two blocks, two microbatches. The window beside the other chunk is two passes of 4 s, in which the
    # exchange takes half of 8 s of compute; within the last chunk it is 4 - 2 s for one exchange of 1 s.
    # Bytes on the wire are those among many replicas.
    bytes_on_the_wire = 2 * WEIGHT_BYTES
    assert published["dp_bw_overlap_req_chunk"] == pytest.approx(2 * bytes_on_the_wire / (8 + 8 * 0.5))
    assert published["dp_bw_overlap_req_tail"] == pytest.approx(2 * bytes_on_the_wire / (2 + 1 * 0.5))
    assert corrected["dp_bw_overlap_req_chunk"] == pytest.approx(2 * bytes_on_the_wire / 8)
    assert corrected["dp_bw_overlap_req_tail"] == pytest.approx(1 * bytes_on_the_wire / 2)
    assert changed(published, corrected) == REQUIREMENTS


def test_exposed_optimizer_offload_lengthens_the_window() -> None:
    chosen = replicated(pp_tier=2, optimizer_offload=True)
    system = dataclasses.replace(exchange_in(3), memory_tier2=machine(memory2=12 * 800 / 4).memory_tier2)
    found = statistics_of(chosen, system)
    # A block's state takes 4 s beside its only backward pass of 2 s. Windows of 4 s hide three exchanges of 3 s.
    assert found["bw_offload_exposed_time"] == pytest.approx(4 * 2)
    assert found["dp_comm_exposed_time"] == pytest.approx(3)


def test_e30_the_optimizer_step_lengthens_one_pass_of_the_window() -> None:
    # Vectors take one second of a backward pass, which makes 3 s, and the optimizer's step 8,800 flop.
    vector = 10_432 - 7168 + 2 * 224
    chosen = replicated(pp=2, vpp=2, batch=4, pp_tier=2)
    system = dataclasses.replace(exchange_in(20), vector=machine(vector=vector).vector)
    found = statistics_of(chosen, system, blocks=8)
    step = 8800 / vector
    # Two chunks of two blocks, two microbatches: the first chunk has four block passes to hide behind, and one step
    # of either block; the last block but one has a single pass and a single step.
    beside_next_chunk = 2 * 20 - (4 * 3 + 2 * step)
    within_last_chunk = 20 - (3 + step)
    assert found["dp_comm_exposed_time"] == pytest.approx(20 + beside_next_chunk + within_last_chunk)


def test_every_pass_of_a_window_loses_its_message_on_a_shared_tier() -> None:
    # Latency makes a message take 4.12 s and a block's exchange 4 + 3 s. Chunks of two blocks, two microbatches.
    tier = network(bandwidth=WEIGHT_BYTES / 3, latency=4)
    system = machine(tiers=(network(bandwidth=ACTIVATION_BYTES), tier))
    chosen = replicated(pp=2, vpp=2, batch=4, pp_tier=1)
    found = statistics_of(chosen, system, blocks=8)
    # Two passes of 4 s and a message each leave 8 s for 14 s of exchange. The last chunk's window is
    # 8.12 - (2 + 6.12) / 2 - 4.12 s, which is none.
    assert found["dp_comm_exposed_time"] == pytest.approx(7 + (14 - 8) + 7)


def test_a_faster_engine_meets_no_more_messages() -> None:
    # Were messages counted over the exchange, shorter passes would meet more of them.
    tier = network(bandwidth=WEIGHT_BYTES / 3, latency=4)
    exposed = []
    for speed in (1.0, 1.5, 3.0):
        system = machine(tiers=(network(bandwidth=ACTIVATION_BYTES), tier))
        engine = dataclasses.replace(system.matrix["float16"], peak=system.matrix["float16"].peak * speed)
        faster = dataclasses.replace(system, matrix={"float16": engine})
        found = statistics_of(replicated(pp=2, vpp=2, batch=4, pp_tier=1), faster, blocks=8)
        exposed.append(found["dp_comm_exposed_time"])
        assert found["dp_comm_exposed_time"] == pytest.approx(7 + (14 - 8 / speed) + 7)
    assert exposed == sorted(exposed)
