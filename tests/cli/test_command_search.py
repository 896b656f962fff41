"""`codesign-opt search`: runs, continues, refuses, explains."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

OPTIONS = ("--workload", "tiny.toml", "--system", "a100-80g", "--processors", "4", "--batch", "4")


def test_a_study_file_ends_with_its_front_and_what_to_type_next(run: Any) -> None:
    result = run("search", "study.toml")
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("study 'study': 4 trials, 4 feasible, ")
    assert lines[2] == "Pareto front of maximize sample_rate, minimize system_price:"
    assert lines[3].split()[:4] == ["trial", "sample_rate", "system_price", "processors"]
    assert lines[-4:] == [
        "stored in codesign-opt.db; next:",
        "  codesign-opt pareto study --output front.html",
        "  codesign-opt studies show study",
        "  codesign-opt search --resume --name study --budget 8",
    ]
    assert max(map(len, lines)) <= 100


def test_the_commands_it_ends_with_work(run: Any) -> None:
    ending = run("search", "study.toml", "--db", "other.db").out.splitlines()[-3:]
    for line in ending:
        program, *arguments = line.split()
        assert program == "codesign-opt"
        assert run(*arguments).status == 0
    assert Path("front.html").read_text().startswith("<!doctype html>")
    assert run("studies", "show", "study", "--db", "other.db", "--json").document["trials"] == 8


def test_json_is_all_there_is_on_stdout(run: Any) -> None:
    result = run("search", "study.toml", "--json", "--quiet")
    document = result.document
    assert result.err == ""
    assert (document["study"], document["trials"], document["feasible"]) == ("study", 4, 4)
    assert document["finished"] == "budget"
    assert document["objectives"] == ["maximize sample_rate", "minimize system_price"]
    units = {column["name"]: column["unit"] for column in document["front"]["columns"]}
    assert (units["sample_rate"], units["system_price"], units["memory_tier1.capacity"]) == ("samples/s", "$", "B")
    rates = [row["sample_rate"] for row in document["front"]["rows"]]
    prices = [row["system_price"] for row in document["front"]["rows"]]
    assert rates == sorted(rates, reverse=True)
    assert prices == sorted(prices, reverse=True)


def test_the_same_command_continues_and_says_so(run: Any) -> None:
    first = run("search", "study.toml", "--json").document
    again = run("search", "study.toml", "--budget", "6", "--json")
    assert "continuing study 'study' (trials so far: 4)" in again.err
    assert again.document["trials"] == 6
    fresh = run("search", "study.toml", "--budget", "6", "--name", "fresh", "--json").document
    assert again.document["front"] == fresh["front"]
    assert first["specification_hash"] == again.document["specification_hash"] == fresh["specification_hash"]


def test_resume_needs_no_more_than_the_name(run: Any) -> None:
    run("search", *OPTIONS, "--name", "mine")
    result = run("search", "--resume", "--name", "mine", "--json")
    assert result.status == 0
    assert result.document["study"] == "mine"
    assert "continuing study 'mine' (trials so far: 1)" in result.err


def test_resume_of_what_is_not_stored_yet_starts_it(run: Any) -> None:
    result = run("search", "study.toml", "--resume", "--json", "--quiet")
    assert (result.status, result.document["trials"]) == (0, 4)


def test_another_specification_under_the_name_is_refused_with_a_diff(run: Any, folder: Path) -> None:
    run("search", "study.toml")
    before = (folder / "codesign-opt.db").read_bytes()
    result = run("search", "study.toml", "--seed", "7", "--batch", "8")
    assert result.status == 2
    assert result.out == ""
    assert "batch: 4 → 8" in result.err
    assert "seed: 1 → 7" in result.err
    assert "continuing" not in result.err
    assert (folder / "codesign-opt.db").read_bytes() == before


def test_no_resume_refuses_a_stored_study(run: Any) -> None:
    run("search", "study.toml")
    result = run("search", "study.toml", "--no-resume")
    assert result.status == 2
    assert "'study' is stored already" in result.err


def test_options_alone_make_a_study(run: Any) -> None:
    result = run("search", *OPTIONS, "--top-k", "3", "--limit", "recompute=full")
    assert result.status == 0
    assert "study 'tiny-on-a100-80g': 1 trial, 1 feasible" in result.out
    assert "best strategies by minimize step_time:" in result.out
    assert result.out.count(" full") == 3


def test_free_parameters_set_parameters_objectives_and_constraints_on_the_command_line(run: Any) -> None:
    result = run(
        "search", *OPTIONS, "--name", "free", "--budget", "3", "--seed", "5", "--json", "--quiet",
        "--free", "memory_tier1.capacity=1 GiB..8 GiB:log", "--free", "network_tiers.0.size=4,8",
        "--set", "memory_tier1.bandwidth=3 TB/s", "--objective", "step_time", "--objective", "memory_tier1_used",
        "--constraint", "memory_tier1_used <= 4 GiB", "--limit", "microbatch=1", "--method", "bilevel",
        "--sampler", "random", "--reproduce", "E2,E7", "--datatype", "float16",
    )  # fmt: skip
    assert result.status == 0, result.err
    shown = run("studies", "show", "free", "--json").document["specification"]
    assert [free["path"] for free in shown["free"]] == ["memory_tier1.capacity", "network_tiers.0.size"]
    assert shown["free"][0] | {"low": 2.0**30, "high": 2.0**33, "scale": "log"} == shown["free"][0]
    assert shown["free"][1]["choices"] == [4, 8]
    assert shown["system"]["memory_tier1"]["bandwidth"] == 3e12
    assert shown["objectives"] == ["minimize step_time", "minimize memory_tier1_used"]
    assert shown["constraints"] == ["memory_tier1_used <= 4 GiB"]
    assert (shown["sampler"], shown["seed"], shown["reproduce"]) == ("random", 5, ["E2", "E7"])
    assert shown["strategies"]["microbatch"] == [1]


def test_an_option_that_sets_a_free_parameter_fixes_it(run: Any) -> None:
    result = run(
        "search", "study.toml", "--set", "memory_tier1.capacity=80 GiB", "--name", "fixed", "--json", "--quiet"
    )
    assert result.status == 0, result.err
    shown = run("studies", "show", "fixed", "--json").document["specification"]
    assert [free["path"] for free in shown["free"]] == ["network_tiers.0.bandwidth"]
    assert shown["system"]["memory_tier1"]["capacity"] == 80 * 2**30


def test_files_named_by_options_are_relative_to_the_working_directory(run: Any, folder: Path) -> None:
    (folder / "studies").mkdir()
    (folder / "study.toml").rename(folder / "studies" / "deep.toml")
    result = run("search", "studies/deep.toml", "--workload", "tiny.toml", "--json")
    assert result.status == 2  # the file's own workload is beside it, and is not there
    assert "tiny.toml: no such file" in result.err
    (folder / "studies" / "tiny.toml").write_text((folder / "tiny.toml").read_text().replace("tiny", "other"))
    result = run("search", "studies/deep.toml", "--workload", "tiny.toml", "--json", "--quiet")
    assert result.status == 0, result.err
    shown = run("studies", "show", "deep", "--json").document["specification"]
    assert shown["workload"]["name"] == "tiny"


def test_nothing_feasible_names_the_constraint_and_the_nearest_miss(run: Any) -> None:
    result = run("search", "study.toml", "--constraint", "memory_tier1_used <= 1 KiB", "--quiet")
    assert result.status == 1
    assert result.out == ""
    assert "memory_tier1_used <= 1 KiB excludes 4 of 4 trials" in result.err
    assert "the nearest miss is trial" in result.err
    assert run("pareto", "study").status == 1
    assert "nothing feasible" in run("studies", "show", "study").out


def test_an_odd_name_is_quoted_in_the_commands(run: Any) -> None:
    result = run("search", "study.toml", "--name", "a b'; x")
    assert result.status == 0
    assert """codesign-opt studies show 'a b'"'"'; x'""" in result.out
    assert run("studies", "show", "a b'; x").status == 0


def test_progress_is_plain_lines_on_stderr_where_there_is_no_terminal(run: Any, monkeypatch: Any) -> None:
    from codesign_opt.cli import progress

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    result = run("search", "study.toml", "--json")
    assert result.document["trials"] == 4
    assert "study: 100%, 4 trials, 4 feasible, " in result.err
    assert "\x1b" not in result.err


@pytest.mark.slow
def test_ctrl_c_leaves_a_study_that_resumes(folder: Path, environment: dict[str, str], run: Any) -> None:
    command = [sys.executable, "-m", "codesign_opt", "search", "study.toml", "--budget", "100000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    while _trials(run) < 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "the same command with --resume continues study 'study'" in err
    assert "Traceback" not in err
    trials = _trials(run)
    resumed = run("search", "study.toml", "--resume", "--budget", str(trials + 1), "--json")
    assert resumed.document["trials"] >= trials + 1


def _trials(run: Any) -> int:
    result = run("studies", "list", "--json")
    rows = json.loads(result.out)["rows"] if result.status == 0 else []
    return int(rows[0]["trials"]) if rows else 0


ONE_OBJECTIVE = ("--objective", "cost_per_million_tokens", "--processors", "4", "--quiet")


def test_a_certificate_says_what_is_proven(run: Any) -> None:
    result = run("search", "study.toml", *ONE_OBJECTIVE, "--certify", "--gap", "5 %")
    assert result.status == 0
    (line,) = [line for line in result.out.splitlines() if line.startswith("certificate of ")]
    words = re.fullmatch(
        r"certificate of minimize cost_per_million_tokens: (\S+) \$, and no machine is below (\S+) \$: "
        r"proven to (\S+)%",
        line,
    )
    assert words is not None
    best, bound, gap = map(float, words.groups())
    assert 0 <= gap <= 5
    assert best * (1 - gap / 100) == pytest.approx(bound, rel=2e-4)
    assert "  machine: network_tiers.0.bandwidth " in result.out
    document = run("search", "study.toml", *ONE_OBJECTIVE, "--certify", "--gap", "0.05", "--json").document
    certificate = document["certificate"]
    assert certificate["closed"]
    assert certificate["reason"] == "gap"
    assert certificate["best"] == pytest.approx(best, rel=1e-3)
    # The certificate is at least as good as what the study found.
    assert certificate["best"] <= document["front"]["rows"][0]["cost_per_million_tokens"]
    assert certificate["strategy"]["tp"] * certificate["strategy"]["pp"] * certificate["strategy"]["dp"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--certify",), "a certificate is for one objective, not for sample_rate, system_price"),
        (("--gap", "1%"), "--gap says what --certify may leave unproven"),
        (("--certify", "--gap", "one"), "--gap: 'one' is not a share"),
        (("--certify", "--gap", "-1%"), "--gap: '-1%' is not a share"),
        (("--certify", "--gap", "nan"), "--gap: 'nan' is not a share"),
        (("--certify", "--gap", "0", *ONE_OBJECTIVE), "a gap of 0 cannot be proven"),
        (("--polish", "3"), "polishing improves one objective"),
        (("--polish", "-3"), "--polish: '-3' is not allowed"),
    ],
)
def test_what_cannot_be_proven_or_polished_is_refused_at_once(run: Any, arguments: tuple[str, ...], words: str) -> None:
    result = run("search", "study.toml", *arguments)
    assert result.status == 2
    assert words in result.err
    assert not Path("codesign-opt.db").exists()


def test_polished_trials_are_trials_of_the_study(run: Any) -> None:
    document = run("search", "study.toml", *ONE_OBJECTIVE, "--polish", "6", "--json").document
    assert 4 < document["trials"] <= 10
    assert document["feasible"] == document["trials"]
