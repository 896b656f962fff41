"""`codesign-opt refine`, `search --refine`, and what other commands show of simulated candidates."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

LINE = 100
"""Characters of the longest line where the output goes into a file."""

IMPOSSIBLE = ("--name", "none", "--constraint", "step_time <= 1 ns")


@pytest.fixture(scope="module")
def stored(study_files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of a study of four trials, before (`searched.db`) and after it is refined."""
    from codesign_opt import api

    folder = tmp_path_factory.mktemp("stored")
    for name, content in study_files.items():
        (folder / name).write_text(content)
    api.search(folder / "study.toml", db=str(folder / "searched.db"))
    shutil.copy(folder / "searched.db", folder / "refined.db")
    api.refine("study", db=str(folder / "refined.db"))
    return folder


@pytest.fixture
def searched(stored: Path, folder: Path) -> None:
    """The working directory has the study, not refined."""
    shutil.copy(stored / "searched.db", folder / "codesign-opt.db")


@pytest.fixture
def refined(stored: Path, folder: Path) -> None:
    """The working directory has the study, with its front and best 20 simulated."""
    shutil.copy(stored / "refined.db", folder / "codesign-opt.db")


def refine(run: Any, *arguments: str) -> Any:
    """Without starting processes, which takes longer than to simulate something so small."""
    return run("refine", *(arguments or ("study",)), "--workers", "1")


