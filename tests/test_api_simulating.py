"""The Python interface of simulations: objects, names and files, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codesign_opt
from codesign_opt import Strategy, api
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.errors import InfeasibleError, InputError, StrategyError
from codesign_opt.graphs import GraphBuilder, read_graph
from codesign_opt.simulation.topologies import Link, ring, topology_of
from codesign_opt.strategies import AttentionKernel, Datatype, Recompute, Schedule, TpCommunication

GRAPH = Path(__file__).parent / "data" / "graphs" / "supersim_test_graph.textproto"
STRATEGY = Strategy(processors=16, tp=4, pp=2, dp=2, batch=16, microbatch=1, dp_tier=1)
RING = ring(16, Link(bandwidth=5e10, latency=1e-6))

NETWORK = '[topology]\nkind = "ring"\nprocessors = 16\nbandwidth = "50 GB/s"\nlatency = "1 us"\n'


def seconds(**arguments: Any) -> float:
    """Of a step in large pieces."""
    step = api.simulate_strategy("gpt3-13b", "a100-80g", STRATEGY, granularity="block", **arguments)
    return step.result.seconds


class TestSteps:
    def test_names_and_objects_are_the_same(self) -> None:
        objects = api.simulate_strategy(
            resolve_workload("gpt3-13b"), resolve_system("a100-80g"), STRATEGY, granularity="block"
        )
        assert objects.result.seconds == seconds()

    def test_what_comes_back(self) -> None:
        step = codesign_opt.simulate_strategy("gpt3-13b", "a100-80g", STRATEGY, granularity="block")
        assert isinstance(step, codesign_opt.SimulatedStep)
        assert step.simulated is not None
        assert step.parts is not None
        assert float(step.simulated.times.total[0]) == step.result.seconds
        estimate = codesign_opt.estimate("gpt3-13b", "a100-80g", STRATEGY)
        assert float(step.estimated.times.total[0]) == estimate["step_time"][0]
        total = step.parts.row(step.parts.rows - 1)
        assert (total["estimate"], total["simulated"]) == (estimate["step_time"][0], step.result.seconds)
        alone = seconds(contention=False)
        assert step.contention == pytest.approx(step.result.seconds - alone, abs=1e-12)

    def test_a_topology_as_an_object_or_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "ring.toml").write_text(NETWORK)
        expected = seconds(topology=RING)
        assert seconds(topology=tmp_path / "ring.toml") == seconds(topology=str(tmp_path / "ring.toml")) == expected
        assert expected != seconds()

    def test_algorithms_by_name_or_with_options(self) -> None:
        named = seconds(topology=RING, algorithms={"all-reduce": "bidir-ring"})
        assert named == seconds(topology=RING, algorithms={"all-reduce": {"algorithm": "bidir-ring"}})
        two, four = (
            seconds(topology=RING, algorithms={"all-reduce": {"algorithm": "hierarchical", "node_size": size}})
            for size in (2, 4)
        )
        # Nodes as large as the groups leave the ring inside of them.
        assert four == pytest.approx(seconds(topology=RING))
        assert two > four

    def test_algorithms_alone_run_on_the_systems_tiers(self) -> None:
        tiers = topology_of(resolve_system("a100-80g"), 16)
        algorithms = {"all-reduce": "double-binary-tree"}
        assert seconds(algorithms=algorithms) == seconds(topology=tiers, algorithms=algorithms)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"algorithms": {"allreduce": "null"}}, r"algorithms: a step has no 'allreduce' .*'all-reduce'"),
            (
                {"algorithms": {"all-reduce": "bidir-rings"}},
                r"all-reduce: unknown algorithm 'bidir-rings' .*'bidir-ring'",
            ),
            ({"algorithms": {"all-reduce": {"node_size": 8}}}, "all-reduce: unknown algorithm ''"),
            ({"algorithms": {"all-reduce": "hierarchical"}}, "missing key 'node_size'"),
            ({"topology": ring(8, Link(bandwidth=1e9, latency=0.0))}, "ring of 8' has 8 processors.*takes 16"),
            ({"topology": RING, "placement": "pp-tp"}, "placement 'pp-tp' is not known"),
            ({"schedule": "1f1"}, "schedule '1f1' is not known .*'1f1b'"),
            ({"engine": "event"}, "engine 'event' is not known .*'events'"),
            ({"engine": "levels", "record": True}, "'levels' keeps no timeline"),
            ({"reproduce": "E99"}, "unknown erratum 'E99'"),
        ],
    )
    def test_wrong_words(self, arguments: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            seconds(**arguments)

    def test_an_illegal_strategy(self) -> None:
        with pytest.raises(StrategyError, match="tp 3"):
            api.simulate_strategy("gpt3-13b", "a100-80g", replace(STRATEGY, processors=12, tp=3))


TODAY: dict[str, Any] = {
    "microbatch": 1, "datatype": Datatype.BFLOAT16, "attention_kernel": AttentionKernel.FLASH, "dp_tier": 1,
    "pp_tier": 1, "optimizer_sharding": True,
}  # fmt: skip


class TestStepsOfToday:
    def test_context_parallelism_and_a_vocabulary(self) -> None:
        strategy = Strategy(
            processors=128, tp=8, pp=4, dp=2, cp=2, batch=32, cp_tier=1,
            tp_communication=TpCommunication.SEQUENCE_PARALLEL, **TODAY,
        )  # fmt: skip
        step = api.simulate_strategy("llama3-70b", "h100-sxm", strategy, granularity="block")
        assert step.parts is not None
        # The output projection makes the last stage the busiest, as the estimate has it.
        assert step.stage == 3
        assert step.result.stages["cp_communication"].tolist() == pytest.approx(
            [step.estimated.times.cp_communication.item()] * 4, rel=1e-9
        )
        assert step.result.seconds == pytest.approx(step.estimated.times.total.item(), rel=0.01)

    def test_experts_and_microbatches_from_both_ends(self) -> None:
        strategy = Strategy(
            processors=128, tp=1, pp=4, dp=32, ep=32, batch=256, ep_tier=1, schedule=Schedule.DUALPIPE,
            recompute=Recompute.FULL, **TODAY,
        )  # fmt: skip
        step = api.simulate_strategy("deepseek-v3", "h100-sxm", strategy, granularity="block")
        assert step.result.step.schedule == "dualpipe"
        # What experts exchange goes on beside passes of the other way.
        assert step.result.seconds < 0.95 * step.estimated.times.total.item()
        plain = api.simulate_strategy("deepseek-v3", "h100-sxm", strategy, granularity="block", schedule="1f1b")
        assert step.result.seconds < 0.9 * plain.result.seconds

    def test_weights_in_shards_on_a_topology(self) -> None:
        strategy = Strategy(
            processors=16, tp=2, pp=1, dp=4, cp=2, batch=8, weight_sharding=True, **{**TODAY, "pp_tier": 0}
        )
        seconds = {
            placement: api.simulate_strategy(
                "llama3-8b", "h100-sxm", strategy, granularity="block", topology=RING, placement=placement
            ).result.seconds
            for placement in (None, "tp-dp-pp", "tp-cp-dp-pp", "tp-dp-cp-pp")
        }
        assert seconds[None] == seconds["tp-dp-pp"] == seconds["tp-cp-dp-pp"]
        assert seconds["tp-dp-cp-pp"] != seconds[None]


def delays(*milliseconds: float) -> GraphBuilder:
    builder = GraphBuilder("delays")
    entry = builder.subroutine("main")
    before: list[int] = []
    for number, time in enumerate(milliseconds):
        before = [builder.instruction(entry, f"delay {number}", "delay", seconds=time / 1e3, operands=before)]
    return builder


class TestGraphs:
    def test_a_graph_as_an_object_or_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "ring.toml").write_text(NETWORK)
        rings = {"collective": {"all-reduce": {"algorithm": "unidir-ring"}}}
        objects = codesign_opt.simulate_graph(read_graph(GRAPH), RING, translation=rings)
        files = codesign_opt.simulate_graph(str(GRAPH), tmp_path / "ring.toml", translation=rings)
        assert objects.makespan == files.makespan > 0
        assert len(objects.messages) == len(files.messages) > 0

    def test_messages_need_no_translation(self) -> None:
        """1 ms of work, 5 MB to the neighbour at 50 GB/s and 1 us: 101 us on the way."""
        builder = GraphBuilder("messages")
        entry = builder.subroutine("main")
        work = builder.instruction(entry, "work", "delay", seconds=1e-3)
        builder.instruction(entry, "out", "send", bytes_in=5e6, groups=[[0, 1]], operands=[work], tag=1)
        builder.instruction(entry, "in", "recv", bytes_out=5e6, groups=[[0, 1]], operands=[work], tag=1)
        run = api.simulate_graph(builder.build(), RING)
        np.testing.assert_allclose(run.ended, [1.1e-3, 1.101e-3], rtol=1e-9)

    def test_where_nobody_communicates_one_processor_stands_for_all(self) -> None:
        run = api.simulate_graph(delays(1.0, 2.0).build(), RING)
        assert run.makespan == pytest.approx(3e-3)
        assert run.machine.processors.tolist() == [0]

    def test_a_topology_that_is_too_small(self) -> None:
        with pytest.raises(InputError, match=r"'ring of 4' has 4 processors, and graph 'test_graph\.151' is of .* 7"):
            api.simulate_graph(GRAPH, ring(4, Link(bandwidth=1e9, latency=0.0)))

    def test_the_program_of_one_processor(self) -> None:
        with pytest.raises(InputError, match="the program of processor 0 alone"):
            api.simulate_graph(GRAPH.with_name("supersim_test_graph.0.pb"), RING)


def test_a_study_without_candidates(tmp_path: Path) -> None:
    study = {
        "name": "none", "workload": "gpt3-13b", "system": "a100-80g", "processors": 8, "batch": 8, "budget": 1,
        "constraints": "step_time <= 1 ns", "strategies": {"tp": 4, "pp": 2, "microbatch": 1},
    }  # fmt: skip
    db = str(tmp_path / "studies.db")
    codesign_opt.search(study, db=db)
    with pytest.raises(InfeasibleError, match="study 'none' has no feasible trial"):
        codesign_opt.refine("none", db=db)
