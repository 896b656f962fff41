"""The language model's part of a `config.json`, and its values by key, whatever the architecture calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign_opt.configuration import read_text, shown
from codesign_opt.errors import InputError, nearest
from codesign_opt.interop.hugging_face.architectures import ARCHITECTURES, SAME_AS, Architecture, Switch

Source = Mapping[str, Any] | str | Path
"""A parsed `config.json`, or its path."""

MAXIMUM = 100_000_000
"""As in a workload file."""

_NAMES = {
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "sliding_window_pattern": ("_sliding_window_pattern", "no_rope_layer_interval", "sliding_window_pattern"),
    "num_experts_per_tok": ("num_experts_per_tok", "experts_per_token"),
}
"""What one thing is called by one or another architecture."""

_CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration of a known architecture.

    Attributes:
        values: The language model's keys and values, with the architecture's defaults.
        whole: All of the file.
        model_type: As the file has it.
        architecture: What it stands for.
        where: Beginning of messages: "config.json: ".
    """

    values: Mapping[str, Any]
    whole: Mapping[str, Any]
    model_type: str
    architecture: Architecture
    where: str

    def size(self, key: str, *, least: int = 1) -> int:
        """A whole number that must be there.

        Raises:
            InputError: Where it is missing or anything else.
        """
        found = self.size_or_none(key, least=least)
        if found is None:
            raise InputError(f"{self.where}missing key '{key}'", f"a {self.model_type} model needs it")
        return found

    def size_or_none(self, key: str, *, least: int = 0) -> int | None:
        """A whole number, or None where the key is missing or null.

        Raises:
            InputError: Where it is anything else.
        """
        name = self.name_of(key)
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAXIMUM:
            raise self.refused(name, f"must be a whole number from {least} to {MAXIMUM}")
        return value

    def switch(self, answer: Switch) -> bool:
        """A fixed answer, or what a key holds; false where it is missing or null.

        Raises:
            InputError: Where it holds anything but true and false.
        """
        value = self.values.get(answer) if isinstance(answer, str) else answer
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.refused(str(answer), "must be true or false")
        return value

    def name_of(self, key: str) -> str:
        """What this configuration calls a key: the first of its names that has a value."""
        names = _NAMES.get(key, (key,))
        return next((name for name in names if self.values.get(name) is not None), names[0])

    def refused(self, key: str, hint: str) -> InputError:
        """An error about the value of a key."""
        return InputError(f"{self.where}{key}: {shown(self.values.get(key))} is not allowed", hint)


def load(source: Source) -> tuple[Mapping[str, Any], str]:
    """The content of a source, and the beginning of messages about it.

    Raises:
        InputError: For a file that cannot be read, and for one that holds no JSON object.
    """
    if isinstance(source, Mapping):
        return source, ""
    try:
        data = json.loads(read_text(source))
    except RecursionError:
        raise InputError(f"{source}: nested too deeply", "is this the right file?") from None
    except ValueError as error:
        raise InputError(f"{source}: not JSON: {error}", "is this the right file?") from None
    if not isinstance(data, dict):
        raise InputError(f"{source}: must hold one JSON object", "give the config.json of a model")
    return data, f"{source}: "


def configuration(whole: Mapping[str, Any], where: str) -> Config:
    """The configuration that a file's content is.

    Raises:
        InputError: For an unknown architecture, and for missing keys, all of them named.
    """
    inner = whole.get("text_config")
    text = inner if isinstance(inner, Mapping) else whole
    model_type = _model_type(text) or _model_type(whole)
    known = SAME_AS.get(model_type, model_type)
    missing = _missing(text)
    if not model_type:
        raise InputError(f"{where}missing key {_quoted(['model_type', *missing])}", "give the config.json of a model")
    if known not in ARCHITECTURES:
        also = f"; missing key {_quoted(missing)} as well" if missing else ""
        raise InputError(
            f"{where}model_type: '{model_type}' is not known{also}",
            f"{nearest(model_type, [*ARCHITECTURES, *SAME_AS])}; a workload file can describe other models",
        )
    architecture = ARCHITECTURES[known]
    values = {**architecture.defaults, **_standard(model_type, text)}
    if text is not whole and "tie_word_embeddings" not in text and "tie_word_embeddings" in whole:
        values["tie_word_embeddings"] = whole["tie_word_embeddings"]
    config = Config(values, whole, model_type, architecture, where)
    missing = [key for key in _CORE if config.values.get(config.name_of(key)) is None]
    if architecture.feedforward_ratio and "intermediate_size" in missing:
        missing.remove("intermediate_size")
    if missing:
        raise InputError(f"{where}missing key {_quoted(missing)}", f"a {model_type} model needs all of them")
    for key, value in architecture.required.items():
        if config.values.get(key, value) != value:
            raise config.refused(key, f"only {key} = {json.dumps(value)} is modelled for {model_type}")
    return config


def _model_type(values: Mapping[str, Any]) -> str:
    """The key, or what the class of the model says: "LlamaForCausalLM" is llama."""
    if isinstance(values.get("model_type"), str):
        return str(values["model_type"])
    classes = values.get("architectures")
    if isinstance(classes, list) and classes and isinstance(classes[0], str):
        word = re.sub(r"(For[A-Z]|LMHeadModel|Model$).*", "", classes[0]).lower()
        plain = {re.sub(r"_(text$)?", "", name): name for name in (*SAME_AS, *ARCHITECTURES)}
        return plain.get(word, word)
    return ""


def _missing(values: Mapping[str, Any]) -> list[str]:
    return [key for key in _CORE if all(values.get(name) is None for name in _NAMES.get(key, (key,)))]


def _standard(model_type: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values, an MPT model's under the names that others use."""
    if model_type != "mpt":
        return values
    inner = values.get("attn_config")
    attention = inner if isinstance(inner, Mapping) else {}
    standard = {**values, **{f"attn_config.{key}": value for key, value in attention.items()}}
    width, ratio = values.get("d_model"), values.get("expansion_ratio", 4)
    if isinstance(width, int) and isinstance(ratio, int):
        standard["intermediate_size"] = ratio * width
    standard["bias"] = not values.get("no_bias", True)
    standard["learned_pos_emb"] = values.get("learned_pos_emb", True) and not attention.get("alibi", True)
    return standard


def _quoted(keys: list[str]) -> str:
    return ", ".join(f"'{key}'" for key in keys)
