"""Writes docs/accuracy.md from the shipped runs: `python docs/make_accuracy.py`."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from codesign_opt.objectives.intervals import published_intervals
from codesign_opt.tables import Table
from codesign_opt.validation import MappedRun, MeasuredRun, shipped_runs
from codesign_opt.validation.calibration.shipped import shipped_calibrations
from codesign_opt.validation.columns import columns_of
from codesign_opt.validation.scoring import GROUP_ROWS, TIERS, Validation, validate
from codesign_opt.validation.unmapped import REASONS

PAGE = Path(__file__).parent / "accuracy.md"

LOWEST = 0.2
"""Model flops utilisation above which step times are judged first."""

EXAMPLE = ("nanotron_ultrascale-0121", "nanotron_ultrascale-0135", "nanotron_ultrascale-0321")
"""Rows that show what a file of one's own looks like."""

CLAIMS = (
    ("Calculon", "arXiv 2205.05198 table 5, 8 rows", "3.65% mean, 8.87% largest"),
    ("vTrain", "its own A100 sets", "8.37% mean on one node, 14.73% on several"),
    ("SimuMax", "B200, 43 rows", "5.6% mean, 13.5% largest; memory within 1.4%"),
    ("Primus projection", "MI325X and MI355X, 4 rows", "5.3% to 9.2%, starting from a measured node"),
    ("arXiv 2509.22832", "GPT up to 20B on 128 GPUs", "4.98% (A100), 9.38% (GH200)"),
    ("RAPID-LLM", "the nanotron sweep above 20% utilisation", "no figure; the filter alone is told"),
)
"""Tool, data, and error that it claims for itself; what each was tuned on is its own matter."""

OPENING = """\
# Accuracy

How far predictions are from 1,572 published training runs of 14 collections
(`codesign_opt/catalog/measurements/README.md` says where they are from). This page is written by
`python docs/make_accuracy.py`; the same tables come from

    $ codesign-opt validate --mfu-above 20%

An error is |predicted - measured| / measured; bias is the median of predicted / measured, less one. A row of tier A has
all that a model needs and a printed result, B lacks one thing or has its time from a rate of flop, C lacks more.
Utilisation is flop of the model, with full attention and without recompute, as a share of the matrix peak."""

NOT_COVERED = """\
## What is not covered, and why

* **Host-bound steps.** In eager frameworks a block and microbatch take no less than a few milliseconds, however little
  there is to compute: small models, small microbatches and much tensor parallelism. The model has a floor for it
  (`launch`), but one for all software; such runs have a low utilisation, and are in the second table only.
* **Shared clusters.** BigScience's notes tell of 125 to 225 s for one and the same run; no model says which it will be.
* **What a row does not say.** Assumptions are listed with every row (`--rows`, `--json`): recompute, precision,
  sharding, the network between nodes, the habits of a software.
* **Adapters, offloaded activations, optimizers other than Adam**: left out, or counted as the nearest that there is.
* **Failures of other kinds than memory**, time-outs and start-up are in no table."""

OWN_CLUSTER = """\
## Your own cluster in ten minutes

Five to twenty runs that differ in one thing each are enough: microbatch 1 and a large one, tp 1 and a whole node, one
node and all of them, a deep pipeline, full recompute. Write a line for each into a CSV file; a cell may be empty where
something does not apply, and columns that are not listed here are ignored. Batches are in sequences, `dp` is
num_gpus / (tp · pp · cp), memory is in GiB as tools print it, and `oom` is y for a run that ran out of memory."""

