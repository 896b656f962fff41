"""What must hold for today's workloads and strategies, whatever their numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from analytical_cases import NO_LIMIT, network
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from today_cases import DENSE, LATENT, ROUTED, SHARED, judged, machine, random_strategies, strategy

from codesign_opt.analytical import Estimate, estimate
from codesign_opt.analytical.model import with_shards
from codesign_opt.strategies import (
    CpExchange,
    Datatype,
    GradientPrecision,
    Recompute,
    Schedule,
    Strategy,
    StrategyTable,
    TpCommunication,
)
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import first_broken
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import NetworkTier, System
from codesign_opt.workloads import Workload
from codesign_opt.workloads.parameters import parameter_count
from codesign_opt.workloads.transformer import LatentAttention

Array = NDArray[Any]

examples = settings(max_examples=12, deadline=None)

seeds = st.integers(0, 2**32 - 1)


def random_workload(random: Random) -> Workload:
    """One of the kinds with other sizes, whose heads and widths eight processors can split."""
    kind = random.choice([DENSE, ROUTED, SHARED, LATENT])
    changes: dict[str, Any] = {
        "hidden": 8 * random.choice([2, 8, 64]),
        "feedforward": 8 * random.choice([3, 16]),
        "sequence_length": 32 * random.choice([1, 4, 64]),
        "head_size": random.choice([2, 8, 64]),
        "blocks": random.choice([4, 6, 8]),
        "vocabulary": random.choice([100, 5000]),
        "tied_embeddings": random.random() < 0.5,
        "gated_mlp": random.random() < 0.5,
    }
    if kind.latent_attention is None:
        changes["key_value_heads"] = random.choice([1, 2, 8])
    else:
        changes["latent_attention"] = LatentAttention(
            query_rank=random.choice([0, 16]), key_value_rank=24, rotary_size=4, value_size=random.choice([6, 16])
        )
    if kind.experts is not None:
        every = random.choice([1, 1, 2])
        changes["experts"] = replace(
            kind.experts,
            feedforward=8 * random.choice([2, 8]),
            top_k=random.choice([1, 2, 4]),
            every=every,
            leading_dense_blocks=random.choice([0, 1]) if every == 1 else 0,
        )
    elif random.random() < 0.3:
        changes |= {"window": random.choice([4, 1000]), "windowed_blocks": 2}
    return replace(kind, **changes)


def random_tier(random: Random, size: int) -> NetworkTier:
    latency = random.choice([0.0, 10 ** random.uniform(-7, -4)])
    return replace(network(bandwidth=10 ** random.uniform(7, 11), latency=latency), size=size)


def random_machine(random: Random) -> System:
    return machine(
        matrix=10 ** random.uniform(9, 14),
        vector=10 ** random.uniform(8, 12),
        memory=10 ** random.uniform(9, 12),
        tiers=(random_tier(random, random.choice([2, 4, 8])), random_tier(random, 10**6)),
    )


def random_case(seed: int, **limits: tuple[Any, ...]) -> tuple[Workload, System, StrategyTable]:
    random = Random(seed)
    workload, system = random_workload(random), random_machine(random)
    return workload, system, random_strategies(random, workload, system, **limits)


def having(table: StrategyTable, **columns: Any) -> StrategyTable:
    """The strategies with some columns set."""
    return StrategyTable({**table, **{name: np.broadcast_to(value, table.rows) for name, value in columns.items()}})


def assert_never_larger(smaller: Array, larger: Array) -> None:
    worse = smaller > larger * (1 + 1e-9)
    assert not worse.any(), f"{smaller[worse]} > {larger[worse]}"


def rows_of(found: Estimate, values: Array) -> Array:
    return np.broadcast_to(values, len(found.strategies["tp"]))


SPLITS = [
    {"tp": tp, "cp": cp, "dp": dp, "ep": ep, "etp": etp}
    for tp in (1, 2, 4)
    for cp in (1, 2)
    for dp in (1, 2)
    for ep in (1, 2, 8)
    for etp in (1, 2, 4)
    if tp * cp * dp % (ep * etp) == 0 and tp % etp == 0
]
"""Ways to split a block; the whole of it is the first."""


def split(workload: Workload, parts: dict[str, int], **changes: Any) -> Strategy:
    experts = {} if workload.experts else {"ep": 1, "etp": 1}
    return strategy(
        **{**parts, **experts, **changes}, tp_communication=TpCommunication.SEQUENCE_PARALLEL, gather_redo=True
    )


def whole_and_split(workload: Workload) -> tuple[list[dict[str, int]], Estimate]:
    """The splits that the workload allows, the whole first, and their estimate; matrix products take time alone."""
    system = machine(matrix=1.0, tiers=(network(bandwidth=NO_LIMIT),))
    table = StrategyTable.from_strategies([split(workload, parts) for parts in SPLITS])
    legal = np.flatnonzero(first_broken(Facts(table, [workload], [system])) < 0)
    return [SPLITS[row] for row in legal], estimate(workload, system, table.take(legal))


@examples
@given(seed=seeds)
def test_weights_are_conserved(seed: int) -> None:
    """All processors of a stage hold a block's weights once, but for what each of them has.

    Those are norms, the router, the ways down to latent vectors, and key and value heads that are fewer than tp.
    """
    workload = replace(random_workload(Random(seed)), tied_embeddings=False)
    experts, latent = workload.experts, workload.latent_attention
    if experts is not None:
        workload = replace(workload, experts=replace(experts, every=1, leading_dense_blocks=0))
    each = workload.norms * workload.hidden
    if experts is not None:
        each += workload.hidden * experts.count
    if latent is not None:
        down = latent.query_rank + latent.key_value_rank
        each += workload.hidden * (down + latent.rotary_size) + down
    splits, found = whole_and_split(workload)
    spaces = found.model.tables.spaces
    weights, routed = (spaces.spW - spaces.spX) / 2, spaces.spX / 2
    keys = 2 * workload.hidden * workload.kv_heads * workload.head_size * (latent is None)
    for row, parts in enumerate(splits):
        copies = max(parts["tp"] // workload.kv_heads, 1)
        together = parts["tp"] * (weights[row] - each)
        assert together == pytest.approx(weights[0] - each + (copies - 1) * keys)
        assert parts["ep"] * parts["etp"] * routed[row] == pytest.approx(routed[0])


@examples
@given(seed=seeds)
def test_flop_are_conserved(seed: int) -> None:
    """Products take the same flop on all processors together, but for what each of them repeats.

    That are the ways down to latent vectors, and key and value heads that are fewer than tp.
    """
    workload = random_workload(Random(seed))
    latent, tokens = workload.latent_attention, 2 * workload.sequence_length
    blocks = workload.blocks + workload.prediction_blocks
    keys = 2 * workload.hidden * workload.kv_heads * workload.head_size
    splits, found = whole_and_split(workload)
    for row, parts in enumerate(splits):
        t = parts["tp"]
        again = (max(t // workload.kv_heads, 1) - 1) * keys
        if latent is not None:
            again = (t - 1) * workload.hidden * (latent.query_rank + latent.key_value_rank + latent.rotary_size)
        padding = workload.hidden * (_padded(workload, t) - _padded(workload, 1))
        extra = 2 * tokens * (blocks * again + padding)
        processors = t * parts["cp"]
        assert processors * found.times.forward[row] == pytest.approx(found.times.forward[0] + extra)
        assert processors * found.times.backward[row] == pytest.approx(found.times.backward[0] + 2 * extra)


def _padded(workload: Workload, tp: int) -> int:
    multiple = workload.vocabulary_multiple * tp
    return -(-workload.vocabulary // multiple) * multiple


@examples
@given(seed=seeds)
def test_tensor_parallel_communication_is_conserved(seed: int) -> None:
    """Every block gathers and scatters the residual stream twice each way, whatever the number of processors."""
    workload = replace(random_workload(Random(seed)), experts=None)
    splits, found = whole_and_split(workload)
    residual = 2 * 2 * workload.sequence_length * workload.hidden
    sent = found.model.tables.blocks.szf_b
    for row, parts in enumerate(splits):
        if parts["cp"] == 1:
            assert sent[row] == pytest.approx(4 * residual * (parts["tp"] > 1))


@pytest.mark.parametrize("parts", SPLITS, ids=str)
def test_dispatched_tokens_are_conserved(parts: dict[str, int]) -> None:
    """Every token goes to as many experts, whatever the split."""
    found = judged(ROUTED, split(ROUTED, parts)).model.tables.blocks
    sent = 2 * (2 * 32 / (parts["tp"] * parts["cp"])) * 2 * 64
    exchanged = 2 * sent * (parts["ep"] > 1) + 2 * sent * parts["etp"] * (parts["etp"] > 1)
    tensor = 4 * 2 * 2 * 32 / parts["cp"] * 64 / 2 * (parts["tp"] > 1)
    context = 2 * (2 * 2 * 32 / parts["cp"] * 4 / max(parts["tp"], 1) * 8) * (parts["cp"] - 1)
    assert found.szf_b[0] == pytest.approx(exchanged + tensor + context)


@pytest.mark.parametrize("degree", [1, 2, 4, 8])
def test_equal_degrees_of_expert_and_tensor_parallelism_hold_equal_experts(degree: int) -> None:
    by_count = judged(ROUTED, split(ROUTED, {"tp": 8, "ep": degree})).model.tables.spaces
    by_width = judged(ROUTED, split(ROUTED, {"tp": 8, "etp": degree})).model.tables.spaces
    assert by_count.spX[0] == by_width.spX[0]
    assert by_count.spW[0] == by_width.spW[0]


@pytest.mark.parametrize("exchange", list(CpExchange))
@pytest.mark.parametrize("workload", [DENSE, LATENT], ids=["grouped", "latent"])
def test_context_parallelism_splits_attention(workload: Workload, exchange: CpExchange) -> None:
    system = machine(matrix=1.0)
    whole = judged(workload, strategy(), system).times
    for cp in (2, 4):
        found = judged(workload, strategy(cp=cp, cp_exchange=exchange), system).times
        assert cp * (found.forward + found.backward)[0] == pytest.approx((whole.forward + whole.backward)[0])


@examples
@given(seed=seeds, precision=st.sampled_from(GradientPrecision))
def test_the_worst_stage_is_never_below_the_mean(seed: int, precision: GradientPrecision) -> None:
    """State of all parameters and activations of all stages, divided by the stages, fit into what is predicted."""
    random = Random(seed)
    workload = replace(random_workload(random), attention_bias=False)
    pp, m = random.choice([2, 4]), random.choice([1, 3, 16])
    found = judged(workload, strategy(pp=pp, batch=2 * m, gradient_precision=precision))
    if workload.blocks % pp:
        return
    parameters = parameter_count(replace(workload, tied_embeddings=False) if workload.tied_embeddings else workload)
    each = {GradientPrecision.SAME: 16, GradientPrecision.FLOAT32: 18, GradientPrecision.BOTH: 20}[precision]
    # Stage i has m or p - i microbatches in flight.
    in_flight = sum(min(m, pp - stage) for stage in range(pp)) / pp
    if workload.experts is not None and workload.experts.leading_dense_blocks:
        # The mean block of the fullest stage is not that of the stack.
        return
    activations = workload.blocks / pp * found.model.tables.spaces.sto[0] * in_flight
    assert found.memory.tier1[0] >= (parameters * each / pp + activations) * (1 - 1e-9)


@pytest.mark.slow
@examples
@given(seed=seeds)
def test_zero_bubble_is_never_slower_at_equal_memory(seed: int) -> None:
    workload, system, table = random_case(seed, schedule=(Schedule.ONE_F_ONE_B,), vpp=(1,))
    table = having(table, dp_overlap=False)
    plain = estimate(workload, system, table)
    for schedule in (Schedule.ZB_1P, Schedule.ZB_V):
        found = estimate(workload, system, having(table, schedule=OPTION_CODES[schedule]))
        assert_never_larger(rows_of(found, found.times.total), rows_of(plain, plain.times.total))
        # The blocks of every stage hold what those of the first hold under 1F1B.
        np.testing.assert_allclose(found.memory.all_activation, plain.memory.all_activation)


@examples
@given(seed=seeds, factor=st.floats(1.01, 100), tier=st.integers(0, 1))
def test_more_bandwidth_is_never_slower(seed: int, factor: float, tier: int) -> None:
    """Without `dp_overlap`, whose windows end where others begin."""
    workload, system, table = random_case(seed, dp_overlap=(False,))
    tiers = list(system.network_tiers)
    tiers[tier] = replace(tiers[tier], bandwidth=tiers[tier].bandwidth * factor)
    slow = estimate(workload, system, table)
    fast = estimate(workload, replace(system, network_tiers=tuple(tiers)), table)
    assert_never_larger(rows_of(fast, fast.times.total), rows_of(slow, slow.times.total))


@examples
@given(seed=seeds)
def test_rows_do_not_depend_on_each_other(seed: int) -> None:
    workload, system, table = random_case(seed)
    order = np.random.default_rng(seed).permutation(table.rows)
    plain, permuted = estimate(workload, system, table), estimate(workload, system, table.take(order))
    for of in (lambda one: one.times.total, lambda one: one.memory.tier1):
        np.testing.assert_array_equal(rows_of(plain, of(plain))[order], rows_of(permuted, of(permuted)))


@examples
@given(seed=seeds)
def test_times_are_finite_and_add_up(seed: int) -> None:
    workload, system, table = random_case(seed)
    found = estimate(workload, system, table)
    total = rows_of(found, found.times.total)
    assert np.isfinite(total).all()
    assert (total > 0).all()
    names = [name for name in type(found.times).__dataclass_fields__ if name != "total"]
    parts = [rows_of(found, getattr(found.times, name)) for name in names]
    np.testing.assert_allclose(sum(parts), total)
    for name, part in zip(names, parts, strict=True):
        # Stages with fewer blocks than the fullest give back some of the bubble.
        assert name == "bubble" or (part >= -1e-12 * total).all(), name


@pytest.mark.slow
@examples
@given(seed=seeds)
def test_stages_of_sharding_never_need_more(seed: int) -> None:
    """Each next stage of ZeRO holds at most as much; the third also has shards beside what is whole."""
    workload, system, table = random_case(seed, weight_sharding=(False,), keep_gathered=(False,), prefetch=(1,))
    table = having(table, optimizer_sharding=False, gradient_sharding=True, dp_overlap=False)
    table = table.take(np.flatnonzero(table["dp"] * table["cp"] > 1))
    if not table.rows:
        return
    flags = [(False, True, False), (True, False, False), (True, True, False), (True, True, True)]
    names = ("optimizer_sharding", "gradient_sharding", "weight_sharding")
    found = [estimate(workload, system, having(table, **dict(zip(names, stage, strict=True)))) for stage in flags]
    need = [rows_of(one, one.memory.tier1) for one in found]
    assert_never_larger(need[1], need[0])
    assert_never_larger(need[2], need[1])
    last = found[3].model
    shards = with_shards(last.inputs.strategies, last.inputs.groups)
    spaces, ends = last.tables.spaces, last.tables.ends
    assert ends is not None
    copies = np.where(table["schedule"] == OPTION_CODES[Schedule.DUALPIPE], 2, 1)
    in_shards = (spaces.spW - spaces.spX) / shards["shards"] + spaces.spX / shards["expert_shards"]
    beside = copies * last.counts.N * in_shards
    beside = beside + (ends.held.first.spaces.spW + ends.held.last.spaces.spW) / shards["shards"]
    assert_never_larger(need[3], need[2] + beside)


@pytest.mark.slow
@examples
@given(seed=seeds)
def test_recomputing_more_blocks_keeps_less_and_takes_longer(seed: int) -> None:
    limits = {"recompute": (Recompute.FULL,), "recompute_blocks": (1,)}
    workload, system, table = random_case(seed, **limits, first_stage_less=(0,), last_stage_less=(0,))
    table = having(table, dp_overlap=False)
    some = estimate(workload, system, table)
    every = estimate(workload, system, having(table, recompute_blocks=0))
    assert_never_larger(rows_of(every, every.memory.tier1), rows_of(some, some.memory.tier1))
    assert_never_larger(rows_of(some, some.times.recompute), rows_of(every, every.times.recompute))


def test_an_inference_row_beside_training_rows() -> None:
    rows = [strategy(datatype=Datatype.BFLOAT16), strategy(training=False), strategy(dp=2, ep=2)]
    system = machine(matrix=1e6, tiers=(network(bandwidth=1e6),))
    together = judged(ROUTED, rows, system).times.total
    assert together.tolist() == [float(judged(ROUTED, row, system).times.total[0]) for row in rows]
