"""Reading any `config.json`: traps, notes, and errors that say what is wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.catalog import resolve_workload, workload_notes
from codesign_opt.errors import InputError
from codesign_opt.interop.hugging_face import config_notes, is_config, read_config
from codesign_opt.interop.hugging_face.notes import sizes_in
from codesign_opt.studies.specification import study_from_dict
from codesign_opt.workloads.parameters import parameter_count

DATA = Path(__file__).parents[1] / "data" / "hugging_face"
LLAMA: dict[str, Any] = json.loads((DATA / "llama-3-8b.json").read_text())
CONFIGS = {path.stem: json.loads(path.read_text()) for path in DATA.glob("*.json") if path.stem != "counts"}


def changed(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A configuration with keys changed, or without those that are `...`."""
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


def test_absent_heads_of_keys_are_as_many_as_attention_heads() -> None:
    for value in (..., None, 32):
        workload = read_config(changed(LLAMA, num_key_value_heads=value))
        assert workload.key_value_heads is None
        assert workload.kv_heads == 32


def test_an_absent_head_size_is_derived_where_it_can_be() -> None:
    assert read_config(changed(LLAMA, head_dim=None)).head_size == 128
    with pytest.raises(InputError, match=r"missing key 'head_dim'.*does not divide"):
        read_config(changed(LLAMA, hidden_size=4100))


@pytest.mark.parametrize(
    ("asked", "longest", "expected"),
    [(None, 8192, 8192), (None, 131_072, 8192), (None, 2048, 2048), (None, ..., 8192), (512, 8192, 512), (9, ..., 9)],
)
def test_sequence_length(asked: int | None, longest: Any, expected: int) -> None:
    config = changed(LLAMA, max_position_embeddings=longest)
    assert read_config(config, sequence_length=asked).sequence_length == expected


def test_learned_positions_limit_the_sequence() -> None:
    assert read_config(CONFIGS["gpt2"], sequence_length=1024).sequence_length == 1024
    with pytest.raises(InputError, match="sequence_length: 1025 is more than n_positions = 1024"):
        read_config(CONFIGS["gpt2"], sequence_length=1025)
    with pytest.raises(InputError, match="sequence_length: 0 is not allowed"):
        read_config(CONFIGS["gpt2"], sequence_length=0)


def test_text_config_is_read_as_if_it_were_the_whole() -> None:
    inside = changed(LLAMA, architectures=...)
    outside = {"model_type": "llava", "vision_config": {"hidden_size": 1024}, "text_config": inside}
    assert read_config(outside, name="x") == read_config(LLAMA, name="x")
    # The outer one decides where the inner one is silent.
    silent = changed(inside, tie_word_embeddings=...)
    assert read_config({**outside, "text_config": silent, "tie_word_embeddings": True}).tied_embeddings


def test_the_class_names_the_architecture_where_nothing_else_does() -> None:
    assert read_config(changed(LLAMA, model_type=...), name="x") == read_config(LLAMA, name="x")
    gpt2, mixtral, qwen = (CONFIGS[name] for name in ("gpt2", "mixtral-8x7b", "qwen3-30b-a3b"))
    for config in (gpt2, mixtral, qwen):
        assert read_config(changed(config, model_type=...), name="x") == read_config(config, name="x")


def test_a_null_is_not_a_missing_key() -> None:
    mistral = CONFIGS["mistral-7b-v0.1"]
    assert read_config(changed(mistral, sliding_window=...)).window == 4096
    assert read_config(changed(mistral, sliding_window=None)).window == 0
    with pytest.raises(InputError, match="missing key 'hidden_size', 'num_hidden_layers', 'intermediate_size'"):
        read_config({"model_type": "gemma3_text"})


@pytest.mark.parametrize(("switched", "first", "windowed"), [(True, 20, 12), (True, 40, 0), (False, 20, 0)])
def test_windows_after_some_blocks(switched: bool, first: int, windowed: int) -> None:
    qwen = changed(
        CONFIGS["qwen2.5-72b"], num_hidden_layers=32, use_sliding_window=switched, sliding_window=4096,
        max_window_layers=first,
    )  # fmt: skip
    workload = read_config(qwen)
    assert (workload.window, workload.windowed_blocks) == (4096 if windowed else 0, windowed)


