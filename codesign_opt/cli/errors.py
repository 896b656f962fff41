"""What becomes of an error on the command line: one message on stderr, and an exit status."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import typer

from codesign_opt.errors import CodesignError, InputError

BAD_INPUT = 2
INTERNAL_ERROR = 70
INTERRUPTED = 130
OUTPUT_CLOSED = 141

TRACEBACK_VARIABLE = "CODESIGN_OPT_TRACEBACK"
"""Environment variable that asks for the traceback of an internal error."""

_OPTIONS = {
    "objectives": "--objective",
    "constraints": "--constraint",
    "strategies": "--limit",
    "system.set": "--set",
    "system.free": "--free",
}
"""Option that says a key of a study file, where it has another name."""


class OutputClosedError(Exception):
    """Whoever read the output has gone, as `head` does."""


def exit_status(action: Callable[[], object]) -> int:
    """Run `action`; its exit status, after saying on stderr what went wrong.

    0 where nothing did; 1 where nothing satisfies the constraints; 2 for bad input; 70 for a defect of this program;
    130 after Ctrl-C; 141 where the reader of the output has gone.
    """
    try:
        status = action()
    except CodesignError as error:
        _say("error", error.message, error.hint)
        return error.exit_status
    except typer.TyperException as error:
        return _usage_error(error)
    except OutputClosedError:
        # The interpreter flushes stdout at exit and would complain about the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted", "nothing more is done")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: whatever gets here is a defect
        return _internal_error(error)
    return status if isinstance(status, int) else 0


@contextmanager
def naming_options(where: str, given: Collection[str]) -> Iterator[None]:
    """Makes errors about keys of a study name the options that said them.

    Args:
        where: What messages start with: "command line: objectives: unknown metric …".
        given: The keys that options said; errors about others stay as they are.
    """
    try:
        yield
    except InputError as error:
        match = re.fullmatch(
            rf"{re.escape(where)}: (system\.set|system\.free|\w+)(?:\.|: )(.*)", error.message, re.DOTALL
        )
        if match is None or match[1] not in given:
            raise
        option = _OPTIONS.get(match[1], f"--{match[1].replace('_', '-')}")
        raise type(error)(f"{option}: {match[2]}", error.hint, error.code) from None


def _usage_error(error: typer.TyperException) -> int:
    """A command line that cannot be parsed; a command group without a command shows its help."""
    message = error.format_message().rstrip(".")
    if message.startswith("Usage:"):
        print(message, file=sys.stderr)
    else:
        command = getattr(getattr(error, "ctx", None), "command_path", "codesign-opt")
        _say("error", message[:1].lower() + message[1:], f"'{command} --help' lists what is allowed")
    return BAD_INPUT


def _internal_error(error: Exception) -> int:
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".replace("\n", " ")
    _say("internal error", what, f"please report it, with the output of {TRACEBACK_VARIABLE}=1")
    return INTERNAL_ERROR


def _say(kind: str, message: str, hint: str = "") -> None:
    print(f"{kind}: {message}" + (f"\n  {hint}" if hint else ""), file=sys.stderr, flush=True)
