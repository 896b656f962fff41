"""Commands run in this process or in a child, each test in a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.cli.main import main

TINY_WORKLOAD = """\
name = "tiny"
hidden = 64
feedforward = 256
sequence_length = 32
attention_heads = 4
head_size = 16
blocks = 4
"""

STUDY = """\
workload = "tiny.toml"
processors = [2, 4]
batch = 4
objectives = ["sample_rate", "system_price"]
budget = 4
seed = 1
top_k = 2

[system]
base = "h100-price-study"

[system.free]
"memory_tier1.capacity" = { low = "20 GiB", high = "120 GiB" }
"network_tiers.0.bandwidth" = { low = "100 GB/s", high = "900 GB/s" }

[strategies]
microbatch = 1
tp_overlap = "none"
weight_offload = false
activation_offload = false
optimizer_offload = false
tp_tier = 0
"""


@dataclass(frozen=True)
class Result:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its JSON."""
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture(scope="session")
def study_files() -> dict[str, str]:
    """Names and contents of the files of a small study."""
    return {"tiny.toml": TINY_WORKLOAD, "study.toml": STUDY}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `tiny.toml` and `study.toml` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CODESIGN_OPT_DB", raising=False)
    monkeypatch.delenv("CODESIGN_OPT_TRACEBACK", raising=False)
    (tmp_path / "tiny.toml").write_text(TINY_WORKLOAD)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process."""

    def _run(*arguments: str) -> Result:
        capfd.readouterr()
        status = main(arguments)
        captured = capfd.readouterr()
        return Result(status, captured.out, captured.err)

    return _run


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment in which a child finds the package."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def run_in_child(environment: dict[str, str]) -> Run:
    """Runs a command in a process of its own."""

    def _run(*arguments: str, **variables: str) -> Result:
        completed = subprocess.run(
            [sys.executable, "-m", "codesign_opt", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**environment, **variables},
        )
        return Result(completed.returncode, completed.stdout, completed.stderr)

    return _run
