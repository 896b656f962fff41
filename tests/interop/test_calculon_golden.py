"""The published tool's own numbers, all errata reproduced."""

from __future__ import annotations

import csv
import gzip
import importlib
import json
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign_opt.analytical import ALL, NONE, estimate
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.analytical.statistics import NAMES
from codesign_opt.errors import CodesignError
from codesign_opt.interop.calculon import (
    evaluate,
    evaluate_many,
    layers,
    read_application,
    read_execution,
    read_system,
)
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.legality import PUBLISHED

DATA = Path(__file__).parents[1] / "data" / "calculon"
RELATIVE = 1e-9


def lines(name: str) -> list[Any]:
    with gzip.open(DATA / name, "rt") as file:
        return [json.loads(line) for line in file]


@cache
def shipped(kind: str, name: str) -> dict[str, Any]:
    return json.loads((DATA / kind / f"{name}.json").read_text())


def case_of(record: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return record["app"], record["exe"], shipped("systems", record["sys"])


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """The names whose values differ; null only equals null, and 0 only 0."""
    return [
        f"{name}: {found[name]!r} instead of {value!r}"
        for name, value in expected.items()
        if (found[name] is None) != (value is None)
        or (value is not None and not math.isclose(found[name], value, rel_tol=RELATIVE, abs_tol=0.0))
    ]


@pytest.fixture(scope="module")
def golden() -> list[tuple[dict[str, Any], Any]]:
    """Every golden record with our result."""
    records = lines("calculon_golden.jsonl.gz")
    return list(zip(records, evaluate_many([case_of(record) for record in records]), strict=True))


def test_every_statistic_of_the_feasible_cases(golden: list[tuple[dict[str, Any], Any]]) -> None:
    feasible = [(record, found) for record, found in golden if "stats" in record]
    assert len(feasible) == 1200
    assert [(record["id"], found) for record, found in feasible if isinstance(found, CodesignError)] == []
    wrong = {record["id"]: differences(found, record["stats"]) for record, found in feasible}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_statistics_have_the_published_names_in_the_published_order(golden: list[tuple[dict[str, Any], Any]]) -> None:
    record, found = next((record, found) for record, found in golden if "stats" in record)
    assert len(NAMES) == 96
    assert set(found) == set(record["stats"])
    assert list(found) == list(NAMES)


def test_every_failure_code(golden: list[tuple[dict[str, Any], Any]]) -> None:
    refused = [(record, found) for record, found in golden if "fail" in record]
    assert len(refused) == 300
    assert {
        record["id"]: (record["fail"], getattr(found, "code", "feasible"))
        for record, found in refused
        if getattr(found, "code", "feasible") != record["fail"]
    } == {}


def test_rules_are_malformed_or_rejected_as_published(golden: list[tuple[dict[str, Any], Any]]) -> None:
    published = {record["fail"]: record["fail_class"] for record, _ in golden if "fail" in record}
    ours = {rule.code: "assert" if rule.malformed else "reject" for rule in PUBLISHED}
    ours |= {"memory_tier1": "reject", "memory_tier2": "reject"}
    assert {code: ours[code] for code in published} == published


def test_the_failure_cases_cover_every_rule(golden: list[tuple[dict[str, Any], Any]]) -> None:
    counts = Counter(record["fail"] for record, _ in golden if "fail" in record)
    assert {rule.code for rule in PUBLISHED} | {"memory_tier1", "memory_tier2"} == set(counts)


def test_memory_needs_of_cases_that_do_not_fit(golden: list[tuple[dict[str, Any], Any]]) -> None:
    overflowing = [record for record, _ in golden if "mem_req" in record]
    assert len(overflowing) > 50
    for record in overflowing[::4]:
        application, execution, system = case_of(record)
        table = StrategyTable.from_strategies([read_execution(execution)])
        memory = estimate(read_application(application), read_system(system), table, reproduce=ALL).memory
        assert [memory.tier1[0], memory.tier2[0]] == pytest.approx(record["mem_req"], rel=RELATIVE), record["id"]


def test_a_memory_failure_says_need_and_capacity(golden: list[tuple[dict[str, Any], Any]]) -> None:
    for record, found in golden:
        if record.get("fail") in ("memory_tier1", "memory_tier2"):
            tier = record["fail"][-1]
            capacity = shipped("systems", record["sys"])[f"mem{tier}"]["GiB"]
            assert f"of memory tier {tier}, which holds" in found.message
            assert ("0 B" if capacity == 0 else f"{capacity:.4g} GiB") in found.message


def test_every_flag_combination() -> None:
    header, *rows = lines("calculon_flagcover.jsonl.gz")
    assert len(rows) == 4608
    found = evaluate_many(
        [
            (
                shipped("models", application),
                dict(zip(header["execution_fields"], execution, strict=True)),
                shipped("systems", system),
            )
            for application, system, execution, _ in rows
        ]
    )
    assert [result for result in found if isinstance(result, CodesignError)] == []
    expected = np.array([values for *_, values in rows], dtype=np.float64)
    ours = np.array([[result[name] for name in header["stats_fields"]] for result in found])
    np.testing.assert_allclose(ours, expected, rtol=RELATIVE, atol=0.0)


def test_the_published_table_of_the_tool() -> None:
    """What the tool says of arXiv 2205.05198: memory of figures 1 and 7, times of table 5."""
    configurations = json.loads((DATA / "megatron_seqsel_configs.json").read_text())
    found = {
        key: evaluate(shipped("models", entry["app_name"]), entry["exe"], shipped("systems", entry["sys"]))
        for key, entry in configurations.items()
    }

    def kept(key: str) -> Any:
        return found[key]["act_space"] + found[key]["act_checkpoint_size"]

    with (DATA / "megatron_seqsel.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["exec_key"] for row in rows} == set(configurations)
    for row in rows:
        key, ours = row["exec_key"], found[row["exec_key"]]
        value = {
            "params_and_optimizer": lambda ours, _: (
                sum(ours[f"{what}_space"] for what in ("weight", "weight_grad", "optimizer")) / 1024**3
            ),
            "activations": lambda ours, _: ours["act_space"] / 1024**3,
            "activations_relative_to_none": lambda _, key: 100 * kept(key) / kept(key.rpartition("_")[0] + "_none"),
            "iteration_time": lambda ours, _: ours["total_time"],
            "proc_mem_tier1_cap_req": lambda ours, _: ours["proc_mem_tier1_cap_req"] / 1024**3,
        }[row["metric"]](ours, key)
        assert value == pytest.approx(float(row["calculon"]), rel=RELATIVE), (key, row["metric"])


@pytest.mark.parametrize("record", lines("calculon_layers.jsonl.gz"), ids=lambda record: record["id"])
def test_every_value_of_every_operation(record: dict[str, Any]) -> None:
    expected = dict(record["stats"])
    operations = expected.pop("layers")
    found = layers(*case_of(record))
    assert [list(operation) for operation in found] == [list(operation) for operation in operations]
    assert [operation.pop("name") for operation in found] == [operation.pop("name") for operation in operations]
    assert [differences(ours, theirs) for ours, theirs in zip(found, operations, strict=True)] == [[]] * len(found)
    assert differences(evaluate(*case_of(record)), expected) == []


def test_arithmetic_intensity_without_memory_traffic_is_infinite() -> None:
    # The corrected model keeps a fused activation in registers: flop, but no bytes.
    record = lines("calculon_layers.jsonl.gz")[1]
    execution = {**record["exe"], "fused_activation": True}
    application, _, system = case_of(record)
    by_name = {row["name"]: row for row in layers(application, execution, system, NONE)}
    activation = by_name["MlpBlock_GeLU"]
    assert activation["fw_flops"] > 0
    assert activation["fw_mem_accessed"] == 0
    assert activation["fw_arithmetic_intensity"] == math.inf
    assert activation["wgrad_arithmetic_intensity"] == 0


@pytest.mark.parametrize("reproduce", [ALL, NONE], ids=["all", "none"])
def test_operations_add_up_to_the_block(reproduce: Any) -> None:
    for record in lines("calculon_layers.jsonl.gz")[4:]:
        application, execution, system = case_of(record)
        # The corrected model needs more memory in some cases.
        roomy = system | {tier: system[tier] | {"GiB": 1e6} for tier in ("mem1", "mem2")}
        training = execution["training"]
        block = evaluate(application, execution, roomy, reproduce)
        operations = operation_list(
            read_application(application), read_system(system), read_execution(execution), reproduce=reproduce
        )
        expected = {
            "forward_flops": block["block_fw_flops"],
            "forward_bytes": block["block_fw_mem_accessed"],
            "base_forward_time": block["block_fw_time"],
            "base_forward_communication_bytes": block["baseblock_fw_tp_size"],
            "edge_forward_communication_time": block["edgeblock_fw_tp_time"],
            "edge_forward_communication_exposed_time": block["edgeblock_fw_tp_time_exposed"],
            "weight_memory": block["block_weight_space"],
        }
        if training:
            expected |= {
                "activation_gradient_flops": block["block_agrad_flops"],
                "weight_gradient_bytes": block["block_wgrad_mem_accessed"],
                "base_weight_gradient_time": block["block_wgrad_time"],
                "edge_backward_communication_exposed_time": block["edgeblock_agrad_tp_time_exposed"],
                "base_recompute_communication_bytes": block["baseblock_recomm_size"],
                "edge_recompute_communication_time": block["edgeblock_recomm_time"],
                "edge_recompute_communication_exposed_time": block["edgeblock_recomm_time_exposed"],
                "optimizer_flops": block["block_optim_flops"],
                "optimizer_bytes": block["block_optim_mem_accessed"],
                "optimizer_time": block["block_optim_time"],
                "optimizer_memory": block["block_optimizer_space"],
                "weight_gradient_memory": block["block_weight_grad_space"],
                "activation_gradient_memory": block["block_act_grad_space"],
            }
        sums = {name: float(operations[name].sum()) for name in expected}
        assert sums == pytest.approx(expected, rel=1e-12), record["id"]


def test_operation_list_carries_units() -> None:
    record = lines("calculon_layers.jsonl.gz")[7]
    application, execution, system = case_of(record)
    operations = operation_list(read_application(application), read_system(system), read_execution(execution))
    assert operations.rows == 20  # overlap and multiquery attention
    units = {
        "name": "",
        "inputs": "",
        "tiles": "",
        "forward_flops": "flop",
        "optimizer_bytes": "B",
        "base_forward_communication_exposed_time": "s",
        "edge_backward_communication_bytes": "B",
        "activation_memory": "B",
    }
    assert {name: operations.units[name] for name in units} == units
    assert set(operations["tiles"]) == {1.0, float(execution["tensor_par"])}


def test_layers_refuse_what_evaluate_refuses() -> None:
    application, execution, system = case_of(lines("calculon_layers.jsonl.gz")[1])
    with pytest.raises(CodesignError) as caught:
        layers(application, {**execution, "num_procs": execution["num_procs"] + 1}, system)
    assert caught.value.code == "procs_product"


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    """Cases, feasible and not."""
    return [case_of(record) for record in lines("calculon_golden.jsonl.gz")[:12]]


class TestEvaluateMany:
    """One pass over many cases, whatever becomes of each."""

    def test_evaluate_raises_the_error_with_its_code(self, cases: list[Any]) -> None:
        application, execution, system = cases[0]
        with pytest.raises(CodesignError) as caught:
            evaluate(application, {**execution, "microbatch_size": 0}, system)
        assert caught.value.code == "nonpositive"
        assert "microbatch 0" in caught.value.message

    def test_order_with_errors_and_results_mixed(self, golden: list[tuple[dict[str, Any], Any]]) -> None:
        good = [record for record, _ in golden if "stats" in record][:6]
        bad = [record for record, _ in golden if "fail" in record][:6]
        mixed = [record for pair in zip(bad, good, strict=True) for record in pair]
        found = evaluate_many([case_of(record) for record in mixed])
        for record, result in zip(mixed, found, strict=True):
            if "fail" in record:
                assert isinstance(result, CodesignError)
                assert result.code == record["fail"]
            else:
                assert differences(evaluate(*case_of(record)), result) == []

    def test_one_call_equals_one_by_one(self, cases: list[Any]) -> None:
        for case, together in zip(cases, evaluate_many(cases), strict=True):
            if isinstance(together, CodesignError):
                with pytest.raises(CodesignError) as caught:
                    evaluate(*case)
                assert (caught.value.code, str(caught.value)) == (together.code, str(together))
            else:
                assert differences(evaluate(*case), together) == []

    def test_calls_the_model_once(self, cases: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        module = importlib.import_module("codesign_opt.interop.calculon.evaluate")
        calls: list[int] = []
        model = module.model

        def counted(workloads: Any, systems: Any, strategies: Any, **arguments: Any) -> Any:
            calls.append(len(strategies["tp"]))
            return model(workloads, systems, strategies, **arguments)

        monkeypatch.setattr(module, "model", counted)
        found = evaluate_many(cases * 10)
        feasible_or_too_large = [
            result
            for result in found
            if not isinstance(result, CodesignError) or result.code in ("memory_tier1", "memory_tier2")
        ]
        assert calls == [len(feasible_or_too_large)]

    def test_nothing_to_evaluate(self, cases: list[Any]) -> None:
        assert evaluate_many([]) == []
        application, execution, system = cases[0]
        [refused] = evaluate_many([(application, {**execution, "batch_size": -1}, system)])
        assert isinstance(refused, CodesignError)
        assert refused.code == "nonpositive"

    def test_objects_in_place_of_json(self, cases: list[Any]) -> None:
        objects = [
            (read_application(application), execution, read_system(system)) for application, execution, system in cases
        ]
        for ours, theirs in zip(evaluate_many(objects), evaluate_many(cases), strict=True):
            if isinstance(theirs, CodesignError):
                assert isinstance(ours, CodesignError)
                assert ours.code == theirs.code
            else:
                assert ours == theirs

    def test_corrected_model_differs(self, cases: list[Any]) -> None:
        published, corrected = evaluate_many(cases, ALL), evaluate_many(cases, NONE)
        times = [
            (a["total_time"], b["total_time"])
            for a, b in zip(published, corrected, strict=True)
            if not isinstance(a, CodesignError) and not isinstance(b, CodesignError)
        ]
        assert times
        assert all(a != b for a, b in times)
