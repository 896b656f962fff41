"""Texts of options as values."""

from __future__ import annotations

import pytest

from codesign_opt.cli import values
from codesign_opt.errors import InputError


def test_whole_number() -> None:
    assert values.whole_number(" 512 ", "--batch") == 512
    assert values.whole_number("0", "--seed", lowest=0) == 0


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "0", "1e3", "9" * 30, "٣x", "1 2"])
def test_what_is_no_whole_number_is_refused_by_option_and_value(text: str) -> None:
    with pytest.raises(InputError, match="--batch") as caught:
        values.whole_number(text, "--batch")
    assert repr(text) in caught.value.message


def test_limits_have_numbers_words_and_switches() -> None:
    assert values.limits(["tp=1,2, 4", "recompute=full", "dp_overlap=true,false"]) == {
        "tp": [1, 2, 4],
        "recompute": ["full"],
        "dp_overlap": [True, False],
    }


@pytest.mark.parametrize("texts", [["tp"], ["tp="], ["=4"], ["tp=1,,2"], ["tp=1", "tp=2"], ["tpp=1"]])
def test_limits_that_say_nothing_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match="--limit"):
        values.limits(texts)


def test_free_parameters_are_ranges_or_choices() -> None:
    assert values.free_parameters(["a=20 GiB..120 GiB", "b=1 GB/s .. 2 GB/s:log", "c=8,16", "d=8"]) == {
        "a": {"low": "20 GiB", "high": "120 GiB"},
        "b": {"low": "1 GB/s", "high": "2 GB/s", "scale": "log"},
        "c": {"choices": ["8", "16"]},
        "d": {"choices": ["8"]},
    }


@pytest.mark.parametrize("text", ["a", "a=", "a=..3 GiB", "a=3 GiB..", "a=1..2:cubic", "a=1,"])
def test_free_parameters_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--free"):
        values.free_parameters([text])


def test_settings_keep_the_unit() -> None:
    assert values.settings(["network_tiers.0.latency = 5 us"]) == {"network_tiers.0.latency": "5 us"}
    with pytest.raises(InputError, match="twice"):
        values.settings(["a=1 s", "a=2 s"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("16,32", [16, 32]),
        ("64..512:64", {"low": 64, "high": 512, "step": 64}),
        ("125 M$", {"budget": "125 M$"}),
        ("125 M$:8", {"budget": "125 M$", "multiple": 8}),
    ],
)
def test_processors(text: str, value: object) -> None:
    assert values.processors(text) == value


@pytest.mark.parametrize("text", ["", "a", "64..512", "64..:8", "1,", "125 M$:x"])
def test_what_is_no_number_of_processors_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--processors"):
        values.processors(text)


def test_a_choice_names_the_nearest() -> None:
    assert values.choice("html", "--format", ("csv", "html")) == "html"
    with pytest.raises(InputError) as caught:
        values.choice("htm", "--format", ("csv", "html"))
    assert caught.value.hint == "did you mean 'html'?"


def test_algorithms_are_tables_as_in_a_translation() -> None:
    texts = (
        "all-reduce = bidir-ring",
        "all-gather=hierarchical:node_size=8:rails=bidir-ring",
        "reduce-scatter=mesh-2d:dimension_widths=[4, 2]",
    )
    assert values.algorithms(texts) == {
        "all-reduce": {"algorithm": "bidir-ring"},
        "all-gather": {"algorithm": "hierarchical", "node_size": 8, "rails": "bidir-ring"},
        "reduce-scatter": {"algorithm": "mesh-2d", "dimension_widths": [4, 2]},
    }


def test_an_option_of_an_algorithm_may_be_any_json() -> None:
    barrier = 'dimension_widths=[2,2]:barrier={"algorithm": "centralized"}'
    assert values.algorithms([f"all-reduce=torus-2d:{barrier}"]) == {
        "all-reduce": {"algorithm": "torus-2d", "dimension_widths": [2, 2], "barrier": {"algorithm": "centralized"}}
    }
    assert values.algorithms(["all-reduce=mesh-1d:mirrored=true"])["all-reduce"]["mirrored"] is True


@pytest.mark.parametrize(
    "texts",
    [
        ["all-reduce"], ["all-reduce="], ["=null"], ["all-reduce=null", "all-reduce=null"], ["reduce=binomial"],
        ["all-reduce=ring"], ["all-reduce=bidir-ring:"], ["all-reduce=bidir-ring:x=1"], ["all-reduce=hierarchical"],
        ["all-reduce=hierarchical:node_size=0"], ["all-reduce=hierarchical:node_size=8:node_size"],
        ["all-reduce=hierarchical:node_size=" + "[" * 10_000],
    ],
)  # fmt: skip
def test_algorithms_that_say_nothing_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match="--algorithm"):
        values.algorithms(texts)
