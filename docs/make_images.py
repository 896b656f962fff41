"""Draws the pipelines of docs/simulation.md from simulations: `python docs/make_images.py`."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.graphs.step import StageGraph, StepGraph, step_graph, step_work
from codesign_opt.graphs.step.orders import SPLIT
from codesign_opt.graphs.step.passes import PassKind
from codesign_opt.graphs.step.pieces import PARTS
from codesign_opt.simulation.step import simulate_step
from codesign_opt.strategies import Strategy

FOLDER = Path(__file__).parent / "images"
WEIGHTS = "weight gradients"
COLOURS = {"forward": "#4c78a8", "backward": "#f58518", WEIGHTS: "#ffbf79", "optimizer": "#54a24b"}
OTHER = "#b279a2"
WIDTH, ROW, LEFT, GAP = 960, 30, 64, 6


def main() -> None:
    """Write all pictures."""
    workload, system = resolve_workload("gpt3-13b"), resolve_system("a100-80g")
    for name in ("1f1b", "interleaved", "zb_1p", "zb_v", "dualpipe"):
        vpp = 2 if name == "interleaved" else 1
        strategy = Strategy(processors=32, tp=8, pp=4, dp=1, vpp=vpp, batch=8, microbatch=1, pp_tier=1)
        step = step_graph(step_work(workload, system, strategy), schedule=name, granularity="chunk")
        (FOLDER / f"pipeline-{name.replace('_', '-')}.svg").write_text(picture(step), encoding="utf-8")


def picture(step: StepGraph) -> str:
    """The stages of a step over time, as SVG."""
    result = simulate_step(step, contention=False)
    simulation = result.simulation
    assert simulation is not None
    labels = {
        name: np.concatenate([getattr(stage, name) for stage in step.stages]) for name in StageGraph.__slots__[1:]
    }
    scale = (WIDTH - LEFT - 4) / result.seconds
    stages, height = len(step.stages), len(step.stages) * (ROW + GAP) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *(f'<text x="4" y="{stage * (ROW + GAP) + 20}">stage {stage}</text>' for stage in range(stages)),
    ]
    for instruction, start in zip(simulation.timed.tolist(), simulation.timed_started.tolist(), strict=True):
        stage = int(simulation.machine.place[instruction])
        part = PARTS[int(labels["part"][instruction])]
        if part == "backward" and labels["kind"][instruction] == PassKind.WEIGHT_GRADIENT:
            part = WEIGHTS
        x, y = LEFT + start * scale, stage * (ROW + GAP) + 2
        width = float(simulation.machine.seconds[instruction]) * scale
        colour = COLOURS.get(part, OTHER)
        lines.append(f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.3):.2f}" height="{ROW}" fill="{colour}"/>')
        if part in ("forward", "backward", WEIGHTS) and width > 9:
            number = int(labels["microbatch"][instruction]) + 1
            chunk = int(labels["chunk"][instruction])
            shade = "white" if chunk == 0 and part != WEIGHTS else "black"
            lines.append(
                f'<text x="{x + width / 2:.2f}" y="{y + 19}" fill="{shade}" text-anchor="middle">{number}</text>'
            )
    y = stages * (ROW + GAP) + 20
    shown = [part for part in COLOURS if part != WEIGHTS or step.schedule in SPLIT]
    legend = [*((part, COLOURS[part]) for part in shown), ("communication", OTHER)]
    for place, (part, colour) in enumerate(legend):
        x = LEFT + place * 130
        lines += [
            f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>',
            f'<text x="{x + 18}" y="{y}">{escape(part)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
