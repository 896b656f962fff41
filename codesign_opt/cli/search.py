"""`codesign-opt search`: run a study, or continue it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from codesign_opt.cli import options
from codesign_opt.cli.errors import INTERRUPTED
from codesign_opt.errors import InputError, StorageError

if TYPE_CHECKING:
    from codesign_opt.cli.progress import Report
    from codesign_opt.cli.study_input import StudyChanges
    from codesign_opt.studies.certify import Certificate, CertifyProgress
    from codesign_opt.studies.study import Study
    from codesign_opt.studies.study_run import Progress

EXAMPLES = options.examples(
    "codesign-opt search",
    "codesign-opt search my-study.toml --budget 10m",
    "codesign-opt search --workload gpt3-175b --system a100-80g --processors 512 --batch 512",
    "codesign-opt search price-study --set 'memory_tier2.bandwidth=200 GB/s' --name fast-ddr",
    "codesign-opt search cost-optimum --certify --gap 1%",
)

_STUDY = typer.Argument(
    metavar="STUDY", help="Study file (TOML) or catalogue name; the small default study if absent.",
    autocompletion=options.shipped("studies"),
)  # fmt: skip
_PROCESSORS = typer.Option(
    "--processors", metavar="N|A,B|LOW..HIGH:STEP|MONEY",
    help="Number of processors, numbers to choose from, or a budget such as '125 M$' or '125 M$:8' (multiples of 8).",
)  # fmt: skip
_BUDGET = typer.Option(
    "--budget", metavar="N|TIME", help="Total over all runs of the study: trials, or a time such as 10m."
)
_NAME = typer.Option("--name", metavar="NAME", help="What the database calls the study; by default as the study says.")
_RESUME = typer.Option(
    "--resume/--no-resume", show_default=False,
    help="Continue a stored study; --no-resume refuses to. By default a study with the same specification continues.",
)  # fmt: skip
_METHOD = typer.Option(
    "--method", metavar="|".join(options.METHODS), autocompletion=options.words(options.METHODS),
    help="exact: every strategy on every machine; bilevel: every strategy on sampled machines; flat: both sampled.",
)  # fmt: skip
_SAMPLER = typer.Option(
    "--sampler", metavar="|".join(options.SAMPLERS), autocompletion=options.words(options.SAMPLERS),
    help="What proposes machines.",
)  # fmt: skip
_SEED = typer.Option("--seed", metavar="N", help="Of the sampler.")
_TOP_K = typer.Option("--top-k", metavar="N", help="Strategies kept of every trial.")
_FREE = typer.Option(
    "--free", metavar="PATH=LOW..HIGH[:log]|PATH=A,B", show_default=False,
    help="Parameter of the system to choose, for instance 'memory_tier1.capacity=20 GiB..120 GiB'; may be repeated.",
)  # fmt: skip
_SET = typer.Option(
    "--set", metavar="PATH=VALUE", show_default=False,
    help="Parameter of the system that differs, for instance 'network_tiers.1.latency=5 us'; may be repeated.",
)  # fmt: skip
_POLISH = typer.Option(
    "--polish", metavar="N",
    help="When the budget is spent, try up to N more machines around the best one (one objective, free ranges).",
)  # fmt: skip
_REFINE = typer.Option("--refine", metavar="K", help="Then simulate the K best strategies, and the Pareto front.")
_CERTIFY = typer.Option(
    "--certify",
    help="Then prove how near the best machine is to the best there is (one objective); takes as long as it needs, or "
    "as a budget of time allows once more. Ctrl-C ends it with what is proven.",
)  # fmt: skip
_ROBUST = typer.Option(
    "--robust", help="Rank by what 80 % of comparable published runs stay within, not by the estimate itself."
)
_GAP = typer.Option("--gap", metavar="SHARE", help="What --certify may leave unproven, for instance 1%.")
_WORKERS = typer.Option(
    "--workers", metavar="N|auto", help="Processes that evaluate; the result does not depend on it."
)


def search(
    study: Annotated[str | None, _STUDY] = None,
    workload: Annotated[str | None, options.WORKLOAD] = None,
    system: Annotated[str | None, options.SYSTEM] = None,
    processors: Annotated[str | None, _PROCESSORS] = None,
    batch: Annotated[str | None, options.BATCH] = None,
    datatype: Annotated[str | None, options.DATATYPE] = None,
    sequence_length: Annotated[str | None, options.SEQUENCE_LENGTH] = None,
    budget: Annotated[str | None, _BUDGET] = None,
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    name: Annotated[str | None, _NAME] = None,
    resume: Annotated[bool | None, _RESUME] = None,
    method: Annotated[str | None, _METHOD] = None,
    sampler: Annotated[str | None, _SAMPLER] = None,
    seed: Annotated[str | None, _SEED] = None,
    top_k: Annotated[str | None, _TOP_K] = None,
    objective: Annotated[list[str] | None, options.OBJECTIVES] = None,
    constraint: Annotated[list[str] | None, options.CONSTRAINTS] = None,
    free: Annotated[list[str] | None, _FREE] = None,
    settings: Annotated[list[str] | None, _SET] = None,
    limit: Annotated[list[str] | None, options.LIMITS] = None,
    uneven_stages: Annotated[bool, options.UNEVEN_STAGES] = False,
    all_divisors: Annotated[bool, options.ALL_DIVISORS] = False,
    target: Annotated[str | None, options.TARGET] = None,
    reproduce: Annotated[str | None, options.REPRODUCE] = None,
    robust: Annotated[bool, _ROBUST] = False,
    polish: Annotated[str, _POLISH] = "0",
    refine: Annotated[str | None, _REFINE] = None,
    certify: Annotated[bool, _CERTIFY] = False,
    gap: Annotated[str | None, _GAP] = None,
    workers: Annotated[str, _WORKERS] = "auto",
    quiet: Annotated[bool, options.QUIET] = False,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Run or continue a study; print its Pareto front.

    A study is a file, a catalogue name, or options alone (--workload, --system, --processors and --batch); options
    change what a file says. Ctrl-C stops it; the same command continues it.
    """
    from codesign_opt.cli import values
    from codesign_opt.cli.study_input import StudyChanges
    from codesign_opt.cli.workload_input import workload_key

    if sequence_length is not None and workload is None:
        raise InputError("--sequence-length says how long --workload is", "add --workload")
    keys = {
        "name": name,
        "workload": None if workload is None else workload_key(workload, sequence_length, quiet=quiet),
        "system": system,
        "processors": None if processors is None else values.processors(processors),
        "batch": None if batch is None else values.whole_number(batch, "--batch"),
        "datatype": None if datatype is None else values.choice(datatype, "--datatype", options.DATATYPES),
        "objectives": objective or None,
        "constraints": constraint or None,
        "method": None if method is None else values.choice(method, "--method", options.METHODS),
        "sampler": None if sampler is None else values.choice(sampler, "--sampler", options.SAMPLERS),
        "seed": None if seed is None else values.whole_number(seed, "--seed", lowest=0),
        "budget": budget,
        "top_k": None if top_k is None else values.whole_number(top_k, "--top-k"),
        "reproduce": reproduce,
    }
    framework = None if target is None else values.choice(target, "--target", options.TARGETS)
    switches = {"uneven_stages": uneven_stages, "all_divisors": all_divisors, "target": framework}
    changes = StudyChanges(
        keys={key: value for key, value in keys.items() if value is not None},
        settings=values.settings(settings or ()),
        free=values.free_parameters(free or ()),
        strategies=values.limits(limit or ()) | {key: given for key, given in switches.items() if given},
    )
    if gap is not None and not certify:
        raise InputError("--gap says what --certify may leave unproven", "add --certify")
    run = _Run(
        database=database,
        resume=resume,
        robust=robust,
        polish=values.whole_number(polish, "--polish", lowest=0),
        refine=None if refine is None else values.whole_number(refine, "--refine"),
        gap=values.share(gap or "1%", "--gap") if certify else None,
        workers=None if workers == "auto" else values.whole_number(workers, "--workers"),
        quiet=quiet,
        json=json,
    )
    _search(study, changes, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """How a study is to be run; None chooses `workers`, simulates nothing (`refine`), and proves nothing (`gap`)."""

    database: str
    resume: bool | None
    robust: bool
    polish: int
    refine: int | None
    gap: float | None
    workers: int | None
    quiet: bool
    json: bool


def _search(study: str | None, changes: StudyChanges, run: _Run) -> None:
    from codesign_opt import api
    from codesign_opt.cli.output import note, plural
    from codesign_opt.cli.progress import reporting
    from codesign_opt.cli.study_input import stored_record, stored_study, study_specification
    from codesign_opt.cli.study_output import feasible_trials, write_search_result
    from codesign_opt.objectives import robust as robust_objectives
    from codesign_opt.studies.canonical import specification_hash
    from codesign_opt.studies.certify.rules import check_certifiable, check_gap
    from codesign_opt.studies.evaluator import automatic_workers

    stored = stored_study(study, changes, run.database) if run.resume else None
    specification = stored or study_specification(study, changes)
    if run.robust:
        specification = replace(specification, objectives=robust_objectives(specification.objectives))
    if run.gap is not None:
        check_certifiable(specification)
        check_gap(specification, run.gap)
    known = stored_record(specification.name, run.database)
    if known is not None and run.resume is False:
        raise StorageError(f"a study named '{specification.name}' is stored already", "choose another --name")
    if known is not None and known.specification_hash == specification_hash(specification) and not run.quiet:
        note(f"continuing study '{specification.name}' (trials so far: {known.trials})")
    workers = automatic_workers(specification) if run.workers is None else run.workers
    try:
        with reporting(specification.name, quiet=run.quiet) as report:
            result = api.search(
                specification, db=run.database, polish=run.polish, workers=workers, progress=partial(_report, report)
            )
    except KeyboardInterrupt:
        result = None
    if result is None or result.finished == "interrupted":
        so_far = f" after {plural(result.evaluations, 'trial')}" if result else ""
        note(f"interrupted{so_far}: the same command with --resume continues study '{specification.name}'")
        raise typer.Exit(INTERRUPTED)
    if run.refine is not None and feasible_trials(result):
        from codesign_opt.cli.refine import refined_study

        result = replace(
            refined_study(result.name, run.database, top=run.refine, workers=run.workers, quiet=run.quiet),
            finished=result.finished,
        )
    certificate = None if run.gap is None else _certify(result, run.gap, run.workers, quiet=run.quiet)
    write_search_result(result, certificate, database=run.database, json=run.json)


def _certify(study: Study, gap: float, workers: int | None, *, quiet: bool) -> Certificate:
    import os

    from codesign_opt import api
    from codesign_opt.cli.progress import reporting

    with reporting(f"{study.name}: certificate", quiet=quiet) as report:
        return api.certify(
            study,
            gap=gap,
            seconds=study.specification.budget.seconds,
            workers=workers or os.cpu_count() or 1,
            progress=partial(_report_proof, report, gap),
        )


def _report_proof(report: Report, gap: float, progress: CertifyProgress) -> None:
    report(min(1.0, gap / progress.gap) if progress.gap else 1.0, f"gap {progress.gap:.2%}, {progress.boxes} boxes")


def _report(report: Report, progress: Progress) -> None:
    shares = [
        done / budget
        for done, budget in ((progress.trials, progress.budget_trials), (progress.seconds, progress.budget_seconds))
        if budget
    ]
    report(
        min(1.0, max(shares, default=0.0)),
        f"{progress.trials} trials, {progress.feasible} feasible, {progress.front} on the front",
    )
