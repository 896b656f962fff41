"""Reading and writing the published tool's JSON files."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError, StrategyError
from codesign_opt.interop.calculon import (
    evaluate,
    evaluate_many,
    read_application,
    read_execution,
    read_system,
    write_application,
    write_execution,
    write_system,
)
from codesign_opt.interop.calculon.names import EXECUTION
from codesign_opt.strategies import Attention, Datatype, Recompute, Strategy, TpCommunication, TpOverlap
from codesign_opt.systems import Price
from codesign_opt.workloads import Workload

DATA = Path(__file__).parents[1] / "data" / "calculon"
MODELS = sorted((DATA / "models").glob("*.json"))
SYSTEMS = sorted((DATA / "systems").glob("*.json"))

APPLICATION = json.loads((DATA / "models" / "gpt3-13B.json").read_text())
SYSTEM = json.loads((DATA / "systems" / "a100_80g.json").read_text())
EXECUTION_JSON = json.loads((DATA / "search_golden.json").read_text())["top"][0]["execution"]

COUNTS = st.integers(1, 2**40)
STRATEGIES = st.builds(
    Strategy,
    **dict.fromkeys(("processors", "tp", "pp", "dp", "vpp", "batch", "microbatch"), COUNTS),
    **{name: st.integers(0, 3) for name in ("tp_tier", "pp_tier", "dp_tier")},
    **{
        name: st.booleans()
        for name in (
            "fused_activation", "gather_redo", "optimizer_sharding", "dp_overlap",
            "weight_offload", "activation_offload", "optimizer_offload", "training",
        )
    },
    datatype=st.sampled_from(Datatype),
    attention=st.sampled_from(Attention),
    recompute=st.sampled_from(Recompute),
    tp_communication=st.sampled_from(TpCommunication),
    tp_overlap=st.sampled_from(TpOverlap),
)  # fmt: skip
WORKLOADS = st.builds(
    Workload,
    name=st.just("any"),
    **dict.fromkeys(("hidden", "feedforward", "sequence_length", "attention_heads", "head_size", "blocks"), COUNTS),
)


def through_json(data: Any) -> Any:
    return json.loads(json.dumps(data))


def changed(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a dotted path replaced."""
    result = copy.deepcopy(data)
    place: Any = result
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        place = place[part]
    place[last] = value
    return result


def without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


class TestRoundTrips:
    """Export, then import, gives the same thing."""

    @pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
    def test_shipped_application(self, path: Path) -> None:
        workload = read_application(path)
        assert workload.name == path.stem
        assert write_application(workload) == json.loads(path.read_text())

    @pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
    def test_shipped_system(self, path: Path) -> None:
        system = read_system(path)
        assert system.name == path.stem
        assert write_system(system) == json.loads(path.read_text())

    @given(workload=WORKLOADS)
    def test_any_workload(self, workload: Workload) -> None:
        assert read_application(through_json(write_application(workload)), name=workload.name) == workload

    @given(strategy=STRATEGIES)
    def test_any_strategy(self, strategy: Strategy) -> None:
        assert read_execution(through_json(write_execution(strategy))) == strategy

    @pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
    @settings(max_examples=12, deadline=None)
    @given(data=st.data())
    def test_any_change_of_a_shipped_system(self, path: Path, data: st.DataObject) -> None:
        foreign = json.loads(path.read_text())
        positive = st.floats(1e-3, 1e6)
        for section in ("mem1", "mem2"):
            foreign[section]["GiB"] = data.draw(st.floats(0, 1e6))
            foreign[section]["GBps"] = data.draw(positive)
            thresholds = data.draw(st.lists(positive, unique=True, max_size=4))
            shares = data.draw(st.lists(st.floats(0.01, 1), min_size=5, max_size=5))
            sizes = [*sorted(thresholds, reverse=True), 0]
            foreign[section]["MB_efficiency"] = [list(pair) for pair in zip(sizes, shares, strict=False)]
        for engine in [*foreign["matrix"].values(), *foreign["vector"].values()]:
            engine["tflops"] = data.draw(positive)
        for network in foreign["networks"]:
            network |= {
                "bandwidth": data.draw(positive),
                "latency": data.draw(st.floats(0, 1)),
                "size": data.draw(COUNTS),
                "must_be_filled": data.draw(st.booleans()),
            }
            network["ops"]["all_reduce"] = [data.draw(positive), data.draw(st.sampled_from([-1.0, 0.0, 1.0]))]
        system = read_system(foreign, name="any")
        exported = through_json(write_system(system))
        assert read_system(exported, name="any") == system
        # Back in the file's units a value may be off by its last bit.
        assert exported["mem1"]["GBps"] == pytest.approx(foreign["mem1"]["GBps"], rel=3e-16)
        assert exported["networks"] == [
            network | {"bandwidth": pytest.approx(network["bandwidth"], rel=3e-16)} for network in foreign["networks"]
        ]

    def test_what_the_format_cannot_hold_is_left_out(self) -> None:
        system = read_system(SYSTEM, name="a100")
        assert write_system(replace(system, price=Price(processor=20_000.0))) == SYSTEM

    def test_files_may_start_with_a_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "model.json"
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps(APPLICATION).encode())
        assert read_application(path, name="application") == read_application(APPLICATION)


