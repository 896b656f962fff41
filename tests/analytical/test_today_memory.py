"""What processors hold under today's strategies, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from today_cases import DENSE, FE, PADDED, ROUTED, A, D, E, F, G, H, K, S, judged, machine, number, strategy

from codesign_opt.analytical.memory import MemoryNeeds
from codesign_opt.strategies import GradientPrecision, Recompute, Schedule, Strategy
from codesign_opt.systems import MemoryOverheads, System
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts

B = 2
M = B * S
BLOCKS = replace(DENSE, vocabulary=0, tied_embeddings=True, vocabulary_multiple=1)
WEIGHTS = 2 * H * (A + G) * D + 3 * H * F + 2 * H
"""Of a dense block."""
KEPT = 2 * M * (4 * H + 2 * A * D + 2 * G * D + 3 * F) + 4 * M * A
"""Bytes that it keeps of a microbatch: inputs of four; queries, keys, values and output; gate, other and product; and
sums of scores."""
EMBEDDING = PADDED * H


def needs(workload: Workload, chosen: Strategy, system: System | None = None) -> MemoryNeeds:
    return judged(workload, chosen, system).memory


def parts(workload: Workload, chosen: Strategy) -> tuple[float, float, float]:
    """Weights, their gradients, and optimizer state."""
    found = needs(workload, chosen)
    return number(found.weight), number(found.weight_gradient), number(found.optimizer)


class TestStagesOfSharding:
    """Four blocks of 16-bit weights with 32-bit gradients, masters and moments on four replicas."""

    P = 4 * WEIGHTS

    def zero(self, stage: int, **changes: object) -> tuple[float, float, float]:
        flags = {
            "optimizer_sharding": stage >= 1, "gradient_sharding": stage != 1, "weight_sharding": stage == 3,
        }  # fmt: skip
        return parts(BLOCKS, strategy(dp=4, gradient_precision=GradientPrecision.FLOAT32, **flags, **changes))

    def test_each(self) -> None:
        P, block = self.P, WEIGHTS
        assert self.zero(0) == (2 * P, 4 * P, 12 * P)
        assert self.zero(1) == (2 * P, 4 * P, 12 * P / 4)
        # The block at work has whole gradients.
        assert self.zero(2) == (2 * P, 4 * block + 4 * 3 * block / 4, 12 * P / 4)
        # Two blocks are whole beside the shards: the one at work and the next.
        assert self.zero(3) == (2 * P / 4 + 2 * 2 * block, 4 * block + 4 * 3 * block / 4, 12 * P / 4)

    def test_blocks_gathered_ahead_and_kept(self) -> None:
        for prefetch, whole in ((0, 1), (1, 2), (2, 3), (9, 4)):
            assert self.zero(3, prefetch=prefetch)[0] == 2 * self.P / 4 + whole * 2 * WEIGHTS
        assert self.zero(3, keep_gathered=True)[0] == 2 * self.P / 4 + 2 * self.P

    def test_shard_groups_hold_everything_among_them(self) -> None:
        assert self.zero(1, shard_group=2) == (2 * self.P, 4 * self.P, 12 * self.P / 2)

    def test_replicas_of_context_parallelism_share_as_well(self) -> None:
        chosen = strategy(dp=2, cp=2, gradient_precision=GradientPrecision.FLOAT32, optimizer_sharding=True)
        assert parts(BLOCKS, chosen)[2] == 12 * self.P / 4

    def test_experts_are_shared_by_fewer(self) -> None:
        blocks = replace(ROUTED, vocabulary=0, tied_embeddings=True, vocabulary_multiple=1)
        chosen = strategy(dp=4, ep=2, gradient_precision=GradientPrecision.FLOAT32, optimizer_sharding=True)
        experts, rest = E / 2 * 3 * H * FE, 2 * H * (A + G) * D + 2 * H + H * E
        assert parts(blocks, chosen)[2] == 4 * 12 * (experts / 2 + rest / 4)


@pytest.mark.parametrize(
    ("precision", "each"), [(GradientPrecision.SAME, 16), (GradientPrecision.FLOAT32, 18), (GradientPrecision.BOTH, 20)]
)
def test_bytes_of_a_parameter_by_recipe(precision: GradientPrecision, each: int) -> None:
    # Weights 2, gradients 2, 4 or 6, master copy and moments 12; where gradients have 16 bits, those of one block are
    # added up in 32.
    added_up = 2 * WEIGHTS if precision is GradientPrecision.SAME else 0
    assert sum(parts(BLOCKS, strategy(gradient_precision=precision))) == each * 4 * WEIGHTS + added_up


class TestSchedules:
    """Activations of eight stages of one block; the first stage holds most."""

    def activations(self, schedule: Schedule = Schedule.ONE_F_ONE_B, *, m: int = 32, vpp: int = 1) -> float:
        blocks = replace(BLOCKS, blocks=8 * vpp)
        found = needs(blocks, strategy(pp=8, vpp=vpp, batch=2 * m, schedule=schedule))
        return number(found.activation)

    @pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 32])
    def test_microbatches_in_flight(self, m: int) -> None:
        in_flight = [self.activations(m=m) / self.activations(m=1)]
        in_flight += [self.activations(schedule, m=m) / self.activations(m=1) for schedule in (Schedule.ZB_1P,)]
        assert in_flight == pytest.approx([min(m, 8)] * 2)
        assert self.activations(Schedule.GPIPE, m=m) / self.activations(m=1) == pytest.approx(m)

    def test_both_ends(self) -> None:
        chosen = strategy(pp=8, batch=64, schedule=Schedule.DUALPIPE)
        blocks = replace(BLOCKS, blocks=8)
        assert self.activations(Schedule.DUALPIPE) == pytest.approx(9 / 8 * self.activations())
        # Two stages on each processor: weights, gradients and state twice.
        plain, both = (
            parts(blocks, replace(chosen, schedule=one)) for one in (Schedule.ONE_F_ONE_B, Schedule.DUALPIPE)
        )
        assert both == tuple(2 * part for part in plain)

    def test_a_v_holds_as_much_as_1f1b(self) -> None:
        blocks = replace(BLOCKS, blocks=16)
        found = [
            number(needs(blocks, strategy(pp=8, batch=64, schedule=one)).tier1)
            for one in (Schedule.ONE_F_ONE_B, Schedule.ZB_V)
        ]
        assert found[0] == found[1]

    def test_interleaving(self) -> None:
        # p + (p - 1) / v microbatches.
        assert self.activations(vpp=2) / self.activations(vpp=2, m=1) == pytest.approx((8 + 7 / 2) / (1 + 7 / 16))


class TestFullestStage:
    """Four stages of one block; embedding on the first, output projection and its loss on the last."""

    def held(self, **changes: object) -> MemoryNeeds:
        chosen = {"pp": 4, "batch": 16, "gradient_precision": GradientPrecision.FLOAT32, **changes}
        return needs(DENSE, strategy(**chosen))

    SCORES = (2 + 4) * M * PADDED + 2 * 2 * M * H
    """What the last stage keeps: scores twice; the inputs of the norm and of the projection."""

    def test_the_first_by_its_activations(self) -> None:
        found = self.held()
        assert number(found.activation) == 4 * KEPT
        assert number(found.weight) == 2 * (WEIGHTS + EMBEDDING)
        assert number(found.optimizer) == 12 * (WEIGHTS + EMBEDDING)

    def test_the_last_by_its_scores(self) -> None:
        # One microbatch in flight, but for schedules that put weight gradients off.
        words = replace(DENSE, vocabulary=8 * 1000)
        found = needs(words, strategy(pp=4, batch=16))
        scores = (2 + 4) * M * 8000 + 2 * 2 * M * H
        assert number(found.activation) == KEPT + scores
        # Norm and projection, of one weight each.
        assert number(found.weight) == 2 * (WEIGHTS + 8000 * H + H)
        delayed = needs(words, strategy(pp=4, batch=16, schedule=Schedule.ZB_1P))
        assert number(delayed.activation) == 4 * KEPT + scores

    def test_both_ends_on_one_stage(self) -> None:
        found = needs(DENSE, strategy())
        assert number(found.activation) == 4 * KEPT + self.SCORES
        assert number(found.weight) == 2 * (4 * WEIGHTS + 2 * EMBEDDING + H)
        tied = needs(replace(DENSE, tied_embeddings=True), strategy())
        assert number(tied.weight) == 2 * (4 * WEIGHTS + EMBEDDING + H)

    def test_tied_weights_are_on_both_stages(self) -> None:
        words = replace(DENSE, vocabulary=8 * 1000, tied_embeddings=True)
        assert number(needs(words, strategy(pp=4, batch=16)).weight) == 2 * (WEIGHTS + 8000 * H + H)

    def test_stages_with_fewer_blocks(self) -> None:
        # 14 blocks on four stages: 3, 4, 4, 3; the second has three microbatches in flight, the first four.
        chosen = strategy(pp=4, batch=16, first_stage_less=1, last_stage_less=1)
        found = needs(replace(DENSE, blocks=14), chosen)
        assert number(found.activation) == 3 * 4 * KEPT
        assert number(found.weight) == 2 * 4 * WEIGHTS
        # Without embedding the first stage of these has as many activations, but fewer weights.
        assert number(needs(replace(DENSE, blocks=16), strategy(pp=4, batch=16)).activation) == 4 * 4 * KEPT


class TestRecompute:
    @pytest.mark.parametrize("some", [1, 2, 3, 4])
    def test_the_first_blocks_of_a_stage(self, some: int) -> None:
        chosen = strategy(recompute=Recompute.FULL, recompute_blocks=some)
        found = needs(BLOCKS, chosen)
        spaces = judged(BLOCKS, strategy()).model.tables.spaces
        working = number(spaces.wrk)
        # One block at work, checkpoints of the first, everything of the rest.
        kept = (4 - some) / 4 * KEPT
        assert number(found.all_checkpoint) == pytest.approx(some * 2 * M * H)
        assert number(found.all_activation) == pytest.approx(working + kept * (4 - 1))


class TestKinds:
    """Blocks without experts that lead the stack, or every second; blocks with a window hold as much as others."""

    DENSE_BLOCK = 2 * WEIGHTS
    ROUTED_BLOCK = 2 * (2 * H * (A + G) * D + 2 * H + H * E + E * 3 * H * FE)

    def weight(self, experts: Experts, **changes: object) -> float:
        return number(needs(replace(BLOCKS, experts=experts), strategy(**changes)).weight)

    def test_leading(self) -> None:
        experts = Experts(count=E, top_k=K, feedforward=FE, leading_dense_blocks=1)
        assert self.weight(experts) == pytest.approx(self.DENSE_BLOCK + 3 * self.ROUTED_BLOCK)
        # The fullest of two stages has experts alone.
        assert self.weight(experts, pp=2) == pytest.approx(2 * self.ROUTED_BLOCK)

    def test_every_second(self) -> None:
        experts = Experts(count=E, top_k=K, feedforward=FE, every=2)
        assert self.weight(experts) == pytest.approx(2 * self.DENSE_BLOCK + 2 * self.ROUTED_BLOCK)
        assert self.weight(experts, pp=2) == pytest.approx(self.DENSE_BLOCK + self.ROUTED_BLOCK)


def test_what_frameworks_take_besides() -> None:
    overheads = MemoryOverheads(context=1e6, communication=1e5, workspace=1e4, fragmentation=0.1)
    system = replace(machine(), memory_overheads=overheads)
    chosen = strategy(tp=2, dp=2, pp=2)
    plain, found = needs(BLOCKS, chosen), needs(BLOCKS, chosen, system)
    moved = number(plain.activation) + number(plain.activation_gradient)
    assert number(found.overhead) == pytest.approx(1e6 + 3 * 1e5 + 1e4 + 0.1 * moved)
    assert number(found.tier1) == pytest.approx(number(plain.tier1) + number(found.overhead))


def test_parts_add_up() -> None:
    rows = [strategy(), strategy(pp=2, dp=2, optimizer_sharding=True), strategy(tp=2, recompute=Recompute.FULL)]
    found = judged(DENSE, rows).memory
    total = found.weight + found.activation + found.weight_gradient + found.activation_gradient
    np.testing.assert_allclose(found.tier1, total + found.optimizer + found.overhead)
