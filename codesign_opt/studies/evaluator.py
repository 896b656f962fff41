"""Evaluates the points of a study, in this process or in several."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread

from codesign_opt.errors import CodesignError
from codesign_opt.studies.bilevel import evaluate_machine
from codesign_opt.studies.flat import evaluate_strategy
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Point
from codesign_opt.studies.specification import StudySpecification

Evaluate = Callable[[Sequence[Point]], Iterator[Outcome]]
"""Outcomes of points, in order, as they come."""


@contextmanager
def evaluator(specification: StudySpecification, method: str, workers: int) -> Iterator[Evaluate]:
    """Evaluates the points of a study, in as many processes as there are workers.

    Raises:
        CodesignError: When a worker process dies.
    """
    evaluate = partial(evaluate_point, specification, method)
    if workers <= 1:
        yield partial(map, evaluate)
        return
    # A fresh interpreter has no locks or threads of this one in an unknown state.
    pool: Executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_depend_on_parent)
    try:
        yield partial(pool.map, evaluate)
    except BrokenExecutor:
        raise CodesignError(
            "a worker process died, perhaps for want of memory",
            "use fewer workers; the study continues after its last batch",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def evaluate_point(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """What becomes of a point; a failed outcome with the reason where it cannot be evaluated."""
    try:
        if method == "flat":
            return evaluate_strategy(specification, point)
        return evaluate_machine(specification, point)
    except (ArithmeticError, CodesignError, ValueError) as error:
        return Outcome(state="failed", reason=str(error), values={}, constraints={})


def _depend_on_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends: a killed parent closes no pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
