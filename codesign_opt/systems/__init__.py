"""The machine: processors, memory tiers, network tiers, price and power."""

from codesign_opt.systems.curve import EfficiencyCurve
from codesign_opt.systems.notes import Notes
from codesign_opt.systems.power import Power
from codesign_opt.systems.price import Price, PriceCurve
from codesign_opt.systems.system import (
    CollectiveCost,
    Engine,
    FusedAttention,
    MemoryOverheads,
    MemoryTier,
    NetworkTier,
    System,
)

__all__ = [
    "CollectiveCost",
    "EfficiencyCurve",
    "Engine",
    "FusedAttention",
    "MemoryOverheads",
    "MemoryTier",
    "NetworkTier",
    "Notes",
    "Power",
    "Price",
    "PriceCurve",
    "System",
]
