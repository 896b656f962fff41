"""Times of a step under today's schedules and with ends of the stack, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from analytical_cases import NO_LIMIT, network
from today_cases import DENSE, FE, PADDED, A, D, E, F, G, H, K, S, judged, machine, number, strategy

from codesign_opt.analytical import StepTimes
from codesign_opt.strategies import Recompute, Schedule
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts

B = 2
M = B * S
RATE = 1e6
FREE = network(bandwidth=NO_LIMIT)
PROCESSOR = machine(matrix=RATE, tiers=(FREE, FREE))

PRODUCTS = 2 * M * (2 * H * (A + G) * D + 3 * H * F) / RATE
FLASH = 4 * B * A * S * S / 2 * D / RATE
"""Seconds of a dense block's products with weights, and of its attention, forward."""
FORWARD, INPUT, WEIGHT = PRODUCTS + FLASH, PRODUCTS + 2.5 * FLASH, PRODUCTS
"""Seconds of a block's forward pass, gradients of its input, and of its weights."""
BLOCK = FORWARD + INPUT + WEIGHT
HEAD = 3 * 2 * M * H * PADDED / RATE
"""The output projection, which has no attention: three equal products."""

BLOCKS = replace(DENSE, vocabulary=0, tied_embeddings=True, vocabulary_multiple=1)


def times(workload: Workload, **changes: Any) -> StepTimes:
    return judged(workload, strategy(**changes), PROCESSOR).times


class TestBubble:
    """Eight blocks on four stages: chunks of two."""

    F_, B_, W_ = 2 * FORWARD, 2 * INPUT, 2 * WEIGHT

    @pytest.mark.parametrize("m", [8, 10, 64])
    @pytest.mark.parametrize(
        ("schedule", "bubble"),
        [
            (Schedule.ONE_F_ONE_B, 3 * (F_ + B_ + W_)),
            (Schedule.GPIPE, 3 * (F_ + B_ + W_)),
            # Each stage's wait is filled with weight gradients: arXiv 2401.10241, table 2.
            (Schedule.ZB_1P, 3 * (F_ + B_ - W_)),
            # The same with half as much to wait for: arXiv 2405.15362.
            (Schedule.ZB_V, 3 * (F_ + B_ - 2 * W_)),
            # arXiv 2412.19437, table 2: a pass in both directions, a whole backward pass, less three weight gradients.
            (Schedule.DUALPIPE, 1 * (F_ + 2 * (B_ + W_) - 3 * W_)),
        ],
    )
    def test_waiting(self, schedule: Schedule, bubble: float, m: int) -> None:
        found = times(replace(BLOCKS, blocks=8), pp=4, batch=B * m, schedule=schedule)
        assert number(found.bubble) == pytest.approx(max(bubble, 0))
        assert number(found.total) == pytest.approx(m * 2 * BLOCK + max(bubble, 0))

    def test_interleaving_waits_for_smaller_chunks(self) -> None:
        found = times(replace(BLOCKS, blocks=8), pp=4, vpp=2, batch=B * 8)
        assert number(found.bubble) == pytest.approx(3 * BLOCK)

    def test_recompute_lengthens_the_backward_pass(self) -> None:
        changes = {"pp": 4, "batch": B * 8, "recompute": Recompute.FULL}
        blocks = replace(BLOCKS, blocks=8)
        assert number(times(blocks, **changes).bubble) == pytest.approx(3 * 2 * (BLOCK + FORWARD))
        found = times(blocks, schedule=Schedule.ZB_1P, **changes)
        assert number(found.bubble) == pytest.approx(3 * 2 * (BLOCK + FORWARD - 2 * WEIGHT))


