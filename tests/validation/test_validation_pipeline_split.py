"""How software shares blocks among stages: rules by hand, and the memory that measured runs show."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.validation import MappedRun
from codesign_opt.validation.pipeline_split import PipelineSplit, balanced_stages, blocks_less
from codesign_opt.workloads import Workload

TIED_16 = Workload(
    name="16", hidden=2048, feedforward=8192, sequence_length=4096, attention_heads=32, head_size=64, blocks=16,
    gated_mlp=True, vocabulary=131072,
)  # fmt: skip
"""A block has 16 h² weights of products and the output projection 64 h²: as much as four blocks."""


@pytest.mark.parametrize(
    ("pp", "ties_move_on", "blocks", "last"),
    [
        # Shares of 20 blocks' worth: 10 each; the tenth block fills the first stage exactly.
        (2, True, [10, 6], 1),
        (2, False, [11, 5], 1),
        (4, True, [5, 5, 5, 1], 3),
        (4, False, [6, 5, 5, 0], 3),
        # Shares of 2.5: filled by the 3rd, 5th, 8th, 10th, 13th and 15th block.
        (8, True, [3, 2, 3, 2, 3, 2, 1, 0], 6),
        (1, True, [16], 0),
    ],
)
def test_balanced_stages_by_hand(pp: int, ties_move_on: bool, blocks: list[int], last: int) -> None:
    assert balanced_stages(TIED_16, pp, ties_move_on=ties_move_on) == (blocks, last)


@given(blocks=st.integers(1, 130), pp=st.integers(1, 64), vocabulary=st.integers(1, 10**6), ties=st.booleans())
def test_balanced_stages_have_every_block_once(blocks: int, pp: int, vocabulary: int, ties: bool) -> None:
    workload = dataclasses.replace(TIED_16, blocks=blocks, vocabulary=vocabulary)
    counts, last = balanced_stages(workload, pp, ties_move_on=ties)
    assert sum(counts) == blocks
    assert len(counts) == pp
    assert all(count == 0 for count in counts[last + 1 :])


def test_measured_memory_shows_the_first_stage(mapped: dict[str, MappedRun]) -> None:
    """Nothing sharded, gradients in both formats: 20 bytes a parameter of embedding and first stage's blocks."""
    seen = 0
    for name, run in mapped.items():
        s, w = run.strategy, run.workload
        if run.run.family != "nanotron_ultrascale" or run.resident_memory is None:
            continue
        if s.pp == 1 or s.tp > 2 or s.dp == 1 or s.optimizer_sharding:
            continue
        counts, _ = balanced_stages(w, s.pp, ties_move_on="after_pp_fix=False" not in (run.run.notes or ""))
        block = w.hidden * (w.head_size * 2 * (w.attention_heads + w.kv_heads) + 3 * w.feedforward)
        parameters = (counts[0] * block + w.vocabulary * w.hidden) / s.tp
        assert run.resident_memory == pytest.approx(20 * parameters, rel=0.02), name
        seen += 1
    assert seen == 12


@pytest.mark.parametrize(
    ("blocks", "prediction", "pp", "vpp", "less"),
    [
        (96, 0, 8, 3, (0, 0)),
        (105, 0, 35, 3, (0, 0)),
        (126, 0, 8, 4, (1, 1)),
        (94, 0, 8, 3, (1, 1)),
        (61, 0, 4, 4, (0, 3)),
        (61, 1, 2, 8, (0, 2)),
        (30, 0, 4, 1, (1, 1)),
        (62, 1, 8, 1, (0, 1)),
        (126, 0, 1, 1, (0, 0)),
    ],
)
def test_ends_shorter_by_hand(blocks: int, prediction: int, pp: int, vpp: int, less: tuple[int, int]) -> None:
    workload = dataclasses.replace(TIED_16, blocks=blocks, prediction_blocks=prediction)
    assert blocks_less(PipelineSplit.ENDS_SHORTER, workload, pp=pp, vpp=vpp) == less


def test_the_last_stage_may_have_the_output_projection_alone() -> None:
    assert blocks_less(PipelineSplit.BALANCED, TIED_16, pp=4, vpp=1) == (0, 4)
    assert blocks_less(PipelineSplit.BALANCED, TIED_16, pp=4, vpp=1, ties_move_on=False) == (0, 6)
    assert blocks_less(PipelineSplit.BALANCED, TIED_16, pp=1, vpp=1) == (0, 0)


def test_the_fullest_stage_is_that_of_the_rule(mapped: dict[str, MappedRun]) -> None:
    """What a strategy says with two numbers has as many blocks on its fullest stage as the rule."""
    for name, run in mapped.items():
        s, w = run.strategy, run.workload
        if run.run.family == "nanotron_ultrascale" and s.pp > 1:
            ties = "after_pp_fix=False" not in (run.run.notes or "")
            counts, _ = balanced_stages(w, s.pp, ties_move_on=ties)
            assert -(-(w.blocks + s.first_stage_less + s.last_stage_less) // s.pp) == max(counts), name
