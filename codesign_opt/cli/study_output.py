"""What people and programs are told about a study."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from codesign_opt.cli import options
from codesign_opt.cli.certificate_output import certificate_document, certificate_text
from codesign_opt.errors import InfeasibleError

if TYPE_CHECKING:
    from codesign_opt.studies.certify import Certificate
    from codesign_opt.studies.study import Study
    from codesign_opt.tables import Table

BEST = 10
"""Strategies shown of a study with one objective, and simulated ones."""

ROWS = 20
"""Points of a front that a search shows; `codesign-opt pareto` shows all."""

_STRATEGY_COLUMNS = ("tp", "pp", "dp", "vpp", "microbatch", "recompute")
_OTHER_COLUMNS = (
    "memory_tier1_used", "mfu", "optimizer_sharding", "tp_communication", "tp_overlap", "dp_overlap", "weight_offload",
    "activation_offload", "optimizer_offload",
)  # fmt: skip

_ENDS = {
    "budget": "the budget is spent",
    "exhausted": "there is nothing else to try",
    "interrupted": "interrupted",
}


def write_search_result(study: Study, certificate: Certificate | None, *, database: str, json: bool) -> None:
    """The front of a study that has just run, or its best strategies where it has one objective; and what is proven.

    Raises:
        InfeasibleError: Nothing feasible was found; says what excluded most, and the nearest miss.
    """
    from codesign_opt.cli.output import write, write_json

    if not feasible_trials(study):
        raise nothing_feasible(study)
    if json:
        proven = {} if certificate is None else {"certificate": certificate_document(certificate)}
        write_json({**study_document(study, database=database), **proven})
        return
    write(f"study '{study.name}': {_progress(study)}; {_ENDS.get(study.finished, 'stored')}")
    write("")
    write(result_text(study))
    write("")
    if study.refinements:
        from codesign_opt.cli.refinement_output import refined_text

        write(refined_text(study, rows=BEST))
        write("")
    if certificate is not None:
        write(certificate_text(certificate))
        write("")
    write(f"stored in {shown_database(database)}; next:")
    write("\n".join(f"  {command}" for command in _next_commands(study, database)))


def study_document(study: Study, *, database: str) -> dict[str, Any]:
    """A study and its front for programs: SI numbers, units named; and its simulated candidates, if any."""
    from codesign_opt.cli.output import table_document
    from codesign_opt.cli.refinement_output import refinement_document

    return {
        "study": study.name,
        "database": shown_database(database),
        "created": study.record.created.isoformat(),
        "finished": study.finished,
        "trials": study.record.trials,
        "feasible": feasible_trials(study),
        "seconds": study.record.seconds,
        "specification_hash": study.record.specification_hash,
        "objectives": [str(objective) for objective in study.objectives],
        "constraints": [str(constraint) for constraint in study.specification.constraints],
        "front": table_document(study.front),
        **(refinement_document(study) if study.refinements else {}),
    }


def page_details(study: Study, table: Table) -> dict[str, Any]:
    """What a page about a table of the study shows besides it: axes, which of them are maximised, and facts."""
    specification = study.specification
    return {
        "axes": [objective.metric for objective in study.objectives if objective.metric in list(table)],
        "maximize": {objective.metric for objective in study.objectives if objective.direction == "maximize"},
        "facts": {
            "workload": specification.workload.name,
            "system": specification.system.name,
            "objectives": objectives(study),
            "constraints": ", ".join(map(str, specification.constraints)) or "memory capacities only",
            "trials": _progress(study),
            "seed": specification.seed,
            "specification": study.record.specification_hash[:12],
        },
    }


def front_text(study: Study, table: Table) -> str:
    """The most telling columns of a front or of candidates, in lines that fit."""
    from codesign_opt.cli.output import readable_table, telling

    return readable_table(table, _columns(study, table), telling(table, _OTHER_COLUMNS))


def result_text(study: Study) -> str:
    """The front of a study, or its best strategies, with all that tells them apart, where it has one objective."""
    import numpy as np

    from codesign_opt.cli.output import common_text, differing, readable_table, telling

    if not feasible_trials(study):
        return str(nothing_feasible(study))

    if len(study.objectives) > 1:
        front = study.front
        shown = front.take(np.unique(np.linspace(0, front.rows - 1, ROWS).round().astype(int)))
        text = f"Pareto front of {objectives(study)}:\n{front_text(study, shown)}"
        return text if shown.rows == front.rows else f"{text}\n\n{shown.rows} of {front.rows} points, evenly spread"
    table = best_candidates(study)
    others = telling(table, _OTHER_COLUMNS)
    text = readable_table(table, [*_columns(study, table), *differing(table, others)])
    return f"best strategies by {objectives(study)}:\n{text}\n\n{common_text(table, others)}".rstrip()


def best_candidates(study: Study) -> Table:
    """The best strategies of all trials by the first objective, best first."""
    import numpy as np

    objective = study.objectives[0]
    table = study.candidates
    order = np.argsort(objective.minimized(table[objective.metric]), kind="stable")
    return table.take(order[:BEST])


def feasible_trials(study: Study) -> int:
    """How many trials found something feasible."""
    return sum(trial.state == "complete" for trial in study.evaluations)


def objectives(study: Study) -> str:
    """The objectives in words."""
    return ", ".join(map(str, study.objectives))


def nothing_feasible(study: Study) -> InfeasibleError:
    """The error that names what excluded most trials, and the trial that comes nearest."""
    from codesign_opt.cli.output import plural

    trials = study.evaluations
    if not trials:
        return InfeasibleError(f"study '{study.name}' has no trials yet", "continue it with codesign-opt search")
    broken = [(name, share) for trial in trials for name, share in trial.constraints.items() if share > 0]
    if not broken:
        reason, count = Counter(trial.reason for trial in trials).most_common(1)[0]
        return InfeasibleError(f"nothing feasible in study '{study.name}': {reason} (trials: {count})")
    counts = Counter(name for name, _ in broken)
    binding = max(counts, key=lambda name: (counts[name], sum(share for other, share in broken if other == name)))
    nearest = min((trial for trial in trials if trial.constraints), key=lambda trial: max(trial.constraints.values()))
    worst = max(nearest.constraints, key=nearest.constraints.__getitem__)
    return InfeasibleError(
        f"nothing feasible in study '{study.name}': {binding} excludes {counts[binding]} of {plural(trials, 'trial')}",
        f"the nearest miss is trial {nearest.number}: it misses {worst} by {nearest.constraints[worst]:.2%}",
    )


def shown_database(database: str) -> str:
    """The address of the database without its password."""
    from codesign_opt.db.urls import describe, parse_url

    return describe(parse_url(database))


def database_option(database: str) -> str:
    """The option that names a database, where it is not the usual one; else ""."""
    usual = os.environ.get(options.DATABASE_VARIABLE) or options.DEFAULT_DATABASE
    return "" if database == usual else f" --db {shlex.quote(_address(database))}"


def _columns(study: Study, table: Table) -> list[str]:
    """The most telling columns; simulated values where they differ from the estimates."""
    free = [parameter.path for parameter in study.specification.free]
    metrics = []
    for objective in study.objectives:
        metrics.append(objective.metric)
        if study.refinements and _says_something_else(table, objective.metric):
            metrics.append(f"{objective.metric}_simulated")
    return ["trial", *metrics, "processors", *free, *_STRATEGY_COLUMNS]


def _says_something_else(table: Table, metric: str) -> bool:
    simulated = table[f"{metric}_simulated"]
    return bool(((simulated != table[metric]) & (simulated == simulated)).any())


def _progress(study: Study) -> str:
    from codesign_opt.cli.output import plural

    trials = plural(study.evaluations, "trial")
    return f"{trials}, {feasible_trials(study)} feasible, {study.record.seconds:.1f} s"


def _next_commands(study: Study, database: str) -> list[str]:
    name, elsewhere = shlex.quote(study.name), database_option(database)
    more = 2 * max(study.record.trials, 1)
    return [
        f"codesign-opt pareto {name} --output front.html{elsewhere}",
        f"codesign-opt studies show {name}{elsewhere}",
        *(
            [f"codesign-opt search --resume --name {name} --budget {more}{elsewhere}"]
            if study.finished == "budget"
            else []
        ),
    ]


def _address(database: str) -> str:
    return shown_database(database) if "@" in database else database
