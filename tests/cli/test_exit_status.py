"""What becomes of errors: one message, and an exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from codesign_opt.cli.errors import exit_status
from codesign_opt.errors import InfeasibleError, InputError, StorageError


def raising(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [(InputError("wrong"), 2), (StorageError("wrong"), 2), (InfeasibleError("wrong"), 1), (KeyboardInterrupt(), 130)],
)
def test_status_of_an_error(error: BaseException, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(lambda: raising(error)) == status
    assert capsys.readouterr().out == ""


def test_message_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    exit_status(lambda: raising(InputError("my.toml: batch: -1", "at least 1")))
    assert capsys.readouterr().err == "error: my.toml: batch: -1\n  at least 1\n"


def test_a_defect_is_one_line_that_asks_to_be_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(lambda: raising(ZeroDivisionError("by\nzero"))) == 70
    first, second = capsys.readouterr().err.splitlines()
    assert first == "internal error: ZeroDivisionError: by zero"
    assert second == "  please report it, with the output of CODESIGN_OPT_TRACEBACK=1"


def test_a_defect_shows_its_traceback_where_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODESIGN_OPT_TRACEBACK", "1")
    exit_status(lambda: raising(ZeroDivisionError("by zero")))
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(environment: dict[str, str]) -> None:
    # The catalogue is longer than nothing, and the pipe has no reader when it is written.
    script = (
        "import os, subprocess, sys\n"
        "read, write = os.pipe()\n"
        "os.close(read)\n"
        "command = [sys.executable, '-m', 'codesign_opt', 'catalog', 'list']\n"
        "completed = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)\n"
        "print(completed.returncode, completed.stderr)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert completed.stdout == "141 b''\n"