class TestExecutionKeys:
    """An execution has exactly the 23 published keys."""

    def test_export_has_them_in_the_published_order(self) -> None:
        exported = write_execution(read_execution(EXECUTION_JSON))
        assert exported == EXECUTION_JSON
        assert list(exported) == list(EXECUTION_JSON)
        assert len(exported) == 23

    @pytest.mark.parametrize("key", EXECUTION)
    def test_one_fewer_is_refused(self, key: str) -> None:
        with pytest.raises(InputError, match=f"missing key '{key}'"):
            read_execution(without(EXECUTION_JSON, key))

    def test_one_more_is_refused(self) -> None:
        with pytest.raises(InputError, match="unknown key 'context_par'"):
            read_execution({**EXECUTION_JSON, "context_par": 1})


INFINITE = float("inf")
NOT_A_NUMBER = float("nan")

BROKEN_APPLICATIONS = {
    "unknown key": ({**without(APPLICATION, "hidden"), "hiden": 8}, "unknown key 'hiden'", "did you mean 'hidden'?"),
    "foreign key": ({**APPLICATION, "vocabulary": 8}, "unknown key 'vocabulary'", "allowed: hidden, feedforward"),
    "missing key": (without(APPLICATION, "num_blocks"), "missing key 'num_blocks'", "required: hidden, feedforward"),
    "empty object": ({}, "missing key 'hidden'", "required: hidden"),
    "text": ({**APPLICATION, "hidden": "5140"}, "hidden = '5140'", "positive whole number"),
    "fraction": ({**APPLICATION, "attn_heads": 40.5}, "attn_heads = 40.5", "positive whole number"),
    "float": ({**APPLICATION, "attn_heads": 40.0}, "attn_heads = 40.0", "positive whole number"),
    "true": ({**APPLICATION, "num_blocks": True}, "num_blocks = True", "positive whole number"),
    "null": ({**APPLICATION, "num_blocks": None}, "num_blocks = None", "positive whole number"),
    "negative": ({**APPLICATION, "seq_size": -2048}, "seq_size = -2048", "positive whole number"),
    "zero": ({**APPLICATION, "seq_size": 0}, "seq_size = 0", "positive whole number"),
    "NaN": ({**APPLICATION, "feedforward": NOT_A_NUMBER}, "feedforward = nan", "positive whole number"),
    "infinite": ({**APPLICATION, "feedforward": INFINITE}, "feedforward = inf", "positive whole number"),
    "beyond 2^53": ({**APPLICATION, "hidden": 2**60}, f"hidden = {2**60}", "positive whole number"),
}

BROKEN_EXECUTIONS = {
    "near key": (
        {**without(EXECUTION_JSON, "tensor_par"), "tensor_parallel": 4},
        "unknown key 'tensor_parallel'",
        "did you mean 'tensor_par'",
    ),
    "text for a count": ({**EXECUTION_JSON, "tensor_par": "4"}, "tensor_par = '4'", "whole number"),
    "true for a count": ({**EXECUTION_JSON, "tensor_par": True}, "tensor_par = True", "whole number"),
    "float for a count": ({**EXECUTION_JSON, "batch_size": 16.0}, "batch_size = 16.0", "whole number"),
    "NaN for a count": ({**EXECUTION_JSON, "batch_size": NOT_A_NUMBER}, "batch_size = nan", "whole number"),
    "number for a flag": ({**EXECUTION_JSON, "training": 1}, "training = 1", "true or false"),
    "null for a flag": ({**EXECUTION_JSON, "weight_offload": None}, "weight_offload = None", "true or false"),
    "text for a flag": ({**EXECUTION_JSON, "training": "true"}, "training = 'true'", "true or false"),
}

UNKNOWN_WORDS = {
    "datatype": ("fp16", "float8, float16, bfloat16, float32", "datatype_unknown"),
    "attention_type": ("grouped", "multihead, multiquery", "bad_enum"),
    "activation_recompute": ("selective", "none, attn_only, full", "bad_enum"),
    "tensor_par_comm_type": ("allreduce", "ar, p2p_rs_ag, rs_ag", "bad_enum"),
    "tensor_par_overlap": (None, "none, ring, pipe", "bad_enum"),
}

