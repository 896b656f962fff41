"""How a running search or sweep reports: a bar on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINE_SECONDS = 5.0
"""Time between two plain lines."""

Report = Callable[[float, str], None]
"""Takes the share that is done, 0 to 1, and what to say about it."""


@contextmanager
def reporting(title: str, *, quiet: bool) -> Iterator[Report]:
    """A function that reports progress on stderr as long as the context lasts."""
    if quiet:
        yield _say_nothing
    elif sys.stderr.isatty():
        with _bar() as bar:
            yield _bar_report(bar, title)
    else:
        yield _line_report(title)


@contextmanager
def waiting(title: str, *, quiet: bool) -> Iterator[None]:
    """Shows on a terminal that something runs whose progress is not known."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(title):
        yield


def _say_nothing(share: float, text: str) -> None:
    pass


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _bar_report(bar: Bar, title: str) -> Report:
    task = bar.add_task(title, total=1.0, text="")

    def report(share: float, text: str) -> None:
        bar.update(task, completed=share, text=text)

    return report


def _line_report(title: str) -> Report:
    last = time.monotonic()

    def report(share: float, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            print(f"{title}: {share:.0%}, {text}", file=sys.stderr, flush=True)

    return report
