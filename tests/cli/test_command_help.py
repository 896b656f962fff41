"""`--help`, `--version` and completion are quick: they load Typer and the standard library only."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from codesign_opt import __version__

COMMANDS = [
    [],
    ["search"],
    ["pareto"],
    ["estimate"],
    ["sweep"],
    ["simulate"],
    ["refine"],
    ["validate"],
    ["calibrate"],
    ["graph"],
    ["graph", "show"],
    ["graph", "translate"],
    ["studies"],
    ["studies", "list"],
    ["studies", "best"],
    ["studies", "show"],
    ["studies", "delete"],
    ["studies", "export"],
    ["catalog"],
    ["catalog", "list"],
    ["catalog", "show"],
    ["db"],
    ["db", "upgrade"],
    ["db", "check"],
]

HEAVY = (
    "numpy", "scipy", "pandas", "pydantic", "pydantic_core", "optuna", "sqlalchemy", "alembic", "moocore", "pyarrow",
    "plotly", "rich", "tomli_w", "codesign_opt.api", "codesign_opt.strategies", "codesign_opt.units",
    "codesign_opt.graphs", "codesign_opt.simulation", "codesign_opt.studies",
)  # fmt: skip

CHILD = f"""
import sys
from codesign_opt.cli.main import main
print(main(sys.argv[1:]), file=sys.stderr)
print(sorted(name for name in sys.modules if name.startswith({HEAVY!r})), file=sys.stderr)
"""


def in_child(arguments: list[str], environment: dict[str, str]) -> tuple[str, list[str]]:
    """What a command prints, then its exit status and the heavy modules it loaded."""
    completed = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return completed.stdout, completed.stderr.splitlines()


def test_the_list_of_commands_is_complete() -> None:
    import typer

    from codesign_opt.cli.main import app

    root: Any = typer.main.get_command(app)
    found = [[]]
    for name, command in root.commands.items():
        found += [[name], *([name, inner] for inner in getattr(command, "commands", {}))]
    assert sorted(found) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_loads_nothing_heavy(command: list[str], environment: dict[str, str]) -> None:
    out, (status, heavy) = in_child([*command, "--help"], environment)
    assert out.startswith("Usage: codesign-opt")
    assert (status, heavy) == ("0", "[]")


def test_version_loads_nothing_heavy(environment: dict[str, str]) -> None:
    assert in_child(["--version"], environment) == (f"codesign-opt {__version__}\n", ["0", "[]"])


def test_completion_offers_catalogue_names_and_loads_nothing_heavy(environment: dict[str, str]) -> None:
    completing = {
        **environment,
        "_CODESIGN_OPT_COMPLETE": "complete_bash",
        "COMP_WORDS": "codesign-opt sweep --workload gpt3-1",
        "COMP_CWORD": "3",
    }
    script = CHILD.replace("print(main(sys.argv[1:]), file=sys.stderr)", "try: main([])\nexcept SystemExit: pass")
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=completing
    )
    assert completed.stdout.split() == ["gpt3-13b", "gpt3-175b"]
    # Typer itself converts the options before the one completed by pydantic.
    loaded = completed.stderr.strip().strip("[]").replace("'", "").split(", ")
    assert {name.partition(".")[0] for name in loaded} <= {"pydantic", "pydantic_core"}


def test_the_words_offered_are_those_of_the_options() -> None:
    from typing import get_args

    from codesign_opt.cli import options
    from codesign_opt.strategies.options import Attention, Datatype, Recompute, TpCommunication, TpOverlap
    from codesign_opt.studies.schema import Method, Sampler

    for offered, words in (
        (options.DATATYPES, Datatype),
        (options.ATTENTIONS, Attention),
        (options.RECOMPUTES, Recompute),
        (options.TP_COMMUNICATIONS, TpCommunication),
        (options.TP_OVERLAPS, TpOverlap),
    ):
        assert offered == tuple(word.value for word in words)
    assert get_args(Method) == options.METHODS
    assert get_args(Sampler) == options.SAMPLERS


def test_the_words_of_a_simulation_are_those_of_the_simulator() -> None:
    from typing import get_args

    from codesign_opt.cli import simulate
    from codesign_opt.graphs.step.orders import SCHEDULES
    from codesign_opt.graphs.step.pass_writer import GRANULARITIES, Messages
    from codesign_opt.simulation.events import MODELS
    from codesign_opt.simulation.step import ENGINES, PLACEMENTS

    assert ("auto", *SCHEDULES) == simulate.SCHEDULES
    assert ("auto", *GRANULARITIES) == simulate.GRANULARITIES
    assert get_args(Messages) == simulate.MESSAGES
    assert sorted(simulate.ENGINES) == sorted(ENGINES)
    assert simulate.MODELS == MODELS
    assert simulate.PLACEMENTS == PLACEMENTS


def test_every_option_of_a_strategy_is_an_option_of_estimate(run: Any) -> None:
    from codesign_opt.strategies.table import COLUMNS

    help_text = run("estimate", "--help").out
    assert [name for name in COLUMNS if f"--{name.replace('_', '-')} " not in help_text] == []


def test_without_a_command_the_help_is_shown(run: Any) -> None:
    result = run()
    assert result.status == 2
    assert result.err.startswith("Usage: codesign-opt")


def test_the_database_of_the_environment_is_the_default(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODESIGN_OPT_DB", "sqlite:///elsewhere.db")
    result = run("studies", "list")
    assert result.status == 2
    assert "elsewhere.db" in result.err
