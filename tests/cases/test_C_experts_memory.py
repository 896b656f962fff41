"""Cases from practice that concern what experts hold and what they compute."""

from __future__ import annotations

import pytest

from codesign_opt.catalog import resolve_workload
from codesign_opt.workloads.flops import FlopsConvention, flops_per_token
from codesign_opt.workloads.parameters import active_parameter_count, parameter_count, parameter_parts


def test_C5_memory_holds_all_experts_and_speed_uses_the_visited() -> None:
    mixtral = resolve_workload("mixtral-8x7b")
    assert parameter_count(mixtral) == 46_702_792_704
    assert 2 * parameter_count(mixtral) / 2**30 == pytest.approx(87.0, abs=0.05)
    assert active_parameter_count(mixtral) == 12_879_925_248
    products = flops_per_token(mixtral, FlopsConvention.PRODUCTS_ALONE) / 6
    assert products < active_parameter_count(mixtral)
    # The head is untied: a second matrix of 32,000 rows.
    parts = {part.name: part.total for part in parameter_parts(mixtral)}
    assert parts["output_projection"] == parts["embedding"] == 32_000 * 4096
