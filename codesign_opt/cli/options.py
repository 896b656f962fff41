"""Options that several commands share, and what completion offers for them. Imports stay light: `--help` loads this."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from codesign_opt.catalog.lookup import Shelf

DATABASE_VARIABLE = "CODESIGN_OPT_DB"
DEFAULT_DATABASE = "sqlite:///codesign-opt.db"

METHODS = ("auto", "exact", "bilevel", "flat")
SAMPLERS = ("auto", "random", "qmc", "tpe", "nsga2", "gp", "cmaes")
DATATYPES = ("float8", "float16", "bfloat16", "float32")
ATTENTIONS = ("multihead", "multiquery")
RECOMPUTES = ("none", "selective", "full")
TP_COMMUNICATIONS = ("all_reduce", "stage_boundary", "sequence_parallel")
TP_OVERLAPS = ("none", "ring", "pipe")
ATTENTION_KERNELS = ("unfused", "flash")
CP_EXCHANGES = ("ring", "all_gather", "all_to_all")
SCHEDULES = ("1f1b", "gpipe", "zb_1p", "zb_v", "dualpipe")
STRATEGY_PLACEMENTS = ("tiers", "tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp", "cp-tp-dp-pp")
GRADIENT_PRECISIONS = ("same", "float32", "both")
PRODUCT_PRECISIONS = ("same", "float8")
ZERO_STAGES = ("0", "1", "2", "3")
TARGETS = ("free", "megatron-lm", "torchtitan", "deepspeed", "nanotron")
SHELVES: tuple[Shelf, ...] = ("workloads", "systems", "studies")


def examples(*lines: str) -> str:
    """The text below a command's options: lines to type, which are not filled like other text."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def shipped(shelf: str) -> Callable[[str], list[str]]:
    """Completion: the names of the catalogue's shelf, read from its folder without loading the catalogue."""

    def complete(incomplete: str) -> list[str]:
        folder = Path(__file__).parent.parent / "catalog" / shelf
        return sorted(path.stem for path in folder.glob("*.toml") if path.stem.startswith(incomplete))

    return complete


def words(allowed: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Completion: the words allowed."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in allowed if word.startswith(incomplete)]

    return complete


WORKLOAD = typer.Option(
    "--workload", metavar="NAME|FILE", help="What is computed: a catalogue name, or a TOML or JSON file.",
    autocompletion=shipped("workloads"),
)  # fmt: skip
SEQUENCE_LENGTH = typer.Option(
    "--sequence-length", metavar="N", show_default=False, help="Tokens in a sequence, instead of the workload's own."
)
SYSTEM = typer.Option(
    "--system", metavar="NAME|FILE", help="The machine: a catalogue name, or a TOML or JSON file.",
    autocompletion=shipped("systems"),
)  # fmt: skip
PROCESSORS = typer.Option("--processors", metavar="N", help="Number of processors.")
BATCH = typer.Option("--batch", metavar="N", help="Largest global batch, sequences.")
DATATYPE = typer.Option(
    "--datatype", metavar="|".join(DATATYPES), help="Number format.", autocompletion=words(DATATYPES)
)
OBJECTIVES = typer.Option(
    "--objective", metavar="METRIC", show_default=False,
    help="What is better, for instance 'sample_rate' or 'minimize step_time'; may be repeated.",
)  # fmt: skip
CONSTRAINTS = typer.Option(
    "--constraint", metavar="'METRIC <= BOUND'", show_default=False,
    help="What must hold, for instance 'memory_tier1_used <= 70 GiB'; may be repeated.",
)  # fmt: skip
LIMITS = typer.Option(
    "--limit", metavar="DIMENSION=A,B", show_default=False,
    help="Values a dimension of the strategies may take, for instance 'tp=1,2,4'; may be repeated.",
)  # fmt: skip
UNEVEN_STAGES = typer.Option("--uneven-stages", help="Also stages of different numbers of blocks.")
ALL_DIVISORS = typer.Option("--all-divisors", help="Also what is legal but seldom worth trying.")
TARGET = typer.Option(
    "--target", metavar="|".join(TARGETS), show_default=False, autocompletion=words(TARGETS),
    help="Framework that is to run the strategies: what it refuses is left out.",
)  # fmt: skip
REPRODUCE = typer.Option("--reproduce", metavar="all|none|E2,E7", help="Errata of the published tool to reproduce.")
DATABASE = typer.Option(
    "--db", metavar="URL", envvar=DATABASE_VARIABLE,
    help="Database: a file, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE.",
)  # fmt: skip
STUDY_NAME = typer.Argument(metavar="NAME", help="Name of the study in the database.")
OUTPUT = typer.Option("--output", metavar="FILE", help="Write to this file.")
QUIET = typer.Option("--quiet", help="No progress and no remarks on stderr.")
JSON = typer.Option("--json", help="One JSON document on stdout: SI numbers, units named.")
