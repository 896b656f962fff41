"""What people are told about the sensitivity of a study's best points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.studies.study import Study
    from codesign_opt.tables import Table


def sensitivity_text(study: Study, changes: Table, binding: Table) -> str:
    """For each point what binds, and a table of what every hardware parameter does to the objectives.

    Args:
        study: The study.
        changes, binding: From `studies.sensitivity.front_sensitivity` and `front_binding`.
    """
    return "\n\n".join(_point_text(study, changes, bound) for bound in binding.to_dicts())


def _point_text(study: Study, changes: Table, bound: Mapping[str, Any]) -> str:
    from codesign_opt.cli.output import readable_table
    from codesign_opt.tables import Table

    rows = changes.take((changes["place"] == bound["place"]).nonzero()[0]).to_dicts()
    ways: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        ways.setdefault(row["parameter"], []).append(row)
    names = [objective.metric for objective in study.objectives]
    table = Table(
        {
            "parameter": list(ways),
            **{
                f"{name} {word}": [_percentages(of, f"{name}_{which}_change", which) for of in ways.values()]
                for name in names
                for which, word in (("fixed", "kept"), ("best", "best"))
            },
        }
    )
    return f"{_heading(bound, rows)}\n{readable_table(table, list(table))}"


def _heading(bound: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    downwards, upwards = (
        max((abs(row["change"]) for row in rows if (row["change"] > 0) == up), default=0.0) for up in (False, True)
    )
    if bound["parameter"]:
        binds = f"{bound['parameter']} binds: 1 % more of it changes the step time by {bound['elasticity']:+.2f} %"
    else:
        binds = "no parameter changes the step time"
    room = "; it fits into no less of memory tier 1" if bound["memory_tier1_binds"] else ""
    return (
        f"point {bound['place'] + 1} of the front, trial {bound['trial']}: {binds}{room}\n"
        f"  the largest part of the step is {bound['largest_part']}, {bound['share']:.0%}\n"
        f"  below: parameter by {-downwards:+.0%} / {upwards:+.0%}, with the strategy kept, and with the best one"
    )


def _percentages(rows: Sequence[Mapping[str, Any]], column: str, which: str) -> str:
    """The change when the parameter falls and when it rises, "-4.20% / +3.90%"; "-" where nothing is feasible."""
    of_way = {row["change"] > 0: "-" if row[which] else f"{row[column]:+.2%}" for row in rows}
    return f"{of_way.get(False, '-')} / {of_way.get(True, '-')}"
