"""Strategies in TOML files and plain dicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from codesign_opt.configuration import FileModel, one_of, read_toml, validated
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
from codesign_opt.strategies.placement import DEGREES, default_tiers
from codesign_opt.strategies.shorthands import expanded_zero_stage
from codesign_opt.strategies.strategy import Strategy
from codesign_opt.systems import System

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Tier = Annotated[int, Field(ge=0, le=100)]
Blocks = Annotated[int, Field(ge=0, le=1_000_000_000)]


class StrategyFile(FileModel):
    """A strategy file. What is left out has the default of `Strategy`; `processors` is tp · pp · dp · cp, and tiers are
    those of the placement, or the fastest that take their groups.
    """

    processors: Count | None = None
    tp: Count = 1
    pp: Count = 1
    dp: Count = 1
    vpp: Count = 1
    batch: Count = Field(examples=[512])
    microbatch: Count = 1
    datatype: Annotated[Datatype, one_of(Datatype)] = Datatype.FLOAT16
    fused_activation: bool = True
    attention: Annotated[Attention, one_of(Attention)] = Attention.MULTIHEAD
    recompute: Annotated[Recompute, one_of(Recompute)] = Recompute.NONE
    tp_communication: Annotated[TpCommunication, one_of(TpCommunication)] = TpCommunication.ALL_REDUCE
    tp_overlap: Annotated[TpOverlap, one_of(TpOverlap)] = TpOverlap.NONE
    gather_redo: bool = False
    optimizer_sharding: bool = False
    dp_overlap: bool = False
    weight_offload: bool = False
    activation_offload: bool = False
    optimizer_offload: bool = False
    training: bool = True
    tp_tier: Tier | None = None
    pp_tier: Tier | None = None
    dp_tier: Tier | None = None
    cp: Count = 1
    ep: Count = 1
    etp: Count = 1
    product_precision: Annotated[ProductPrecision, one_of(ProductPrecision)] = ProductPrecision.SAME
    gradient_precision: Annotated[GradientPrecision, one_of(GradientPrecision)] = GradientPrecision.SAME
    attention_kernel: Annotated[AttentionKernel, one_of(AttentionKernel)] = AttentionKernel.UNFUSED
    cp_exchange: Annotated[CpExchange, one_of(CpExchange)] = CpExchange.RING
    schedule: Annotated[Schedule, one_of(Schedule)] = Schedule.ONE_F_ONE_B
    first_stage_less: Blocks = 0
    last_stage_less: Blocks = 0
    recompute_blocks: Blocks = 0
    gradient_sharding: bool = True
    weight_sharding: bool = False
    shard_group: Blocks = 0
    prefetch: Blocks = 1
    keep_gathered: bool = False
    reduce_each_microbatch: bool = False
    cp_tier: Tier | None = None
    ep_tier: Tier | None = None
    placement: Annotated[Placement, one_of(Placement)] = Placement.TIERS


def read_strategy(path: str | Path, system: System) -> Strategy:
    """The strategy of a TOML file, for a system.

    Raises:
        InputError: Naming file, key and value.
    """
    return strategy_from_dict(read_toml(path), system, where=str(path))


def strategy_from_dict(data: Any, system: System, *, where: str) -> Strategy:
    """The strategy of a dict with the keys of a strategy file, for a system; `zero_stage` may say three of them.

    Raises:
        InputError: Naming key and value.
    """
    if isinstance(data, Mapping):
        data = expanded_zero_stage(data, where=f"{where}: zero_stage")
    file = validated(StrategyFile, data, where=where)
    given: dict[str, Any] = {name: getattr(file, name) for name in StrategyFile.model_fields}
    derived: dict[str, Any] = {
        "processors": file.tp * file.pp * file.dp * file.cp,
        **default_tiers(file.placement, {name: getattr(file, name) for name in DEGREES}, system),
    }
    return Strategy(**{name: derived[name] if value is None else value for name, value in given.items()})


def strategy_to_toml(strategy: Strategy) -> str:
    """TOML that reads back as the same strategy."""
    values = {name: getattr(strategy, name) for name in StrategyFile.model_fields}
    return tomli_w.dumps({name: getattr(value, "value", value) for name, value in values.items()})