def test_names() -> None:
    assert read_config(CONFIGS["llama-2-7b"]).name == "Llama-2-7b-hf"
    assert read_config(LLAMA).name == "llama"
    assert read_config(LLAMA, name="mine").name == "mine"
    assert read_config(LLAMA, name="x" * 300).name == "x" * 100


def test_a_file_named_config_is_called_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert read_config(folder / "config.json").name == "Llama-3-8B"
    assert resolve_workload(str(folder / "config.json")) == read_config(LLAMA, name="Llama-3-8B")
    assert workload_notes(str(folder / "config.json")) == ()


def test_a_workload_is_told_from_the_published_tools_application(tmp_path: Path) -> None:
    application = {"hidden": 8, "feedforward": 32, "seq_size": 4, "attn_heads": 2, "attn_size": 4, "num_blocks": 1}
    path = tmp_path / "small.json"
    path.write_text(json.dumps(application))
    assert not is_config(path)
    assert resolve_workload(str(path)).hidden == 8
    assert workload_notes(str(path)) == ()
    for text in ("", "[]", "{", "3", '{"foo": 1}'):
        path.write_text(text)
        assert not is_config(path)
        with pytest.raises(InputError, match=r"small\.json"):
            resolve_workload(str(path))
    assert not is_config(tmp_path / "missing.json")


def test_a_study_may_name_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["gpt2"]))
    study = {"workload": "config.json", "system": "a100-80g", "processors": 8, "batch": 8}
    found = study_from_dict(study, where="s.toml", folder=tmp_path).workload
    assert found == read_config(CONFIGS["gpt2"], name=tmp_path.name)
    (tmp_path / "config.json").write_text(json.dumps(changed(CONFIGS["gpt2"], n_layer=0)))
    with pytest.raises(InputError, match=r"config\.json: n_layer: 0 is not allowed"):
        study_from_dict(study, where="s.toml", folder=tmp_path)


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({}, ["missing key 'model_type', 'hidden_size', 'num_hidden_layers', 'num_attention_heads'"]),
        ({"model_type": "warp"}, ["model_type: 'warp' is not known", "missing key 'hidden_size', 'num_hidden_layers'"]),
        (changed(LLAMA, model_type="lama"), ["'lama' is not known", "did you mean 'llama'"]),
        (changed(LLAMA, model_type="mamba2"), ["'mamba2' is not known", "a workload file can describe"]),
        (changed(LLAMA, model_type="bert"), ["'bert' is not known"]),
        (changed(LLAMA, vocab_size=..., hidden_size=None), ["missing key 'hidden_size', 'vocab_size'", "llama"]),
        (changed(LLAMA, num_hidden_layers=0), ["num_hidden_layers: 0 is not allowed", "from 1"]),
        (changed(LLAMA, hidden_size=4096.0), ["hidden_size: 4096.0 is not allowed", "a whole number"]),
        (changed(LLAMA, hidden_size=True), ["hidden_size: True is not allowed"]),
        (changed(LLAMA, vocab_size="128256"), ["vocab_size: '128256' is not allowed"]),
        (changed(LLAMA, vocab_size=10**12), ["vocab_size: 1000000000000 is not allowed"]),
        (changed(LLAMA, attention_bias="no"), ["attention_bias: 'no' is not allowed", "true or false"]),
        (changed(LLAMA, num_key_value_heads=5), ["num_key_value_heads: 5", "must divide num_attention_heads = 32"]),
        (changed(LLAMA, num_local_experts=8), ["num_local_experts: 8 is not allowed", "has no experts"]),
        (changed(LLAMA, layer_types=["linear_attention"] * 32), ["layer_types: 'linear_attention' is not allowed"]),
        (changed(LLAMA, layer_types=["full_attention"]), ["layer_types", "a list of num_hidden_layers = 32"]),
        (changed(CONFIGS["opt-125m"], do_layer_norm_before=False), ["do_layer_norm_before: False", "only", "true"]),
        (changed(CONFIGS["opt-125m"], word_embed_proj_dim=512), ["word_embed_proj_dim: 512", "hidden_size = 768"]),
        (changed(CONFIGS["opt-125m"], max_position_embeddings=...), ["missing key 'max_position_embeddings'"]),
        (changed(CONFIGS["mpt-7b"], attn_config={"attn_type": "grouped_query_attention"}), ["attn_config.attn_type"]),
        (changed(CONFIGS["mixtral-8x7b"], num_experts_per_tok=9), ["experts.top_k: 9 is more than"]),
        (changed(CONFIGS["mixtral-8x7b"], num_experts_per_tok=...), ["missing key 'num_experts_per_tok'"]),
        (changed(CONFIGS["deepseek-v3"], kv_lora_rank=...), ["missing key 'kv_lora_rank'"]),
        (changed(CONFIGS["deepseek-v3"], moe_layer_freq=2), ["moe_layer_freq: 2 is not allowed"]),
        (changed(CONFIGS["deepseek-v3"], first_k_dense_replace=61), ["experts.leading_dense_blocks: 61"]),
        (changed(CONFIGS["qwen3-30b-a3b"], mlp_only_layers=[3, 5]), ["mlp_only_layers: [3, 5] is not allowed"]),
        (changed(CONFIGS["llama-4-scout"]["text_config"], moe_layers=[0, 5]), ["moe_layers: [0, 5] is not allowed"]),
    ],
)
def test_what_cannot_be_read_is_explained(tmp_path: Path, config: dict[str, Any], parts: list[str]) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(config))
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path}: ")
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "is empty"),
        ("{", "not JSON"),
        ("[1]", "must hold one JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ("\0", "is a binary file"),
    ],
)
def test_broken_files_are_explained(tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=part):
        read_config(path)
    with pytest.raises(InputError, match="no such file"):
        read_config(tmp_path / "absent.json")


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from(sorted(CONFIGS)), st.data())
def test_junk_never_breaks_the_reader(name: str, data: st.DataObject) -> None:
    config = copy.deepcopy(CONFIGS[name])
    inner = config.get("text_config", config)
    for key in data.draw(st.lists(st.sampled_from(sorted(inner)), max_size=3)):
        inner[key] = data.draw(_JUNK)
    try:
        assert parameter_count(read_config(config)) > 0
        config_notes(config)
    except InputError as error:
        assert error.message


