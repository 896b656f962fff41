"""Random strategies of today's workloads: vocabulary, grouped heads, experts, windows, and what splits them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from step_cases import StepCase, one, random_system

from codesign_opt.analytical.gradient_exchange import block_exchange
from codesign_opt.analytical.weight_sharding import weight_exchange
from codesign_opt.strategies import (
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    Strategy,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.legality import violations
from codesign_opt.strategies.placement import default_tiers
from codesign_opt.systems import System
from codesign_opt.systems.system import FusedAttention
from codesign_opt.workloads import Workload
from codesign_opt.workloads.kinds import block_kinds
from codesign_opt.workloads.transformer import Experts, LatentAttention, QueryKeyNorm

DEGREES = {
    "tp": (1, 1, 2, 4), "pp": (1, 1, 2, 3, 4), "dp": (1, 2, 4), "cp": (1, 1, 2, 4), "ep": (1, 2, 4), "etp": (1, 1, 2),
}  # fmt: skip


FUSED = FusedAttention(forward_efficiency=0.8, backward_efficiency=0.6, half_head_size=32.0)


def today_cases(
    seed: int, count: int, wanted: Callable[[StepCase], Any] = lambda _: True, *, everything: bool = False, **fixed: Any
) -> list[StepCase]:
    """So many legal cases that are `wanted`.

    Args:
        seed: Of all chance.
        count: How many.
        wanted: Which.
        everything: Whether there are offload, overlapped exchanges, other schedules, and ends with fewer blocks too.
        fixed: Values of columns of the strategy.
    """
    random = Random(seed)

    def drawn() -> Iterator[StepCase]:
        while True:
            workload, system = today_workload(random), today_system(random)
            for _ in range(30):
                also = _further_columns(random) if everything else {}
                case = StepCase(workload, system, today_strategy(random, workload, system, {**also, **fixed}))
                # Memory of random systems holds anything.
                if wanted(case) and not violations(case.strategy, workload, system):
                    yield case
                    break

    source = drawn()
    return [next(source) for _ in range(count)]


def today_workload(random: Random) -> Workload:
    """A workload of any of today's kinds, small enough to be split in a few ways."""

    def some(value: Any, otherwise: Any, share: float = 0.5) -> Any:
        return value if random.random() < share else otherwise

    heads = random.choice([4, 8, 16])
    blocks = random.choice([2, 3, 4, 6, 8, 12])
    vocabulary = some(random.choice([1000, 32000]), 0, 0.4)
    latent = some(
        LatentAttention(query_rank=random.choice([0, 48]), key_value_rank=32, rotary_size=16, value_size=32), None, 0.2
    )
    experts = some(_experts(random, blocks), None)
    windowed = some(random.randint(1, blocks), 0, 0.2)
    return Workload(
        name="today",
        hidden=heads * random.choice([16, 64]),
        feedforward=heads * random.choice([64, 256]),
        sequence_length=random.choice([64, 512, 2048]),
        attention_heads=heads,
        head_size=random.choice([16, 64]),
        blocks=blocks,
        key_value_heads=None if latent else random.choice([None, 1, 2, heads // 2]),
        latent_attention=latent,
        gated_mlp=some(True, False),
        experts=experts,
        vocabulary=vocabulary,
        vocabulary_multiple=random.choice([1, 128]),
        tied_embeddings=some(True, False),
        learned_positions=some(2048, 0) if vocabulary else 0,
        rotary=some(True, False),
        root_mean_square_norm=some(True, False),
        norms=random.choice([2, 2, 4]),
        final_norm=some(True, False),
        query_key_norm=QueryKeyNorm.NONE if latent else random.choice(list(QueryKeyNorm)),
        dropout=some(True, False),
        causal=some(True, False),
        window=random.choice([32, 256]) if windowed else 0,
        windowed_blocks=windowed,
        prediction_blocks=some(1, 0, 0.2) if vocabulary else 0,
    )


def _experts(random: Random, blocks: int) -> Experts:
    every = random.choice([1, 1, 1, 2])
    # Some block has experts.
    leading = random.choice([0, random.randint(0, blocks - every)])
    return Experts(
        count=random.choice([4, 8]),
        top_k=random.choice([1, 2]),
        feedforward=random.choice([64, 256]),
        shared_feedforward=random.choice([0, 128]),
        leading_dense_blocks=leading,
        every=every,
        capacity_factor=random.choice([None, 1.25]),
        imbalance=random.choice([1.0, 1.5]),
    )


def today_system(random: Random) -> System:
    """A random system whose collectives grow slower with their groups, and whose host may hold passes up."""
    system = random_system(random)
    tiers = tuple(
        replace(
            tier,
            size=size,
            bandwidth=tier.bandwidth * share,
            latency_per_member=random.choice([0.0, 1e-7]),
        )
        for tier, size, share in zip(system.network_tiers, (4, 16, 10**6), (1.0, 0.3, 0.1), strict=False)
    )
    return replace(
        system,
        # Groups of any size are on the last tier, whichever it is.
        network_tiers=(*tiers[:-1], replace(tiers[-1], size=10**6)),
        launch=random.choice([0.0, 0.0, 1e-6]),
        fused_attention=random.choice([None, FUSED]),
    )


def _further_columns(random: Random) -> dict[str, Any]:
    """Columns in which simulation and estimate differ."""
    flags = ("weight_offload", "activation_offload", "optimizer_offload", "dp_overlap")
    chosen: dict[str, Any] = {name: random.random() < 0.25 for name in flags}
    schedule = random.choice(list(Schedule))
    if schedule is not Schedule.ONE_F_ONE_B:
        chosen |= {"schedule": schedule, "vpp": 1, "training": True, "pp": random.choice([2, 4])}
        chosen["microbatches"] = 2 * chosen["pp"] * random.randint(1, 2)
    if random.random() < 0.2:
        chosen |= {"first_stage_less": random.randint(0, 1), "last_stage_less": 1}
    return chosen


def today_strategy(random: Random, shape: Workload, system: System, fixed: dict[str, Any]) -> Strategy:
    """A strategy that is legal more often than not."""

    def flag(possible: bool = True) -> bool:
        return possible and random.random() < 0.5

    def word(options: Any) -> Any:
        return random.choice(list(options))

    degrees = {name: fixed.get(name, random.choice(values)) for name, values in DEGREES.items()}
    if shape.experts is None:
        degrees["ep"] = degrees["etp"] = 1
    pp, training = degrees["pp"], fixed.get("training", random.random() < 0.9)
    stage = -(-(shape.blocks + shape.prediction_blocks) // pp)
    recompute = word(Recompute) if training else Recompute.NONE
    communication = word(TpCommunication)
    replicas = degrees["dp"] * degrees["cp"]
    optimizer = flag(replicas > 1)
    gradients = not optimizer or flag() or flag()
    weights = flag(optimizer and gradients and training)
    placement = word([Placement.TIERS, *Placement])
    if placement is Placement.TIERS:
        tiers = {f"{name}_tier": random.randrange(len(system.network_tiers)) for name in ("tp", "pp", "dp", "cp", "ep")}
    else:
        tiers = default_tiers(placement, degrees, system)
    microbatch = random.choice([1, 2])
    microbatches = pp * random.randint(1, 3) if flag() else random.randint(1, 3 * pp)
    chosen = {
        **degrees,
        "vpp": random.choice([v for v in (1, 1, 2, 3) if stage % v == 0]) if pp > 1 else 1,
        "microbatch": microbatch,
        "datatype": word([Datatype.BFLOAT16, Datatype.FLOAT32]),
        "fused_activation": flag(),
        "product_precision": word(ProductPrecision),
        "gradient_precision": word(GradientPrecision),
        "attention_kernel": AttentionKernel.FLASH if random.random() < 0.8 else AttentionKernel.UNFUSED,
        "cp_exchange": word(CpExchange),
        "recompute": recompute,
        "recompute_blocks": random.randint(1, stage) if flag(recompute is Recompute.FULL) else 0,
        "tp_communication": communication,
        "tp_overlap": word(TpOverlap) if degrees["tp"] > 1 else TpOverlap.NONE,
        "gather_redo": flag(communication is TpCommunication.SEQUENCE_PARALLEL and recompute is not Recompute.FULL),
        "optimizer_sharding": optimizer,
        "gradient_sharding": gradients,
        "weight_sharding": weights,
        "prefetch": random.choice([0, 1, 2]) if weights else 1,
        "keep_gathered": flag(weights),
        "reduce_each_microbatch": flag() and flag(),
        "shard_group": random.choice([0, 0, 2]) if replicas % 2 == 0 else 0,
        "training": training,
        "placement": placement,
        **tiers,
        **fixed,
    }
    return Strategy(
        processors=degrees["tp"] * pp * replicas,
        batch=degrees["dp"] * microbatch * fixed.get("microbatches", microbatches),
        **{name: value for name, value in chosen.items() if name != "microbatches"},
    )


def coincides(case: StepCase, schedule: str) -> bool:
    """Whether simulation and estimate assume the same of a step with serial messages and without contention.

    docs/simulation.md says why not otherwise. Strategies with offload or overlapped gradient exchange are not asked.
    """
    return (
        _chunks_are_alike(case)
        and (not case.workload.vocabulary or _ends_agree(case, schedule))
        and (not case.strategy.weight_sharding or _gathers_agree(case))
        and _exchanges_agree(case, schedule)
        and (schedule != "zb_1p" or _weight_gradients_fit(case))
    )


def _chunks_are_alike(case: StepCase) -> bool:
    """Whether every chunk of every stage does what the mean block says."""
    strategy, workload = case.strategy, case.workload
    kinds = block_kinds(workload)
    mixed = len(kinds) > 1 or strategy.recompute_blocks > 0
    boundary = strategy.tp_communication is TpCommunication.STAGE_BOUNDARY
    ahead = strategy.weight_sharding and strategy.prefetch > 0
    dense_and_experts = len({kind.workload.experts is None for kind in kinds}) > 1
    expert_replicas = strategy.tp * strategy.cp * strategy.dp // (strategy.ep * strategy.etp)
    less = strategy.first_stage_less + strategy.last_stage_less
    return not (
        (workload.blocks + workload.prediction_blocks) % strategy.pp
        or less
        or (len(kinds) > 1 and (strategy.pp > 1 or strategy.recompute_blocks))
        or strategy.recompute_blocks % strategy.vpp
        or (mixed and (boundary or ahead))
        # Every mean block pays the latency of exchanging experts.
        or (dense_and_experts and strategy.training and expert_replicas > 1)
    )


def _ends_agree(case: StepCase, schedule: str) -> bool:
    """Whether one end of the stack is the slower one in every way, and the first stage does more after its passes."""
    strategy = case.strategy
    if strategy.weight_sharding or (strategy.reduce_each_microbatch and case.microbatches > 1):
        return False
    if strategy.pp == 1:
        return True
    if schedule == "zb_1p" or strategy.vpp > 1:
        return False
    (first, first_after), (last, last_after) = (end_times(case, name) for name in ("first", "last"))
    last_is_slower = all(a <= b for a, b in zip(first, last, strict=True))
    first_is_slower = all(a >= b for a, b in zip(first, last, strict=True))
    after = all(a >= b for a, b in zip(first_after, last_after, strict=True))
    return (last_is_slower or (schedule == "gpipe" and first_is_slower)) and after


def end_times(case: StepCase, name: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds of an end's forward and backward pass; of its exchange and its optimizer's step."""
    model = case.estimate.model
    ends, inputs = model.tables.ends, model.inputs
    assert ends is not None
    blocks, training = getattr(ends, name).blocks, case.strategy.training
    exchange = block_exchange(
        inputs.strategies, getattr(ends.held, name).spaces, inputs.groups, inputs.hardware, inputs.reproduce
    )
    backward = one(blocks.ag_T_b) + one(blocks.wg_T_b) + one(blocks.exa_b)
    return (
        (one(blocks.fw_T_b) + one(blocks.exf_b), training * backward),
        (training * one(exchange.whole), training * one(getattr(ends, name).optimizer.T)),
    )


def _gathers_agree(case: StepCase) -> bool:
    """Whether what is gathered and scattered beside blocks is hidden whole, or nothing is both."""
    strategy, model = case.strategy, case.estimate.model
    if strategy.prefetch == 0:
        return True
    if strategy.tp_communication is TpCommunication.STAGE_BOUNDARY:
        return False
    weights = weight_exchange(model.inputs.strategies, model.tables.spaces, model.inputs.groups, model.inputs.hardware)
    assert weights is not None
    blocks = model.tables.blocks
    backward = one(blocks.re_T_b + blocks.exr_b + blocks.ag_T_b + blocks.wg_T_b + blocks.exa_b)
    return not strategy.reduce_each_microbatch or one(weights.backward) <= backward


def _exchanges_agree(case: StepCase, schedule: str) -> bool:
    """Whether gradients of every microbatch follow each other on one stage only."""
    strategy = case.strategy
    if not strategy.reduce_each_microbatch:
        return True
    return schedule != "zb_1p" and (strategy.weight_sharding or strategy.vpp == 1)


def _weight_gradients_fit(case: StepCase) -> bool:
    """Whether weight gradients fill gaps and are filled by nothing, and microbatches fill the pipeline."""
    strategy, model = case.strategy, case.estimate.model
    again = strategy.gather_redo or strategy.recompute is Recompute.SELECTIVE
    gathered_beside = again and strategy.tp_overlap is not TpOverlap.NONE
    if gathered_beside or (strategy.weight_sharding and strategy.prefetch > 0) or case.microbatches < strategy.pp:
        return False
    weight = one(model.counts.x * model.tables.blocks.wg_T_b + model.tables.blocks.wg_T_e)
    return weight <= min(one(model.chunk.chf), one(model.chunk.chb) - weight)
