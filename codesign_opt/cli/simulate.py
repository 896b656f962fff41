"""`codesign-opt simulate`: a step of a strategy, or a program graph, on a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign_opt.cli import options
from codesign_opt.errors import InputError

if TYPE_CHECKING:
    from codesign_opt.cli.simulation_output import Question
    from codesign_opt.graphs.step.pass_writer import Messages, StepOptions
    from codesign_opt.simulation.events import Model

SCHEDULES = ("auto", "gpipe", "1f1b", "interleaved", "zb_1p", "zb_v", "dualpipe")
GRANULARITIES = ("auto", "operation", "block", "chunk")
MESSAGES: tuple[Messages, ...] = ("asynchronous", "serial")
ENGINES = ("events", "levels", "closed-form")
MODELS: tuple[Model, ...] = ("flows", "fifo", "latency-bandwidth")
PLACEMENTS = (
    "tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "dp-pp-tp", "pp-tp-dp", "pp-dp-tp",
    "tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp", "cp-tp-dp-pp",
)  # fmt: skip

EXAMPLES = options.examples(
    "codesign-opt simulate --study default --timeline step.json",
    "codesign-opt simulate --workload gpt3-13b --system a100-80g --strategy best.toml --topology network.toml",
    "codesign-opt simulate --study default --algorithm all-reduce=hierarchical:node_size=8",
    "codesign-opt simulate program.pb --topology network.toml --translation rings.json",
)


def _word(name: str, words: tuple[str, ...], what: str) -> Any:
    return typer.Option(f"--{name}", metavar="|".join(words), help=what, autocompletion=options.words(words))


_GRAPH = typer.Argument(metavar="GRAPH", help="Program graph of all processors (.pb, .textproto), instead of a step.")
_STUDY = typer.Option("--study", metavar="NAME", help="Take the strategy and the machine of a stored study.")
_TRIAL = typer.Option("--trial", metavar="N", help="Of the study: the trial; by default that of the best candidate.")
_RANK = typer.Option("--rank", metavar="N", help="Of the trial: which of its strategies, from 0.")
_STRATEGY = typer.Option("--strategy", metavar="FILE", help="Strategy: a TOML file, or an execution JSON.")
_WORKLOAD = typer.Option(
    "--workload", metavar="NAME|FILE", help="What is computed, with --strategy.",
    autocompletion=options.shipped("workloads"),
)  # fmt: skip
_SYSTEM = typer.Option(
    "--system", metavar="NAME|FILE", help="The machine, with --strategy.", autocompletion=options.shipped("systems")
)
_SCHEDULE = _word(
    "schedule",
    SCHEDULES,
    "Order of the passes; auto: the strategy's, interleaved where vpp says so and full rounds allow it.",
)
_GRANULARITY = _word("granularity", GRANULARITIES, "The smallest unit of work; auto: the finest that is affordable.")
_MESSAGES = _word(
    "messages", MESSAGES, "Whether a stage goes on while its message is under way (the default) or waits until then."
)
_ENGINE = _word(
    "engine",
    ENGINES,
    "Events in time (the default); or no more than when each stage ends, by longest paths, or by a formula.",
)
_TOPOLOGY = typer.Option(
    "--topology", metavar="FILE",
    help="Network (TOML, or ASTRA-sim's YAML) on which the messages of collectives decide what they take.",
)  # fmt: skip
_PLACEMENT = _word(
    "placement",
    PLACEMENTS,
    "Parallel dimensions on the topology, that between neighbours first; if absent the strategy's, or tp-dp-pp.",
)
_ALGORITHM = typer.Option(
    "--algorithm", metavar="COLLECTIVE=NAME[:OPTION=VALUE]", show_default=False,
    help="How a collective is done, for instance all-reduce=bidir-ring; may be repeated.",
)  # fmt: skip
_TRANSLATION = typer.Option(
    "--translation", metavar="FILE", help="Of a graph: JSON that says how collectives are done."
)
_MODEL = _word("model", MODELS, "Of a graph: how messages share links; flows if absent.")
_CONTENTION = typer.Option(
    "--contention/--no-contention", show_default=False, help="Whether transfers share ports; they do by default."
)
_BUCKET = typer.Option(
    "--bucket", metavar="BYTES", help="Gradients exchanged together, such as '40 MB'; else a block's."
)
_TIMELINE = typer.Option("--timeline", metavar="FILE", help="Write a timeline (JSON) for ui.perfetto.dev.")


def simulate(
    graph: Annotated[Path | None, _GRAPH] = None,
    study: Annotated[str | None, _STUDY] = None,
    trial: Annotated[str | None, _TRIAL] = None,
    rank: Annotated[str | None, _RANK] = None,
    workload: Annotated[str | None, _WORKLOAD] = None,
    sequence_length: Annotated[str | None, options.SEQUENCE_LENGTH] = None,
    system: Annotated[str | None, _SYSTEM] = None,
    strategy: Annotated[Path | None, _STRATEGY] = None,
    schedule: Annotated[str | None, _SCHEDULE] = None,
    granularity: Annotated[str | None, _GRANULARITY] = None,
    messages: Annotated[str | None, _MESSAGES] = None,
    bucket: Annotated[str | None, _BUCKET] = None,
    engine: Annotated[str | None, _ENGINE] = None,
    contention: Annotated[bool | None, _CONTENTION] = None,
    topology: Annotated[Path | None, _TOPOLOGY] = None,
    placement: Annotated[str | None, _PLACEMENT] = None,
    algorithm: Annotated[list[str] | None, _ALGORITHM] = None,
    translation: Annotated[Path | None, _TRANSLATION] = None,
    model: Annotated[str | None, _MODEL] = None,
    timeline: Annotated[Path | None, _TIMELINE] = None,
    reproduce: Annotated[str | None, options.REPRODUCE] = None,
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Simulate a step of a strategy, from a study or a file; or a program graph.

    Shows the step time beside the estimate and why they differ, where the time of every stage goes, how busy the
    network ports are, and the critical path. A strategy that does not fit in memory is shown all the same, with exit
    status 1.
    """
    from codesign_opt.cli.values import algorithms, choice

    settings = {
        "--schedule": schedule, "--granularity": granularity, "--messages": messages, "--bucket": bucket,
        "--engine": engine, "--contention": contention or None, "--no-contention": contention is False or None,
        "--placement": placement, "--algorithm": algorithm or None, "--reproduce": reproduce,
    }  # fmt: skip
    candidate = {"--study": study, "--trial": trial, "--rank": rank}
    files = {"--workload": workload, "--system": system, "--strategy": strategy}
    lengths = {"--sequence-length": sequence_length}
    if graph is not None:
        _require_absent({**candidate, **files, **lengths, **settings}, "it is about a step, and a graph is given")
        if topology is None:
            raise InputError("--topology: missing", "a graph needs the file of a network to run on")
        _simulate_graph(
            graph, topology, translation, choice(model or MODELS[0], "--model", MODELS), timeline=timeline, json=json
        )
        return
    _require_absent({"--translation": translation, "--model": model}, "it is about a graph, and none is given")
    given = {
        "schedule": choice(schedule or SCHEDULES[0], "--schedule", SCHEDULES),
        "granularity": choice(granularity or GRANULARITIES[0], "--granularity", GRANULARITIES),
        "options": _step_options(messages, bucket),
        "engine": choice(engine or ENGINES[0], "--engine", ENGINES),
        "contention": contention is not False,
        "topology": topology,
        "placement": None if placement is None else choice(placement, "--placement", PLACEMENTS),
        "algorithms": algorithms(algorithm or ()),
    }
    if topology is None and not algorithm:
        _require_absent({"--placement": placement}, "it is about a topology, and neither that nor --algorithm is given")
    if engine not in (None, ENGINES[0]):
        _require_absent({"--timeline": timeline}, f"the engine '{engine}' does not keep what happens when")
        _require_absent({"--contention": contention or None}, f"with the engine '{engine}' nothing is shared")
    if study is None:
        _require_absent(candidate, "it is about a study, and --study is missing")
        question = _question_of_files(files, sequence_length, reproduce)
    else:
        _require_absent(files, "the study says it")
        question = _question_of_study(study, trial, rank, reproduce, database)
    from codesign_opt.cli.simulation_output import write_step

    write_step(question, given, timeline=timeline, json=json)


