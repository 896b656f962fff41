"""Broken files and command lines of simulations: status 2, one message that names what is wrong, nothing written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GRAPHS = Path(__file__).parents[1] / "data" / "graphs"

STEP = ("simulate", "--workload", "tiny.toml", "--system", "a100-80g", "--strategy", "strategy.toml")
GRAPH = ("simulate", "program.textproto", "--topology", "network.toml")
STUDY = ("simulate", "--study", "study")
TRANSLATE = ("graph", "translate", "program.textproto", "--translation", "rings.json", "--output")
THREE = (*STEP[:-1], "three.toml")
"""Three data-parallel processors."""
CHUNKS = (*STEP[:-1], "chunks.toml")
"""Two stages of two chunks, three microbatches."""

NETWORK = '[topology]\nkind = "ring"\nprocessors = 8\nbandwidth = "50 GB/s"\nlatency = "1 us"\n'
RINGS = {"collective": {"all-reduce": {"algorithm": "bidir-ring"}}}

FILES = {
    "strategy.toml": "tp = 2\npp = 2\ndp = 2\nbatch = 16\n",
    "three.toml": "tp = 1\npp = 1\ndp = 3\nbatch = 3\n",
    "chunks.toml": "tp = 1\npp = 2\ndp = 1\nvpp = 2\nbatch = 3\n",
    "network.toml": NETWORK,
    "small.toml": NETWORK.replace("8", "4"),
    "rings.json": json.dumps(RINGS),
}

Case = tuple[tuple[str, ...], tuple[str, ...]]
"""Arguments, and words that the message must have."""


@pytest.fixture(scope="module")
def stored(study_files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the study `study`."""
    from codesign_opt import api

    folder = tmp_path_factory.mktemp("stored")
    for name, content in study_files.items():
        (folder / name).write_text(content)
    api.search(folder / "study.toml", db=str(folder / "codesign-opt.db"), budget=1)
    return folder / "codesign-opt.db"


@pytest.fixture(autouse=True)
def files(stored: Path, folder: Path) -> None:
    """Files that are right, and a directory."""
    shutil.copy(stored, folder)
    shutil.copy(GRAPHS / "supersim_test_graph.textproto", folder / "program.textproto")
    shutil.copy(GRAPHS / "supersim_test_graph.0.pb", folder / "zero.pb")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    (folder / "folder.toml").mkdir()


