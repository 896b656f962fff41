"""A calibrated system as a file, with what each of its numbers was fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from codesign_opt.systems import Notes, System
from codesign_opt.systems.files import system_to_toml
from codesign_opt.validation.calibration.fitting import Fitted
from codesign_opt.validation.calibration.machines import calibrated_system
from codesign_opt.validation.calibration.memory import OVERHEADS
from codesign_opt.validation.calibration.procedure import Calibration

_NODE = "network_tiers.node"
_NETWORK = "network_tiers.network"
_PLACES: Mapping[str, str] = {
    "matrix_efficiency": "matrix.16",
    "matrix_half": "matrix.16",
    "eight_bit_efficiency": "matrix.8",
    "eight_bit_half": "matrix.8",
    "attention_forward": "fused_attention.forward_efficiency",
    "attention_backward": "fused_attention.backward_efficiency",
    "attention_half_head": "fused_attention.half_head_size",
    "vector_efficiency": "vector",
    "vector_half": "vector",
    "memory_efficiency": "memory_tier1",
    "memory_half": "memory_tier1",
    "launch": "launch",
    **{f"node_{name}": f"{_NODE}.{name}" for name in ("efficiency", "latency", "latency_per_member")},
    "node_usage": f"{_NODE}.processor_usage",
    **{f"network_{name}": f"{_NETWORK}.{name}" for name in ("efficiency", "latency", "latency_per_member")},
    "network_usage": f"{_NETWORK}.processor_usage",
    **{name: f"memory_overheads.{name}" for name in ("context", "communication", "workspace", "fragmentation")},
}
"""Which part of a system each parameter makes."""


def calibrated_file(system: System, notes: Notes, calibration: Calibration, *, name: str, fitted_to: str) -> str:
    """The file of a system with the parameters of a calibration.

    Args:
        system: Before it is calibrated.
        notes: What its file says of it.
        calibration: Of its generation.
        name: Of the calibrated system.
        fitted_to: The measured runs, in words.
    """
    result = replace(calibrated_system(system, {**calibration.values, **OVERHEADS}), name=name)
    return system_to_toml(result, _notes(system, result, notes, calibration, fitted_to))


def _notes(system: System, result: System, notes: Notes, calibration: Calibration, fitted_to: str) -> Notes:
    makers: dict[str, list[str]] = {}
    for word, place in _PLACES.items():
        for path in _paths(result, place):
            makers.setdefault(path, []).append(word)
    words_of = {word: _words(word, fitted, fitted_to) for word, fitted in calibration.parameters.items()}
    sources = {
        path: "calibrated: " + "; ".join(words_of.get(word, f"{word} assumed") for word in words)
        for path, words in makers.items()
    }
    description = f"{notes.description}; calibrated" if notes.description else "calibrated"
    changed = notes.changed(sources)
    return replace(changed, description=description, source=notes.source or f"{system.name}, calibrated")


def _paths(system: System, place: str) -> list[str]:
    """The dotted paths of a system that a place of `_PLACES` stands for."""
    section, _, rest = place.partition(".")
    if section == "matrix":
        eight = rest == "8"
        return [f"matrix.{word}.efficiency" for word in system.matrix if (word == "float8") is eight]
    if section == "vector":
        return [f"vector.{word}.efficiency" for word in system.vector]
    if section == "memory_tier1":
        return ["memory_tier1.efficiency"]
    if section == "network_tiers":
        which, _, name = rest.partition(".")
        last = len(system.network_tiers) - 1
        tiers = [last] if which == "network" else range(max(last, 1))
        return [f"network_tiers.{tier}.{name}" for tier in tiers if not (which == "network" and last == 0)]
    return [place]


def _words(word: str, fitted: Fitted, fitted_to: str) -> str:
    name = word.replace("_", " ")
    if fitted.held:
        return f"{name} at its prior ({fitted.held})"
    return f"{name} fitted to {fitted.rows} rows of {fitted_to}"