def _require_absent(given: Mapping[str, Any], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} cannot be used here: {why}", f"leave {name} out")


def _step_options(messages: str | None, bucket: str | None) -> StepOptions:
    from codesign_opt.cli.values import choice
    from codesign_opt.graphs.step import StepOptions
    from codesign_opt.units import parse_quantity

    size = None if bucket is None else parse_quantity(bucket, "B", where="--bucket")
    if size is not None and size <= 0:
        raise InputError(f"--bucket: {bucket!r} holds nothing", "write for instance '40 MB'")
    return StepOptions(messages=choice(messages or MESSAGES[0], "--messages", MESSAGES), bucket_bytes=size)


def _question_of_study(
    study: str, trial: str | None, rank: str | None, reproduce: str | None, database: str
) -> Question:
    from codesign_opt import api
    from codesign_opt.cli.simulation_output import Question
    from codesign_opt.cli.study_output import feasible_trials, nothing_feasible
    from codesign_opt.cli.values import whole_number
    from codesign_opt.strategies.table import strategy_of_words
    from codesign_opt.studies.refinement import candidate_system, find_candidate

    place = {
        name: None if text is None else whole_number(text, f"--{name}", lowest=0)
        for name, text in {"trial": trial, "rank": rank}.items()
    }
    stored = api.load_study(study, db=database)
    if not feasible_trials(stored):
        raise nothing_feasible(stored)
    candidate = find_candidate(stored, **place)
    return Question(
        candidate={"study": study, "trial": candidate.trial, "rank": candidate.rank},
        workload=stored.specification.workload,
        system=candidate_system(stored, candidate),
        strategy=strategy_of_words(candidate.strategy),
        reproduce=_errata(reproduce or ",".join(stored.specification.reproduce) or "none"),
    )