def test_notes_of_what_is_left_out() -> None:
    deepseek = config_notes(DATA / "deepseek-v3.json")
    assert any("1 block for multi-token prediction" in note and "prediction_blocks = 1" in note for note in deepseek)
    assert any("quantised (fp8)" in note for note in deepseek)
    assert any("8,192 tokens: less than the 163,840" in note for note in deepseek)
    assert any("mxfp4, 4 kinds of modules apart" in note for note in config_notes(CONFIGS["gpt-oss-20b"]))
    assert any("attention_chunk_size" in note for note in config_notes(CONFIGS["llama-4-scout"]))
    assert config_notes(CONFIGS["llama-2-7b"]) == ()
    assert any("more than the 4,096" in note for note in config_notes(CONFIGS["llama-2-7b"], sequence_length=9999))


def test_weights_quantised_by_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert config_notes(tmp_path / "config.json", name="m") == ()
    (tmp_path / "hf_quant_config.json").write_text("{}")
    (note,) = config_notes(tmp_path / "config.json", name="m")
    assert "hf_quant_config.json" in note


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Llama-2-7b-hf", (7e9,)),
        ("Mixtral-8x7B-v0.1", (56e9,)),
        ("Qwen3-30B-A3B", (30e9,)),
        ("opt-1.3b", (1.3e9,)),
        ("pythia-160m", (160e6,)),
        ("Kimi-1T", (1e12,)),
        ("gpt2", ()),
        ("Qwen2.5-7B-1M", (7e9, 1e6)),
        ("phi-3-mini-4k", ()),
        ("gemma-3n-E4B", ()),
    ],
)
def test_sizes_in_names(name: str, sizes: tuple[float, ...]) -> None:
    assert sizes_in(name) == sizes


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_names_of_published_models_are_believed(name: str) -> None:
    assert not any("the name" in note for note in config_notes(CONFIGS[name], name=name))