class TestEnds:
    """The time of a pipeline whose stages take t_i for a microbatch is their sum and m - 1 times the slowest."""

    @pytest.mark.parametrize("m", [4, 7, 32])
    @pytest.mark.parametrize("words", [8, PADDED, 800, 3200])
    @pytest.mark.parametrize("less", [(0, 0), (0, 1), (1, 1), (0, 2)])
    def test_pace(self, less: tuple[int, int], words: int, m: int) -> None:
        first, last = less
        blocks = [4 - first, 4, 4, 4 - last]
        workload = replace(DENSE, blocks=sum(blocks), vocabulary=words)
        head = 3 * 2 * M * H * words / RATE
        stages = [number * BLOCK for number in blocks]
        stages[-1] += head
        found = times(workload, pp=4, batch=B * m, first_stage_less=first, last_stage_less=last)
        assert number(found.total) == pytest.approx(sum(stages) + (m - 1) * max(stages))

    def test_one_stage_has_both(self) -> None:
        found = times(DENSE, batch=B * 5)
        assert number(found.forward) == pytest.approx(5 * (4 * FORWARD + HEAD / 3))
        assert number(found.backward) == pytest.approx(5 * (4 * (INPUT + WEIGHT) + HEAD * 2 / 3))
        assert number(found.total) == pytest.approx(5 * (4 * BLOCK + HEAD))
        assert number(found.bubble) == 0

    def test_tensor_parallelism_splits_them(self) -> None:
        found = times(DENSE, tp=2, batch=B)
        projection = 3 * 2 * M * H * 56 / RATE
        assert number(found.forward) + number(found.backward) == pytest.approx(4 * BLOCK / 2 + projection)

    def test_prediction_blocks_are_blocks_with_a_projection(self) -> None:
        found = times(replace(DENSE, prediction_blocks=1), batch=B)
        joined = 3 * 2 * M * 2 * H * H / RATE
        assert number(found.total) == pytest.approx(5 * BLOCK + 2 * HEAD + joined)

    def test_inference_has_forward_passes_alone(self) -> None:
        assert number(times(DENSE, batch=B, training=False).total) == pytest.approx(4 * FORWARD + HEAD / 3)

    @pytest.mark.parametrize(("tied", "pp", "expected"), [(True, 2, 1), (True, 1, 0), (False, 2, 0)])
    def test_tied_weights_of_two_stages_add_their_gradients(self, tied: bool, pp: int, expected: int) -> None:
        system = machine(tiers=(network(bandwidth=1e3), FREE))
        found = judged(replace(DENSE, tied_embeddings=tied), strategy(pp=pp), system).times
        # An all-reduce of two puts every byte on the wire once.
        assert number(found.dp_communication) == pytest.approx(expected * 2 * (PADDED * H + H) / 1e3)

    def test_gradients_of_the_ends(self) -> None:
        system = machine(tiers=(network(bandwidth=1e3), FREE))
        found = judged(DENSE, strategy(dp=2), system).times
        block = 2 * (2 * H * (A + G) * D + 3 * H * F + 2 * H)
        ends = 2 * (2 * PADDED * H + H)
        assert number(found.dp_communication) == pytest.approx((4 * block + ends) / 1e3)


class TestKinds:
    """One stage's time is the sum over its blocks, whatever their kinds."""

    EXPERTS = 2 * M * (H * E + K * 3 * H * FE) / RATE
    MLP = 2 * M * 3 * H * F / RATE
    ATTENTION = PRODUCTS - MLP

    def forward(self, workload: Workload, **changes: Any) -> float:
        return number(times(workload, batch=B, **changes).forward)

    @pytest.mark.parametrize(("leading", "every", "dense"), [(0, 1, 0), (1, 1, 1), (3, 1, 3), (0, 2, 2), (0, 4, 3)])
    def test_with_experts_and_without(self, leading: int, every: int, dense: int) -> None:
        experts = Experts(count=E, top_k=K, feedforward=FE, leading_dense_blocks=leading, every=every)
        expected = 4 * (self.ATTENTION + FLASH) + dense * self.MLP + (4 - dense) * self.EXPERTS
        assert self.forward(replace(BLOCKS, experts=experts)) == pytest.approx(expected)

    def test_leading_ones_are_on_the_first_stage(self) -> None:
        experts = Experts(count=E, top_k=K, feedforward=FE, leading_dense_blocks=1)
        workload = replace(BLOCKS, experts=experts)
        # The fullest stage of two has two blocks with experts.
        assert self.forward(workload, pp=2) == pytest.approx(2 * (self.ATTENTION + FLASH + self.EXPERTS))

    @pytest.mark.parametrize("windowed", [0, 1, 2, 4])
    def test_windows(self, windowed: int) -> None:
        workload = replace(BLOCKS, window=8, windowed_blocks=windowed)
        # A query meets 8 - 8² / 64 = 7 keys instead of 16.
        expected = 4 * PRODUCTS + (4 - windowed) * FLASH + windowed * FLASH * 7 / 16
        assert self.forward(workload) == pytest.approx(expected)


class TestRecompute:
    @pytest.mark.parametrize("some", [1, 2, 3, 4])
    def test_the_first_blocks_of_a_stage(self, some: int) -> None:
        found = times(BLOCKS, batch=B, recompute=Recompute.FULL, recompute_blocks=some)
        assert number(found.recompute) == pytest.approx(some * FORWARD)
        assert number(found.total) == pytest.approx(4 * BLOCK + some * FORWARD)

    def test_of_attention(self) -> None:
        assert number(times(BLOCKS, batch=B, recompute=Recompute.SELECTIVE).recompute) == pytest.approx(4 * FLASH)


def test_parts_add_up() -> None:
    rows = [
        strategy(batch=8),
        strategy(tp=2, pp=2, batch=8, schedule=Schedule.ZB_1P),
        strategy(cp=2, dp=2, batch=16, optimizer_sharding=True, weight_sharding=True),
    ]
    tier = network(bandwidth=1e6, latency=1e-3)
    found = judged(DENSE, rows, machine(matrix=RATE, vector=RATE, memory=RATE, tiers=(tier, tier))).times
    names = [name for name in StepTimes.__dataclass_fields__ if name != "total"]
    np.testing.assert_allclose(sum(getattr(found, name) for name in names), found.total)
