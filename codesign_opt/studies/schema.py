"""The models of a study file: every key, and what it may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from codesign_opt.configuration import TAG, FileModel, Parsed, flattened, one_of, shown
from codesign_opt.errors import InputError
from codesign_opt.strategies.options import (
    Attention,
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.studies.budget import Budget, parse_budget
from codesign_opt.systems.parameters import Kind
from codesign_opt.systems.schema import DerivedSystemFile, SystemFile
from codesign_opt.workloads.files import WorkloadFile

MAX_PROCESSORS = 10_000_000

Method = Literal["auto", "exact", "bilevel", "flat"]
Sampler = Literal["auto", "random", "qmc", "tpe", "nsga2", "gp", "cmaes"]
Quantity = Annotated[Any, WithJsonSchema({"format": "quantity"})]
Count = Annotated[int, Field(ge=1, le=MAX_PROCESSORS)]
Whole = Annotated[int, Field(ge=0, le=MAX_PROCESSORS)]

_FREE_KEYS = frozenset({"low", "high", "scale", "choices"})
_MAX_NAME = 255

T = TypeVar("T")


@dataclass(frozen=True)
class _OneOrMore:
    """Annotation of a list that may be written as its only value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Callable[[Any], Any]) -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], listed]}

    @staticmethod
    def _listed(value: Any) -> Any:
        return value if isinstance(value, list) else [value]


def _parse_name(value: Any, *, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _MAX_NAME:
        raise InputError(f"{where}: {shown(value)} is no name", f"1 to {_MAX_NAME} printable characters")
    return value


OneOrMore = Annotated[list[T], Field(min_length=1), _OneOrMore()]


def _by_shape(table: Callable[[dict[str, Any]], str], *, lists: bool = False) -> Discriminator:
    """Which member of a union is meant: what `table` says of a table, "list" where `lists`, else "value"."""

    def tag(value: Any) -> str:
        if isinstance(value, dict):
            return TAG + table(value)
        return f"{TAG}list" if lists and isinstance(value, list) else f"{TAG}value"

    return Discriminator(tag)


class FreeRangeFile(FileModel):
    """A parameter that may be anything in a range."""

    low: Quantity = Field(description="Lower end, with its unit.", examples=["20 GiB"])
    high: Quantity = Field(description="Upper end, with its unit.", examples=["120 GiB"])
    scale: Literal["linear", "log"] = Field("linear", description="How the range is sampled.", examples=["log"])


class FreeChoicesFile(FileModel):
    """A parameter that may be one of some values."""

    choices: list[Quantity] = Field(
        min_length=1, description="The values, with their units.", examples=[["40 GiB", "80 GiB"]]
    )


FreeFile = Annotated[
    Annotated[FreeRangeFile, Tag(f"{TAG}range")] | Annotated[FreeChoicesFile, Tag(f"{TAG}choices")],
    Discriminator(lambda value: f"{TAG}choices" if isinstance(value, dict) and "choices" in value else f"{TAG}range"),
]

FreeTable = Annotated[dict[str, FreeFile], BeforeValidator(partial(flattened, leaves=_FREE_KEYS))]

_FREE: Any = Field(
    default={},
    description="Parameters to choose, by dotted path: a range or choices each.",
    examples=["see [system.free.PATH]"],
)


class StudySystemFile(SystemFile):
    """A system written out in the study."""

    free: FreeTable = _FREE


class StudyDerivedSystemFile(DerivedSystemFile):
    """A system that starts from another one, by catalogue name or path."""

    free: FreeTable = _FREE


class ProcessorRangeFile(FileModel):
    """Every `step`-th number of processors from `low` to `high`."""

    low: Count = Field(description="The smallest.", examples=[64])
    high: Count = Field(description="The largest.", examples=[1024])
    step: Count = Field(description="Distance from one to the next.", examples=[64])


class ProcessorBudgetFile(FileModel):
    """As many processors as the money buys."""

    budget: Annotated[float, Parsed(Kind(unit="$", above_minimum=True).parse, "quantity in $")] = Field(
        description="Price of all processors with their memory; needs a system with a price.", examples=["125 M$"]
    )
    multiple: Count = Field(1, description="The number of processors is a multiple of this.", examples=[8])
    lowest: Count | None = Field(
        None, description="Fewer than this are no machine; else one `multiple` is enough.", examples=[64]
    )
    counts: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1,
        description="How many counts to try: the largest that the money buys, and the next smaller ones.",
        examples=[64],
    )