@pytest.mark.usefixtures("searched")
class TestText:
    def test_the_answer_comes_first(self, run: Any) -> None:
        result = refine(run, "study", "--top", "2")
        assert result.status == 0
        lines = result.out.splitlines()
        count = re.fullmatch(r"study 'study': (\d+) candidates simulated", lines[0])
        assert count is not None
        told = rf"step times differ from the estimates by [+-]\S+% to [+-]\S+%, \d+ of {count[1]} by 5% or more"
        assert re.fullmatch(told, lines[1])
        assert re.fullmatch(r"the best is trial \d, rank \d: (also the best|place \d+) by the estimates", lines[2])
        assert re.fullmatch(r"  step time: simulated \S+ \ws, estimate \S+ \ws \([+-]\d+\.\d\d%\)", lines[3])
        assert re.fullmatch(r"  its first stage: (\w+ )+\d+\.\d%(, [\w ]+ \d+\.\d%){2}", lines[4])
        assert lines[6] == "best by simulated sample_rate, and their places by the estimates:"
        assert lines[7].split()[:5] == ["trial", "rank", "sample_rate", "simulated", "change"]
        assert max(map(len, lines)) <= LINE

    def test_notable_differences_are_explained(self, run: Any, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known = run("refine", "study", "--db", str(stored / "refined.db"), "--json").document["refined"]["rows"]
        changes = sorted({abs(row["step_time_change"]) for row in known})
        assert len(changes) > 2
        monkeypatch.setattr("codesign_opt.studies.refinement.NOTABLE", changes[1])
        monkeypatch.setattr("codesign_opt.cli.refinement_output.DIFFERENCES", 1)
        out = refine(run).out
        rows = run("refine", "study", "--json").document["refined"]["rows"]
        notable = [row for row in rows if abs(row["step_time_change"]) >= changes[1]]
        assert 1 < len(notable) < len(rows)
        assert re.search(rf", {len(notable)} of {len(rows)} by \d% or more$", out, re.MULTILINE)
        worst = max(notable, key=lambda row: abs(row["step_time_change"]))
        place = f"  trial {worst['trial']}, rank {worst['rank']}, {worst['step_time_change']:+.1%}: "
        explained = out.split("the largest differences, as shares of the estimated step:\n")[1].splitlines()
        assert explained[:2] == [f"{place}{worst['because']}", f"  and {len(notable) - 1} more; --json shows all"]

    def test_the_commands_it_ends_with_work(self, run: Any) -> None:
        assert run("search", "study.toml", "--quiet", "--db", "other.db").status == 0
        ending = refine(run, "study", "--db", "other.db").out.split("next:\n")[1].splitlines()
        assert [line.split()[1] for line in ending] == ["simulate", "pareto"]
        for line in ending:
            program, *arguments = line.split()
            assert program == "codesign-opt"
            assert run(*arguments).status == 0
        assert json.loads(Path("step.json").read_text())["traceEvents"]

    def test_progress_goes_to_stderr_and_quiet_to_nowhere(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("codesign_opt.cli.progress.LINE_SECONDS", 0.0)
        assert refine(run, "study", "--top", "1", "--quiet").err == ""
        err = refine(run, "study", "--top", "1000").err.splitlines()
        assert re.fullmatch(r"study: simulation: \d+%, 1 of \d+ candidates", err[0])
        assert err[-1].startswith("study: simulation: 100%, ")

    def test_nothing_is_simulated_again(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        before = refine(run).out

        def fail(*_: Any) -> None:
            raise AssertionError

        monkeypatch.setattr("codesign_opt.studies.refinement.simulate_candidate", fail)
        assert refine(run).out == before

    def test_how_many_there_are_is_told_where_not_all_are_shown(
        self, run: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("codesign_opt.cli.study_output.BEST", 2)
        out = run("search", "study.toml", "--refine", "8", "--workers", "1", "--quiet").out
        shown = out.split("places by the estimates:\n")[1].splitlines()[2:5]
        assert re.fullmatch(r"2 of \d+; --json shows all", shown[2])


@pytest.mark.usefixtures("refined")
class TestDocuments:
    def test_json_is_one_document_with_units(self, run: Any) -> None:
        from codesign_opt.simulation.version import SIMULATOR_VERSION

        result = run("refine", "study", "--json", "--quiet", "--workers", "1")
        document = result.document
        assert result.err == ""
        assert list(document) == ["study", "simulator_version", "refined"]
        assert document["simulator_version"] == SIMULATOR_VERSION
        units = {column["name"]: column["unit"] for column in document["refined"]["columns"]}
        assert (units["sample_rate_simulated"], units["system_price"]) == ("samples/s", "$")
        assert (units["step_time_simulated"], units["step_time_change"]) == ("s", "")
        rows = document["refined"]["rows"]
        rates = [row["sample_rate_simulated"] for row in rows]
        assert rates == sorted(rates, reverse=True)
        for row in rows:
            assert row["step_time_change"] == pytest.approx(row["step_time_simulated"] / row["step_time"] - 1)
            assert row["step_time_simulated"] * row["sample_rate_simulated"] == pytest.approx(row["batch"])
        places = sorted(row["estimated_place"] for row in rows)
        assert places[0] == 1
        assert places[-1] <= len(rows)

    def test_the_front_has_estimates_and_simulated_values_side_by_side(self, run: Any, folder: Path) -> None:
        for arguments in (("pareto", "study"), ("studies", "show", "study")):
            shown = run(*arguments).out
            heading = next(line for line in shown.splitlines() if line.startswith("trial  "))
            names = heading.split()
            assert names[1:3] == ["sample_rate", "sample_rate_simulated"]
            # What a simulation cannot change stands there once.
            assert "system_price_simulated" not in shown
            assert max(map(len, shown.splitlines())) <= LINE
        document = json.loads(run("pareto", "study", "--format", "json").out)
        names = [column["name"] for column in document["columns"]]
        assert names[names.index("sample_rate") : names.index("sample_rate") + 4] == [
            "sample_rate", "sample_rate_simulated", "system_price", "system_price_simulated",
        ]  # fmt: skip
        rates = [row["sample_rate_simulated"] for row in document["rows"]]
        assert all(rate > 0 for rate in rates)
        run("pareto", "study", "--output", "front.csv")
        with (folder / "front.csv").open(newline="") as file:
            assert [float(row["sample_rate_simulated"]) for row in csv.DictReader(file)] == rates
        run("pareto", "study", "--output", "front.html")
        assert "sample_rate_simulated" in (folder / "front.html").read_text()

    def test_parquet_has_both(self, run: Any, folder: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        run("pareto", "study", "--output", "front.parquet")
        table = parquet.read_table(folder / "front.parquet")
        assert table.field("sample_rate_simulated").metadata[b"unit"] == b"samples/s"
        assert table["sample_rate_simulated"].null_count == 0

    def test_points_that_are_not_simulated_yet_have_a_gap(self, run: Any) -> None:
        assert run("search", "study.toml", "--budget", "16", "--quiet").status == 0
        document = json.loads(run("pareto", "study", "--format", "json").out)
        missing = [row["sample_rate_simulated"] is None for row in document["rows"]]
        assert any(missing)
        assert refine(run).status == 0
        document = json.loads(run("pareto", "study", "--format", "json").out)
        assert not any(row["sample_rate_simulated"] is None for row in document["rows"])

    def test_an_export_of_the_study_has_them(self, run: Any, folder: Path) -> None:
        assert run("studies", "export", "study", "--output", "study.json", "--format", "json").status == 0
        document = json.loads((folder / "study.json").read_text())
        assert any(row["step_time_simulated"] > 0 for row in document["refined"]["rows"])
        assert any(row["sample_rate_simulated"] for row in document["candidates"]["rows"])


@pytest.mark.usefixtures("searched")
class TestSearch:
    def test_refine_follows_the_search(self, run: Any) -> None:
        result = run("search", "study.toml", "--refine", "2", "--workers", "1", "--quiet")
        assert (result.status, result.err) == (0, "")
        assert result.out.startswith("study 'study': 4 trials, 4 feasible, ")
        assert "; the budget is spent\n" in result.out
        assert "\nbest by simulated sample_rate, and their places by the estimates:\n" in result.out
        assert "sample_rate_simulated" in result.out
        assert result.out.splitlines()[-4] == "stored in codesign-opt.db; next:"
        assert max(map(len, result.out.splitlines())) <= LINE

    def test_refine_takes_the_same_candidates_as_the_command(self, run: Any) -> None:
        first = run("search", "study.toml", "--refine", "3", "--workers", "1", "--json", "--quiet").document
        again = run("refine", "study", "--top", "3", "--workers", "1", "--json", "--quiet").document
        assert first["refined"] == again["refined"]
        assert first["finished"] == "budget"
        assert {column["name"] for column in first["front"]["columns"]} >= {"sample_rate", "sample_rate_simulated"}

    def test_one_objective(self, run: Any) -> None:
        options = ("--objective", "step_time", "--name", "fast", "--quiet")
        result = run("search", "study.toml", *options, "--refine", "2", "--workers", "1")
        assert result.status == 0
        assert "best by simulated step_time, and their places by the estimates:" in result.out
        heading = next(line for line in result.out.splitlines() if line.startswith("trial  "))
        assert heading.split()[:3] == ["trial", "step_time", "step_time_simulated"]

    def test_nothing_feasible_is_told_as_without_refine(self, run: Any) -> None:
        plain = run("search", "study.toml", *IMPOSSIBLE, "--quiet")
        result = run("search", "study.toml", *IMPOSSIBLE, "--quiet", "--refine", "3")
        assert (result.status, result.out, result.err) == (1, "", plain.err)

    def test_without_refine_nothing_is_simulated(self, run: Any) -> None:
        document = run("search", "study.toml", "--json", "--quiet").document
        assert "refined" not in document
        assert "simulated" not in run("pareto", "study").out


class TestRefusals:
    def test_nothing_feasible(self, run: Any) -> None:
        assert run("search", "study.toml", *IMPOSSIBLE, "--quiet").status == 1
        result = refine(run, "none")
        assert (result.status, result.out) == (1, "")
        assert result.err.startswith(
            "error: nothing feasible in study 'none': step_time <= 1 ns excludes 4 of 4 trials"
        )

    @pytest.mark.usefixtures("searched")
    def test_ctrl_c_says_how_far_it_is_and_how_to_go_on(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from codesign_opt.studies import refinement

        simulate, calls = refinement.simulate_candidate, []

        def interrupted(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return simulate(*arguments)

        monkeypatch.setattr("codesign_opt.studies.refinement.simulate_candidate", interrupted)
        result = refine(run)
        assert (result.status, result.out) == (130, "")
        assert re.fullmatch(
            r"interrupted after 2 of \d+ candidates: codesign-opt refine continues study 'study'\n", result.err
        )
        assert refine(run).status == 0
        monkeypatch.setattr("codesign_opt.studies.refinement.simulate_candidate", simulate)
        calls.clear()
        assert refine(run).status == 0
        assert calls == []
