"""The shipped models of today: where their numbers come from, and what they are."""

from __future__ import annotations

import tomllib

import pytest

from codesign_opt.catalog import describe, names, resolve_workload, text, workload_notes
from codesign_opt.workloads.files import workload_from_dict

TODAY = (
    "deepseek-v3",
    "gemma2-9b",
    "glm-4.5",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "gpt2",
    "kimi-k2",
    "llama2-70b",
    "llama2-7b",
    "llama3-405b",
    "llama3-70b",
    "llama3-8b",
    "llama4-maverick",
    "llama4-scout",
    "mistral-7b",
    "mixtral-8x22b",
    "mixtral-8x7b",
    "mpt-7b",
    "qwen2.5-72b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-4b",
)


def test_they_are_shipped() -> None:
    assert set(TODAY) == {name for name in names("workloads") if resolve_workload(name).vocabulary}


@pytest.mark.parametrize("name", TODAY)
def test_each_file_names_its_source_and_itself(name: str) -> None:
    content = tomllib.loads(text("workloads", name))
    assert content["name"] == name
    assert content["source"].startswith("config.json of ")
    assert workload_from_dict(content, where=name) == resolve_workload(name)
    assert workload_notes(name) == ()


def test_sequences_are_as_long_as_trained() -> None:
    lengths = {name: resolve_workload(name).sequence_length for name in TODAY}
    assert {name for name, length in lengths.items() if length == 8192} == {"llama3-8b", "llama3-70b", "llama3-405b"}
    assert lengths["gpt2"] == 1024
    assert lengths["mpt-7b"] == 2048


def test_a_mixture_is_described_with_what_a_token_uses() -> None:
    assert describe("workloads", "mixtral-8x7b").startswith("46.7 G parameters, 12.88 G for each token: 32 blocks")
    assert describe("workloads", "llama3-8b").startswith("8.03 G parameters: 32 blocks")
