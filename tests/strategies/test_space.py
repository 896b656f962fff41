"""Spaces of strategies against plain nested loops over everything, judged by the legality rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from codesign_opt.errors import InfeasibleError
from codesign_opt.interop.calculon import read_application, read_system
from codesign_opt.strategies import Attention, Datatype, Recompute, Strategy, StrategyTable, TpCommunication, TpOverlap
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.legality import RULES, first_broken, violations
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.strategies.table import COLUMNS, OPTION_CODES
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

DATA = Path(__file__).parents[1] / "data" / "calculon"
TIERS = ("tp_tier", "pp_tier", "dp_tier")

LAYOUT = ("tp", "pp", "dp", "vpp", "microbatch", "batch")
OFFLOADS = ("weight_offload", "activation_offload", "optimizer_offload")
DATATYPE = {"datatype": [Datatype.BFLOAT16]}

Array = NDArray[Any]


def published_workload(name: str) -> Workload:
    return read_application(DATA / "models" / f"{name}.json")


def published_system(*, tiers: int = 2, memory_tier2: bool = True) -> System:
    system = read_system(DATA / "systems" / "a100_80g.json")
    if not memory_tier2:
        system = replace(system, memory_tier2=replace(system.memory_tier2, capacity=0.0))
    return replace(system, network_tiers=(system.network_tiers * 2)[:tiers])


def grids_of(
    space: StrategySpace, workload: Workload, system: System, *, processors: int, batch: int
) -> list[StrategyGrid]:
    return space.grids(
        workload,
        processors=processors,
        batch=batch,
        datatype=Datatype.BFLOAT16,
        tier_sizes=[tier.size for tier in system.network_tiers],
        offload=system.memory_tier2.capacity > 0,
    )


def considered(workload: Workload, system: System, processors: int, batch: int) -> int:
    grids = grids_of(StrategySpace(), workload, system, processors=processors, batch=batch)
    return sum(grid.considered for grid in grids)


PUBLISHED_COUNTS = [
    ("gpt3-175B", 512, 512, 184, 6_582_816, 952_776),
    ("gpt3-175B", 4096, 4096, 186, 7_126_368, 1_031_448),
    ("megatron-1T", 4096, 4096, 174, 7_276_848, 1_053_228),
    ("gpt3-175B", 512, 3072, 184, 15_359_296, 2_223_056),
    ("megatron-1T", 4096, 3072, 173, 10_295_264, 1_490_104),
]


@pytest.mark.parametrize(("name", "processors", "batch", "triples", "with_tier2", "without_tier2"), PUBLISHED_COUNTS)
def test_published_counts(
    name: str, processors: int, batch: int, triples: int, with_tier2: int, without_tier2: int
) -> None:
    workload = published_workload(name)
    layouts = StrategySpace().layouts(workload, processors=processors, batch=batch)
    assert len(set(zip(*(layouts[column].tolist() for column in ("tp", "pp", "vpp")), strict=True))) == triples
    assert considered(workload, published_system(), processors, batch) == with_tier2
    assert considered(workload, published_system(memory_tier2=False), processors, batch) == without_tier2


@pytest.mark.parametrize(
    ("name", "processors", "millions"),
    [("gpt3-175B", 512, 21.9), ("gpt3-175B", 4096, 23.8), ("megatron-1T", 4096, 24.3)],
)
def test_published_counts_with_three_tiers(name: str, processors: int, millions: float) -> None:
    count = considered(published_workload(name), published_system(tiers=3), processors, processors)
    assert round(count / 1e6, 1) == millions


def test_published_count_of_the_search() -> None:
    search = json.loads((DATA / "search_golden.json").read_text())
    count = considered(
        published_workload(search["model"]), published_system(), search["num_procs"], search["max_batch_size"]
    )
    assert count == search["raw"]


VARIED = COLUMNS[1 : COLUMNS.index("dp_tier") + 1]


def keys_of(columns: Mapping[str, Any]) -> Array:
    """One number a row, different for rows that differ in `VARIED`."""
    values = [np.asarray(columns[name]).astype(np.int64) for name in VARIED]
    return np.ravel_multi_index(values, [13 if name in LAYOUT else 4 for name in VARIED])


def product_of(axes: Mapping[str, Sequence[Any]]) -> dict[str, Array]:
    """Columns of the full product, nested loops in the order of the axes."""
    mesh = np.meshgrid(*(np.asarray([OPTION_CODES.get(v, v) for v in axis]) for axis in axes.values()), indexing="ij")
    return {name: values.ravel() for name, values in zip(axes, mesh, strict=True)}


def nested_loops(
    space: StrategySpace, workload: Workload, system: System, processors: int, batch: int
) -> StrategyTable:
    """Every legal strategy that the space is about, found by trying all values of everything."""
    offload = [True, False] if system.memory_tier2.capacity > 0 else [False]
    defaults: dict[str, Sequence[Any]] = {
        "recompute": list(Recompute),
        "tp_communication": list(TpCommunication),
        "tp_overlap": list(TpOverlap),
        "fused_activation": [True],
        "attention": [Attention.MULTIHEAD],
        "training": [True],
        **dict.fromkeys(("gather_redo", "optimizer_sharding", "dp_overlap"), (True, False)),
    }
    axes = {name: space.limits.get(name, values) for name, values in defaults.items()}
    axes |= {name: [v for v in space.limits.get(name, offload) if v in offload] for name in OFFLOADS}
    tiers = range(len(system.network_tiers))
    found = StrategyTable.empty()
    for tp, pp, dp in product(range(1, processors + 1), repeat=3):
        if tp * pp * dp != processors or batch < dp:
            continue
        places = {
            name: space.limits.get(name, tiers) if degree > 1 else [0]
            for name, degree in zip(TIERS, (tp, pp, dp), strict=True)
        }
        for vpp, microbatch in product(range(1, workload.blocks + 1), range(1, batch + 1)):
            layout = {"tp": tp, "pp": pp, "dp": dp, "vpp": vpp, "microbatch": microbatch}
            layout |= {"processors": processors, "batch": batch // dp * dp}
            if not open_layout(space, workload, system, layout):
                continue
            rows = product_of({**{name: [value] for name, value in layout.items()}, **axes, **places, **DATATYPE})
            keep = first_broken(Facts(rows, [workload], [system])) < 0
            if not space.all_divisors:
                keep &= ~(rows["activation_offload"] & (rows["recompute"] == OPTION_CODES[Recompute.FULL]))
            found = found.concatenated(StrategyTable(rows).take(keep))
    return found


def open_layout(space: StrategySpace, workload: Workload, system: System, layout: dict[str, int]) -> bool:
    """Whether a layout with all options off is legal somewhere, within limits, and not left out by the space."""
    if any(value not in space.limits.get(name, [value]) for name, value in layout.items()):
        return False
    even = workload.blocks % layout["pp"] == 0
    splits = (layout["microbatch"] * workload.sequence_length) % layout["tp"] == 0
    if not even and not space.uneven_stages:
        return False
    if not space.all_divisors and (not splits or layout["pp"] > workload.blocks):
        return False
    plain = Strategy(**layout, datatype=Datatype.BFLOAT16)
    return {violation.code for violation in violations(plain, workload, system)} <= {"network_size", "network_fill"}


FEW: dict[str, Any] = {"tp_overlap": (TpOverlap.NONE, TpOverlap.PIPE), "dp_overlap": (False,)}
"""Limits for cases that are about something else."""

CASES: dict[str, dict[str, Any]] = {
    "everything": {"limits": {}},
    "one processor": {"processors": 1},
    "batch that the replicas do not divide": {"processors": 6, "batch": 7},
    "without memory tier 2": {"tier2": 0.0, "limits": {}},
    "one network tier": {"tiers": 1},
    "three network tiers": {"tiers": 3, "limits": {**FEW, "recompute": (Recompute.NONE,)}},
    "feedforward that tp does not divide": {"workload": {"feedforward": 90}},
    "odd sequences": {"workload": {"sequence_length": 9}},
    "odd sequences, all divisors": {"workload": {"sequence_length": 9}, "all_divisors": True},
    "blocks that pp does not divide": {"workload": {"blocks": 5}},
    "uneven stages": {"workload": {"blocks": 5}, "uneven_stages": True},
    "longer pipelines": {"workload": {"blocks": 3}, "uneven_stages": True, "all_divisors": True},
    "no longer pipelines": {"workload": {"blocks": 3}, "uneven_stages": True},
    "all divisors": {"all_divisors": True},
    "inference": {"limits": {"training": (False,)}},
    "training and inference": {"limits": {**FEW, "training": (True, False)}},
    "inference, all divisors": {"all_divisors": True, "limits": {**FEW, "training": (False,)}},
    "multiquery": {"limits": {**FEW, "attention": tuple(Attention), "dp": (1,)}},
    "fused and not": {"limits": {**FEW, "fused_activation": (False, True), "pp": (1, 4)}},
    "limited degrees": {"processors": 8, "limits": {**FEW, "tp": (2, 4), "pp": (2,), "vpp": (1, 3)}},
    "limited microbatch": {"limits": {**FEW, "microbatch": (2, 3)}},
    "limited options": {
        "limits": {
            "recompute": (Recompute.FULL, Recompute.SELECTIVE),
            "tp_communication": (TpCommunication.SEQUENCE_PARALLEL,),
            "tp_overlap": (TpOverlap.PIPE,),
        }
    },
    "only with redo": {"limits": {"gather_redo": (True,)}},
    "only sharded": {"limits": {"optimizer_sharding": (True,), "dp_overlap": (True,)}},
    "only offloaded": {"limits": {"weight_offload": (True,), "activation_offload": (True,)}},
    "without offload": {"limits": dict.fromkeys(OFFLOADS, (False,))},
    "limited places": {"limits": {**FEW, "tp_tier": (0,), "pp_tier": (1,), "dp_tier": (0, 1)}},
}


@pytest.mark.parametrize("name", CASES)
def test_against_nested_loops(name: str, workload: Workload, system: System) -> None:
    case = {"processors": 4, "batch": 4, "limits": FEW, **CASES[name]}
    workload = replace(workload, **{"blocks": 6, **case.get("workload", {})})
    tiers = (*system.network_tiers, replace(system.network_tiers[1], size=2))[: case.get("tiers", 2)]
    capacity = case.get("tier2", system.memory_tier2.capacity)
    system = replace(system, network_tiers=tiers, memory_tier2=replace(system.memory_tier2, capacity=capacity))
    space = StrategySpace(
        limits=case["limits"],
        uneven_stages=case.get("uneven_stages", False),
        all_divisors=case.get("all_divisors", False),
    )
    asked = {"processors": case["processors"], "batch": case["batch"]}
    grids = grids_of(space, workload, system, **asked)
    expected = keys_of(nested_loops(space, workload, system, **asked))
    assert len(expected)

    everything, placed = StrategyTable.empty(), []
    for grid in grids:
        everything = everything.concatenated(grid.table(np.arange(grid.size)))
        placed.append(np.broadcast_to(grid.network_allows(system), grid.shape).ravel())
    assert set(everything["processors"]) == {case["processors"]}
    np.testing.assert_array_equal(np.sort(keys_of(everything.take(np.concatenate(placed)))), np.sort(expected))
    # Nothing illegal is generated, except what the network refuses, which the grids mask.
    broken = first_broken(Facts(everything, [workload], [system]))
    assert {RULES[index].code for index in set(broken.tolist()) if index >= 0} <= {"network_size", "network_fill"}


@pytest.mark.parametrize(("processors", "batch"), [(4, 4), (6, 7), (12, 5)])
def test_considered_counts_as_published(processors: int, batch: int, workload: Workload, system: System) -> None:
    """Plain loops as the specification's section 12 has them, legal or not."""
    count = 0
    for tp, pp in product(range(1, processors + 1), repeat=2):
        dp = processors // (tp * pp)
        if tp * pp * dp != processors or workload.hidden % tp or workload.attention_heads % tp:
            continue
        if workload.blocks % pp or dp > batch:
            continue
        chunks = [v for v in range(1, workload.blocks + 1) if (workload.blocks // pp) % v == 0] if pp > 1 else [1]
        replica_batch = batch // dp
        microbatches = [
            b
            for b in range(1, replica_batch + 1)
            if replica_batch % b == 0 and (b * workload.sequence_length) % tp == 0
        ]
        options = 0
        for recompute, communication in product(Recompute, TpCommunication):
            redo = communication is TpCommunication.SEQUENCE_PARALLEL and recompute is not Recompute.FULL
            activation_offload = recompute is not Recompute.FULL
            options += (2 if redo else 1) * (3 if tp > 1 else 1) * 4 * (2 if activation_offload else 1)
        places = 2 ** sum(degree > 1 for degree in (tp, pp, dp))
        count += len(chunks) * len(microbatches) * options * (4 if dp > 1 else 1) * places
    assert considered(workload, system, processors, batch) == count


def test_layouts_rise(workload: Workload) -> None:
    layouts = StrategySpace().layouts(workload, processors=12, batch=12)
    rows = list(zip(*(layouts[name].tolist() for name in ("tp", "pp", "vpp", "microbatch")), strict=True))
    assert rows == sorted(rows)
    assert set((layouts["tp"] * layouts["pp"] * layouts["dp"]).tolist()) == {12}
    assert (layouts["batch"] % layouts["dp"] == 0).all()


class TestEmptySpaces:
    """What leaves nothing is said."""

    @staticmethod
    def refuse(
        space: StrategySpace, workload: Workload, system: System, processors: int, batch: int
    ) -> InfeasibleError:
        with pytest.raises(InfeasibleError) as caught:
            grids_of(space, workload, system, processors=processors, batch=batch)
        assert caught.value.code == "empty_space"
        assert f"{workload.name} on {processors} processors with batch {batch}" in caught.value.message
        return caught.value

    def test_batch_smaller_than_the_replicas(self, workload: Workload, system: System) -> None:
        # 12 heads and 12 blocks share no factor with 35: everything is data parallel.
        error = self.refuse(StrategySpace(), workload, system, 35, 34)
        assert error.hint == "batch must be at least 35, the smallest dp of a legal layout"
        grids_of(StrategySpace(), workload, system, processors=35, batch=35)

    def test_smallest_batch_with_uneven_stages(self, workload: Workload, system: System) -> None:
        # Five or seven stages of twelve blocks are open to this space.
        space = StrategySpace(uneven_stages=True)
        error = self.refuse(space, workload, system, 35, 4)
        assert "batch must be at least 5," in error.hint
        grids_of(space, workload, system, processors=35, batch=5)

    @pytest.mark.parametrize(
        "limits",
        [
            {"pp": (5,)},
            {"tp": (8,)},
            {"dp": (3,)},
            {"vpp": (5,)},
            {"microbatch": (5,)},
            {"gather_redo": (True,), "tp_communication": (TpCommunication.ALL_REDUCE,)},
            {"recompute": (Recompute.FULL,), "training": (False,)},
            {"dp": (1,), "optimizer_sharding": (True,)},
            {"pp": (4,), "vpp": (2,)},
        ],
    )
    def test_limits(self, limits: dict[str, Any], workload: Workload, system: System) -> None:
        error = self.refuse(StrategySpace(limits=limits), workload, system, 8, 8)
        assert all(name in error.hint for name in limits)

    def test_offload_without_memory_tier_2(self, workload: Workload, system: System) -> None:
        bare = replace(system, memory_tier2=replace(system.memory_tier2, capacity=0.0))
        error = self.refuse(StrategySpace(limits={"weight_offload": (True,)}), workload, bare, 8, 8)
        assert "weight_offload" in error.hint
