"""Simulations: of a strategy's step, of program graphs, and of the best candidates of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign_opt.analytical import parse_errata
from codesign_opt.analytical.estimate import estimate as analytical_estimate
from codesign_opt.api.searching import open_studies
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs import Graph, read_graph
from codesign_opt.graphs.individual import processors_of
from codesign_opt.graphs.opcodes import INDIVIDUAL
from codesign_opt.graphs.step import StepOptions, step_graph, step_work
from codesign_opt.simulation.events import Model, simulate
from codesign_opt.simulation.program import compile_program
from codesign_opt.simulation.result import Simulation
from codesign_opt.simulation.step import SimulatedStep, on_topology, simulate_beside
from codesign_opt.simulation.step.topology_times import DEFAULT_ALGORITHMS
from codesign_opt.simulation.topologies import Topology, topology_of
from codesign_opt.simulation.topologies.files import read_topology
from codesign_opt.simulation.translation import Translation, read_translation, translate
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.strategies.legality import check
from codesign_opt.studies import study as stored
from codesign_opt.studies.study import Study
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

if TYPE_CHECKING:
    from codesign_opt.studies.refinement import RefinementProgress


def simulate_strategy(
    workload: Workload | str | Path,
    system: System | str | Path,
    strategy: Strategy,
    *,
    schedule: str = "auto",
    granularity: str = "auto",
    options: StepOptions | None = None,
    engine: str = "events",
    contention: bool = True,
    topology: Topology | str | Path | None = None,
    placement: str | None = None,
    algorithms: Mapping[str, str | Mapping[str, Any]] | None = None,
    reproduce: str = "none",
    record: bool = False,
) -> SimulatedStep:
    """Simulate a step of a strategy.

    Args:
        workload, system: Catalogue name, file, or object.
        strategy: What is run; it must be legal. Whether it fits in memory is not asked.
        schedule, granularity: As in `graphs.step.step_graph`.
        options: Messages and gradient buckets.
        engine, contention, record: As in `simulation.step.simulate_step`.
        topology: A network, or a file of one, whose messages decide what transfers take; the closed forms of the
            system's network tiers if None, unless algorithms are named.
        placement: Which parallel dimension is between neighbours on the topology; by default the strategy's order.
        algorithms: Collective to algorithm: its name, or a table with `algorithm` and the algorithm's options, as in a
            translation; without a topology, on that of the system's tiers.
        reproduce: Errata of the published tool to reproduce.

    Raises:
        StrategyError: Where the strategy is not legal.
        InputError: For anything that cannot be read, or does not go together.
    """
    shape = workload if isinstance(workload, Workload) else resolve_workload(str(workload))
    machine = system if isinstance(system, System) else resolve_system(str(system))
    check(strategy, shape, machine)
    errata = parse_errata(reproduce)
    work = step_work(shape, machine, strategy, reproduce=errata)
    network = read_topology(topology) if isinstance(topology, str | Path) else topology
    if network is None and algorithms:
        network = topology_of(machine, strategy.processors)
    if network is not None:
        names, details = _algorithms(algorithms or {})
        work = on_topology(work, strategy, network, placement=placement, algorithms=names, options=details)
    step = step_graph(work, schedule=schedule, granularity=granularity, options=options)
    estimated = analytical_estimate(shape, machine, StrategyTable.from_strategies([strategy]), reproduce=errata)
    return simulate_beside(estimated, step, engine=engine, contention=contention, record=record)


def simulate_graph(
    graph: Graph | str | Path,
    topology: Topology | str | Path,
    *,
    translation: Translation | Mapping[str, Any] | str | Path | None = None,
    model: Model = "flows",
    record: bool = False,
) -> Simulation:
    """Run a program graph on a topology.

    Args:
        graph: A graph of all processors, or a file of one (.pb, .textproto); the program of a single processor where no
            instruction has communication groups.
        topology: A network, or a file of one, with at least the graph's processors.
        translation: How collectives are done: a configuration, or a file of one. Others take the seconds that the graph
            gives them. Messages are pushed.
        model: How messages share links: flows, fifo, or latency-bandwidth.
        record: Keep the log and the critical path.

    Raises:
        InputError: For anything that cannot be read or run.
    """
    program = graph if isinstance(graph, Graph) else read_graph(Path(graph))
    network = topology if isinstance(topology, Topology) else read_topology(topology)
    if program.processor is not None:
        raise InputError(
            f"graph '{program.name}' is the program of processor {program.processor} alone",
            "give the graph of all processors, whose processor_id is negative",
        )
    given = translation if isinstance(translation, Translation) else read_translation(translation or {})
    # Where nobody communicates, all processors do the same, and one stands for them.
    processors = processors_of(program) or [0]
    if processors[-1] >= network.processors:
        raise InputError(
            f"topology '{network.name}' has {network.processors} processors, and graph '{program.name}' is of "
            f"processors up to {processors[-1]}",
            "give a larger topology",
        )
    programs = translate(program, replace(given, protocols=frozenset(INDIVIDUAL)), processors=processors)
    return simulate([compile_program(of) for of in programs], network, model=model, record=record)


def refine(
    study: str,
    *,
    top: int = 20,
    db: str | None = None,
    workers: int = 1,
    progress: Callable[[RefinementProgress], None] | None = None,
) -> Study:
    """Simulate the best candidates of a stored study and those of its front, and store what that says.

    Args:
        study: Its name.
        top: How many of the best by the first objective.
        db: URL of the database.
        workers: Processes; results do not depend on their number.
        progress: Called after every candidate.

    Returns:
        The study; see `Study.refined`.

    Raises:
        InputError: Where there is no such study.
        InfeasibleError: Where nothing in it is feasible.
        StorageError: Where it was deleted meanwhile.
    """
    from codesign_opt.studies.refinement import refine_study

    if top < 1:
        raise InputError(f"top: {top} is not a number of candidates", "1 or more")
    if workers < 1:
        raise InputError(f"workers: {workers} is not a number of processes", "1 or more")
    with open_studies(db, create=False) as database:
        found = stored.load_study(database, study)
        refine_study(found, database, top=top, workers=workers, progress=progress)
        return stored.load_study(database, study)


def _algorithms(
    given: Mapping[str, str | Mapping[str, Any]],
) -> tuple[dict[str, str], dict[str, Mapping[str, Any]]]:
    """Names of algorithms, and their options, by collective."""
    names: dict[str, str] = {}
    options: dict[str, Mapping[str, Any]] = {}
    for collective, choice in given.items():
        if collective not in DEFAULT_ALGORITHMS:
            raise InputError(f"algorithms: a step has no '{collective}'", nearest(collective, DEFAULT_ALGORITHMS))
        table = {"algorithm": choice} if isinstance(choice, str) else dict(choice)
        names[collective] = str(table.pop("algorithm", ""))
        options[collective] = table
    return names, options