ENDS_WITH_0 = "thresholds must fall strictly and end with 0"

BROKEN_SYSTEMS = {
    "near key": ("mem3", {}, "unknown key 'mem3'", "did you mean 'mem"),
    "near key below": ("mem1.GB", 80, "mem1 … unknown key 'GB'", "GiB"),
    "near key of a network": ("networks.1.latencey", 1, "networks[1] … unknown key 'latencey'", "'latency'"),
    "unknown collective": ("networks.0.ops.cast", [1, 0], "networks[0].ops … unknown key 'cast'", "all_reduce"),
    "unknown datatype": ("matrix.fp16", {}, "matrix … unknown datatype 'fp16'", "float16"),
    "unknown mode": ("processing_mode", "overlap", "processing_mode = 'overlap'", "roofline, no_overlap"),
    "no networks": ("networks", [], "networks", "at least one network"),
    "networks not a list": ("networks", {}, "networks", "at least one network"),
    "network not an object": ("networks.0", 300, "networks[0]", "must be an object"),
    "no engine": ("vector", {}, "vector", "at least one datatype"),
    "engine not an object": ("vector.float16", 78, "vector.float16", "must be an object"),
    "memory not an object": ("mem2", None, "mem2", "must be an object"),
    "text": ("mem1.GiB", "80", "mem1.GiB = '80'", "number >= 0"),
    "true": ("mem1.GiB", True, "mem1.GiB = True", "number >= 0"),
    "negative": ("mem1.GiB", -80, "mem1.GiB = -80", "number >= 0"),
    "NaN": ("mem1.GBps", NOT_A_NUMBER, "mem1.GBps = nan", "number > 0"),
    "infinite": ("matrix.float16.tflops", INFINITE, "matrix.float16.tflops = inf", "number > 0"),
    "no speed": ("mem2.GBps", 0, "mem2.GBps = 0", "number > 0"),
    "efficiency above 1": ("networks.0.efficiency", 1.5, "networks[0].efficiency = 1.5", "> 0 and <= 1"),
    "all compute taken": ("networks.0.processor_usage", 1, "networks[0].processor_usage = 1", ">= 0 and < 1"),
    "size not whole": ("networks.1.size", 8.0, "networks[1].size = 8.0", "positive whole number"),
    "flag as number": ("networks.0.must_be_filled", 1, "networks[0].must_be_filled = 1", "true or false"),
    "collective not a pair": ("networks.0.ops.p2p", [1], "networks[0].ops.p2p = [1]", "pair [scalar, offset]"),
    "offset below -1": ("networks.0.ops.all_reduce", [2, -2], "ops.all_reduce.offset = -2", "number >= -1"),
    "curve not falling": ("mem1.MB_efficiency", [[10, 0.9], [20, 0.5], [0, 0.1]], "mem1.MB_efficiency", ENDS_WITH_0),
    "curve with a step twice": ("mem1.MB_efficiency", [[9, 0.9], [9, 0.5], [0, 1]], "mem1.MB_efficiency", ENDS_WITH_0),
    "curve not ending with 0": ("mem2.MB_efficiency", [[10, 0.9], [1, 0.5]], "mem2.MB_efficiency", ENDS_WITH_0),
    "curve empty": ("mem1.MB_efficiency", [], "mem1.MB_efficiency", "list of [threshold, efficiency] pairs"),
    "curve point not a pair": ("mem1.MB_efficiency", [[0]], "mem1.MB_efficiency[0] = [0]", "pair"),
    "curve with NaN": ("mem1.MB_efficiency", [[NOT_A_NUMBER, 1], [0, 1]], "[0].threshold = nan", "number >= 0"),
    "curve with efficiency 0": (
        "matrix.float16.gflops_efficiency", [[0, 0]], "gflops_efficiency[0].efficiency = 0", "> 0 and <= 1",
    ),
    "number too large for a float": ("mem1.GiB", 10**400, "mem1.GiB", "number >= 0"),
    "number too large in SI units": ("matrix.float16.tflops", 1e300, "matrix.float16.tflops = 1e+300", "number > 0"),
}  # fmt: skip


