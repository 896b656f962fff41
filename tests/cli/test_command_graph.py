"""`codesign-opt graph`: program graphs shown and translated."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign_opt.graphs import Graph, check_graph, read_graph, write_graph

LINE = 100
"""Characters of the longest line where the output goes into a file."""

DATA = Path(__file__).parents[1] / "data"
GRAPHS = DATA / "graphs"
SHIPPED = json.loads(gzip.decompress((DATA / "paragraph" / "translations.json.gz").read_bytes()))["shipped_graph"]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """The shipped graph and the translation that was made of it."""
    shutil.copy(GRAPHS / "supersim_test_graph.textproto", folder / "program.textproto")
    (folder / "rings.json").write_text(json.dumps(SHIPPED["config"]))


def partners(graph: Graph) -> list[int]:
    """For each instruction the place of its other half in the file."""
    places = {identifier: place for place, identifier in enumerate(graph.identifier.tolist())}
    return [places.get(identifier, -1) for identifier in graph.bonded.tolist()]


class TestShow:
    def test_text(self, run: Any) -> None:
        result = run("graph", "show", "program.textproto")
        assert (result.status, result.err) == (0, "")
        lines = result.out.splitlines()
        assert lines[0] == "graph 'test_graph.151' of all processors"
        assert lines[1].startswith(f"instructions: {SHIPPED['composite_instructions']}, executed ")
        assert any(line.startswith("all-reduce  collective  ") for line in lines)
        assert max(map(len, lines)) <= LINE

    def test_json(self, run: Any) -> None:
        document = run("graph", "show", "program.textproto", "--json").document
        assert (document["graph"], document["processor"]) == ("test_graph.151", None)
        assert document["instructions"] == SHIPPED["composite_instructions"]
        opcodes = {row["opcode"]: row for row in document["opcodes"]["rows"]}
        assert sum(row["instructions"] for row in opcodes.values()) == document["instructions"]
        assert sum(row["executed"] for row in opcodes.values()) == document["executed"]
        assert opcodes["all-reduce"]["instructions"] == 3
        units = {column["name"]: column["unit"] for column in document["opcodes"]["columns"]}
        assert (units["seconds"], units["memory"]) == ("s", "B")
        assert [row["loop"] for row in document["loops"]["rows"]] == ["while.123"]

    def test_the_program_of_one_processor(self, run: Any) -> None:
        path = str(GRAPHS / "supersim_test_graph.5.pb")
        document = run("graph", "show", path, "--json").document
        assert (document["processor"], document["instructions"]) == (5, SHIPPED["individual_instructions"]["5"])
        assert "of processor 5" in run("graph", "show", path).out


class TestTranslate:
    def test_programs_are_those_shipped_up_to_identifiers(self, run: Any, folder: Path) -> None:
        result = run("graph", "translate", "program.textproto", "--translation", "rings.json", "--output", "rings.pb")
        assert (result.status, result.out, result.err) == (0, "", "wrote 8 programs: rings.*.pb\n")
        assert sorted(path.name for path in folder.glob("rings.*.pb")) == [f"rings.{number}.pb" for number in range(8)]
        for number in (0, 5):
            ours, theirs = (
                read_graph(folder / f"rings.{number}.pb"),
                read_graph(GRAPHS / f"supersim_test_graph.{number}.pb"),
            )
            check_graph(ours)
            assert (ours.name, ours.processor, len(ours)) == (theirs.name, theirs.processor, len(theirs))
            assert ours.groups == theirs.groups
            for column in ("opcode", "ops", "bytes_in", "bytes_out", "seconds", "tag", "subroutine", "root", "count"):
                assert np.array_equal(getattr(ours, column), getattr(theirs, column)), column
            assert [entry.tolist() for entry in ours.operands] == [entry.tolist() for entry in theirs.operands]
            assert partners(ours) == partners(theirs)

    def test_text_and_binary_files_hold_the_same(self, run: Any, folder: Path) -> None:
        for suffix in ("pb", "textproto"):
            arguments = ("--translation", "rings.json", "--output", f"out.v2.{suffix}")
            assert run("graph", "translate", "program.textproto", *arguments).status == 0
        write_graph(read_graph(folder / "out.v2.3.textproto"), folder / "again.pb")
        assert (folder / "again.pb").read_bytes() == (folder / "out.v2.3.pb").read_bytes()

    def test_into_another_directory(self, run: Any, folder: Path) -> None:
        (folder / "programs").mkdir()
        arguments = ("--translation", "rings.json", "--output", "programs/rings.pb")
        assert run("graph", "translate", "program.textproto", *arguments).status == 0
        assert len(list((folder / "programs").iterdir())) == 8

    def test_programs_that_are_there_are_replaced(self, run: Any, folder: Path) -> None:
        (folder / "rings.0.pb").write_bytes(b"old")
        arguments = ("--translation", "rings.json", "--output", "rings.pb")
        assert run("graph", "translate", "program.textproto", *arguments).status == 0
        assert read_graph(folder / "rings.0.pb").processor == 0

    def test_nothing_to_translate_gives_the_programs_of_all_processors(self, run: Any, folder: Path) -> None:
        (folder / "nothing.json").write_text("{}")
        arguments = ("--translation", "nothing.json", "--output", "plain.pb")
        assert run("graph", "translate", "program.textproto", *arguments).status == 0
        shown = run("graph", "show", "plain.7.pb").out
        assert re.search(r"^all-reduce  collective  +3 ", shown, re.MULTILINE)
