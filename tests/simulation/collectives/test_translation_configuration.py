"""The configuration of a translation: what is read, and what is said about mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.errors import InputError
from codesign_opt.simulation.collectives import ALGORITHMS, collective_schedule
from codesign_opt.simulation.translation import read_translation

REQUIRED = {"dimension_widths": [4, 2], "node_size": 2}


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "translation.json"
    table = {
        "collective": {
            "all-reduce": {
                "algorithm": "torus-2d",
                "dimension_widths": [4, 2],
                "concentration": 2,
                "integrated_local_exchange": True,
                "barrier": {"algorithm": "centralized"},
            },
            "barrier": {"algorithm": "centralized"},
        },
        "protocol": {"sendrecv": {"algorithm": "push"}},
    }
    file.write_text(json.dumps(table))
    for source in (file, str(file), table):
        translation = read_translation(source)
        assert translation.protocols == {"sendrecv"}
        assert {opcode: choice.algorithm.name for opcode, choice in translation.collectives.items()} == {
            "all-reduce": "torus-2d",
            "barrier": "centralized",
        }
        assert translation.collectives["all-reduce"].options == {
            "dimension_widths": (4, 2),
            "concentration": 2,
            "integrated_local_exchange": True,
            "barrier": True,
        }


def test_every_algorithm_can_be_configured() -> None:
    for opcode, algorithms in ALGORITHMS.items():
        for name, algorithm in algorithms.items():
            options = {option.name: REQUIRED[option.name] for option in algorithm.options if option.required}
            translation = read_translation({"collective": {opcode: {"algorithm": name, **options}}})
            assert translation.collectives[opcode].algorithm is algorithm


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"collectives": {}}, "translation: unknown key 'collectives'", "did you mean 'collective'?"),
        ({"collective": []}, "collective: [] is not a table", "give"),
        ({"collective": {"allreduce": {}}}, "collective: unknown key 'allreduce'", "'all-reduce'"),
        ({"collective": {"all-reduce": {}}}, "collective.all-reduce: missing key 'algorithm'", "unidir-ring"),
        ({"collective": {"all-reduce": "unidir-ring"}}, "collective.all-reduce: 'unidir-ring' is not a table", "give"),
        (
            {"collective": {"all-reduce": {"algorithm": "unidirring"}}},
            "collective.all-reduce: unknown algorithm 'unidirring'",
            "did you mean 'unidir-ring'",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "dissemination"}}},
            "collective.all-gather: unknown algorithm 'dissemination'",
            "allowed: unidir-ring",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "mesh-2d"}}},
            "collective.all-gather: missing key 'dimension_widths'",
            "both greater than 1",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "mesh-2d", "dimension_widths": [4, 1]}}},
            "collective.all-gather: dimension_widths = [4, 1] is not allowed",
            "both greater than 1",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "ring-2d-grid", "dimension_widths": [3, 2]}}},
            "dimension_widths = [3, 2] is not allowed",
            "the width even",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "mesh-2d", "dimension_widths": [2, 2], "concentration": 0}}},
            "concentration = 0 is not allowed",
            "from 1 on",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "unidir-ring", "concentration": 2}}},
            "collective.all-gather: unknown key 'concentration'",
            "allowed: barrier",
        ),
        (
            {"collective": {"all-reduce": {"algorithm": "dissemination", "barrier": {"algorithm": "centralized"}}}},
            "collective.all-reduce: unknown key 'barrier'",
            "it has no options",
        ),
        (
            {"collective": {"all-gather": {"algorithm": "unidir-ring", "barrier": {"algorithm": "tree"}}}},
            "barrier = {'algorithm': 'tree'} is not allowed",
            "centralized",
        ),
        (
            {"collective": {"all-reduce": {"algorithm": "mesh-1d", "mirrored": "yes"}}},
            "mirrored = 'yes' is not allowed",
            "true or false",
        ),
        (
            {"collective": {"all-reduce": {"algorithm": "hierarchical", "node_size": 8, "rails": "tree"}}},
            "rails = 'tree' is not allowed",
            "'unidir-ring' or",
        ),
        ({"protocol": {"sendrcv": {"algorithm": "push"}}}, "protocol: unknown key 'sendrcv'", "'sendrecv'"),
        ({"protocol": {"send": {"algorithm": "pull"}}}, "protocol.send: unknown algorithm 'pull'", "allowed: push"),
        ({"protocol": {"send": {"algorithm": "push", "x": 1}}}, "protocol.send: unknown key 'x'", "algorithm"),
        ({"protocol": {"send": {}}}, "protocol.send: missing key 'algorithm'", "allowed: push"),
        ({"protocol": {"send": {"algorithm": 1}}}, "protocol.send: algorithm = 1 is not a name", "allowed: push"),
    ],
)
def test_mistakes_are_named(table: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        read_translation(table)
    assert message in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read"), ("{", "not a JSON file"), ("[1]", "is not a table"), ('{"protocl": {}}', "'protocl'")],
)
def test_mistakes_in_files_name_the_file(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "translation.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=message) as error:
        read_translation(file)
    assert "translation.json" in error.value.message


@pytest.mark.parametrize(
    ("opcode", "algorithm", "processors", "size", "message"),
    [
        ("allreduce", "unidir-ring", [0, 1], 1.0, "'allreduce' is not a collective"),
        ("all-reduce", "ring", [0, 1], 1.0, "unknown algorithm 'ring'"),
        ("all-reduce", "halving-doubling", [0, 1, 2], 1.0, "group of 3 members"),
        ("all-reduce", "unidir-ring", [], 1.0, "no members"),
        ("all-reduce", "unidir-ring", [0, 1, 0], 1.0, "processor 0 twice"),
        ("all-reduce", "unidir-ring", [0, 1], -1.0, "-1 bytes"),
        ("all-reduce", "unidir-ring", [0, 1], float("inf"), "inf bytes"),
    ],
)
def test_mistakes_in_a_single_collective(
    opcode: str, algorithm: str, processors: list[int], size: float, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        collective_schedule(opcode, algorithm, processors, size)


def test_nodes_must_have_equal_numbers_of_members() -> None:
    with pytest.raises(InputError, match="node 0 has 2 members of the group, node 1 has 1"):
        collective_schedule("all-reduce", "hierarchical", [0, 1, 2], 1.0, options={"node_size": 2})
