"""Generations of processors: what one calibration is for."""

from __future__ import annotations

from collections.abc import Mapping

from codesign_opt.validation.machines import SYSTEMS
from codesign_opt.validation.mapping import MappedRun

GENERATIONS: Mapping[str, tuple[str, ...]] = {
    "volta": ("V100",),
    "ampere": ("A100", "A100 PCIe"),
    "hopper": ("H100", "H100 PCIe", "H200"),
    "blackwell": ("B200", "B300", "GB200", "GB300"),
    "cdna": ("MI250X", "MI300X", "MI325X", "MI355X"),
    "tpu": ("TPU v4", "TPU v5e", "TPU v5p", "TPU v6e"),
    "trainium": ("Trainium1", "Trainium2"),
    "gaudi": ("Gaudi2",),
}
"""Each generation, and its processors as runs name them (`machines.SYSTEMS`)."""

PUBLISHED: Mapping[str, Mapping[str, tuple[float, str]]] = {
    "hopper": {
        "attention_forward": (0.42, "arXiv 2407.08608: FlashAttention-2 reaches 35 % of an H100 with heads of 128"),
        "attention_backward": (0.35, "arXiv 2407.08608: FlashAttention-2 reaches 30 % of an H100 with heads of 128"),
    },
}
"""Priors of a generation for which something has been published: parameter to value and source."""


def generation_of(run: MappedRun) -> str:
    """The generation of a run's processor."""
    return _of_processor(run.run.processor)


def generation_of_system(name: str) -> str | None:
    """The generation of a catalogue system; None for any other."""
    for processor, by_memory in SYSTEMS.items():
        if name in by_memory.values():
            return _of_processor(processor)
    return None


def _of_processor(processor: str) -> str:
    return next(name for name, members in GENERATIONS.items() if processor in members)