class StrategiesFile(FileModel):
    """Limits of the strategies tried: a key that is absent leaves everything legal allowed."""

    tp: OneOrMore[Count] | None = Field(None, description="Tensor-parallel degrees.", examples=[[4, 8]])
    pp: OneOrMore[Count] | None = Field(None, description="Pipeline-parallel degrees.", examples=[[1, 2, 4]])
    dp: OneOrMore[Count] | None = Field(None, description="Data-parallel degrees.", examples=[8])
    vpp: OneOrMore[Count] | None = Field(None, description="Chunks of the interleaved schedule.", examples=[1])
    microbatch: OneOrMore[Count] | None = Field(None, description="Sequences of a microbatch.", examples=[[1, 2]])
    recompute: OneOrMore[Annotated[Recompute, one_of(Recompute)]] | None = Field(
        None, description="What the backward pass computes again.", examples=["full"]
    )
    tp_communication: OneOrMore[Annotated[TpCommunication, one_of(TpCommunication)]] | None = Field(
        None, description="Collectives of tensor parallelism.", examples=["sequence_parallel"]
    )
    tp_overlap: OneOrMore[Annotated[TpOverlap, one_of(TpOverlap)]] | None = Field(
        None, description="How they hide behind matrix products.", examples=[["none", "ring"]]
    )
    attention: OneOrMore[Annotated[Attention, one_of(Attention)]] | None = Field(
        None, description="Key and value heads; multihead if absent.", examples=["multihead"]
    )
    fused_activation: OneOrMore[bool] | None = Field(
        None, description="The MLP activation keeps nothing for the backward pass; true if absent.", examples=[True]
    )
    gather_redo: OneOrMore[bool] | None = Field(
        None, description="Gather again in the backward pass.", examples=[False]
    )
    optimizer_sharding: OneOrMore[bool] | None = Field(
        None, description="Optimizer state split over data parallelism.", examples=[True]
    )
    dp_overlap: OneOrMore[bool] | None = Field(
        None, description="Gradient exchange hides behind the backward pass.", examples=[True]
    )
    weight_offload: OneOrMore[bool] | None = Field(None, description="Weights in memory tier 2.", examples=[False])
    activation_offload: OneOrMore[bool] | None = Field(
        None, description="Activations in memory tier 2.", examples=[False]
    )
    optimizer_offload: OneOrMore[bool] | None = Field(
        None, description="Optimizer state in memory tier 2.", examples=[False]
    )
    training: OneOrMore[bool] | None = Field(
        None, description="False is a forward pass only; true if absent.", examples=[True]
    )
    tp_tier: OneOrMore[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="Network tiers of tensor parallelism, from 0.", examples=[0]
    )
    pp_tier: OneOrMore[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="Network tiers of pipeline parallelism.", examples=[[0, 1]]
    )
    dp_tier: OneOrMore[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="Network tiers of data parallelism.", examples=[1]
    )
    cp: OneOrMore[Count] | None = Field(None, description="Context-parallel degrees.", examples=[[1, 2]])
    ep: OneOrMore[Count] | None = Field(None, description="Expert-parallel degrees.", examples=[[8, 16]])
    etp: OneOrMore[Count] | None = Field(
        None, description="Tensor-parallel degrees inside an expert; 1 and tp if absent.", examples=[1]
    )
    attention_kernel: OneOrMore[Annotated[AttentionKernel, one_of(AttentionKernel)]] | None = Field(
        None,
        description="How attention is computed; flash if absent, or unfused where the workload has no vocabulary.",
        examples=["flash"],
    )
    cp_exchange: OneOrMore[Annotated[CpExchange, one_of(CpExchange)]] | None = Field(
        None, description="How context parallelism exchanges keys and values.", examples=[["ring", "all_gather"]]
    )
    product_precision: OneOrMore[Annotated[ProductPrecision, one_of(ProductPrecision)]] | None = Field(
        None, description="Number format of matrix products; that of the weights if absent.", examples=["float8"]
    )
    gradient_precision: OneOrMore[Annotated[GradientPrecision, one_of(GradientPrecision)]] | None = Field(
        None,
        description="Number format of gradients; float32 if absent, or same where the workload has no vocabulary.",
        examples=["float32"],
    )
    schedule: OneOrMore[Annotated[Schedule, one_of(Schedule)]] | None = Field(
        None, description="Order of passes in the pipeline; 1f1b if absent.", examples=[["1f1b", "zb_1p"]]
    )
    first_stage_less: OneOrMore[Whole] | None = Field(
        None, description="Blocks that the first stage has fewer than others; 0 if absent.", examples=[[0, 1]]
    )
    last_stage_less: OneOrMore[Whole] | None = Field(
        None, description="Blocks that the last stage has fewer than others; 0 if absent.", examples=[[0, 1]]
    )
    recompute_blocks: OneOrMore[Whole] | None = Field(
        None, description="Blocks of a stage that full recompute concerns; 0, all, if absent.", examples=[[0, 2]]
    )
    gradient_sharding: OneOrMore[bool] | None = Field(
        None, description="With optimizer_sharding: gradients in shards (ZeRO-2).", examples=[True]
    )
    weight_sharding: OneOrMore[bool] | None = Field(
        None, description="With both: weights in shards as well (ZeRO-3, FSDP).", examples=[[True, False]]
    )
    shard_group: OneOrMore[Whole] | None = Field(
        None, description="Processors among which state is split; 0, all that there are, if absent.", examples=[[0, 8]]
    )
    prefetch: OneOrMore[Whole] | None = Field(
        None, description="Blocks gathered ahead, with weight_sharding; 1 if absent.", examples=[1]
    )
    keep_gathered: OneOrMore[bool] | None = Field(
        None, description="Gathered weights stay until the backward pass; false if absent.", examples=[False]
    )
    reduce_each_microbatch: OneOrMore[bool] | None = Field(
        None, description="Exchange gradients in every microbatch; false if absent.", examples=[False]
    )
    cp_tier: OneOrMore[Whole] | None = Field(
        None, description="Network tiers of context parallelism, with placement tiers.", examples=[0]
    )
    ep_tier: OneOrMore[Whole] | None = Field(
        None, description="Network tiers of expert parallelism, with placement tiers.", examples=[1]
    )
    placement: OneOrMore[Annotated[Placement, one_of(Placement)]] | None = Field(
        None,
        description="Which processors form groups; tp-cp-dp-pp if absent, tiers where the workload has no vocabulary.",
        examples=["tp-cp-dp-pp"],
    )
    uneven_stages: bool = Field(False, description="Also stages of different numbers of blocks.", examples=[True])
    all_divisors: bool = Field(
        False,
        description="Also what is legal but seldom worth trying: microbatches whose tokens tp does not divide, more "
        "stages than blocks, activation offload under full recompute.",
        examples=[True],
    )

    target: Literal["free", "megatron-lm", "torchtitan", "deepspeed", "nanotron"] = Field(
        "free", description="Framework that is to run them: what it refuses is left out.", examples=["megatron-lm"]
    )


