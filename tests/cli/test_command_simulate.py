"""`codesign-opt simulate`: steps of strategies, on tiers and topologies, and program graphs."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

LINE = 100
"""Characters of the longest line where the output goes into a file."""

DATA = Path(__file__).parents[1] / "data"
GRAPH = DATA / "graphs" / "supersim_test_graph.textproto"
SHIPPED = json.loads(gzip.decompress((DATA / "paragraph" / "translations.json.gz").read_bytes()))["shipped_graph"]
"""What is known of the shipped graph: the translation that was used, and the messages and bytes of each processor."""

FILES = ("--workload", "tiny.toml", "--system", "a100-80g", "--strategy", "strategy.toml")

TOPOLOGIES = {
    "ring": 'kind = "ring"\nprocessors = 8',
    "switch": 'kind = "switch"\nprocessors = 8\nswitch_latency = "300 ns"',
    "full mesh": 'kind = "full-mesh"\nprocessors = 8',
    "torus": 'kind = "torus"\nwidths = [4, 2]',
    "leaf and spine": 'kind = "leaf-spine"\nleaves = 2\nprocessors_per_leaf = 4\nspines = 2\noversubscription = 2.0',
}


@pytest.fixture(scope="module")
def stored(study_files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the study `study`."""
    from codesign_opt import api

    folder = tmp_path_factory.mktemp("stored")
    for name, content in study_files.items():
        (folder / name).write_text(content)
    api.search(folder / "study.toml", db=str(folder / "codesign-opt.db"))
    return folder / "codesign-opt.db"


@pytest.fixture(autouse=True)
def files(stored: Path, folder: Path) -> None:
    """A study, a strategy, a topology and a translation in the working directory."""
    shutil.copy(stored, folder)
    shutil.copy(GRAPH, folder / "program.textproto")
    (folder / "rings.json").write_text(json.dumps(SHIPPED["config"]))
    write_strategy(folder)
    write_topology(folder, "ring")


def write_strategy(folder: Path, **changes: Any) -> None:
    values = {"tp": 2, "pp": 2, "dp": 2, "batch": 16, **changes}
    texts = {name: json.dumps(value) for name, value in values.items()}
    (folder / "strategy.toml").write_text("".join(f"{name} = {text}\n" for name, text in texts.items()))


def write_topology(folder: Path, kind: str) -> None:
    link = 'bandwidth = "50 GB/s"\nlatency = "1 us"\n'
    (folder / "network.toml").write_text(f"[topology]\n{TOPOLOGIES[kind]}\n{link}")


def document(run: Any, *arguments: str) -> Any:
    """What a simulation says as JSON, which is all on stdout."""
    result = run("simulate", *arguments, "--json")
    assert result.status == 0, result.err
    return result.document


def step_time(run: Any, *arguments: str) -> float:
    seconds = document(run, *FILES, *arguments)["step_time"]["simulated"]
    assert isinstance(seconds, float)
    return seconds


