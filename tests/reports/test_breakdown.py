from __future__ import annotations

import pytest

from codesign_opt.reports import memory_breakdown_text, time_breakdown_text

GIB = 2**30
FULL_BAR = 40


def test_time_breakdown_shows_share_and_bar_of_each_part() -> None:
    row = {
        "forward_time": 2.0,
        "backward_time": 4.0,
        "optimizer_time": 0.0,
        "tp_communication_time": 1.5,
        "bubble_time": 0.5,
        "step_time": 8.0,
    }
    assert time_breakdown_text(row).split("\n") == [
        "step time              8 s",
        "  forward              2 s  25.0%  " + "█" * 10,
        "  backward             4 s  50.0%  " + "█" * 20,
        "  tp communication   1.5 s  18.8%  " + "█" * 7 + "▌",
        "  bubble            500 ms   6.2%  " + "█" * 2 + "▌",
    ]


def test_time_that_no_part_explains_is_shown() -> None:
    lines = time_breakdown_text({"forward_time": 3.0, "step_time": 4.0}).split("\n")
    assert [line.split()[0] for line in lines] == ["step", "forward", "other"]
    assert "1 s  25.0%" in lines[2]


def test_a_step_of_no_time_has_no_parts() -> None:
    assert time_breakdown_text({"forward_time": 0.0, "step_time": 0.0}) == "step time  0 s"


def test_memory_breakdown_shares_are_of_the_capacity() -> None:
    row = {
        "weight_memory": 10.0 * GIB,
        "activation_memory": 20.0 * GIB,
        "optimizer_memory": 30.0 * GIB,
        "memory_tier1_used": 60.0 * GIB,
        "memory_tier1_capacity": 80.0 * GIB,
        "memory_tier2_used": 64.0 * GIB,
        "memory_tier2_capacity": 512.0 * GIB,
    }
    assert memory_breakdown_text(row).split("\n") == [
        "memory tier 1   60 GiB  75.0%  of 80 GiB",
        "  weight        10 GiB  12.5%  " + "█" * 5,
        "  activation    20 GiB  25.0%  " + "█" * 10,
        "  optimizer     30 GiB  37.5%  " + "█" * 15,
        "  free          20 GiB  25.0%  " + "█" * 10,
        "memory tier 2   64 GiB  12.5%  of 512 GiB",
        "  free         448 GiB  87.5%  " + "█" * 35,
    ]


def test_memory_that_does_not_fit_says_how_much_is_missing() -> None:
    row = {"weight_memory": 120.0 * GIB, "memory_tier1_used": 120.0 * GIB, "memory_tier1_capacity": 80.0 * GIB}
    assert memory_breakdown_text(row).split("\n") == [
        "memory tier 1  120 GiB  150.0%  of 80 GiB",
        "  weight       120 GiB  150.0%  " + "█" * FULL_BAR,
        "  missing       40 GiB   50.0%  " + "█" * (FULL_BAR // 2),
    ]


def test_memory_without_a_capacity_shows_shares_of_the_use() -> None:
    row = {"weight_memory": 1.0 * GIB, "activation_memory": 3.0 * GIB, "memory_tier1_used": 4.0 * GIB}
    assert memory_breakdown_text(row).split("\n") == [
        "memory tier 1  4 GiB  100.0%",
        "  weight       1 GiB   25.0%  " + "█" * 10,
        "  activation   3 GiB   75.0%  " + "█" * 30,
    ]


@pytest.mark.parametrize("row", [{}, {"memory_tier2_used": 0.0, "memory_tier2_capacity": 0.0}])
def test_memory_tiers_that_do_not_exist_are_left_out(row: dict[str, float]) -> None:
    assert memory_breakdown_text(row) == ""


def test_an_unused_tier_has_one_line() -> None:
    row = {"memory_tier2_used": 0.0, "memory_tier2_capacity": 512.0 * GIB}
    assert memory_breakdown_text(row) == "memory tier 2  0 B  0.0%  of 512 GiB"
