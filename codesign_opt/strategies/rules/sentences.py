"""A broken rule in words, with the values of the strategy that breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import Placement
from codesign_opt.strategies.placement import DEGREES, default_tiers
from codesign_opt.strategies.rules.network import placed, refused_tiers
from codesign_opt.strategies.rules.rule import Rule, Values, Violation
from codesign_opt.strategies.table import COLUMNS, OPTION_COLUMNS
from codesign_opt.systems import System
from codesign_opt.workloads import Workload


def explain(rule: Rule, facts: Facts, row: int) -> Violation:
    """The violation of a rule by one row, in words."""
    values = values_of(facts, row)
    return Violation(rule.code, rule.sentence.format_map(values), rule.nearest(values))


def values_of(facts: Facts, row: int) -> Values:
    """All that sentences may name: a row's columns (options as words), and sizes of its workload and system."""
    values: dict[str, Any] = {name: facts[name][row].item() for name in COLUMNS}
    for name, options in OPTION_COLUMNS.items():
        values[name] = list(options)[values[name]].value if values[name] >= 0 else "unknown"
    return {**values, **_workload(facts, row), **_products(values), **_system(facts, row, values)}


def _workload(facts: Facts, row: int) -> Values:
    workload = facts.workloads[facts.workload[row]]
    counted = ("kv_heads", "stage_blocks", "microbatches", "replicas", "zero_stage")
    less = {name: int(facts[name][row]) for name in ("first_stage_less", "last_stage_less")}
    stage = int(facts.stage_blocks[row])
    return {
        "hidden": workload.hidden,
        "feedforward": workload.feedforward,
        "heads": workload.attention_heads,
        "sequence_length": workload.sequence_length,
        "blocks": workload.blocks,
        "prediction_blocks": workload.prediction_blocks,
        "experts": int(facts.experts("count")[row]),
        "expert_feedforward": int(facts.experts("feedforward")[row]),
        "shared_feedforward": int(facts.experts("shared_feedforward")[row]),
        **{name: int(getattr(facts, name)[row]) for name in counted},
        "counted": int(facts.counted_blocks[row]),
        "counted_blocks": _counted_blocks(workload, less),
        "first_blocks": stage - less["first_stage_less"],
        "last_blocks": stage - less["last_stage_less"],
        "tokens": int(facts["microbatch"][row]) * workload.sequence_length // max(int(facts["cp"][row]), 1),
    }


def _counted_blocks(workload: Workload, less: Mapping[str, int]) -> str:
    """What stages share: "61 blocks", or "61 blocks + 1 prediction block(s) + first_stage_less 2 = 64"."""
    parts = {f"{workload.prediction_blocks} prediction block(s)": workload.prediction_blocks}
    parts |= {f"{name} {blocks}": blocks for name, blocks in less.items()}
    added = [f" + {part}" for part, blocks in parts.items() if blocks]
    total = f" = {workload.blocks + sum(parts.values())}" if added else ""
    return f"{workload.blocks} blocks{''.join(added)}{total}"


def _products(values: Values) -> Values:
    cp = values["cp"]
    return {
        "product": values["tp"] * values["pp"] * values["dp"] * cp,
        "x_cp": "" if cp == 1 else f" x cp {cp}",
        "of_cp": "" if cp == 1 else f" on each of {cp} context-parallel processors",
        "tp_x_cp": values["tp"] * cp,
        "ep_x_etp": values["ep"] * values["etp"],
        "stage_processors": values["tp"] * cp * values["dp"],
        "replica_batch": values["batch"] // max(values["dp"], 1),
    }


def _system(facts: Facts, row: int, values: Values) -> Values:
    system = facts.systems[facts.system[row]]
    tier, group = next(refused_tiers([int(product[row]) for product in placed(facts)], system), (0, 1))
    expert_tier = min(max(values["ep_tier"], 0), len(system.network_tiers) - 1)
    return {
        "system": system.name,
        "datatypes": ", ".join(sorted(set(system.matrix) & set(system.vector))),
        "tiers": len(system.network_tiers),
        "tier": tier,
        "group": group,
        "tier_size": system.network_tiers[tier].size,
        "expert_tier_size": system.network_tiers[expert_tier].size,
        "last_tier_size": system.network_tiers[-1].size,
        "order_tiers": _order_tiers(system, values),
    }


def _order_tiers(system: System, values: Values) -> Mapping[str, int]:
    """The tiers that an order of dimensions leads to."""
    if values["placement"] in ("unknown", Placement.TIERS.value):
        return {}
    return default_tiers(Placement(values["placement"]), {name: values[name] for name in DEGREES}, system)
