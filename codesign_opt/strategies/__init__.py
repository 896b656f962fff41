"""How a workload is run: strategies as rows and columns, legality rules, and spaces of strategies."""

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
from codesign_opt.strategies.strategy import Strategy
from codesign_opt.strategies.table import StrategyTable

__all__ = [
    "Attention",
    "AttentionKernel",
    "CpExchange",
    "Datatype",
    "GradientPrecision",
    "Placement",
    "ProductPrecision",
    "Recompute",
    "Schedule",
    "Strategy",
    "StrategyTable",
    "TpCommunication",
    "TpOverlap",
]