class StudyFile(FileModel):
    """A study file."""

    name: Annotated[str, Parsed(_parse_name, "text")] = Field(
        "study", description="What the database calls it; without the key, the file's name.", examples=["hbm"]
    )
    description: str = Field("", description="One line for people.", examples=["how much HBM is worth"])
    workload: Annotated[
        Annotated[str, Tag(f"{TAG}value")] | Annotated[WorkloadFile, Tag(f"{TAG}table")],
        _by_shape(lambda table: "table"),
    ] = Field(description="Catalogue name, path of a file, or a table.", examples=["gpt3-175b"])
    system: Annotated[
        Annotated[str, Tag(f"{TAG}value")]
        | Annotated[StudyDerivedSystemFile, Tag(f"{TAG}base")]
        | Annotated[StudySystemFile, Tag(f"{TAG}full")],
        _by_shape(lambda table: "base" if "base" in table else "full"),
    ] = Field(description="Catalogue name, path of a file, or a table.", examples=["a100-80g"])
    processors: Annotated[
        Annotated[Count, Tag(f"{TAG}value")]
        | Annotated[list[Count], Field(min_length=1), Tag(f"{TAG}list")]
        | Annotated[ProcessorBudgetFile, Tag(f"{TAG}budget")]
        | Annotated[ProcessorRangeFile, Tag(f"{TAG}range")],
        _by_shape(lambda table: "budget" if "budget" in table else "range", lists=True),
    ] = Field(description="Number of processors, a list of numbers, a range, or what a budget buys.", examples=[512])
    batch: Annotated[int, Field(ge=1, le=100_000_000)] = Field(
        description="Largest global batch, sequences; a strategy uses the largest multiple of `dp` in it.",
        examples=[512],
    )
    datatype: Annotated[Datatype, one_of(Datatype)] = Field(
        default="float16",
        validate_default=True,
        description="Number format of weights and activations.",
        examples=["bfloat16"],
    )
    strategies: StrategiesFile = Field(
        default={}, validate_default=True, description="Limits of the strategies tried.", examples=["see [strategies]"]
    )
    objectives: OneOrMore[str] | None = Field(
        None,
        description="Metrics, with `minimize` or `maximize` before them where the usual direction is not meant. "
        "Without the key: sample_rate and system_price where hardware is free and has a price, else step_time.",
        examples=[["sample_rate", "system_price"]],
    )
    constraints: Annotated[list[str], _OneOrMore()] = Field(
        default=[],
        description="Metric, `<=` or `>=`, and a bound with its unit.",
        examples=[["memory_tier1_used <= 70 GiB"]],
    )
    method: Method = Field(
        "auto",
        description="exact: every strategy on every machine; bilevel: every strategy on sampled machines; "
        "flat: both sampled.",
        examples=["bilevel"],
    )
    sampler: Sampler = Field("auto", description="What proposes machines.", examples=["nsga2"])
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(0, description="Of the sampler.", examples=[1])
    budget: Annotated[Budget, Parsed(parse_budget, "number of trials, or time")] = Field(
        default=100, validate_default=True, description="Total over all runs.", examples=["10m"]
    )
    top_k: Annotated[int, Field(ge=1, le=10_000)] = Field(
        10, description="Strategies kept of every trial.", examples=[3]
    )
    reproduce: OneOrMore[str] = Field(
        default="none",
        validate_default=True,
        description="Errata of the published tool to reproduce: none, all, or their names.",
        examples=["E2,E7"],
    )
