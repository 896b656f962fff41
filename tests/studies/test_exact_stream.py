"""Every strategy of a space as a stream, against estimating them one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from varied_questions import all_strategies, varied_question

from codesign_opt.errors import InfeasibleError, InputError
from codesign_opt.objectives import METRICS, Constraint, Objective
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import first_broken
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.strategies.table import COLUMNS
from codesign_opt.studies.exact import ExactQuestion, solve
from codesign_opt.studies.exact.stream import STATUS, stream, stream_columns, stream_rows, stream_words
from codesign_opt.tables import Table

QUESTIONS = range(24)


def joined(question: ExactQuestion, **changes: Any) -> dict[str, np.ndarray]:
    """All rows of a stream, column by column."""
    tables = list(stream(question, **changes))
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def legal_strategies(question: ExactQuestion) -> StrategyTable:
    """The strategies of the space that break no rule, in the order of the space."""
    table = all_strategies(question)
    return table.take(first_broken(Facts(table, [question.workload], [question.system])) < 0)


def metrics_of(columns: Iterable[str]) -> list[str]:
    """Those of the columns that are metrics."""
    return [name for name in columns if name != STATUS and name not in COLUMNS]


def rounding(metrics: Mapping[str, Any]) -> float:
    """What exposed times may differ by: they are small differences of sums that round differently in a table of one."""
    return 1e-12 * float(np.max(metrics["step_time"], initial=0.0))


def status(question: ExactQuestion, metrics: Mapping[str, Any]) -> str:
    """What excludes a strategy with these metrics."""
    system = question.system
    if metrics["memory_tier1_used"] > system.memory_tier1.capacity:
        return "memory_tier1"
    if metrics["memory_tier2_used"] > system.memory_tier2.capacity:
        return "memory_tier2"
    broken = (str(c) for c in question.constraints if c.violation(np.array(metrics[c.metric])) > 0)
    return next(broken, "")


class TestRows:
    @pytest.mark.parametrize("seed", QUESTIONS)
    def test_they_are_all_legal_strategies_in_the_order_of_the_space(self, seed: int) -> None:
        question = varied_question(seed)
        rows, expected = joined(question), legal_strategies(question)
        assert stream_rows(question) == solve(question).legal == expected.rows
        for name, values in expected.words().items():
            np.testing.assert_array_equal(rows[name], values, err_msg=name)

    @pytest.mark.parametrize("seed", QUESTIONS)
    def test_every_column_is_that_of_the_model_over_rows(self, seed: int) -> None:
        question = varied_question(seed)
        rows, strategies = joined(question), legal_strategies(question)
        assert {len(values) for values in rows.values()} == {strategies.rows}
        if not strategies.rows:
            return
        estimated = question.estimate(strategies)
        for name in metrics_of(rows):
            expected = np.broadcast_to(METRICS[name].evaluate(estimated), strategies.rows)
            np.testing.assert_allclose(rows[name], expected, rtol=1e-12, atol=rounding(rows), err_msg=name)

    @pytest.mark.parametrize("seed", [24, 26])
    def test_every_row_is_estimated_as_it_is_alone(self, seed: int) -> None:
        question = varied_question(seed)
        found = list(chain.from_iterable(table.to_dicts() for table in stream(question)))
        strategies = legal_strategies(question)
        assert len(found) == strategies.rows > 40
        for row, given in enumerate(found):
            alone = strategies.take([row])
            estimated = question.estimate(alone)
            metrics = {name: METRICS[name].evaluate(estimated).item() for name in metrics_of(given)}
            assert {name: given[name] for name in metrics} == pytest.approx(metrics, rel=1e-12, abs=rounding(metrics))
            assert {name: given[name] for name in COLUMNS} == {n: v.item() for n, v in alone.words().items()}
            assert given[STATUS] == status(question, given)

    @pytest.mark.parametrize("seed", QUESTIONS)
    def test_status_counts_are_those_of_the_answer(self, seed: int) -> None:
        question, expected = varied_question(seed), Counter[str]()
        answer = solve(question)
        expected.update({"": answer.feasible, **answer.excluded})
        del expected["network"]
        assert Counter(joined(question, columns=[STATUS])[STATUS].tolist()) == +expected

    def test_parts_of_the_step_add_up(self) -> None:
        rows = joined(varied_question(0))
        parts = [
            "forward_time", "backward_time", "optimizer_time", "recompute_time", "recompute_communication_time",
            "tp_communication_time", "pp_communication_time", "dp_communication_time", "forward_offload_time",
            "backward_offload_time", "bubble_time",
        ]  # fmt: skip
        np.testing.assert_allclose(sum(rows[name] for name in parts), rows["step_time"], rtol=1e-12)


class TestTables:
    @pytest.mark.parametrize("batch_rows", [3, 50, 10_000])
    def test_batches_do_not_change_the_rows(self, batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
        question = varied_question(23)
        expected = joined(question)
        assert stream_rows(question) > 500
        monkeypatch.setattr("codesign_opt.studies.exact.stream.PART_STRATEGIES", 50)
        sizes = [table.rows for table in stream(question, batch_rows=batch_rows)]
        assert set(sizes[:-1]) <= {batch_rows}
        assert 0 < sizes[-1] <= batch_rows
        assert sum(sizes) == stream_rows(question)
        found = joined(question, batch_rows=batch_rows)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)

    def test_units(self) -> None:
        table = next(stream(varied_question(0)))
        units = {name: table.units[name] for name in ("step_time", "sample_rate", "memory_tier1_used", "mfu", "tp")}
        assert units == {"step_time": "s", "sample_rate": "samples/s", "memory_tier1_used": "B", "mfu": "", "tp": ""}

    def test_codes_stand_for_words(self) -> None:
        question = varied_question(23)
        words, codes, given = stream_words(question), joined(question, codes=True), joined(question)
        assert set(words) == {STATUS, *(name for name, values in given.items() if values.dtype.kind == "U")}
        for name in words:
            assert codes[name].dtype == np.int8
            np.testing.assert_array_equal(np.array(words[name])[codes[name]], given[name])

    def test_nothing_that_the_network_takes(self) -> None:
        question = varied_question(0)
        tiers = tuple(replace(tier, size=1, must_be_filled=False) for tier in question.system.network_tiers)
        question = replace(question, system=replace(question.system, network_tiers=tiers), processors=4)
        (table,) = stream(question)
        assert (table.rows, tuple(table)) == (0, stream_columns(question))
        assert isinstance(table, Table)


class TestColumns:
    def test_default(self) -> None:
        question = replace(varied_question(0), objectives=(Objective("energy_per_token", "minimize"),))
        constraint = Constraint("weight_memory", "<=", 1e30)
        columns = stream_columns(replace(question, constraints=(constraint,)))
        assert columns[: 1 + len(COLUMNS)] == (STATUS, *COLUMNS)
        assert columns[-2:] == ("energy_per_token", "weight_memory")
        assert "system_price" in columns
        assert "system_price" not in stream_columns(replace(question, system=replace(question.system, price=None)))

    def test_chosen(self) -> None:
        question = varied_question(0)
        table = next(stream(question, columns=["tp", "power_average", STATUS, "processors"]))
        assert list(table) == ["tp", "power_average", STATUS, "processors"]
        assert set(table["processors"]) == {question.processors}

    def test_unknown(self) -> None:
        with pytest.raises(InputError, match=r"no column 'step_tim' \(did you mean 'step_time'"):
            stream(varied_question(0), columns=["step_tim"])

    def test_none(self) -> None:
        with pytest.raises(InputError, match="no columns"):
            stream(varied_question(0), columns=[])

    def test_empty_space(self) -> None:
        """The error comes before the first table is asked for, so that no file is begun."""
        with pytest.raises(InfeasibleError):
            stream(replace(varied_question(0), space=StrategySpace(limits={"tp": (999,)})))
