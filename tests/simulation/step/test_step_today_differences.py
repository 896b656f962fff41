"""Where simulation and estimate of today's workloads differ, by how much, and why: docs/simulation.md derives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
from step_cases import StepCase, one
from step_works import handmade_work
from today_step_cases import coincides, end_times, today_cases

from codesign_opt.analytical import Estimate
from codesign_opt.analytical.weight_sharding import weight_exchange
from codesign_opt.graphs.step import StepOptions, StepWork, step_graph
from codesign_opt.graphs.step.work import BlockWork
from codesign_opt.simulation.step import simulate_step
from codesign_opt.strategies import Schedule, TpCommunication
from codesign_opt.workloads.kinds import block_kinds

EXACT = 1e-9
"""Relative."""
ROUNDING = 1 + 1e-12


def simulated(work: StepWork, schedule: str = "gpipe") -> float:
    """Seconds of the step with serial messages and without contention."""
    step = step_graph(work, schedule=schedule, granularity="chunk", options=StepOptions(messages="serial"))
    return simulate_step(step, contention=False).seconds


@dataclass(frozen=True)
class Times:
    """The model's seconds: a chunk's forward and backward pass, its weight gradients, and what follows all passes."""

    forward: float
    backward: float
    weight: float
    after: float

    @classmethod
    def of(cls, estimate: Estimate, *, blocks: float | None = None) -> Times:
        """Of chunks of so many blocks, the last an edge block."""
        model = estimate.model
        base = one(model.counts.x) if blocks is None else blocks - 1
        chunk, table, times = model.chunk, model.tables.blocks, model.times
        return cls(
            forward=base * one(chunk.f_b) + one(chunk.f_e),
            backward=base * one(chunk.b_b) + one(chunk.b_e),
            weight=base * one(table.wg_T_b) + one(table.wg_T_e),
            after=one(times.optimizer) + one(times.dp_communication),
        )

    @property
    def activation(self) -> float:
        """The backward pass without weight gradients."""
        return self.backward - self.weight


def but_for(case: StepCase, what: str) -> bool:
    """Whether simulation and estimate would assume the same if the workload had no ends."""
    plain = StepCase(replace(case.workload, vocabulary=0, prediction_blocks=0), case.system, case.strategy)
    with_ends = case.workload.vocabulary > 0 and not case.workload.prediction_blocks
    return with_ends and coincides(plain, what)


@cache
def cases_with_ends() -> list[StepCase]:
    """Several stages of one chunk, and an embedding and an output projection."""
    return today_cases(
        81, 24, wanted=lambda case: case.strategy.pp > 1 and but_for(case, "gpipe"), vpp=1, weight_sharding=False,
        reduce_each_microbatch=False,
    )  # fmt: skip


def test_ends_of_the_stack() -> None:
    # The estimate counts the slower end in all passes and the larger of what both do after them. In each direction the
    # slower one of that direction holds others up; the first stage is the last to end, after its own exchange.
    different = 0
    for case in cases_with_ends():
        (first, first_after), (last, last_after) = (end_times(case, name) for name in ("first", "last"))
        slower = [max(pair) for pair in zip(first, last, strict=True)]
        passes = (case.microbatches - 1) * (sum(slower) - max(sum(first), sum(last)))
        after = sum(first_after) - sum(max(pair) for pair in zip(first_after, last_after, strict=True))
        assert simulated(case.work) == pytest.approx(case.seconds + passes + after, rel=EXACT), str(case)
        different += abs(passes + after) > EXACT * case.seconds
    assert different >= 3


def test_ends_of_the_stack_with_1f1b() -> None:
    # A slow last stage is fed in time; a slow first stage, after which others wait for less, gains.
    exact = 0
    for case in cases_with_ends():
        (first, _), (last, _) = (end_times(case, name) for name in ("first", "last"))
        gpipe, other = simulated(case.work), simulated(case.work, "1f1b")
        if not case.strategy.training or all(a <= b for a, b in zip(first, last, strict=True)):
            exact += 1
            assert other == pytest.approx(gpipe, rel=EXACT), str(case)
        else:
            assert other <= gpipe * ROUNDING
    assert exact > 5


@dataclass(frozen=True)
class Stage:
    """Seconds of a stage: of its passes, and after them."""

    forward: float
    backward: float
    after: float


def one_way_and_back(stages: Sequence[Stage], microbatches: int) -> float:
    """All microbatches through unequal stages, then back: the slowest stage of each direction holds others up."""
    forward, backward = ([getattr(stage, name) for stage in stages] for name in ("forward", "backward"))
    there = sum(forward) + (microbatches - 1) * max(forward)
    return max(
        there + sum(backward[place:]) + (microbatches - 1) * max(backward[place:]) + stage.after
        for place, stage in enumerate(stages)
    )


def test_blocks_that_lead_the_stack() -> None:
    # The estimate takes every stage for one of experts only. Where dense blocks lead, the first stages have them.
    def leading(case: StepCase) -> bool:
        strategy, kinds = case.strategy, block_kinds(case.workload)
        total = case.workload.blocks + case.workload.prediction_blocks
        return (
            len(kinds) == 2
            and kinds[0].leading
            and not case.workload.vocabulary
            and total % strategy.pp == 0
            and kinds[0].blocks <= total - total // strategy.pp
            and strategy.tp_communication is not TpCommunication.STAGE_BOUNDARY
        )

    fixed = {"pp": 2, "vpp": 1, "weight_sharding": False, "reduce_each_microbatch": False, "recompute_blocks": 0}
    quicker = 0
    for case in today_cases(82, 14, wanted=leading, **fixed):
        kinds, strategy = block_kinds(case.workload), case.strategy
        each = (case.workload.blocks + case.workload.prediction_blocks) // strategy.pp
        dense, full = (Times.of(StepCase(kind.workload, case.system, strategy).estimate) for kind in kinds)
        assert full == Times.of(case.estimate)
        stages = []
        for place in range(strategy.pp):
            share = min(max(kinds[0].blocks - place * each, 0), each) / each
            parts = (
                share * getattr(dense, name) + (1 - share) * getattr(full, name)
                for name in ("forward", "backward", "after")
            )
            stages.append(Stage(*parts))
        seconds = simulated(case.work)
        assert seconds == pytest.approx(one_way_and_back(stages, case.microbatches), rel=EXACT), str(case)
        if dense.forward <= full.forward and dense.backward <= full.backward and dense.after <= full.after:
            quicker += 1
            assert seconds <= case.seconds * ROUNDING
    assert quicker >= 3


def test_mean_blocks_pay_the_latency_of_exchanging_experts() -> None:
    # Blocks without experts do not; there is one stage, so that nothing else differs.
    def mixed(case: StepCase) -> bool:
        kinds, strategy = block_kinds(case.workload), case.strategy
        replicas = strategy.tp * strategy.cp * strategy.dp // (strategy.ep * strategy.etp)
        dense = {kind.workload.experts is None for kind in kinds}
        return len(dense) == len(kinds) == 2 and not case.workload.vocabulary and replicas > 1

    fixed = {
        "pp": 1, "training": True, "weight_sharding": False, "reduce_each_microbatch": False, "recompute_blocks": 0,
        "tp_communication": TpCommunication.ALL_REDUCE, "gather_redo": False,
    }  # fmt: skip
    later = 0
    for case in today_cases(83, 20, wanted=mixed, **fixed):
        kinds = block_kinds(case.workload)
        dense = sum(kind.blocks for kind in kinds if kind.workload.experts is None)
        [expert] = {block for kind, block in zip(kinds, case.work.kinds, strict=True) if kind.workload.experts}
        of_experts = [
            exchange for exchange in (*expert.gradients, *expert.weights) if exchange.group.startswith("expert_")
        ]
        latency = dense * sum(case.work.transfer(of.group, of.opcode, 0.0).seconds for of in of_experts)
        assert simulated(case.work) == pytest.approx(case.seconds - latency, rel=EXACT), str(case)
        later += latency > 0
    assert later >= 3


def test_gradients_scattered_beside_blocks() -> None:
    # The estimate hides gathering and scattering beside one and the same block. In the simulation the first block of a
    # backward pass goes beside gathering only, and the last one beside scattering only: of z = gather + scatter,
    # max(b, z) + b becomes max(b, gather) + max(b, scatter).
    def scattered(case: StepCase) -> bool:
        each = replace(case.strategy, reduce_each_microbatch=False)
        return coincides(StepCase(case.workload, case.system, each), "gpipe")

    fixed = {
        "dp": 4, "training": True, "optimizer_sharding": True, "gradient_sharding": True, "weight_sharding": True,
        "reduce_each_microbatch": True, "prefetch": 1,
    }  # fmt: skip
    different = 0
    for case in today_cases(84, 30, wanted=scattered, **fixed):
        model = case.estimate.model
        inputs, table = model.inputs, model.tables.blocks
        both = weight_exchange(inputs.strategies, model.tables.spaces, inputs.groups, inputs.hardware)
        assert both is not None
        gather = 0.0 if case.strategy.keep_gathered else one(both.gather)
        scatter = one(both.backward) - gather
        block = one(table.re_T_b + table.exr_b + table.ag_T_b + table.wg_T_b + table.exa_b)
        longer = max(block, gather + scatter) + block - max(block, gather) - max(block, scatter)
        if one(model.counts.C) == 1:
            longer = 0.0
        short = -case.microbatches % case.strategy.pp
        passes = case.microbatches * case.strategy.vpp + case.strategy.pp - 1 + (case.strategy.vpp - 1) * short
        assert simulated(case.work) == pytest.approx(case.seconds - passes * longer, rel=EXACT), str(case)
        different += passes * longer > EXACT * case.seconds
    assert different >= 5


def test_ends_whose_weights_are_in_shards_are_gathered() -> None:
    # The estimate leaves that out, and exchanges their gradients once. Without prefetch everything follows each other.
    def sharded(case: StepCase) -> bool:
        return case.workload.vocabulary > 0 and block_kinds(case.workload)[0].workload == case.workload

    fixed = {
        "pp": 1, "dp": 4, "training": True, "optimizer_sharding": True, "gradient_sharding": True,
        "weight_sharding": True, "prefetch": 0, "recompute_blocks": 0,
    }  # fmt: skip
    for case in today_cases(85, 10, wanted=sharded, **fixed):
        work, strategy = case.work, case.strategy
        assert work.first is not None
        assert work.last is not None
        gathers = sum(_seconds(work, end, "gathers") for end in (work.first, work.last))
        scatters = sum(_seconds(work, end, "exchanges") for end in (work.first, work.last))
        more = case.microbatches * gathers
        more += (case.microbatches - 1) * scatters * strategy.reduce_each_microbatch
        assert simulated(work) == pytest.approx(case.seconds + more, rel=EXACT), str(case)
        ahead = replace(work, gathered=replace(work.gathered, ahead=True))
        assert simulated(ahead) <= simulated(work) * ROUNDING


def _seconds(work: StepWork, block: BlockWork, what: str) -> float:
    return sum(transfer.seconds for transfer in getattr(work, what)([block]))


def test_gradients_of_the_ends_in_every_microbatch() -> None:
    # The estimate exchanges those once, whatever the strategy says of every microbatch.
    fixed = {"pp": 1, "dp": 4, "weight_sharding": False, "reduce_each_microbatch": True, "training": True}
    for case in today_cases(86, 8, wanted=lambda case: but_for(case, "gpipe"), **fixed):
        work = case.work
        assert work.first is not None
        assert work.last is not None
        scatters = sum(_seconds(work, end, "exchanges") for end in (work.first, work.last))
        wanted = case.seconds + (case.microbatches - 1) * scatters
        assert simulated(work) == pytest.approx(wanted, rel=EXACT), str(case)


def test_gradients_of_every_microbatch_with_several_chunks() -> None:
    # Each chunk exchanges its own when its pass is over, and its message has left: others need not wait for that.
    def alike(case: StepCase) -> bool:
        return not case.workload.vocabulary and case.full_rounds and len(block_kinds(case.workload)) == 1

    fixed = {"dp": 4, "weight_sharding": False, "reduce_each_microbatch": True, "training": True, "pp": 2, "vpp": 2}
    for case in today_cases(87, 6, wanted=alike, **fixed):
        never = case.work.with_blocks(lambda block: replace(block, gradients=()))
        of_stage = case.work.stage_blocks[0] * _seconds(case.work, case.work.kinds[0], "exchanges")
        for schedule in ("gpipe", "interleaved"):
            added = simulated(case.work, schedule) - simulated(never, schedule)
            assert of_stage / case.strategy.vpp <= added * ROUNDING
            assert added <= case.microbatches * of_stage * ROUNDING


def test_first_and_last_stages_with_fewer_blocks() -> None:
    # As for stages that lack a block, the estimate gives back half an edge block in place of half a base block. What
    # follows the passes it takes from the fullest stage, which may end after the first one or not.
    def uneven(case: StepCase) -> bool:
        strategy, workload = case.strategy, case.workload
        total = workload.blocks + strategy.first_stage_less + strategy.last_stage_less
        plain = not workload.vocabulary and len(block_kinds(workload)) == 1
        # Where blocks do not divide evenly, the first stage makes room for its ends with the block it has more.
        even = total % strategy.pp == 0 and total > strategy.pp > 2
        return plain and even and not strategy.reduce_each_microbatch

    fixed = {
        "vpp": 1, "first_stage_less": 1, "last_stage_less": 1, "recompute_blocks": 0, "weight_sharding": False,
    }  # fmt: skip
    first_is_last = 0
    for case in today_cases(88, 12, wanted=uneven, **fixed):
        chunk, counts = case.estimate.model.chunk, case.estimate.model.counts
        blocks = case.work.stage_blocks
        assert one(counts.N) == max(blocks)
        assert one(counts.R) == len(blocks) * max(blocks) - sum(blocks)
        after = Times.of(case.estimate).after / max(blocks)
        stages = [
            Stage(
                (count - 1) * one(chunk.f_b) + one(chunk.f_e) if count else one(chunk.cf),
                (count - 1) * one(chunk.b_b) + one(chunk.b_e) if count else one(chunk.cb),
                count * after,
            )
            for count in blocks
        ]
        seconds = simulated(case.work)
        assert seconds == pytest.approx(one_way_and_back(stages, case.microbatches), rel=EXACT), str(case)
        if blocks[0] * after + stages[0].backward >= blocks[1] * after and one(counts.x) > 0:
            first_is_last += 1
            base, edge = one(chunk.f_b + chunk.b_b), one(chunk.f_e + chunk.b_e)
            given_back = one(counts.R) * (edge - base) / 2 - (max(blocks) - blocks[0]) * after
            assert seconds == pytest.approx(case.seconds + given_back, rel=EXACT)
    assert first_is_last >= 5


def split_cases(seed: int, schedule: Schedule, **fixed: object) -> list[StepCase]:
    """Cases of one schedule that splits backward passes, in which all stages are equal."""

    def equal(case: StepCase) -> bool:
        workload, strategy = case.workload, case.strategy
        overlapped = strategy.gather_redo or strategy.recompute.value == "selective"
        chunks = 2 if schedule is Schedule.ZB_V else 1
        return (
            not workload.vocabulary
            and len(block_kinds(workload)) == 1
            and workload.blocks % (strategy.pp * chunks) == 0
            and not (overlapped and strategy.tp_overlap.value != "none")
        )

    columns = {
        "schedule": schedule, "training": True, "vpp": 1, "recompute_blocks": 0, "weight_sharding": False,
        "reduce_each_microbatch": False, **fixed,
    }  # fmt: skip
    return today_cases(seed, 16, wanted=equal, **columns)


def test_zero_bubble_pipelines() -> None:
    # What 1F1B waits, less the shortest kind of pass for each further stage and microbatch. The estimate takes that for
    # weight gradients, and for as many microbatches as stages.
    agree = 0
    for case in split_cases(71, Schedule.ZB_1P, pp=4):
        times, stages = Times.of(case.estimate), case.strategy.pp
        shortest = min(times.forward, times.activation, times.weight)
        filled = (min(case.microbatches, stages) - 1) * shortest
        passes = case.microbatches * (times.forward + times.backward)
        wanted = passes + (stages - 1) * (times.forward + times.activation) - filled + times.after
        assert simulated(case.work, "zb_1p") == pytest.approx(wanted, rel=EXACT), str(case)
        if shortest == times.weight and case.microbatches >= stages:
            agree += 1
            assert case.seconds == pytest.approx(wanted, rel=EXACT)
        else:
            assert case.seconds <= wanted * ROUNDING
    assert agree >= 3


def test_two_chunks_in_a_v() -> None:
    # Every chunk sends a message and has an edge block. No stage can begin before its first message has come, which is
    # what the estimate leaves out: with passes of equal length, it is when the first stage ends.
    compared = 0
    for case in split_cases(72, Schedule.ZB_V, pp=2):
        blocks = case.workload.blocks // 4
        times = Times.of(case.estimate, blocks=blocks)
        if times.weight > min(times.forward, times.activation) or case.microbatches < 3:
            continue
        compared += 1
        longest, longer = max(times.forward, times.activation), max(0.0, times.forward - times.activation)
        waiting = max(2 * (longest - times.weight), longest + longer) - min(times.weight, longer)
        wanted = 2 * case.microbatches * (times.forward + times.backward) + waiting + times.after
        assert simulated(case.work, "zb_v") == pytest.approx(wanted, rel=EXACT), str(case)
    assert compared >= 4


def test_the_first_stage_of_a_v_of_equal_passes_waits_for_nothing() -> None:
    work = handmade_work((2,) * 4, microbatches=8, backward=1.0, weight_gradient=1.0)
    step = step_graph(work, schedule="zb_v", options=StepOptions(messages="serial"))
    ends = simulate_step(step).stages["end"].tolist()
    # Six passes a microbatch, and for the last stage the first three passes of those before it.
    assert ends == [48.0, 49.0, 50.0, 51.0]


def test_both_ends() -> None:
    # Two stages a processor: gradients of both are exchanged, and both are updated; the estimate counts one.
    compared = 0
    for case in split_cases(73, Schedule.DUALPIPE, pp=4, microbatches=8):
        times = Times.of(case.estimate)
        if times.weight > min(times.forward, times.activation):
            continue
        compared += 1
        busy = case.microbatches * (times.forward + times.backward) + 2 * times.after
        gap = times.forward + times.activation - times.weight
        seconds = simulated(case.work, "dualpipe")
        assert busy + gap + times.forward <= seconds * ROUNDING, str(case)
        assert seconds <= (busy + gap + max(times.forward, times.activation)) * ROUNDING, str(case)
        if times.forward >= times.activation:
            assert seconds == pytest.approx(busy + gap + times.forward, rel=EXACT)
        # The published formula, which the estimate takes.
        assert case.seconds == pytest.approx(busy - times.after + gap + times.activation, rel=EXACT)
    assert compared >= 5
