"""`codesign-opt estimate`: one strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("estimate", "--workload", "gpt3-175b", "--system", "a100-80g")
LAYOUT = ("--tp", "8", "--pp", "8", "--dp", "8", "--batch", "512")


def test_breakdowns_and_key_numbers(run: Any) -> None:
    result = run(*ARGUMENTS, *LAYOUT, "--recompute", "full")
    assert result.status == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == "gpt3-175b on 512 × a100-80g"
    assert lines[1].startswith("tp 8 pp 8 dp 8 vpp 1 batch 512 microbatch 1, recompute full")
    for words in ("step time", "  backward", "memory tier 1", "  optimizer", "mfu", "token_rate"):
        assert any(line.startswith(words) for line in lines)


def test_json_has_every_metric_with_its_unit(run: Any) -> None:
    from codesign_opt.objectives import METRICS

    document = run(*ARGUMENTS, *LAYOUT, "--recompute", "full", "--json").document
    assert document["status"] == ""
    assert document["strategy"]["processors"] == 512
    assert document["strategy"]["recompute"] == "full"
    metrics = document["metrics"]
    available = {name for name, metric in METRICS.items() if metric.needs in ("", "memory_tier2")}
    assert set(metrics) == available - {"processors"}  # which is one of the strategy's
    assert metrics["step_time"]["unit"] == "s"
    assert metrics["sample_rate"]["value"] == pytest.approx(512 / metrics["step_time"]["value"])


def test_the_published_tools_files_and_errata_give_its_numbers(run: Any, folder: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "calculon"
    example = json.loads((data / "worked_examples.json").read_text())["shipped"]
    (folder / "execution.json").write_text(json.dumps(example["execution"]))
    files = {
        "--workload": str(data / "models" / f"{example['workload']}.json"),
        "--system": str(data / "systems" / f"{example['system']}.json"),
        "--strategy": "execution.json",
    }
    options = [word for pair in files.items() for word in pair]
    reproduced = run("estimate", *options, "--reproduce", "all", "--json").document
    published = example["statistics"]
    for ours, theirs in (("step_time", "total_time"), ("memory_tier1_used", "proc_mem_tier1_cap_req")):
        assert reproduced["metrics"][ours]["value"] == pytest.approx(published[theirs], rel=1e-6)
    corrected = run("estimate", *options, "--json").document
    assert corrected["reproduce"] == []
    assert corrected["metrics"]["step_time"]["value"] != reproduced["metrics"]["step_time"]["value"]


def test_processors_and_dp_follow_from_each_other(run: Any) -> None:
    base = (*ARGUMENTS, "--tp", "8", "--pp", "8", "--batch", "512", "--recompute", "full", "--json")
    assert run(*base, "--processors", "512").document["strategy"]["dp"] == 8
    assert run(*base, "--dp", "4").document["strategy"]["processors"] == 256
    assert run(*base).document["strategy"]["processors"] == 64


def test_options_change_what_a_file_says(run: Any, folder: Path) -> None:
    (folder / "s.toml").write_text('tp = 8\npp = 8\ndp = 8\nprocessors = 512\nbatch = 512\nrecompute = "full"\n')
    base = (*ARGUMENTS, "--strategy", "s.toml", "--json")
    assert run(*base).document["strategy"]["dp"] == 8
    changed = run(*base, "--dp", "16", "--optimizer-sharding").document["strategy"]
    assert (changed["dp"], changed["processors"], changed["recompute"]) == (16, 1024, "full")
    assert changed["optimizer_sharding"] is True


def test_operations_of_a_block(run: Any) -> None:
    listed = (*ARGUMENTS, *LAYOUT, "--recompute", "full", "--operations")
    operations = run(*listed, "--json").document["operations"]
    assert {column["unit"] for column in operations["columns"]} >= {"flop", "B", "s"}
    text = run(*listed).out
    assert all(row["name"] in text for row in operations["rows"])
    assert max(map(len, text.splitlines())) <= 100


def test_what_does_not_fit_is_shown_and_the_overflow_named(run: Any) -> None:
    result = run(*ARGUMENTS, *LAYOUT)
    assert result.status == 1
    assert "missing" in result.out
    assert result.err.startswith("error: does not fit: memory_tier1 needs 91.")
    assert "has 80 GiB" in result.err
    assert run(*ARGUMENTS, *LAYOUT, "--json").document["status"] == "memory_tier1"


def test_an_illegal_strategy_is_refused_with_every_rule_and_the_nearest_values(run: Any) -> None:
    result = run(*ARGUMENTS, "--tp", "7", "--pp", "8", "--dp", "8", "--batch", "511", "--gather-redo")
    assert result.status == 2
    assert result.out == ""
    for words in ("511 is not a multiple of dp 8", "gather_redo", "96 attention heads are not a multiple of tp 7"):
        assert words in result.err
    assert "tp may be 6 or 8" in result.err
    assert "batch may be 504 or 512" in result.err


H100 = ("estimate", "--workload", "gpt3-175b", "--system", "h100-sxm", "--datatype", "bfloat16")
FITTING = ("--tp", "8", "--pp", "8", "--dp", "8", "--batch", "512", "--recompute", "full")


def test_a_target_reports_every_rule_on_a_line_of_its_own(run: Any) -> None:
    wanted = (*FITTING, "--zero", "2", "--vpp", "4", "--schedule", "gpipe", "--weight-offload")
    result = run(*H100, *wanted, "--target", "nanotron")
    assert (result.status, result.out) == (2, "")
    first, *lines = result.err.splitlines()
    assert first == "error: nanotron (main, 2026-09) refuses the strategy:"
    codes = [line.partition("[")[2].partition("]")[0] for line in lines]
    assert codes == [
        "schedule_vpp", "zero_unavailable", "vpp_unavailable", "attention_kernel_unavailable",
        "weight_offload_unavailable",
    ]  # fmt: skip
    assert lines[1].strip() == (
        "ZeRO stage 2 is not available in Nanotron [zero_unavailable]; use ZeRO stage 1 (gradient_sharding and "
        "weight_sharding off) or 0"
    )


@pytest.mark.parametrize(
    ("zero", "refused"), [("0", False), ("1", False), ("2", True), ("3", True)],
)  # fmt: skip
def test_pipelines_of_deepspeed_take_zero_1_at_most(run: Any, zero: str, refused: bool) -> None:
    result = run(*H100, *FITTING, "--target", "deepspeed", "--zero", zero, "--json")
    assert (result.status == 2) is refused
    assert ("DeepSpeed's pipeline engine takes stage 0 or 1 only" in result.err) is refused
    if not refused:
        strategy = result.document["strategy"]
        assert (strategy["optimizer_sharding"], strategy["weight_sharding"]) == (zero == "1", False)


def test_stages_that_differ_need_a_layout_in_megatron_lm(run: Any) -> None:
    uneven = (*H100, "--tp", "8", "--pp", "7", "--dp", "1", "--batch", "8", "--target", "megatron-lm", "--json")
    result = run(*uneven)
    assert result.status == 2
    assert "96 blocks, which is not a multiple of pp 7" in result.err
    assert "pp may be 6 or 8; or give a layout, such as 14,14,14,14,14,13,13" in result.err
    assert "not a multiple" not in run(*uneven, "--layout").err


def test_options_of_every_kind_reach_the_strategy(run: Any) -> None:
    said = {
        "cp": ("4", 4), "cp_exchange": ("all_gather", "all_gather"), "attention_kernel": ("flash", "flash"),
        "placement": ("tp-cp-dp-pp", "tp-cp-dp-pp"), "schedule": ("zb_v", "zb_v"),
        "gradient_precision": ("float32", "float32"), "product_precision": ("float8", "float8"),
        "recompute_blocks": ("3", 3), "shard_group": ("8", 8), "prefetch": ("2", 2),
    }  # fmt: skip
    options = [word for name, (text, _) in said.items() for word in (f"--{name.replace('_', '-')}", text)]
    flags = ("--keep-gathered", "--reduce-each-microbatch", "--zero", "3")
    strategy = run(*H100, *FITTING, *options, *flags, "--json").document["strategy"]
    assert {name: strategy[name] for name in said} == {name: value for name, (_, value) in said.items()}
    assert strategy["processors"] == 8 * 8 * 8 * 4
    assert all(strategy[name] for name in ("keep_gathered", "reduce_each_microbatch", "weight_sharding"))
    # In this order tp fills a machine of 8, and all else is on the network between machines.
    assert [strategy[f"{name}_tier"] for name in ("tp", "cp", "dp", "pp", "ep")] == [0, 1, 1, 1, 0]


def test_dp_follows_from_processors_and_context_parallelism(run: Any) -> None:
    split = ("--cp", "2", "--attention-kernel", "flash", "--recompute", "full", "--batch", "512", "--json")
    base = (*H100, "--tp", "8", "--pp", "8", *split)
    assert run(*base, "--processors", "512").document["strategy"]["dp"] == 4
    result = run(*base, "--processors", "100")
    assert result.status == 2
    assert "tp 8 x pp 8 x dp 1 x cp 2 = 128 is not the number of processors, 100" in result.err


def test_accumulation_says_the_batch(run: Any) -> None:
    base = (*H100, *FITTING[:6], "--recompute", "full", "--microbatch", "2", "--accumulation", "16", "--json")
    assert run(*base).document["strategy"]["batch"] == 2 * 16 * 8
    assert run(*base, "--batch", "256").status == 0
    result = run(*base, "--batch", "512")
    assert result.status == 2
    assert "--accumulation: batch 512 is not microbatch 2 x accumulation 16 x dp 8 = 256" in result.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "megatron"), ("--target: 'megatron'", "megatron-lm")),
        (("--zero", "4"), ("--zero: '4'", "allowed: 0, 1, 2, 3")),
        (("--zero", "1", "--weight-sharding"), ("--zero: 1 says what weight_sharding would be",)),
        (("--placement", "dp-tp"), ("--placement: 'dp-tp'", "tp-dp-cp-pp")),
        (("--cp", "0"), ("--cp: '0'", "at least 1")),
        (("--first-stage-less", "-1"), ("--first-stage-less: '-1'", "at least 0")),
        (("--schedule", "gpip"), ("--schedule: 'gpip'", "'gpipe'")),
    ],
)
def test_words_and_numbers_that_are_not_allowed(run: Any, options: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = run(*H100, *FITTING, *options)
    assert (result.status, result.out) == (2, "")
    assert [word for word in words if word not in result.err] == []


def test_a_file_may_say_a_zero_stage_that_options_change(run: Any, folder: Path) -> None:
    (folder / "s.toml").write_text('tp = 8\npp = 8\ndp = 8\nbatch = 512\nrecompute = "full"\nzero_stage = 1\n')
    base = (*H100, "--strategy", "s.toml", "--json")
    flags = ("optimizer_sharding", "gradient_sharding", "weight_sharding")
    assert [run(*base).document["strategy"][name] for name in flags] == [True, False, False]
    changed = run(*base, "--zero", "3").document["strategy"]
    assert [changed[name] for name in flags] == [True, True, True]


def test_help_shows_options_under_headings(run: Any) -> None:
    from codesign_opt.cli.strategy_options import STRATEGY_OPTIONS

    text = run("estimate", "--help").out
    headings = list(dict.fromkeys(option.group for option in STRATEGY_OPTIONS))
    places = [text.index(f"\n{heading}:\n") for heading in ("Options", *headings)]
    assert places == sorted(places)
    for option in STRATEGY_OPTIONS:
        assert text.index(f"\n{option.group}:\n") < text.index(f"  {option.option}")


def test_the_words_offered_are_those_of_the_strategy() -> None:
    from codesign_opt.cli import options
    from codesign_opt.cli.strategy_options import STRATEGY_OPTIONS
    from codesign_opt.strategies.shorthands import ZERO_STAGES
    from codesign_opt.strategies.table import COLUMNS, FLAG_COLUMNS, OPTION_COLUMNS
    from codesign_opt.strategies.targets import TARGETS

    offered = {option.name: option for option in STRATEGY_OPTIONS}
    assert set(COLUMNS) | {"zero", "accumulation"} == set(offered)
    assert {name: offered[name].words for name in OPTION_COLUMNS} == {
        name: tuple(word.value for word in words) for name, words in OPTION_COLUMNS.items()
    }
    assert {name for name, option in offered.items() if option.flag} == set(FLAG_COLUMNS)
    assert offered["zero"].words == tuple(map(str, ZERO_STAGES))
    assert tuple(TARGETS) == options.TARGETS