def refused(run: Any, folder: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    """The command fails with status 2 and one message that has all the words, and leaves every file as it was."""

    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    before = contents()
    result = run(*arguments)
    assert result.status == 2, result
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("error: ") == 1
    assert "Traceback" not in result.err
    assert [word for word in words if word not in result.err] == [], result.err
    assert contents() == before


COMMAND_LINES: dict[str, Case] = {
    "nothing to simulate": (("simulate",), ("--workload: missing", "--study", "a graph")),
    "no strategy": (STEP[:-2], ("--strategy: missing",)),
    "no system": ((*STEP[:3], *STEP[5:]), ("--system: missing",)),
    "graph without a network": (GRAPH[:2], ("--topology: missing",)),
    "unknown workload": (("simulate", "--workload", "gpt3-13", *STEP[3:]), ("--workload", "'gpt3-13'", "gpt3-13b")),
    "unknown system": ((*STEP[:4], "a100-80", *STEP[5:]), ("--system", "'a100-80'", "a100-80g")),
    "unknown study": (("simulate", "--study", "stduy"), ("'stduy'", "'study'")),
    "unknown trial": ((*STUDY, "--trial", "7"), ("trial 7", "'study'", "0")),
    "unknown rank": ((*STUDY, "--trial", "0", "--rank", "99"), ("trial 0", "rank 99", "ranks: 0, 1")),
    "trial that is no number": ((*STUDY, "--trial", "best"), ("--trial", "'best'", "whole number")),
    "negative rank": ((*STUDY, "--rank", "-1"), ("--rank", "'-1'", "at least 0")),
    "trial without a study": ((*STEP, "--trial", "1"), ("--trial", "--study is missing")),
    "study and strategy": ((*STEP, "--study", "study"), ("--workload", "the study says it")),
    "graph and study": ((*GRAPH, "--study", "study"), ("--study", "about a step")),
    "graph and schedule": ((*GRAPH, "--schedule", "1f1b"), ("--schedule", "about a step")),
    "graph and engine": ((*GRAPH, "--engine", "levels"), ("--engine", "about a step")),
    "graph and contention": ((*GRAPH, "--no-contention"), ("--no-contention", "about a step")),
    "graph and algorithm": ((*GRAPH, "--algorithm", "all-reduce=null"), ("--algorithm", "about a step")),
    "graph and errata": ((*GRAPH, "--reproduce", "all"), ("--reproduce", "about a step")),
    "step and translation": ((*STEP, "--translation", "rings.json"), ("--translation", "about a graph")),
    "step and model": ((*STEP, "--model", "flows"), ("--model", "about a graph")),
    "placement on nothing": ((*STEP, "--placement", "dp-tp-pp"), ("--placement", "about a topology")),
    "unknown schedule": ((*STEP, "--schedule", "1f1"), ("--schedule", "'1f1'", "'1f1b'")),
    "unknown granularity": ((*STEP, "--granularity", "blocks"), ("--granularity", "'blocks'", "'block'")),
    "unknown messages": ((*STEP, "--messages", "asynchron"), ("--messages", "'asynchron'", "'asynchronous'")),
    "unknown engine": ((*STEP, "--engine", "level"), ("--engine", "'level'", "'levels'")),
    "unknown model": ((*GRAPH, "--model", "flow"), ("--model", "'flow'", "'flows'")),
    "unknown placement": (
        (*STEP, "--topology", "network.toml", "--placement", "tp-dp"), ("--placement", "'tp-dp'", "'tp-dp-pp'"),
    ),
    "unknown erratum": ((*STEP, "--reproduce", "E99"), ("--reproduce", "'E99'", "E28")),
    "unknown collective": ((*STEP, "--algorithm", "allreduce=null"), ("--algorithm", "'allreduce'", "'all-reduce'")),
    "collective that no step has": (
        (*STEP, "--algorithm", "broadcast=binomial"), ("--algorithm", "'broadcast'", "reduce-scatter"),
    ),
    "unknown algorithm": (
        (*STEP, "--algorithm", "all-reduce=bidir-rings"), ("--algorithm", "all-reduce", "'bidir-rings'", "'bidir-ring'")
    ),
    "algorithm of nothing": ((*STEP, "--algorithm", "bidir-ring"), ("--algorithm", "'bidir-ring'", "all-reduce=")),
    "algorithm twice": (
        (*STEP, "--algorithm", "all-reduce=null", "--algorithm", "all-reduce=null"), ("--algorithm", "twice"),
    ),
    "algorithm without its option": (
        (*STEP, "--algorithm", "all-reduce=hierarchical"), ("--algorithm", "hierarchical", "'node_size'"),
    ),
    "unknown option of an algorithm": (
        (*STEP, "--algorithm", "all-reduce=hierarchical:nodes=2"), ("--algorithm", "'nodes'", "'node_size'"),
    ),
    "option of an algorithm that is no number": (
        (*STEP, "--algorithm", "all-reduce=hierarchical:node_size=two"), ("--algorithm", "node_size", "'two'", "1 on"),
    ),
    "option of an algorithm without value": (
        (*STEP, "--algorithm", "all-reduce=hierarchical:node_size"), ("--algorithm", "'node_size'", "node_size=8"),
    ),
    "group that is no power of two": (
        (*THREE, "--algorithm", "all-reduce=halving-doubling"), ("'halving-doubling'", "3", "power of two"),
    ),
    "group that is no grid": (
        (*THREE, "--algorithm", "all-reduce=mesh-2d:dimension_widths=[2,2]"), ("'mesh-2d'", "3 processors", "2 x 2"),
    ),
    "group that fills no nodes": (
        (*THREE, "--algorithm", "all-reduce=hierarchical:node_size=2"), ("'hierarchical'", "node 1 has 1"),
    ),
    "one chunk a stage": ((*CHUNKS, "--schedule", "1f1b"), ("'1f1b'", "vpp = 2", "'interleaved'")),
    "incomplete rounds": ((*CHUNKS, "--schedule", "interleaved"), ("'interleaved'", "pp = 2", "3", "'gpipe'")),
    "bucket without unit": ((*STEP, "--bucket", "40"), ("--bucket", "'40'", "no unit")),
    "bucket of nothing": ((*STEP, "--bucket", "0 B"), ("--bucket", "'0 B'")),
    "negative bucket": ((*STEP, "--bucket", "-3 MB"), ("--bucket", "'-3 MB'")),
    "bucket in seconds": ((*STEP, "--bucket", "3 s"), ("--bucket", "'3 s'")),
    "timeline of the level engine": (
        (*STEP, "--engine", "levels", "--timeline", "t.json"), ("--timeline", "'levels'"),
    ),
    "timeline of a formula": (
        (*STEP, "--engine", "closed-form", "--timeline", "t.json"), ("--timeline", "'closed-form'"),
    ),
    "contention of the level engine": ((*STEP, "--engine", "levels", "--contention"), ("--contention", "'levels'")),
    "timeline in a missing directory": ((*STEP, "--timeline", "missing/t.json"), ("missing/t.json", "create")),
    "timeline that is a directory": ((*STEP, "--timeline", "folder.toml"), ("'folder.toml'", "directory")),
    "timeline of a graph in a missing directory": (
        (*GRAPH, "--timeline", "missing/t.json"), ("missing/t.json", "create"),
    ),
    "topology too small for a step": ((*STEP, "--topology", "small.toml"), ("ring of 4", "4 processors", "8")),
    "topology too small for a graph": (
        (*GRAPH[:-1], "small.toml"), ("ring of 4", "4 processors", "'test_graph.151'", "7"),
    ),
    "program of one processor": (("simulate", "zero.pb", *GRAPH[2:]), ("'test_graph.151_0'", "processor 0 alone")),
    "translation of one processor's program": (
        ("graph", "translate", "zero.pb", *TRANSLATE[3:], "x.pb"), ("'test_graph.151_0'", "processor 0 alone"),
    ),
    "translation into another kind of file": ((*TRANSLATE, "x.json"), ("--output", "'x.json'", ".textproto")),
    "translation into a missing directory": ((*TRANSLATE, "missing/x.pb"), ("missing/x.0.pb", "create")),
    "translation to nowhere": (TRANSLATE[:-1], ("--output",)),
    "translation of nothing": (("graph", "translate", *TRANSLATE[3:], "x.pb"), ("GRAPH",)),
    "graph of nothing": (("graph", "show"), ("GRAPH",)),
    "unknown graph command": (("graph", "shw", "program.textproto"), ("'shw'", "'show'")),
    "refinement of nothing": (("refine",), ("NAME",)),
    "refinement of an unknown study": (("refine", "stduy"), ("'stduy'", "'study'")),
    "refinement of no candidates": (("refine", "study", "--top", "0"), ("--top", "'0'", "at least 1")),
    "refinement of some candidates": (("refine", "study", "--top", "some"), ("--top", "'some'")),
    "refinement by nobody": (("refine", "study", "--workers", "0"), ("--workers", "'0'")),
    "refinement without a database": (("refine", "study", "--db", "nothing.db"), ("nothing.db",)),
    "search and refinement of none": (("search", "study.toml", "--refine", "0"), ("--refine", "'0'")),
    "search and refinement of some": (("search", "study.toml", "--refine", "some"), ("--refine", "'some'")),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_command_line(run: Any, folder: Path, case: str) -> None:
    arguments, words = COMMAND_LINES[case]
    refused(run, folder, arguments, words)


ZERO = (GRAPHS / "supersim_test_graph.0.pb").read_bytes()
TEXT = (GRAPHS / "supersim_test_graph.textproto").read_bytes()

GRAPH_FILES: dict[str, tuple[str, bytes | None, tuple[str, ...]]] = {
    "missing": ("g.pb", None, ("No such file",)),
    "another suffix": ("g.json", b"{}", ("'*.json'", "*.textproto")),
    "empty": ("g.pb", b"", ("no entry_subroutine",)),
    "empty text": ("g.textproto", b"", ("no entry_subroutine",)),
    "foreign": ("g.pb", b"\x7fELF\x02\x01" + bytes(60), ("not a binary program graph",)),
    "binary text": ("g.textproto", ZERO, ("g.textproto",)),
    "text for binary": ("g.pb", TEXT, ("not a binary program graph",)),
    "truncated": ("g.pb", ZERO[: len(ZERO) // 2], ("ends too early",)),
    "truncated text": ("g.textproto", TEXT[: len(TEXT) // 2], ("line 5",)),
    "unknown opcode": ("g.textproto", TEXT.replace(b'"all-reduce"', b'"all-reduc"', 1), ("'all-reduc'", "all-reduce")),
    "unknown field": ("g.textproto", TEXT.replace(b"seconds:", b"second:", 1), ("second", "'seconds'")),
    "missing operand": ("g.textproto", TEXT.replace(b"operand_ids: 1", b"operand_ids: 99", 1), ("operand", "99")),
}  # fmt: skip


@pytest.mark.parametrize("case", GRAPH_FILES)
def test_graph_file(run: Any, folder: Path, case: str) -> None:
    name, content, words = GRAPH_FILES[case]
    if content is not None:
        (folder / name).write_bytes(content)
    for arguments in (
        ("graph", "show", name),
        ("simulate", name, *GRAPH[2:]),
        ("graph", "translate", name, *TRANSLATE[3:], "x.pb"),
    ):
        refused(run, folder, arguments, (name, *words))


def test_a_graph_that_cannot_be_run(run: Any, folder: Path) -> None:
    cycle = TEXT.replace(b"seconds: ", b"seconds: -", 1)
    assert cycle != TEXT
    (folder / "g.textproto").write_bytes(cycle)
    for arguments in (("graph", "show", "g.textproto"), ("simulate", "g.textproto", *GRAPH[2:])):
        refused(run, folder, arguments, ("cannot be run", "seconds", "not negative"))


def changed(old: str, new: str) -> Callable[[str], bytes]:
    def change(text: str) -> bytes:
        assert old in text
        return text.replace(old, new).encode()

    return change


TOPOLOGY_FILES: dict[str, tuple[Callable[[str], bytes], tuple[str, ...]]] = {
    "foreign": (lambda _: FILES["strategy.toml"].encode(), ("tp", "topology")),
    "empty": (lambda _: b"", ("empty",)),
    "binary": (lambda _: b"\x7fELF\x00\xff", ("UTF-8",)),
    "truncated": (lambda text: text[:-4].encode(), ("not TOML",)),
    "no kind": (changed('kind = "ring"\n', ""), ("topology.kind", "missing")),
    "unknown kind": (changed('"ring"', '"rng"'), ("topology.kind", "'rng'", "'ring'")),
    "unknown key": (changed("processors", "procesors"), ("topology.procesors", "'processors'")),
    "missing key": (changed('latency = "1 us"', ""), ("topology.latency", "missing")),
    "no unit": (changed("50 GB/s", "50"), ("topology.bandwidth", "'50'", "50 GB/s")),
    "negative": (changed("1 us", "-1 us"), ("topology.latency", "at least 0 s")),
    "no processors": (changed("= 8", "= 0"), ("topology.processors", "0")),
}


@pytest.mark.parametrize("case", TOPOLOGY_FILES)
def test_topology_file(run: Any, folder: Path, case: str) -> None:
    change, words = TOPOLOGY_FILES[case]
    (folder / "broken.toml").write_bytes(change(NETWORK))
    for arguments in ((*STEP, "--topology"), (*GRAPH[:-1],)):
        refused(run, folder, (*arguments, "broken.toml"), ("broken.toml", *words))


@pytest.mark.parametrize(("name", "words"), [("none.toml", ("no such file",)), ("folder.toml", ("directory",))])
def test_topology_that_is_no_file(run: Any, folder: Path, name: str, words: tuple[str, ...]) -> None:
    refused(run, folder, (*STEP, "--topology", name), (name, *words))


def test_an_astra_sim_file_that_is_none(run: Any, folder: Path) -> None:
    (folder / "network.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 1.0 ]\nlatency: [ 1.0 ]\n"
    )
    refused(run, folder, (*STEP, "--topology", "network.yml"), ("network.yml", "npus_count", "2 entries"))


def all_reduce(**table: Any) -> bytes:
    return json.dumps({"collective": {"all-reduce": table}}).encode()


TRANSLATIONS: dict[str, tuple[bytes | None, tuple[str, ...]]] = {
    "missing": (None, ("No such file",)),
    "foreign": (NETWORK.encode(), ("not a JSON file",)),
    "empty": (b"", ("not a JSON file",)),
    "binary": (b"\xff\x00", ("not a JSON file",)),
    "deep": (b"[" * 100_000, ("not a JSON file",)),
    "truncated": (json.dumps(RINGS).encode()[:-3], ("not a JSON file",)),
    "a list": (b"[1, 2]", ("not a table",)),
    "unknown key": (b'{"colective": {}}', ("'colective'", "'collective'")),
    "unknown collective": (b'{"collective": {"allreduce": {}}}', ("'allreduce'", "'all-reduce'")),
    "no algorithm": (all_reduce(), ("collective.all-reduce", "'algorithm'")),
    "unknown algorithm": (all_reduce(algorithm="bidir-rings"), ("all-reduce", "'bidir-rings'", "'bidir-ring'")),
    "unknown option": (all_reduce(algorithm="bidir-ring", window=2), ("all-reduce", "'window'")),
    "missing option": (all_reduce(algorithm="mesh-2d"), ("all-reduce", "'dimension_widths'")),
    "wrong option": (all_reduce(algorithm="mesh-2d", dimension_widths=[8]), ("dimension_widths", "[8]")),
    "unknown protocol": (b'{"protocol": {"send": {"algorithm": "pull"}}}', ("protocol.send", "'pull'", "push")),
}


@pytest.mark.parametrize("case", TRANSLATIONS)
def test_translation(run: Any, folder: Path, case: str) -> None:
    content, words = TRANSLATIONS[case]
    if content is not None:
        (folder / "broken.json").write_bytes(content)
    for arguments in ((*GRAPH, "--translation", "broken.json"), (*TRANSLATE[:4], "broken.json", "--output", "x.pb")):
        refused(run, folder, arguments, ("broken.json", *words))


def test_an_algorithm_that_the_groups_of_a_graph_cannot_do(run: Any, folder: Path) -> None:
    (folder / "grid.json").write_bytes(all_reduce(algorithm="mesh-2d", dimension_widths=[3, 3]))
    for arguments in ((*GRAPH, "--translation", "grid.json"), (*TRANSLATE[:4], "grid.json", "--output", "x.pb")):
        refused(run, folder, arguments, ("'all-reduce.69'", "'mesh-2d'", "8 processors", "3 x 3"))


STRATEGY_FILES: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "missing": (None, ("s.toml", "no such file")),
    "foreign": (NETWORK, ("s.toml", "topology")),
    "unknown word": ('batch = 4\nrecompute = "ful"\n', ("s.toml", "recompute", "'ful'", "'full'")),
    "illegal": ("tp = 3\npp = 1\ndp = 1\nbatch = 4\n", ("4 attention heads", "tp 3", "2 or 4")),
    "batch that does not divide": ("tp = 1\npp = 1\ndp = 3\nbatch = 4\n", ("batch", "4", "3")),
}


@pytest.mark.parametrize("case", STRATEGY_FILES)
def test_strategy_file(run: Any, folder: Path, case: str) -> None:
    content, words = STRATEGY_FILES[case]
    if content is not None:
        (folder / "s.toml").write_text(content)
    refused(run, folder, (*STEP[:-1], "s.toml"), words)


def test_a_strategy_file_of_another_kind(run: Any, folder: Path) -> None:
    refused(run, folder, (*STEP[:-1], "s.yaml"), ("--strategy", "'s.yaml'", ".toml"))
    refused(run, folder, (*STEP[:-1], "folder.toml"), ("folder.toml", "directory"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_what_may_not_be_read_or_written(run: Any, folder: Path) -> None:
    for name in ("program.textproto", "network.toml", "rings.json"):
        (folder / name).chmod(0)
        arguments = (*GRAPH, "--translation", "rings.json")
        result = run(*arguments)
        assert (result.status, result.out) == (2, "")
        assert name in result.err
        (folder / name).chmod(0o600)
    (folder / "locked").mkdir(mode=0o500)
    refused(run, folder, (*STEP, "--timeline", "locked/t.json"), ("locked/t.json", "may write"))


def test_an_existing_timeline_is_left_alone_where_nothing_is_simulated(run: Any, folder: Path) -> None:
    (folder / "t.json").write_text("precious")
    refused(run, folder, (*STEP, "--timeline", "t.json", "--topology", "small.toml"), ("ring of 4",))
    assert (folder / "t.json").read_text() == "precious"
