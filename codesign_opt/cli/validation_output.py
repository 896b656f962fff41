"""What people and programs are told about a validation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.tables import Table
    from codesign_opt.validation.scoring import Validation


def write_validation(validation: Validation, *, source: str, rows: int, json: bool) -> None:
    """Say what came out; `rows` is how many of the worst rows people see, while JSON has them all."""
    from codesign_opt.cli.output import write, write_json

    if json:
        write_json(_document(validation))
    else:
        write("\n\n".join(_sections(validation, source, rows)))


def write_plot(validation: Validation, path: Path, *, source: str) -> None:
    """Write the page with every row.

    Raises:
        InputError: Where the file cannot be written.
    """
    from codesign_opt.cli.output import note, plural
    from codesign_opt.reports import page
    from codesign_opt.reports.accuracy_plot import accuracy_plot
    from codesign_opt.reports.files import write_atomically

    table = validation.rows()
    everything = validation.families().row(validation.families().rows - 1)
    facts = {
        "rows": everything["rows"],
        "used": everything["used"],
        "timed": everything["timed"],
        "median error": _share(everything[f"{_prefix(validation)}median"]),
        "90th percentile": _share(everything[f"{_prefix(validation)}percentile90"]),
    }
    text = page(table, title=f"Accuracy on {source}", axes=(), drawings=[accuracy_plot(table)], facts=facts)
    write_atomically(path, text.encode())
    note(f"wrote {path}: {plural(range(table.rows), 'row')}")


def _document(validation: Validation) -> dict[str, Any]:
    """The validation for programs: shares as numbers, seconds."""
    from codesign_opt.cli.output import table_document

    return {
        "predictions": "catalogue" if validation.held_out is None else "calibrated",
        "slow": validation.slow,
        "families": table_document(validation.families()),
        "skipped": table_document(validation.skipped()),
        "verdicts": table_document(validation.verdicts()),
        "groups": table_document(validation.groups()),
        "coverage": table_document(validation.coverage()),
        "rows": table_document(validation.rows()),
    }


def _sections(validation: Validation, source: str, rows: int) -> list[str]:
    """The validation for people."""
    from codesign_opt.cli.output import titled_table

    families, skipped, groups = validation.families(), validation.skipped(), validation.groups()
    sections = [
        _heading(validation, families, source),
        titled_table(_time_errors(families), "step time, |predicted - measured| / measured", rows=families.rows),
    ]
    memory = _memory_errors(families)
    if memory.rows:
        sections.append(titled_table(memory, "peak memory of a processor", rows=memory.rows))
    verdicts = _verdicts(validation.verdicts())
    if verdicts.rows:
        sections.append(titled_table(verdicts, "verdicts on running out of memory", rows=verdicts.rows))
    if groups.rows:
        sections.append(
            titled_table(
                _decisions(groups),
                "comparable runs: rank correlation of step times, and regret of the run predicted fastest",
                rows=groups.rows,
            )
        )
    coverage = _coverage(validation.coverage())
    if coverage.rows:
        title = "runs within the interval that holds 80% of runs of other families"
        sections.append(titled_table(coverage, title, rows=coverage.rows))
    if skipped.rows:
        sections.append(titled_table(_explained(skipped), "rows that were not used", rows=skipped.rows))
    if rows:
        sections.append(titled_table(_worst(validation.rows()), "largest errors", rows=rows))
    return sections


def _heading(validation: Validation, families: Table, source: str) -> str:
    import textwrap

    from codesign_opt.cli.output import width

    everything = families.row(families.rows - 1)
    systems = "the catalogue's systems, fitted to no run" if validation.held_out is None else "calibrated systems"
    lines = [
        f"{source}: {everything['rows']} rows, {everything['used']} used, {everything['timed']} timed; {systems}",
    ]
    if validation.slow:
        lines.append(f"{validation.slow} rows of lower utilisation are judged by their memory alone")
    if validation.held_out is not None:
        lines.append("held out: predicted by calibrations that have not seen the family; verdicts and intervals too")
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width()))


def _prefix(validation: Validation) -> str:
    return "" if validation.held_out is None else "held_out_"


def _time_errors(families: Table) -> Table:
    """Families with timed rows: in sample, and held out beside it where there is such."""
    timed = families.take([row for row, count in enumerate(families["timed"].tolist()) if count])
    columns: dict[str, Any] = {name: timed[name] for name in ("family", "rows", "used", "timed")}
    for prefix, words in (("", ""), ("held_out_", "held out ")):
        if f"{prefix}median" in timed and timed.rows:
            columns[f"{words}median"] = _shares(timed[f"{prefix}median"])
            columns[f"{words}90%"] = _shares(timed[f"{prefix}percentile90"])
            columns[f"{words}bias"] = _shares([math.expm1(value) for value in timed[f"{prefix}bias"]], signed=True)
    return _table(columns)


def _memory_errors(families: Table) -> Table:
    there = families.take([row for row, count in enumerate(families["memory_rows"].tolist()) if count])
    columns: dict[str, Any] = {"family": there["family"], "measured": there["memory_rows"]}
    for prefix, words in (("", ""), ("held_out_", "held out ")):
        if f"{prefix}memory_median" in there and there.rows:
            columns[f"{words}median error"] = _shares(there[f"{prefix}memory_median"])
    return _table(columns)


def _verdicts(verdicts: Table) -> Table:
    """The confusion table of families that have failures."""
    there = verdicts.take([row for row, count in enumerate(verdicts["rows"].tolist()) if count])
    if not there.rows:
        return there
    return _table(
        {
            "family": there["family"],
            "rows": there["rows"],
            "failed": there["failed_as_predicted"] + there["failed_against_prediction"],
            "foreseen": there["failed_as_predicted"],
            "ran": there["ran_as_predicted"] + there["ran_against_prediction"],
            "as foreseen": there["ran_as_predicted"],
            "right": _shares(there["accuracy"]),
        }
    )


def _decisions(groups: Table) -> Table:
    columns: dict[str, Any] = {"rows": groups["rows"]}
    for prefix, words in (("", ""), ("held_out_", "held out ")):
        if f"{prefix}regret" in groups:
            ranks = groups[f"{prefix}rank_correlation"].tolist()
            columns[f"{words}rank"] = [f"{rank:.2f}" if math.isfinite(rank) else "-" for rank in ranks]
            columns[f"{words}regret"] = _shares(groups[f"{prefix}regret"])
    return _table({**columns, "group": groups["group"]})


def _coverage(coverage: Table) -> Table:
    there = coverage.take([row for row, count in enumerate(coverage["rows"].tolist()) if count])
    if not there.rows:
        return there
    return _table({"family": there["family"], "rows": there["rows"], "within": _shares(there["coverage"])})


def _explained(skipped: Table) -> Table:
    from codesign_opt.validation.unmapped import REASONS

    return _table(
        {
            "family": skipped["family"],
            "rows": skipped["rows"],
            "reason": skipped["reason"],
            "that is": [REASONS[reason] for reason in skipped["reason"].tolist()],
        }
    )


def _worst(rows: Table) -> Table:
    from codesign_opt.tables import Table

    if not rows.rows:
        return rows
    columns: dict[str, Any] = {name: rows[name] for name in ("row_id", "model", "layout", "measured", "predicted")}
    columns["error"] = _shares(rows["predicted"] / rows["measured"] - 1, signed=True)
    columns["suspected"] = [
        f"{part.replace('_', ' ')} ({_share(share)})"
        for part, share in zip(rows["suspect"].tolist(), rows["share"].tolist(), strict=True)
    ]
    return Table(columns, {"measured": "s", "predicted": "s"})


def _share(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else "-"


def _shares(values: Any, *, signed: bool = False) -> list[str]:
    """Shares as a column of text with one digit, "12.3%" or "+12.3%"; "-" where there is none."""
    texts = [f"{value:{'+' * signed}.1%}" if math.isfinite(value) else "-" for value in values]
    return [text.rjust(max(map(len, texts))) for text in texts]


def _table(columns: dict[str, Any]) -> Table:
    from codesign_opt.tables import Table

    return Table(columns)
