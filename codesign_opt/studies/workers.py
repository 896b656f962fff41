"""Maps a function over many arguments, in this process or in several."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Protocol, TypeVar

from codesign_opt.errors import CodesignError

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Map(Protocol):
    """As the built-in `map` over one argument."""

    def __call__(
        self, function: Callable[[Argument], Result], arguments: Iterable[Argument], /
    ) -> Iterator[Result]: ...


@contextmanager
def mapping(workers: int) -> Iterator[Map]:
    """A `map` whose results come in order, from as many processes as there are workers.

    Raises:
        CodesignError: When a worker process dies.
    """
    if workers <= 1:
        yield map
        return
    # A fresh interpreter has no locks or threads of this one in an unknown state.
    pool: Executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_depend_on_parent)
    try:
        yield pool.map
    except BrokenExecutor:
        raise CodesignError("a worker process died, perhaps for want of memory", "use fewer workers") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _depend_on_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends: a killed parent closes no pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
