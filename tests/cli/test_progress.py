"""How a running command reports."""

from __future__ import annotations

import io
import sys

import pytest

from codesign_opt.cli import progress


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.reporting("study [bold]", quiet=False) as report:
        report(0.5, "30 trials")
    shown = terminal.getvalue()
    assert "study [bold]" in shown
    assert "50%" in shown
    assert "30 trials" in shown


def test_something_moves_on_a_terminal_while_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.waiting("evaluating", quiet=False):
        pass
    assert "evaluating" in terminal.getvalue()


def test_lines_elsewhere_not_more_often_than_can_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with progress.reporting("study", quiet=False) as report:
        for trials in (1, 2, 3, 4):
            report(trials / 4, f"{trials} trials")
    assert capsys.readouterr().err.splitlines() == ["study: 50%, 2 trials", "study: 100%, 4 trials"]


def test_nothing_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.reporting("study", quiet=True) as report, progress.waiting("evaluating", quiet=True):
        report(1.0, "done")
    assert terminal.getvalue() == ""