def _question_of_files(files: Mapping[str, Any], sequence_length: str | None, reproduce: str | None) -> Question:
    from codesign_opt.catalog import resolve_system
    from codesign_opt.cli.simulation_output import Question
    from codesign_opt.cli.strategy_input import strategy
    from codesign_opt.cli.workload_input import workload_of

    for name, value in files.items():
        if value is None:
            raise InputError(f"{name}: missing", "give --study, or --workload, --system and --strategy, or a graph")
    system = resolve_system(files["--system"], where="--system")
    return Question(
        workload=workload_of(files["--workload"], sequence_length),
        system=system,
        strategy=strategy(files["--strategy"], {}, system),
        reproduce=_errata(reproduce or "none"),
    )


def _errata(words: str) -> str:
    """The errata as they were written, which are right."""
    from codesign_opt.analytical.errata import parse_errata

    parse_errata(words, where="--reproduce")
    return words


def _simulate_graph(
    graph: Path, topology: Path, translation: Path | None, model: Model, *, timeline: Path | None, json: bool
) -> None:
    from codesign_opt import api
    from codesign_opt.cli.graph_output import write_simulation
    from codesign_opt.cli.output import note
    from codesign_opt.graphs.opcodes import COLLECTIVES, OPCODES
    from codesign_opt.simulation.timeline import write_timeline

    result = api.simulate_graph(graph, topology, translation=translation, model=model, record=True)
    if timeline is not None:
        write_timeline(timeline, result)
        note(f"wrote {timeline}: open it at ui.perfetto.dev")
    write_simulation(graph.name, result, json=json)
    if translation is None and any(OPCODES[code] in COLLECTIVES for code in set(result.machine.opcodes.tolist())):
        note("collectives take the seconds that the graph gives them; with --translation their messages are run")
