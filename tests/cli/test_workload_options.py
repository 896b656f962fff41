"""Workloads on the command line: configs of models, their remarks, and other sequence lengths."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CONFIGS = Path(__file__).parents[1] / "data" / "hugging_face"
SMALL = ("--system", "h100-sxm", "--batch", "8", "--datatype", "bfloat16")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen3-4b"
    folder.mkdir()
    return Path(shutil.copy(CONFIGS / "qwen3-4b.json", folder / "config.json"))


def test_a_config_is_a_workload_and_says_what_was_left_out(run: Any, config: Path) -> None:
    result = run("estimate", "--workload", str(config), *SMALL, "--dp", "8", "--json")
    assert result.document["workload"] == "qwen3-4b"
    assert "sequences of 8,192 tokens" in result.err


def test_another_sequence_length(run: Any, config: Path) -> None:
    def forward(length: str) -> float:
        options = ("--dp", "8", "--sequence-length", length, "--json")
        document = run("estimate", "--workload", str(config), *SMALL, *options).document
        return float(document["metrics"]["forward_time"]["value"])

    # Twice the tokens, and attention that grows with the square.
    assert 2 < forward("2048") / forward("1024") < 4


def test_a_study_without_a_file_is_named_after_the_folder_of_a_config(run: Any, config: Path, tmp_path: Path) -> None:
    result = run(
        "search", "--workload", str(config), *SMALL, "--sequence-length", "512", "--processors", "8", "--budget", "1",
        "--limit", "tp=1,2", "--limit", "pp=1", "--db", str(tmp_path / "x.db"), "--json",
    )  # fmt: skip
    assert result.document["study"] == "qwen3-4b-on-h100-sxm"


@pytest.mark.parametrize("command", [("search", "--sequence-length", "512"), ("sweep", "--sequence-length", "0")])
def test_a_length_that_makes_no_sense(run: Any, command: tuple[str, ...]) -> None:
    options = () if command[0] == "search" else ("--workload", "llama3-8b", *SMALL, "--processors", "8")
    result = run(*command, *options)
    assert result.status == 2
    assert "--sequence-length" in result.err
