"""The two worked examples, step by step: every printed intermediate result."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign_opt.analytical import ALL, statistics
from codesign_opt.analytical.model import Model, model
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.interop.calculon import evaluate, read_application, read_execution, read_system
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

DATA = Path(__file__).parents[1] / "data" / "calculon"
EXAMPLES = json.loads((DATA / "worked_examples.json").read_text())

RELATIVE = 6e-10
"""Totals are printed to ten digits."""

OPERATION_COLUMNS = {
    "Ff": "forward_flops",
    "Yf": "forward_bytes",
    "Tf": "base_forward_time",
    "Fa": "activation_gradient_flops",
    "Ya": "activation_gradient_bytes",
    "Ta": "base_activation_gradient_time",
    "Fw": "weight_gradient_flops",
    "Yw": "weight_gradient_bytes",
    "Tw": "base_weight_gradient_time",
    "Fo": "optimizer_flops",
    "Yo": "optimizer_bytes",
    "To": "optimizer_time",
    "Wb": "weight_memory",
    "Kb": "activation_memory",
    "Gb": "activation_gradient_memory",
    "Gs": "weight_gradient_memory",
    "link lf": "base_forward_communication_time",
    "link la": "base_backward_communication_time",
    "re-communication lr": "edge_recompute_communication_time",
}
"""Printed symbol to column of the operation list."""

BLOCK_TOTALS = {
    **{f"blk_{stage}_{what}": f"{stage}_{what}" for stage in ("fw", "re", "ag", "wg") for what in "FfYm"},
    **{f"blk_{stage}_T": f"{stage}_T_b" for stage in ("fw", "re", "ag", "wg")},
    **{
        f"{what}{stage}_{block}": f"{what}{stage}_{block}"
        for what in ("sz", "lk", "ex")
        for stage in "far"
        for block in "be"
    },
    "tpreq": "tpreq",
}
"""Printed symbol to attribute of the block table."""

BLOCK_SPACES = {name: name for name in ("spW", "wrk", "sto", "ckp", "wgu", "agr")}

OPTIMIZER_TIMES = {f"blk_op_{what}": what for what in "FfYmT"}

OPTIMIZER_SPACES = {"ops": "space", "wgs": "gradient"}

CHUNK_TIMES = {
    name: name
    for name in (
        "cf", "cb", "fo", "bo", "fmm", "fn_b", "fn_e", "bn_b", "bn_e", "fv_b", "fv_e", "bv_b", "bv_e",
        "f_b", "f_e", "b_b", "b_e", "chf", "chb",
    )
} | {"bmm_": "bmm"}  # fmt: skip

MEMORY = {
    "weight": "all_weight",
    "act": "all_activation",
    "ckpt": "all_checkpoint",
    "wgrad": "all_weight_gradient",
    "optim": "all_optimizer",
    "weight_min": "weight_min",
    "wgrad_min": "weight_gradient_min",
    "optim_min": "optimizer_min",
    "m1_w": "weight",
    "m1_a": "activation",
    "M1": "tier1",
    "M2": "tier2",
}

STATISTICS = {
    "ppf": "block_fw_pp_size",
    "ppb": "block_bw_pp_size",
    "dps": "block_dp_size",
    "dpl_time": "dp_comm_link_time",
    "dpe_time": "dp_comm_exposed_time",
    "dpreq_chunk": "dp_bw_overlap_req_chunk",
    "dpreq_tail": "dp_bw_overlap_req_tail",
    "fw_time": "fw_time",
    "bw_time": "bw_time",
    "optim_time": "optim_step_time",
    "re_time": "recompute_time",
    "rcl_time": "recomm_link_time",
    "rce_time": "recomm_exposed_time",
    "tpl_time": "tp_comm_link_time",
    "tpe_time": "tp_comm_exposed_time",
    "pp_time": "pp_comm_exposed_time",
    "fov_time": "fw_offload_exposed_time",
    "bov_time": "bw_offload_exposed_time",
    "bubble": "bubble_time",
    "total": "total_time",
    "rate": "sample_rate",
    "useful": "useful_flops",
    "eff_compute": "compute_efficiency",
    "eff_system": "system_efficiency",
    "eff_total": "total_efficiency",
    "req_act": "act_offload_bw_req",
    "req_weight": "weight_offload_bw_req",
    "req_opt": "optim_offload_bw_req",
    "req_all": "offload_mem_bw_req",
}

INTERMEDIATE = {
    "sto_all", "nblk", "ch", "cut", "short", "xtra", "td", "mm", "fac", "m1_o", "ideal", "cmpt", "fslack", "bslack",
    "ud", "lm", "oph", "w_b", "w_e", "cc", "wch", "win", "cmpw", "dch", "hits", "infl", "exch", "lw", "infl2",
    "exlast", "avc", "avt",
}  # fmt: skip
"""Printed symbols that the model does not keep: each enters one that is checked, some are recomputed below."""


@cache
def inputs(name: str) -> tuple[Workload, System, Strategy]:
    example = EXAMPLES[name]
    return (
        read_application(DATA / "models" / f"{example['workload']}.json"),
        read_system(DATA / "systems" / f"{example['system']}.json"),
        read_execution(example["execution"]),
    )


@cache
def results(name: str) -> Model:
    workload, system, strategy = inputs(name)
    first = np.zeros(1, dtype=np.int64)
    columns = StrategyTable.from_strategies([strategy])
    return model([workload], [system], columns, workload=first, system=first, reproduce=ALL)


def values_of(source: Any, attributes: dict[str, str]) -> dict[str, float]:
    return {symbol: np.asarray(getattr(source, name)).item() for symbol, name in attributes.items()}


def found_totals(name: str) -> dict[str, float]:
    evaluated = results(name)
    published = statistics(evaluated)
    return {
        **values_of(evaluated.tables.blocks, BLOCK_TOTALS),
        **values_of(evaluated.tables.spaces, BLOCK_SPACES),
        **values_of(evaluated.tables.optimizer, OPTIMIZER_TIMES),
        **values_of(evaluated.tables.state, OPTIMIZER_SPACES),
        **values_of(evaluated.counts, {symbol: symbol for symbol in "mNRCx"}),
        **values_of(evaluated.chunk, CHUNK_TIMES),
        **values_of(evaluated.memory, MEMORY),
        **{symbol: published[statistic].item() for symbol, statistic in STATISTICS.items()},
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_printed_totals(name: str) -> None:
    printed = {symbol: value for symbol, value in EXAMPLES[name]["totals"].items() if symbol not in INTERMEDIATE}
    found = found_totals(name)
    assert set(printed) <= set(found)
    assert {symbol: found[symbol] for symbol in printed} == pytest.approx(printed, rel=RELATIVE, abs=0)


@pytest.mark.parametrize("name", EXAMPLES)
def test_printed_steps_between_the_totals(name: str) -> None:
    printed, found = EXAMPLES[name]["totals"], found_totals(name)
    chunk = found["chf"] + found["chb"]
    p, v = EXAMPLES[name]["execution"]["pipeline_par"], EXAMPLES[name]["execution"]["pipeline_interleaving"]
    in_flight = min(found["m"], p)
    steps = {
        "nblk": found["m"] * found["N"],
        "ch": chunk,
        "td": found["dpl_time"] / found["N"],
        "mm": in_flight,
        "fac": in_flight * (1 + (p - 1) / (v * p)) if v > 1 else in_flight,
        "cut": (p - 1 + printed["xtra"]) * chunk - found["bubble"],
    }
    assert steps == pytest.approx({symbol: printed[symbol] for symbol in steps}, rel=RELATIVE, abs=1e-12)


def test_shipped_example_operations() -> None:
    workload, system, strategy = inputs("shipped")
    rows = {row["name"]: row for row in operation_list(workload, system, strategy, reproduce=ALL).to_dicts()}
    printed = EXAMPLES["shipped"]["operations"]
    assert list(rows) == list(printed)
    for name, values in printed.items():
        expected = {symbol: values[symbol] for symbol in OPERATION_COLUMNS if symbol in values}
        found = {symbol: rows[name][OPERATION_COLUMNS[symbol]] for symbol in expected}
        assert found == pytest.approx(expected, rel=6e-7, abs=0), name  # printed to seven digits


def test_shipped_example_look_ups_by_hand() -> None:
    # Query: 2·8192·25600·6400 flop at 95 % of 312 Tflop/s, plus its bytes at 90 % of 2048 GB/s.
    workload, system, strategy = inputs("shipped")
    query = operation_list(workload, system, strategy, reproduce=ALL).row(4)
    flops, bytes_ = 2 * 8192 * 25600 * 6400, 2 * (8192 * 25600 + 8192 * 6400 + 25600 * 6400)
    assert query["name"] == "AttnBlock_Query"
    assert (query["forward_flops"], query["forward_bytes"]) == (flops, bytes_)
    seconds = flops / (0.95 * 312e12) + bytes_ / (0.90 * 2048e9)
    assert query["base_forward_time"] == pytest.approx(seconds, rel=1e-14)


def test_shipped_example_statistics() -> None:
    workload, system, _ = inputs("shipped")
    printed = EXAMPLES["shipped"]["statistics"]
    assert len(printed) == 96
    # The example fits only just: 79.55 GiB of 80.
    assert evaluate(workload, EXAMPLES["shipped"]["execution"], system) == pytest.approx(printed, rel=1e-12, abs=0)


def test_overlapped_example_products() -> None:
    workload, system, strategy = inputs("overlapped")
    rows = {row["name"]: row for row in operation_list(workload, system, strategy, reproduce=ALL).to_dicts()}
    for name, values in EXAMPLES["overlapped"]["overlapped_products"].items():
        found = {
            "z": rows[name]["forward_flops"] / _peak(rows[name]["forward_flops"], system),
            "y": rows[name]["forward_bytes"] / _bandwidth(rows[name]["forward_bytes"], system),
            "n": rows[name]["base_forward_communication_time"],
            "T": rows[name]["base_forward_time"],
            "E": rows[name]["base_forward_communication_exposed_time"],
            "weight_gradient_n": rows[name]["base_recompute_communication_time"],
            "weight_gradient_T": rows[name]["base_weight_gradient_time"],
        }
        expected = {symbol: values[symbol] for symbol in found}
        assert found == pytest.approx(expected, rel=6e-8, abs=0), name  # printed to eight digits


def _peak(flops: float, system: System) -> float:
    engine = system.matrix["float16"]
    return engine.peak * _first(engine.efficiency.thresholds, engine.efficiency.efficiencies, flops)


def _bandwidth(bytes_: float, system: System) -> float:
    memory = system.memory_tier1
    return memory.bandwidth * _first(memory.efficiency.thresholds, memory.efficiency.efficiencies, bytes_)


def _first(thresholds: tuple[float, ...], efficiencies: tuple[float, ...], size: float) -> float:
    return next(share for threshold, share in zip(thresholds, efficiencies, strict=True) if size >= threshold)
