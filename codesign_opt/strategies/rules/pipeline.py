"""Rules for schedules of a pipeline, and for stages that differ."""

from __future__ import annotations

import numpy as np

from codesign_opt.strategies.options import Recompute, Schedule
from codesign_opt.strategies.rules.rule import Rule, constant

RULES: tuple[Rule, ...] = (
    Rule(
        "negative", True,
        lambda f: (f["first_stage_less"] < 0) | (f["last_stage_less"] < 0) | (f["recompute_blocks"] < 0),
        "first_stage_less {first_stage_less}, last_stage_less {last_stage_less} and recompute_blocks "
        "{recompute_blocks} must not be negative",
        constant("each must be at least 0"),
    ),
    Rule(
        "schedule_vpp", True,
        lambda f: ~f.is_word("schedule", Schedule.ONE_F_ONE_B) & (f["vpp"] > 1),
        "schedule '{schedule}' with vpp {vpp}: only 1f1b interleaves chunks (zb_v has two of its own)",
        constant("vpp must be 1, or schedule 1f1b"),
    ),
    Rule(
        "schedule_pp1", True,
        lambda f: ~f.is_word("schedule", Schedule.ONE_F_ONE_B) & (f["pp"] == 1),
        "schedule '{schedule}' without pipeline stages (pp 1)",
        constant("schedule must be 1f1b when pp is 1"),
    ),
    Rule(
        "schedule_inference", True,
        lambda f: ~f.is_word("schedule", Schedule.ONE_F_ONE_B) & ~f["training"],
        "schedule '{schedule}' without training: there are no backward passes to order",
        constant("schedule must be 1f1b"),
    ),
    Rule(
        "zb_v_chunks", False,
        lambda f: f.is_word("schedule", Schedule.ZB_V) & (f.stage_blocks % 2 != 0),
        "schedule 'zb_v' has two chunks a stage, but a stage has {stage_blocks} blocks ({counted_blocks}, pp {pp})",
        constant("use a pp that leaves an even number of blocks on a stage"),
    ),
    Rule(
        "dualpipe_stages", True,
        lambda f: f.is_word("schedule", Schedule.DUALPIPE) & (f["pp"] % 2 != 0),
        "schedule 'dualpipe' feeds stages in pairs, but pp {pp} is odd",
        lambda v: f"pp may be {v['pp'] - 1} or {v['pp'] + 1}" if v["pp"] > 1 else "pp may be 2",
    ),
    Rule(
        "dualpipe_microbatches", True,
        lambda f: f.is_word("schedule", Schedule.DUALPIPE)
        & ((f.microbatches % 2 != 0) | (f.microbatches < 2 * f["pp"])),
        "schedule 'dualpipe' takes an even number of microbatches of at least 2 x pp {pp}, not {microbatches}",
        lambda v: f"the nearest number is {max(2 * v['pp'], v['microbatches'] + v['microbatches'] % 2)}",
    ),
    Rule(
        "stage_less_pp1", True,
        lambda f: ((f["first_stage_less"] > 0) | (f["last_stage_less"] > 0)) & (f["pp"] == 1),
        "first_stage_less {first_stage_less} and last_stage_less {last_stage_less} without pipeline stages (pp 1)",
        constant("both must be 0 when pp is 1"),
    ),
    Rule(
        "stage_less_blocks", False,
        lambda f: np.maximum(f["first_stage_less"], f["last_stage_less"]) > f.stage_blocks,
        "first_stage_less {first_stage_less} or last_stage_less {last_stage_less} is more than the {stage_blocks} "
        "blocks of a stage ({counted_blocks}, pp {pp})",
        lambda v: f"each may be at most {v['stage_blocks']}",
    ),
    Rule(
        "recompute_blocks_full", True,
        lambda f: (f["recompute_blocks"] > 0) & ~f.is_word("recompute", Recompute.FULL),
        "recompute_blocks {recompute_blocks} with recompute '{recompute}': only full recompute concerns single blocks",
        constant("recompute_blocks must be 0, or recompute full"),
    ),
    Rule(
        "recompute_blocks_range", False,
        lambda f: f["recompute_blocks"] > f.stage_blocks,
        "recompute_blocks {recompute_blocks} is more than the {stage_blocks} blocks of a stage",
        lambda v: f"recompute_blocks may be 0 (all) to {v['stage_blocks']}",
    ),
)  # fmt: skip
"""In the order in which they are judged. DualPipe's are those of its authors' code, github.com/deepseek-ai/DualPipe."""
