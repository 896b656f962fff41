"""Cases from practice that concern what a model's configuration says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codesign_opt.catalog import resolve_workload
from codesign_opt.interop.hugging_face import config_notes, read_config
from codesign_opt.workloads.parameters import parameter_count

DATA = Path(__file__).parents[1] / "data" / "hugging_face"


def test_F13_parameter_counts() -> None:
    qwen = read_config(DATA / "qwen2.5-72b.json")
    assert parameter_count(qwen) == 72_706_203_648
    # 80 blocks of biases for 64 heads of queries and 2 · 8 of keys and values, 128 wide; none for the output.
    assert qwen.attention_bias
    assert not qwen.attention_output_bias
    assert parameter_count(read_config(DATA / "mixtral-8x7b.json")) == 46_702_792_704
    for name in ("qwen2.5-72b", "mixtral-8x7b"):
        assert parameter_count(resolve_workload(name)) == parameter_count(read_config(DATA / f"{name}.json"))


def test_F15_language_fields_inside_text_config() -> None:
    whole = _config("llama-4-scout")
    inside = read_config(whole["text_config"], name="scout")
    assert read_config(whole, name="scout") == inside
    assert parameter_count(inside) == 107_769_861_120
    assert any("vision_config is left out" in note for note in config_notes(whole))
    # Gemma 3 names six of its language model's keys, the rest are known of the architecture.
    gemma = _config("gemma-3-12b-it")
    assert set(gemma["text_config"]).isdisjoint({"vocab_size", "head_dim", "tie_word_embeddings"})
    assert parameter_count(read_config(gemma)) == 11_766_034_176
    # Qwen2.5-VL keeps them at the top, beside vision_config.
    qwen = _config("qwen2.5-vl-7b")
    assert parameter_count(read_config(qwen)) == 7_615_616_512
    assert any("vision_config is left out" in note for note in config_notes(qwen))


def _config(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return config
