"""What one should know about a workload that came from a `config.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from codesign_opt.interop.hugging_face.config import Config
from codesign_opt.workloads.parameters import active_parameter_count, parameter_count
from codesign_opt.workloads.transformer import Workload

_TOWERS = ("vision_config", "audio_config", "vision_tower_config", "mm_vision_config")
_QUANTISED_BESIDE = "hf_quant_config.json"

_SIZE = re.compile(r"(?<![A-Za-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([mbt])(?![A-Za-z0-9])", re.IGNORECASE)
"""A number of parameters in a name: "7B", "8x7B", "1.3b", "350m"; not "A3B", of experts that a token visits."""

_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}
_TOLERANCE = 1.5
"""Names round, some of them without the embedding: up to this factor they are believed."""


def notes(config: Config, workload: Workload, folder: Path | None) -> tuple[str, ...]:
    """A sentence each, about what is left out, what is taken for what, and what does not fit together."""
    return (
        *_size_notes(workload),
        *_left_out(config),
        *_quantisation_notes(config, folder),
        *_length_notes(config, workload),
        *_window_notes(config, workload),
    )


def sizes_in(name: str) -> tuple[float, ...]:
    """Numbers of parameters that a name tells: 56e9 for "Mixtral-8x7B"."""
    return tuple(
        (int(times) if times else 1) * float(number) * _UNITS[unit.lower()]
        for times, number, unit in _SIZE.findall(name)
    )


def _size_notes(workload: Workload) -> Iterator[str]:
    total, active = parameter_count(workload), active_parameter_count(workload)
    told = sizes_in(workload.name)
    fits = any(size / _TOLERANCE <= count <= size * _TOLERANCE for size in told for count in (total, active))
    if told and not fits:
        yield (
            f"the name '{workload.name}' says {_short(told[0])} parameters, but the configuration has "
            f"{_short(total)}: is it the right one?"
        )


def _left_out(config: Config) -> Iterator[str]:
    for key in _TOWERS:
        if isinstance(config.whole.get(key), Mapping):
            yield f"{key} is left out: the language model alone is counted"
    further = config.size_or_none("num_nextn_predict_layers") or 0
    if further:
        blocks = f"{further} block{'s' if further > 1 else ''}"
        yield (
            f"{blocks} for multi-token prediction (num_nextn_predict_layers) left out, as in published counts; "
            f"prediction_blocks = {further} in a workload file adds what training them takes"
        )


def _quantisation_notes(config: Config, folder: Path | None) -> Iterator[str]:
    found = config.whole.get("quantization_config") or config.values.get("quantization_config")
    if isinstance(found, Mapping):
        method = found.get("quant_method") or found.get("quant_algo") or "an unnamed method"
        kept = found.get("modules_to_not_convert") or found.get("ignore") or found.get("ignored_layers") or ()
        apart = f", {len(kept)} kinds of modules apart" if isinstance(kept, list) and kept else ""
        yield f"the published weights are quantised ({method}{apart}): parameters are counted as if they were not"
    elif folder is not None and (folder / _QUANTISED_BESIDE).is_file():
        yield (
            f"{_QUANTISED_BESIDE} lies beside it: the published weights are quantised, parameters are counted as if "
            "they were not"
        )


def _length_notes(config: Config, workload: Workload) -> Iterator[str]:
    longest = config.size_or_none("max_position_embeddings")
    key, length = config.name_of("max_position_embeddings"), workload.sequence_length
    if longest is not None and length != longest:
        relation = "less" if length < longest else "more"
        yield f"sequences of {length:,} tokens: {relation} than the {longest:,} that the model takes ({key})"


def _window_notes(config: Config, workload: Workload) -> Iterator[str]:
    if workload.windowed_blocks and config.size_or_none("attention_chunk_size"):
        yield f"chunks of {workload.window:,} tokens (attention_chunk_size) are taken for a sliding window"


def _short(count: float) -> str:
    return f"{count / 1e9:.4g} G" if count >= 1e9 else f"{count / 1e6:.4g} M"
