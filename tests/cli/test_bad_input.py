"""Broken files and command lines: status 2, one message that names file, key and value, and nothing changed."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SWEEP = ("sweep", "--workload", "tiny.toml", "--system", "a100-80g", "--processors", "4", "--batch", "4")
ESTIMATE = ("estimate", "--workload", "tiny.toml", "--system", "a100-80g", "--batch", "4")
OPTIONS = ("search", "--workload", "tiny.toml", "--system", "a100-80g", "--processors", "4", "--batch", "4")


@pytest.fixture
def database(run: Any, folder: Path) -> Path:
    """A database with one study."""
    assert run("search", "study.toml", "--budget", "1", "--quiet").status == 0
    return folder / "codesign-opt.db"


def _refused(run: Any, arguments: tuple[str, ...], *words: str) -> None:
    """The command fails with status 2 and one message that has all the words."""
    result = run(*arguments)
    assert result.status == 2, result
    assert result.out == ""
    assert result.err.count("error: ") == 1
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    missing = [word for word in words if word not in result.err]
    assert missing == [], result.err


COMMAND_LINES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown command": (("serch",), ("'serch'", "'search'")),
    "unknown inner command": (("studies", "lst"), ("'lst'", "'list'")),
    "unknown option": (("search", "--bugdet", "3"), ("--bugdet", "--budget")),
    "option without its value": (("search", "--budget"), ("--budget",)),
    "argument too many": (("search", "study.toml", "other.toml"), ("other.toml",)),
    "missing option": (("sweep", "--workload", "tiny.toml"), ("--system",)),
    "missing argument": (("pareto",), ("NAME",)),
    "study of options that lacks one": (("search", "--workload", "tiny.toml"), ("--system", "--processors")),
    "budget 0": (("search", "study.toml", "--budget", "0"), ("--budget", "'0'", "number of trials")),
    "negative budget": (("search", "study.toml", "--budget", "-5"), ("--budget", "'-5'")),
    "budget in parsecs": (("search", "study.toml", "--budget", "10 parsecs"), ("--budget", "10 parsecs", "10m")),
    "no time as budget": (("search", "study.toml", "--budget", "0s"), ("--budget", "'0s'")),
    "budget NaN": (("search", "study.toml", "--budget", "nan"), ("--budget", "'nan'")),
    "negative processors": (("sweep", *SWEEP[1:5], "--processors", "-8", "--batch", "4"), ("--processors", "'-8'")),
    "processors in words": (("search", "study.toml", "--processors", "many"), ("--processors", "'many'")),
    "range without step": (("search", "study.toml", "--processors", "2..4"), ("--processors", "'2..4'", ":64")),
    "no money": (("search", "study.toml", "--processors", "0 $"), ("--processors", "budget", "0 $")),
    "batch not whole": (("search", "study.toml", "--batch", "4.5"), ("--batch", "'4.5'")),
    "batch too small": (("search", "study.toml", "--batch", "0"), ("--batch", "'0'")),
    "seed negative": (("search", "study.toml", "--seed", "-1"), ("--seed", "'-1'")),
    "top too small": ((*SWEEP, "--top", "0"), ("--top", "'0'")),
    "workers 0": (("search", "study.toml", "--workers", "0"), ("--workers", "'0'")),
    "unknown study": (("search", "price-stduy"), ("price-stduy", "price-study")),
    "unknown workload": (("estimate", "--workload", "gpt3-13", "--system", "a100-80g"), ("'gpt3-13'", "gpt3-13b")),
    "unknown system": (("estimate", "--workload", "tiny.toml", "--system", "a100-80"), ("'a100-80'", "a100-80g")),
    "unknown catalogue entry": (("catalog", "show", "gpt-175b"), ("gpt-175b", "gpt3-175b")),
    "unknown shelf": (("catalog", "list", "system"), ("'system'", "systems")),
    "unknown method": (("search", "study.toml", "--method", "exakt"), ("--method", "'exakt'", "'exact'")),
    "unknown sampler": (("search", "study.toml", "--sampler", "nsga3"), ("--sampler", "'nsga3'", "'nsga2'")),
    "unknown datatype": ((*SWEEP, "--datatype", "float61"), ("--datatype", "'float61'", "float16")),
    "datatype without an engine": ((*SWEEP, "--datatype", "float8"), ("float8", "a100-80g", "float16")),
    "unknown recompute": ((*ESTIMATE, "--recompute", "fully"), ("--recompute", "'fully'", "'full'")),
    "unknown metric": (("search", "study.toml", "--objective", "step_tim"), ("--objective", "step_tim", "step_time")),
    "unknown direction": ((*SWEEP, "--objective", "minimal step_time"), ("--objective", "minimal")),
    "objective twice": ((*SWEEP, "--objective", "mfu", "--objective", "min mfu"), ("--objective", "mfu")),
    "metric without a price": ((*OPTIONS, "--objective", "system_price"), ("--objective", "system_price", "price")),
    "constraint without unit": ((*SWEEP, "--constraint", "memory_tier1_used <= 70"), ("--constraint", "'70'", "GiB")),
    "constraint with a wrong unit": ((*SWEEP, "--constraint", "step_time <= 7 GB"), ("--constraint", "'7 GB'", "us")),
    "constraint NaN": ((*SWEEP, "--constraint", "mfu >= nan"), ("--constraint", "nan")),
    "constraint without operator": ((*SWEEP, "--constraint", "mfu"), ("--constraint", "'mfu'", "<=")),
    "impossible constraint": ((*SWEEP, "--constraint", "mfu >= 2"), ("--constraint", "mfu >= 2", "never above")),
    "contradicting constraints": (
        (*SWEEP, "--constraint", "mfu >= 0.5", "--constraint", "mfu <= 0.1"),
        ("--constraint", "mfu >= 0.5", "mfu <= 0.1"),
    ),
    "unknown dimension": ((*SWEEP, "--limit", "tpp=1"), ("--limit", "'tpp'", "'tp'")),
    "limit without value": ((*SWEEP, "--limit", "tp"), ("--limit", "'tp'", "tp=1,2,4")),
    "limit of a wrong type": ((*SWEEP, "--limit", "tp=two"), ("--limit: tp", "'two'", "whole number")),
    "limit of an unknown word": ((*SWEEP, "--limit", "recompute=fulll"), ("--limit: recompute", "'fulll'", "'full'")),
    "limit to a missing tier": ((*SWEEP, "--limit", "tp_tier=7"), ("--limit: tp_tier", "7", "0 to 1")),
    "unknown erratum": ((*SWEEP, "--reproduce", "E99"), ("--reproduce", "'E99'", "E28")),
    "unknown erratum of estimate": ((*ESTIMATE, "--reproduce", "some"), ("--reproduce", "'some'", "all")),
    "unknown parameter": (
        ("search", "study.toml", "--set", "memory_tier1.capacty=8 GiB"),
        ("--set", "memory_tier1.capacty", "memory_tier1.capacity"),
    ),
    "parameter without unit": (
        ("search", "study.toml", "--set", "memory_tier2.capacity=8"),
        ("--set", "memory_tier2.capacity", "'8'", "GiB"),
    ),
    "negative size": (
        ("search", "study.toml", "--set", "memory_tier2.capacity=-8 GiB"),
        ("--set", "memory_tier2.capacity", "-8 GiB"),
    ),
    "free range upside down": (
        ("search", "study.toml", "--free", "memory_tier2.capacity=9 GiB..1 GiB"),
        ("--free", "memory_tier2.capacity.low", "9 GiB"),
    ),
    "logarithm of nothing": (
        ("search", "study.toml", "--free", "memory_tier2.capacity=0 GiB..1 GiB:log"),
        ("--free", "memory_tier2.capacity", "0 B", "linear"),
    ),
    "free without value": (("search", "study.toml", "--free", "memory_tier2.capacity"), ("--free", "20 GiB..120 GiB")),
    "exact with a range": (("search", "study.toml", "--method", "exact"), ("--method", "memory_tier1.capacity")),
    "name of control characters": (("search", "study.toml", "--name", "a\x07b"), ("--name", "'a\\x07b'")),
    "name too long": (("search", "study.toml", "--name", "x" * 300), ("--name", "xxx", "255")),
    "blank name": (("search", "study.toml", "--name", "  "), ("--name", "'  '")),
    "tp that does not divide the heads": (
        ("estimate", "--workload", "gpt3-175b", "--system", "a100-80g", "--tp", "7", "--batch", "8"),
        ("96 attention heads", "tp 7", "6 or 8"),
    ),
    "processors that tp, pp and dp do not make": (
        (*ESTIMATE, "--tp", "2", "--dp", "3", "--processors", "4"),
        ("tp 2", "dp 3", "4"),
    ),
    "strategy without batch": (("estimate", *SWEEP[1:5]), ("--batch", "missing")),
    "unknown format": (("pareto", "study", "--format", "docx"), ("--format", "'docx'", "csv")),
    "unknown suffix": (("pareto", "study", "--output", "front.docx"), ("front.docx", ".csv")),
    "parquet on stdout": (("pareto", "study", "--format", "parquet"), ("--format", "--output")),
    "unknown column": (("pareto", "study", "--columns", "step_tim"), ("'step_tim'", "'step_time'")),
    "empty column": (("pareto", "study", "--columns", "trial,,tp"), ("--columns", "'trial,,tp'")),
    "unknown stored study": (("pareto", "stduy"), ("'stduy'", "'study'")),
    "show of an unknown study": (("studies", "show", "stduy"), ("'stduy'", "'study'")),
    "delete of an unknown study": (("studies", "delete", "stduy", "--yes"), ("'stduy'", "'study'")),
    "unknown export format": (
        ("studies", "export", "study", "--output", "x", "--format", "jsn"), ("--format", "'jsn'", "'json'"),
    ),
    "export into a missing directory": (
        ("studies", "export", "study", "--output", "missing/x.json", "--format", "json"), ("missing/x.json",),
    ),
    "optuna export into a missing directory": (
        ("studies", "export", "study", "--output", "missing/x.db"), ("missing/x.db",),
    ),
    "output into a missing directory": (("pareto", "study", "--output", "missing/f.csv"), ("missing/f.csv", "create")),
    "output that is a directory": (("pareto", "study", "--output", ".", "--format", "csv"), ("'.'", "directory")),
    "sweep into an unknown suffix": ((*SWEEP, "--output", "best.xls"), ("best.xls", ".csv")),
    "unknown database scheme": (("studies", "list", "--db", "mysql://host/x"), ("mysql", "postgresql")),
    "database in a missing directory": (("search", "study.toml", "--db", "missing/a.db"), ("missing/a.db",)),
    "database that is a directory": (("search", "study.toml", "--db", "."), ("directory", "file")),
    "database that is not there": (("studies", "list", "--db", "nothing.db"), ("nothing.db",)),
    "check of a database that is not there": (("db", "check", "--db", "nothing.db"), ("nothing.db",)),
    "upgrade of a database that is not there": (("db", "upgrade", "--db", "nothing.db"), ("nothing.db",)),
    "database without an address": (("studies", "list", "--db", " "), ("' '", "studies.db")),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_command_line(run: Any, database: Path, folder: Path, case: str) -> None:
    arguments, words = COMMAND_LINES[case]
    before, there = database.read_bytes(), sorted(folder.iterdir())
    _refused(run, arguments, *words)
    assert database.read_bytes() == before
    assert sorted(folder.iterdir()) == there


def _replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


STUDY_FILES: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "unknown key": (_replaced("batch =", "bacth ="), ("bacth", "'batch'")),
    "unknown inner key": (_replaced("microbatch =", "mikrobatch ="), ("strategies.mikrobatch", "'microbatch'")),
    "missing key": (_replaced("\nbatch = 4", ""), ("batch", "missing")),
    "missing unit": (_replaced('"20 GiB"', '"20"'), ("memory_tier1.capacity.low", "'20'", "GiB")),
    "unknown unit": (_replaced('"20 GiB"', '"20 gib"'), ("memory_tier1.capacity.low", "'gib'", "20 GiB")),
    "wrong unit": (_replaced('"20 GiB"', '"20 GB/s"'), ("memory_tier1.capacity.low", "20 GB/s")),
    "negative size": (_replaced('"20 GiB"', '"-20 GiB"'), ("memory_tier1.capacity.low", "-20 GiB")),
    "not a number": (_replaced('"20 GiB"', '"nan GiB"'), ("memory_tier1.capacity.low", "nan GiB")),
    "TOML's own nan": (_replaced("seed = 1", "seed = nan"), ("seed", "nan")),
    "text for a number": (_replaced("batch = 4", 'batch = "four"'), ("batch", "'four'")),
    "number for text": (_replaced('"tiny.toml"', "7"), ("workload", "7")),
    "truth for a number": (_replaced("seed = 1", "seed = true"), ("seed", "True")),
    "number out of range": (_replaced("top_k = 2", "top_k = 0"), ("top_k", "0")),
    "unknown metric": (_replaced('"sample_rate"', '"sample_rat"'), ("objectives", "sample_rat", "sample_rate")),
    "unknown base": (_replaced('"h100-price-study"', '"h100-prise-study"'), ("system.base", "h100-prise-study")),
    "unknown scale": (
        _replaced('GiB" }', 'GiB", scale = "cubic" }'),
        ("memory_tier1.capacity.scale", "'cubic'", "log"),
    ),
    "budget 0": (_replaced("budget = 4", "budget = 0"), ("budget", "0")),
    "empty list": (_replaced("[2, 4]", "[]"), ("processors", "[]")),
    "key twice": (_replaced("seed = 1", "seed = 1\nseed = 2"), ("line",)),
    "syntax error": (_replaced("batch = 4", "batch 4"), ("line 3",)),
    "unclosed text": (_replaced('"tiny.toml"', '"tiny.toml'), ("line 1",)),
    "a missing file": (_replaced("tiny.toml", "tinny.toml"), ("tinny.toml", "no such file")),
}


@pytest.mark.parametrize("case", STUDY_FILES)
def test_study_file(run: Any, database: Path, folder: Path, case: str) -> None:
    change, words = STUDY_FILES[case]
    (folder / "broken.toml").write_text(change((folder / "study.toml").read_text()))
    before = database.read_bytes()
    named = () if case == "a missing file" else ("broken.toml",)
    _refused(run, ("search", "broken.toml"), *named, *words)
    assert database.read_bytes() == before


CONTENTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty": (b"", ("empty",)),
    "blank": (b" \n\n", ("empty",)),
    "binary": (b"\x7fELF\x00\x01\x02\xff", ("UTF-8",)),
    "zeros": (b"\0" * 100, ("binary",)),
    "huge": (b"#" + b"x" * 10_000_001, ("larger than 10 MB",)),
    "deep": (b"a = " + b"[" * 5000, ("nested",)),
    "JSON": (b'{"batch": 4}', ("not TOML", "line 1")),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_content_of_a_study_file(run: Any, database: Path, folder: Path, case: str) -> None:
    content, words = CONTENTS[case]
    (folder / "broken.toml").write_bytes(content)
    _refused(run, ("search", "broken.toml"), "broken.toml", *words)


JSON_CONTENTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "not JSON": (b"hidden = 64", ("not JSON",)),
    "empty": (b"", ("not JSON",)),
    "a list": (b"[1, 2]", ("one JSON object",)),
    "unknown key": (b'{"hiden": 64}', ("hiden", "hidden")),
    "missing key": (b'{"hidden": 64}', ("feedforward",)),
    "deep": (b"[" * 100_000, ("not JSON",)),
}


@pytest.mark.parametrize("case", JSON_CONTENTS)
def test_content_of_a_json_file(run: Any, folder: Path, case: str) -> None:
    content, words = JSON_CONTENTS[case]
    (folder / "broken.json").write_bytes(content)
    _refused(run, ("estimate", "--workload", "broken.json", "--system", "a100-80g"), "broken.json", *words)


def test_a_negative_number_in_a_json_file(run: Any, folder: Path) -> None:
    keys = ("hidden", "feedforward", "seq_size", "attn_heads", "attn_size", "num_blocks")
    (folder / "broken.json").write_text(json.dumps({**dict.fromkeys(keys, 64), "num_blocks": -4}))
    arguments = ("estimate", "--workload", "broken.json", "--system", "a100-80g")
    _refused(run, arguments, "broken.json", "num_blocks", "-4")


STRATEGY_FILES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "unknown key": ("s.toml", "tpp = 8\nbatch = 4\n", ("s.toml", "tpp", "'tp'")),
    "unknown word": ("s.toml", 'batch = 4\nrecompute = "attn"\n', ("s.toml", "recompute", "'attn'")),
    "wrong type": ("s.toml", 'batch = "4"\n', ("s.toml", "batch", "'4'")),
    "negative": ("s.toml", "batch = -4\n", ("s.toml", "batch", "-4")),
    "missing key of the published tool": ("s.json", '{"num_procs": 8}', ("s.json", "tensor_par")),
    "unknown suffix": ("s.yaml", "tp: 8\n", ("s.yaml", ".toml")),
}


@pytest.mark.parametrize("case", STRATEGY_FILES)
def test_strategy_file(run: Any, folder: Path, case: str) -> None:
    name, content, words = STRATEGY_FILES[case]
    (folder / name).write_text(content)
    _refused(run, ("estimate", "--workload", "tiny.toml", "--system", "a100-80g", "--strategy", name), *words)


def test_a_directory_for_a_file(run: Any, folder: Path) -> None:
    (folder / "folder.toml").mkdir()
    _refused(run, ("search", "folder.toml"), "folder.toml", "directory")
    _refused(run, (*ESTIMATE, "--strategy", "folder.toml"), "folder.toml", "directory")
    _refused(run, ("sweep", "--workload", "folder.toml", *SWEEP[3:]), "folder.toml", "directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_what_may_not_be_read_or_written(run: Any, folder: Path) -> None:
    (folder / "study.toml").chmod(0)
    _refused(run, ("search", "study.toml"), "study.toml", "Permission")
    (folder / "study.toml").chmod(0o600)
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    _refused(run, ("search", "study.toml", "--db", "locked/a.db"), "locked", "permission")
    assert list(locked.iterdir()) == []


def test_a_foreign_database_is_left_alone(run: Any, folder: Path) -> None:
    connection = sqlite3.connect(folder / "foreign.db")
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.commit()
    connection.close()
    before = (folder / "foreign.db").read_bytes()
    for arguments in (("search", "study.toml"), ("studies", "list"), ("db", "upgrade"), ("db", "check")):
        _refused(run, (*arguments, "--db", "foreign.db"), "foreign.db", "customers")
    assert (folder / "foreign.db").read_bytes() == before


def test_a_newer_database_is_left_alone(run: Any, database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("UPDATE codesign_alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    before = database.read_bytes()
    for arguments in (("search", "study.toml"), ("studies", "list"), ("pareto", "study"), ("db", "upgrade")):
        _refused(run, arguments, "codesign-opt.db", "9999", "newer")
    assert database.read_bytes() == before


def test_text_for_a_database(run: Any, folder: Path) -> None:
    (folder / "notes.db").write_text("not a database at all, but long enough to look at\n" * 50)
    before = (folder / "notes.db").read_bytes()
    _refused(run, ("search", "study.toml", "--db", "notes.db"), "notes.db", "not an SQLite database")
    assert (folder / "notes.db").read_bytes() == before


def test_a_password_is_not_repeated(run: Any) -> None:
    result = run("studies", "list", "--db", "postgresql://me:secret@localhost:1/x?bad option=1")
    assert result.status == 2
    assert "secret" not in result.err


def test_a_message_is_all_a_child_prints(run_in_child: Any) -> None:
    result = run_in_child("search", "study.toml", "--objective", "step_tim")
    assert result.status == 2
    assert result.out == ""
    assert result.err.splitlines()[0].startswith("error: ")
    assert len(result.err.splitlines()) == 2