AFTERWARDS = """\
    $ codesign-opt validate --data my-runs.csv --rows 5

    $ codesign-opt calibrate h100-sxm --data my-runs.csv --output my-h100.toml

The bias says by what factor all runs are off. The suspected part of the worst rows is what they have more of than the
others: look there first, and at the assumptions of those rows. `calibrate` moves the calibration of the generation as
far as your runs demand, names what they do not determine, and writes a system that every command takes. Names of
systems decide the interval that `estimate` prints: `h100-…` has that of runs on the same generation."""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page as text."""
    runs = shipped_runs()
    calibrations = shipped_calibrations()
    fast = validate(runs, mfu_above=LOWEST, calibrations=calibrations)
    every = validate(runs, tiers=TIERS, calibrations=calibrations)
    sections = [
        OPENING,
        f"{_systems(fast)}\n\n## Step time: tier A above {LOWEST:.0%} utilisation\n\n{_times(fast)}",
        f"## Step time: all rows of all tiers\n\n{_times(every)}",
        f"## Memory\n\n{_memory(every)}",
        f"## Decisions\n\n{_decisions(every)}",
        f"## Intervals\n\n{_intervals(fast, every)}",
        f"## What other tools claim for themselves\n\n{_markdown(('tool', 'on what', 'error'), CLAIMS)}",
        f"## Rows that are not used\n\n{_skipped(every)}",
        NOT_COVERED,
        f"{OWN_CLUSTER}\n\n<!-- file: my-runs.csv -->\n```csv\n{_example()}```\n\n{AFTERWARDS}",
    ]
    return "\n\n".join(sections) + "\n"


def _systems(validation: Validation) -> str:
    if validation.held_out is None:
        return (
            "Systems are those of the catalogue, which are fitted to no run: every row is one that they have not seen."
        )
    return (
        "Held out: predicted by calibrations that have not seen the row's family. `docs/calibration.md` says how they\n"
        "are made; one for each generation of processors, and none for a source, a model or a row."
    )


def _times(validation: Validation) -> str:
    families = validation.families().to_dicts()
    prefixes = ("", "held_out_") if validation.held_out is not None else ("",)
    names = [word for prefix in prefixes for word in _prefixed(prefix, ("median", "90%", "bias"))]
    rows = []
    for family in families:
        if not family["timed"]:
            continue
        cells = [family["family"], family["rows"], family["used"], family["timed"]]
        for prefix in prefixes:
            cells += [_share(family[f"{prefix}median"]), _share(family[f"{prefix}percentile90"])]
            cells += [_share(math.expm1(family[f"{prefix}bias"]), signed=True)]
        rows.append(cells)
    text = _markdown(("family", "rows", "used", "timed", *names), rows)
    slow = f"\n\n{validation.slow} rows of tier A have a lower utilisation." if validation.slow else ""
    return text + slow


def _prefixed(prefix: str, names: Iterable[str]) -> list[str]:
    return [f"{'held out ' if prefix else ''}{name}" for name in names]


def _memory(validation: Validation) -> str:
    prefix = "" if validation.held_out is None else "held_out_"
    peaks = [
        (row["family"], row["memory_rows"], _share(row[f"{prefix}memory_median"]))
        for row in validation.families().to_dicts()
        if row["memory_rows"]
    ]
    verdicts = [
        (
            row["family"],
            row["failed_as_predicted"] + row["failed_against_prediction"],
            row["failed_as_predicted"],
            row["ran_as_predicted"] + row["ran_against_prediction"],
            row["ran_as_predicted"],
            _share(row["accuracy"]),
        )
        for row in validation.verdicts().to_dicts()
    ]
    return (
        "Peak memory of a processor, where a source measured it:\n\n"
        + _markdown(("family", "rows", "median error"), peaks)
        + "\n\nVerdicts on running out of memory, of families with such failures:\n\n"
        + _markdown(("family", "ran out", "of them foreseen", "ran", "of them foreseen", "right"), verdicts)
        + "\n\nOf the other families every row ran, and several do not say what they recompute, so that their need "
        "cannot be told."
    )


def _decisions(validation: Validation) -> str:
    prefix = "" if validation.held_out is None else "held_out_"
    rows = [
        (row["group"], row["rows"], _number(row[f"{prefix}rank_correlation"]), _share(row[f"{prefix}regret"]))
        for row in validation.groups().to_dicts()
    ]
    return (
        f"Groups of at least {GROUP_ROWS} runs that differ in their strategy alone: Spearman's rank correlation of "
        "predicted and measured time, and how much slower the run that is predicted fastest was than the fastest.\n\n"
        + _markdown(("group", "rows", "rank correlation", "regret"), rows)
    )


def _intervals(fast: Validation, every: Validation) -> str:
    shares = [
        (name, table["rows"], _share(table["coverage"]))
        for name, table in (
            (f"tier A above {LOWEST:.0%} utilisation", _last(fast.coverage())),
            ("all rows", _last(every.coverage())),
        )
    ]
    kinds = [
        (one.generation, one.parallelism, one.runs, one.families, f"{one.lower:.2f}", f"{one.upper:.2f}")
        for one in published_intervals()
    ]
    return (
        "An interval holds 80% of runs of the nearest kind: generation of the processor and class of parallelism, or a "
        "wider kind where there are fewer than 20 runs. Made without a family, it holds of that family's runs:\n\n"
        + _markdown(("rows", "judged", "within"), shares)
        + "\n\n`codesign-opt estimate` prints the interval beside the step time. These are shipped, as multiples of "
        "the estimate:\n\n" + _markdown(("generation", "parallelism", "runs", "collections", "from", "to"), kinds)
    )


def _last(table: Table) -> dict[str, float]:
    return table.row(table.rows - 1)


def _skipped(validation: Validation) -> str:
    rows = [(row["family"], row["rows"], REASONS[str(row["reason"])]) for row in validation.skipped().to_dicts()]
    tier_a = [outcome for outcome in validation.outcomes if outcome.run.tier == "A"]
    used = sum(isinstance(outcome, MappedRun) for outcome in tier_a)
    return (
        f"Of tier A {used} of {len(tier_a)} rows are used ({used / len(tier_a):.1%}), of all "
        f"{len(validation.mapped)} of {len(validation.outcomes)}.\n\n" + _markdown(("family", "rows", "reason"), rows)
    )


def _example() -> str:
    """A few of the shipped rows with the columns that a file must have."""
    needed = [column.name for column in columns_of(MeasuredRun) if column.required]
    shipped = resources.files("codesign_opt.catalog").joinpath("measurements", "measured_runs.csv.gz").read_bytes()
    rows = csv.DictReader(io.StringIO(gzip.decompress(shipped).decode(), newline=""))
    text = io.StringIO()
    writer = csv.DictWriter(text, needed, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for row in rows if row["row_id"] in EXAMPLE)
    return text.getvalue()


def _markdown(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _share(value: float, *, signed: bool = False) -> str:
    return f"{value:{'+' * signed}.1%}" if math.isfinite(value) else "-"


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


if __name__ == "__main__":
    main()