class TestBrokenFiles:
    """One message that names file, key and value, and says what is allowed."""

    @staticmethod
    def refuse(read: Callable[[Path], Any], tmp_path: Path, data: Any, named: str, allowed: str) -> InputError:
        path = tmp_path / "broken.json"
        path.write_text(json.dumps(data))
        with pytest.raises(InputError) as caught:
            read(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert re.search(".?.?".join(map(re.escape, named.split(" … "))), text), text
        assert allowed in text
        assert "\n" not in text
        return caught.value

    @pytest.mark.parametrize("case", BROKEN_APPLICATIONS)
    def test_application(self, case: str, tmp_path: Path) -> None:
        self.refuse(read_application, tmp_path, *BROKEN_APPLICATIONS[case])

    @pytest.mark.parametrize("case", BROKEN_EXECUTIONS)
    def test_execution(self, case: str, tmp_path: Path) -> None:
        self.refuse(read_execution, tmp_path, *BROKEN_EXECUTIONS[case])

    @pytest.mark.parametrize("key", UNKNOWN_WORDS)
    def test_unknown_word(self, key: str, tmp_path: Path) -> None:
        word, allowed, code = UNKNOWN_WORDS[key]
        error = self.refuse(read_execution, tmp_path, {**EXECUTION_JSON, key: word}, f"{key} = {word!r}", allowed)
        assert isinstance(error, StrategyError)
        assert error.code == code

    @pytest.mark.parametrize("case", BROKEN_SYSTEMS)
    def test_system(self, case: str, tmp_path: Path) -> None:
        path, value, named, allowed = BROKEN_SYSTEMS[case]
        self.refuse(read_system, tmp_path, changed(SYSTEM, path, value), named, allowed)

    @pytest.mark.parametrize("key", SYSTEM)
    def test_system_without_a_section(self, key: str, tmp_path: Path) -> None:
        self.refuse(read_system, tmp_path, without(SYSTEM, key), f"missing key '{key}'", "required: matrix, vector")


CONTENTS = {
    "empty": (b"", "not JSON"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe", "not JSON"),
    "cut off": (json.dumps(APPLICATION).encode()[:-5], "not JSON"),
    "TOML": (b'hidden = 5120\nfeedforward = "x"', "not JSON"),
    "a list": (b"[1, 2]", "must hold one JSON object"),
    "a number": (b"3", "must hold one JSON object"),
    "nested too deeply": (b"[" * 100_000, "not JSON"),
    "a number of 5,000 digits": (b'{"hidden": ' + b"9" * 5000 + b"}", "not JSON"),
    "huge": (b" " * 10_000_001, "larger than 10 MB"),
}


@pytest.mark.parametrize("read", [read_application, read_execution, read_system])
class TestUnreadableFiles:
    """What is not a JSON object at all."""

    @pytest.mark.parametrize("case", CONTENTS)
    def test_content(self, read: Callable[[Path], Any], case: str, tmp_path: Path) -> None:
        path = tmp_path / "broken.json"
        content, problem = CONTENTS[case]
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.message.startswith(f"{path}: {problem}")

    def test_directory(self, read: Callable[[Path], Any], tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            read(tmp_path)
        assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"

    def test_missing(self, read: Callable[[Path], Any], tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            read(tmp_path / "none.json")
        assert str(caught.value) == f"{tmp_path / 'none.json'}: cannot be read: No such file or directory"

    @pytest.mark.parametrize("source", [[], None, 3], ids=["list", "None", "number"])
    def test_neither_object_nor_path(self, read: Callable[[Any], Any], source: Any) -> None:
        with pytest.raises(InputError):
            read(source)


class TestBrokenInputOfEvaluate:
    """The same messages reach callers of `evaluate`, and one broken case does not take others with it."""

    @pytest.mark.parametrize("key", UNKNOWN_WORDS)
    def test_unknown_word(self, key: str) -> None:
        word, allowed, code = UNKNOWN_WORDS[key]
        with pytest.raises(StrategyError) as caught:
            evaluate(APPLICATION, {**EXECUTION_JSON, key: word}, SYSTEM)
        assert caught.value.code == code
        assert f"{key} = {word!r}" in str(caught.value)
        assert allowed in str(caught.value)

    def test_malformed_case_among_others(self) -> None:
        good = (APPLICATION, EXECUTION_JSON, SYSTEM)
        found = evaluate_many(
            [
                good,
                (APPLICATION, without(EXECUTION_JSON, "training"), SYSTEM),
                ({**APPLICATION, "hidden": -1}, EXECUTION_JSON, SYSTEM),
                (APPLICATION, EXECUTION_JSON, without(SYSTEM, "mem1")),
                good,
            ]
        )
        assert [type(result) for result in found] == [dict, InputError, InputError, InputError, dict]
        assert ["missing key 'training'" in str(found[1]), "hidden = -1" in str(found[2])] == [True, True]
        assert found[0] == found[4]

    def test_value_that_json_cannot_hold(self) -> None:
        with pytest.raises(InputError, match="hidden"):
            evaluate({**APPLICATION, "hidden": {1, 2}}, EXECUTION_JSON, SYSTEM)