def rows(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a table of a document."""
    return list(table["rows"])


def units(table: Mapping[str, Any]) -> dict[str, str]:
    return {column["name"]: column["unit"] for column in table["columns"]}


def track_names(path: str) -> tuple[set[str], set[str]]:
    """Names of the processes and of the threads of a timeline, after a look at its events."""
    events = json.loads(Path(path).read_text())["traceEvents"]
    assert all(event["ts"] >= 0 and event["dur"] > 0 for event in events if event["ph"] == "X")
    tracks = {(event["pid"], event["tid"]) for event in events if event["ph"] in "Xsf"}
    named = {(event["pid"], event["tid"]) for event in events if event.get("name") == "thread_name"}
    assert tracks <= named
    starts = {event["id"] for event in events if event["ph"] == "s"}
    assert starts == {event["id"] for event in events if event["ph"] == "f"}
    by_kind = ({event["args"]["name"] for event in events if event.get("name") == f"{kind}_name"} for kind in KINDS)
    processes, threads = by_kind
    return processes, threads


KINDS = ("process", "thread")


class TestStepOfAStrategy:
    def test_the_answer_comes_first(self, run: Any) -> None:
        result = run("simulate", *FILES)
        assert (result.status, result.err) == (0, "")
        lines = result.out.splitlines()
        assert lines[0] == "tiny on 8 × a100-80g: tp 2, pp 2, dp 2, vpp 1, batch 16, microbatch 1"
        assert lines[1] == (
            "2 stages of 4 processors, 8 microbatches; schedule 1f1b, asynchronous messages, ports shared"
        )
        assert re.fullmatch(r"step time: simulated \S+ \ws, estimate \S+ \ws \([+-]\d+\.\d\d%\)", lines[2])
        assert lines[3] == ""
        assert lines[4].startswith("why: ")
        rates = r"rates: sample_rate \S+ samples/s, token_rate \S+ tokens/s, mfu \S+ \(full attention\)"
        assert re.fullmatch(rates, lines[5])
        assert re.fullmatch(r"critical path: [\w ]+ \d+\.\d%, [\w ]+ \d+\.\d%, [\w ]+ \d+\.\d%", lines[6])
        assert re.fullmatch(r"fullest port: stage \d, tier \d, (in|out): \d+\.\d%", lines[7])
        titles = [line for line in lines if line.endswith(":")]
        assert titles == [
            "the first stage:", "stages; communication and offload where nothing computes:",
            "network ports, the fullest first:", "critical path, by instruction:",
        ]  # fmt: skip
        assert max(map(len, lines)) <= LINE

    def test_json_has_all_of_it_in_seconds(self, run: Any) -> None:
        step = document(run, *FILES)
        assert (step["workload"], step["system"], step["schedule"]) == ("tiny", "a100-80g", "1f1b")
        assert step["strategy"]["recompute"] == "none"
        simulated, estimate = step["step_time"]["simulated"], step["step_time"]["estimate"]
        assert step["metrics"]["step_time"] == {"unit": "s", "estimate": estimate, "simulated": simulated}
        rates = step["metrics"]["sample_rate"]
        assert rates["simulated"] * simulated == pytest.approx(16)
        assert rates["estimate"] * estimate == pytest.approx(16)
        assert units(step["parts"])["simulated"] == units(step["stages"])["forward"] == units(step["ports"])["filled"]
        *parts, total = rows(step["parts"])
        assert (total["part"], total["simulated"]) == ("total", simulated)
        assert sum(part["simulated"] for part in parts) == pytest.approx(simulated)
        assert sum(part["difference"] for part in parts) == pytest.approx(simulated - estimate, abs=1e-9 * simulated)
        for stage in rows(step["stages"]):
            times = [value for name, value in stage.items() if name not in ("stage", "end")]
            assert sum(times) == pytest.approx(simulated)
            assert stage["end"] <= simulated
        assert {port["share"] <= 1 for port in rows(step["ports"])} == {True}

    @pytest.mark.parametrize(
        "changes",
        [
            {}, {"dp_overlap": True, "optimizer_sharding": True}, {"pp": 4, "dp": 1, "vpp": 1}, {"pp": 1, "dp": 4},
            {"tp_communication": "sequence_parallel", "tp_overlap": "ring", "dp_overlap": True},
            {"recompute": "full", "vpp": 2},
            {"tp": 1, "dp": 4, "batch": 8, "dp_overlap": True, "dp_tier": 1, "pp_tier": 1},
        ],
        ids=str,
    )  # fmt: skip
    @pytest.mark.parametrize("contention", ["--contention", "--no-contention"])
    def test_the_critical_path_is_as_long_as_the_step(
        self, run: Any, folder: Path, changes: dict[str, Any], contention: str
    ) -> None:
        write_strategy(folder, **changes)
        step = document(run, *FILES, contention)
        path = rows(step["critical_path"])
        assert sum(entry["seconds"] for entry in path) == pytest.approx(step["step_time"]["simulated"], rel=1e-9)
        assert [entry["seconds"] for entry in path] == sorted((entry["seconds"] for entry in path), reverse=True)
        assert {entry["part"] for entry in path} >= {"forward", "backward"}
        for entry in path:
            assert ("→" in entry["stage"]) == (entry["part"] == "pp_communication")

    def test_sharing_ports_costs_what_is_told(self, run: Any, folder: Path) -> None:
        write_strategy(folder, pp=4, dp=1, tp=2, batch=8)
        shared, alone = document(run, *FILES), document(run, *FILES, "--no-contention")
        assert (shared["contention"], alone["contention"]) == (True, False)
        cost = shared["step_time"]["simulated"] - alone["step_time"]["simulated"]
        assert shared["contention_seconds"] == pytest.approx(cost, abs=1e-12)
        assert alone["contention_seconds"] == 0.0

    def test_alone_and_with_serial_messages_it_is_the_estimate(self, run: Any) -> None:
        step = document(run, *FILES, "--messages", "serial", "--no-contention")["step_time"]
        assert step["simulated"] == pytest.approx(step["estimate"], rel=1e-9)
        text = run("simulate", *FILES, "--messages", "serial", "--no-contention").out
        assert "(+0.00%)" in text
        assert "-0.0" not in text

    def test_a_single_processor(self, run: Any, folder: Path) -> None:
        write_strategy(folder, tp=1, pp=1, dp=1, batch=1)
        out = run("simulate", *FILES).out
        assert "1 stage of 1 processor, 1 microbatch; schedule 1f1b, asynchronous messages, nothing shared" in out
        assert "why: no part differs" in out
        assert "network ports" not in out

    def test_inference(self, run: Any, folder: Path) -> None:
        write_strategy(folder, training=False)
        assert {row["backward"] for row in rows(document(run, *FILES)["stages"])} == {0.0}

    def test_what_does_not_fit_is_shown_all_the_same(self, run: Any, folder: Path) -> None:
        write_strategy(folder, tp=1, pp=1, dp=1, batch=1)
        result = run("simulate", "--workload", "gpt3-175b", *FILES[2:])
        assert result.status == 1
        assert result.out.startswith("gpt3-175b on 1 × a100-80g")
        assert result.err.startswith("error: does not fit: memory_tier1 needs ")

    def test_the_published_tools_files_and_errata(self, run: Any, folder: Path) -> None:
        example = json.loads((DATA / "calculon" / "worked_examples.json").read_text())["shipped"]
        (folder / "execution.json").write_text(json.dumps(example["execution"]))
        published = (
            "--workload", str(DATA / "calculon" / "models" / f"{example['workload']}.json"),
            "--system", str(DATA / "calculon" / "systems" / f"{example['system']}.json"),
            "--strategy", "execution.json", "--engine", "levels",
        )  # fmt: skip
        reproduced = document(run, *published, "--reproduce", "all")["step_time"]
        assert reproduced["estimate"] == pytest.approx(example["statistics"]["total_time"], rel=1e-6)
        corrected = document(run, *published)["step_time"]
        assert corrected["estimate"] != reproduced["estimate"]
        assert corrected["simulated"] != reproduced["simulated"]

    def test_a_timeline_names_its_tracks(self, run: Any) -> None:
        result = run("simulate", *FILES, "--timeline", "step.json")
        assert (result.status, result.err) == (0, "wrote step.json: open it at ui.perfetto.dev\n")
        processes, threads = track_names("step.json")
        assert processes == {"stage 0", "stage 1"}
        assert {"compute", "send", "receive"} <= threads


class TestWords:
    @pytest.mark.parametrize("word", ["auto", "gpipe", "1f1b", "interleaved"])
    def test_schedules(self, run: Any, folder: Path, word: str) -> None:
        write_strategy(folder, vpp=1 if word == "1f1b" else 2)
        step = document(run, *FILES, "--schedule", word)
        assert step["schedule"] == ("interleaved" if word == "auto" else word)
        assert f"schedule {step['schedule']}" in run("simulate", *FILES, "--schedule", word).out

    @pytest.mark.parametrize("word", ["auto", "operation", "block", "chunk"])
    def test_granularities_take_as_long_alone(self, run: Any, word: str) -> None:
        step = document(run, *FILES, "--granularity", word, "--no-contention")
        assert step["granularity"] == ("operation" if word == "auto" else word)
        assert step["step_time"]["simulated"] == pytest.approx(step_time(run, "--no-contention"), rel=1e-9)

    def test_serial_messages_take_longer(self, run: Any) -> None:
        assert document(run, *FILES, "--messages", "serial")["messages"] == "serial"
        assert step_time(run, "--messages", "serial") > step_time(run, "--messages", "asynchronous")

    def test_engines_agree_where_nothing_is_shared(self, run: Any) -> None:
        events = step_time(run, "--no-contention")
        assert step_time(run, "--engine", "events", "--no-contention") == events
        assert step_time(run, "--engine", "levels") == pytest.approx(events, rel=1e-9)
        serial = step_time(run, "--messages", "serial", "--no-contention")
        assert step_time(run, "--engine", "closed-form") == pytest.approx(serial, rel=1e-9)

    @pytest.mark.parametrize("engine", ["levels", "closed-form"])
    def test_engines_that_know_less_say_less(self, run: Any, engine: str) -> None:
        step = document(run, *FILES, "--engine", engine)
        assert step["metrics"] is step["parts"] is step["critical_path"] is None
        assert {row["end"] for row in rows(step["stages"])} >= {step["step_time"]["simulated"]}
        lines = run("simulate", *FILES, "--engine", engine).out.splitlines()
        assert [line for line in lines if line.endswith(":")] == [
            "stages end after:", "network ports, the fullest first:",
        ]  # fmt: skip

    def test_buckets_of_at_least_a_block(self, run: Any, folder: Path) -> None:
        write_strategy(folder, dp_overlap=True, pp=1, dp=4)
        whole, split = step_time(run, "--bucket", "1 GB"), step_time(run, "--bucket", "1 kB")
        assert whole != split == step_time(run)


class TestTopologies:
    @pytest.mark.parametrize("kind", TOPOLOGIES)
    def test_every_kind(self, run: Any, folder: Path, kind: str) -> None:
        write_topology(folder, kind)
        step = document(run, *FILES, "--topology", "network.toml")
        assert step["step_time"]["simulated"] > 0
        assert step["step_time"]["estimate"] == document(run, *FILES)["step_time"]["estimate"]

    def test_a_slower_network_takes_longer(self, run: Any, folder: Path) -> None:
        fast = step_time(run, "--topology", "network.toml")
        text = (folder / "network.toml").read_text().replace("50 GB/s", "5 GB/s")
        (folder / "network.toml").write_text(text)
        assert step_time(run, "--topology", "network.toml") > fast

    def test_astra_sims_file(self, run: Any, folder: Path) -> None:
        (folder / "network.yml").write_text(
            "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 400.0, 50.0 ]\nlatency: [ 500.0, 1000.0 ]\n"
        )
        assert step_time(run, "--topology", "network.yml") > 0

    def test_every_placement(self, run: Any, folder: Path) -> None:
        from codesign_opt.cli.simulate import PLACEMENTS

        write_topology(folder, "leaf and spine")
        times = [step_time(run, "--topology", "network.toml", "--placement", word) for word in PLACEMENTS]
        assert len(set(times)) > 1
        assert step_time(run, "--topology", "network.toml") == times[0]

    def test_algorithms_with_and_without_options(self, run: Any, folder: Path) -> None:
        write_strategy(folder, tp=4, pp=1, dp=2)
        choices = {
            name: step_time(run, "--topology", "network.toml", "--algorithm", f"all-reduce={name}")
            for name in (
                "unidir-ring", "bidir-ring", "mesh-1d", "halving-doubling", "dissemination", "double-binary-tree",
                "hierarchical:node_size=2", "hierarchical:node_size=2:inside=bidir-ring", "null",
            )
        }  # fmt: skip
        assert choices["unidir-ring"] == step_time(run, "--topology", "network.toml")
        assert len(set(choices.values())) > 5
        assert min(choices.values()) == choices["null"]

    def test_an_algorithm_with_widths(self, run: Any, folder: Path) -> None:
        write_strategy(folder, tp=4, pp=2, dp=1)
        for name in ("mesh-2d", "torus-2d"):
            assert step_time(run, "--algorithm", f"all-reduce={name}:dimension_widths=[2,2]") > 0

    def test_algorithms_alone_run_on_the_systems_tiers(self, run: Any) -> None:
        """A ring over a switch takes what the tier's closed form of an all-reduce says, but for its buffers."""
        ring = document(run, *FILES, "--algorithm", "all-reduce=unidir-ring")
        other = document(run, *FILES, "--algorithm", "all-reduce=double-binary-tree")
        assert ring["step_time"]["simulated"] != other["step_time"]["simulated"]

    def test_several_algorithms(self, run: Any, folder: Path) -> None:
        write_strategy(folder, optimizer_sharding=True)
        both = ("--algorithm", "all-gather=bidir-ring", "--algorithm", "reduce-scatter=bidir-ring")
        assert step_time(run, *both) > 0


class TestStudies:
    def test_the_best_candidate_is_the_default(self, run: Any) -> None:
        front = run("pareto", "study", "--format", "json").document["rows"]
        step = document(run, "--study", "study")
        assert step["study"] == "study"
        assert step["trial"] == front[0]["trial"]
        assert step["step_time"]["estimate"] == front[0]["step_time"]
        result = run("simulate", "--study", "study")
        assert result.out.splitlines()[0] == f"study study, trial {step['trial']}, rank {step['rank']}"

    def test_trial_and_rank(self, run: Any) -> None:
        run("studies", "export", "study", "--output", "study.json", "--format", "json")
        candidates = json.loads(Path("study.json").read_text())["candidates"]["rows"]
        for candidate in candidates[:4]:
            place = ("--trial", str(candidate["trial"]), "--rank", str(candidate["rank"]))
            step = document(run, "--study", "study", *place)
            assert (step["trial"], step["rank"]) == (candidate["trial"], candidate["rank"])
            assert step["step_time"]["estimate"] == pytest.approx(candidate["step_time"], rel=1e-12)
        assert document(run, "--study", "study", "--trial", "2")["rank"] == 0
        assert document(run, "--study", "study", "--rank", "1")["rank"] == 1

    def test_it_takes_as_long_as_refine_says(self, run: Any) -> None:
        refined = run("refine", "study", "--json", "--quiet", "--workers", "1").document["refined"]["rows"]
        for row in refined[:3]:
            step = document(run, "--study", "study", "--trial", str(row["trial"]), "--rank", str(row["rank"]))
            assert step["step_time"]["simulated"] == row["step_time_simulated"]

    def test_the_studys_errata_unless_others_are_named(self, run: Any) -> None:
        assert run("search", "study.toml", "--name", "published", "--reproduce", "all", "--quiet").status == 0
        front = run("pareto", "published", "--format", "json").document["rows"]
        assert document(run, "--study", "published")["step_time"]["estimate"] == front[0]["step_time"]
        corrected = document(run, "--study", "published", "--reproduce", "none")
        assert corrected["step_time"]["estimate"] != front[0]["step_time"]

    def test_nothing_feasible(self, run: Any) -> None:
        run("search", "study.toml", "--name", "none", "--constraint", "step_time <= 1 ns", "--quiet")
        result = run("simulate", "--study", "none")
        assert (result.status, result.out) == (1, "")
        assert result.err.startswith(
            "error: nothing feasible in study 'none': step_time <= 1 ns excludes 4 of 4 trials"
        )


class TestGraphs:
    def test_translated(self, run: Any) -> None:
        result = run("simulate", "program.textproto", "--topology", "network.toml", "--translation", "rings.json")
        assert (result.status, result.err) == (0, "")
        lines = result.out.splitlines()
        assert re.fullmatch(r"program\.textproto on ring of 8: \S+ us", lines[0])
        assert re.fullmatch(r"critical path: (instructions|messages) \d+\.\d%, \w+ \d+\.\d%", lines[1])
        titles = [line for line in lines if line.endswith(":")]
        assert titles == ["processors:", "links, the busiest first:", "critical path, by instruction:"]
        assert max(map(len, lines)) <= LINE
        assert len(lines) < 60

    def test_traffic_is_what_the_graph_sends(self, run: Any) -> None:
        graph = document(run, "program.textproto", "--topology", "network.toml", "--translation", "rings.json")
        assert (graph["graph"], graph["topology"]) == ("program.textproto", "ring of 8")
        sent = sum(size for _, size in SHIPPED["sends_per_processor_messages_bytes"].values())
        assert sum(row["bytes"] for row in rows(graph["links"])) == pytest.approx(sent)
        assert units(graph["links"])["bytes"] == "B"
        assert units(graph["processors"])["compute"] == "s"
        for row in rows(graph["processors"]):
            assert row["compute"] + row["exposed"] + row["idle"] == pytest.approx(graph["makespan"])
            assert row["idle"] >= 0
        assert sum(row["seconds"] for row in rows(graph["critical_path"])) == pytest.approx(graph["makespan"])

    def test_without_a_translation_collectives_take_the_graphs_seconds(self, run: Any) -> None:
        result = run("simulate", "program.textproto", "--topology", "network.toml")
        assert result.status == 0
        assert result.err == (
            "collectives take the seconds that the graph gives them; with --translation their messages are run\n"
        )
        assert "links" not in result.out
        assert "messages 0.0%" in result.out

    def test_every_model(self, run: Any) -> None:
        from codesign_opt.cli.simulate import MODELS

        arguments = ("program.textproto", "--topology", "network.toml", "--translation", "rings.json")
        spans = {word: document(run, *arguments, "--model", word)["makespan"] for word in MODELS}
        assert document(run, *arguments)["makespan"] == spans["flows"]
        assert spans["fifo"] != spans["flows"]
        # Messages of a ring go one hop: models only share links differently.
        assert max(spans.values()) == pytest.approx(min(spans.values()), rel=0.05)

    def test_a_binary_graph(self, run: Any, folder: Path) -> None:
        from codesign_opt.graphs import read_graph, write_graph

        write_graph(read_graph(GRAPH), folder / "program.pb")
        arguments = ("--topology", "network.toml", "--translation", "rings.json")
        binary, text = (document(run, name, *arguments) for name in ("program.pb", "program.textproto"))
        assert binary["makespan"] == text["makespan"]

    def test_a_timeline_names_its_tracks(self, run: Any) -> None:
        arguments = ("--topology", "network.toml", "--translation", "rings.json", "--timeline", "run.json")
        result = run("simulate", "program.textproto", *arguments)
        assert (result.status, result.err) == (0, "wrote run.json: open it at ui.perfetto.dev\n")
        processes, threads = track_names("run.json")
        assert processes == {f"processor {number}" for number in range(8)}
        assert {"compute", "send", "receive"} <= threads
