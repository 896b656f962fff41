"""Cases from practice that concern vocabularies and their padding."""

from __future__ import annotations

from dataclasses import replace

from codesign_opt.catalog import resolve_workload
from codesign_opt.workloads.parameters import padded_vocabulary, parameter_count


def test_B5_vocabulary_padded_for_each_rank() -> None:
    llama = resolve_workload("llama3-8b")
    assert llama.vocabulary == 128_256
    by_64 = padded_vocabulary(replace(llama, vocabulary_multiple=64), 8)
    assert (by_64, by_64 // 8) == (128_512, 16_064)
    by_128 = padded_vocabulary(replace(llama, vocabulary_multiple=128), 8)
    assert (by_128, by_128 // 8) == (129_024, 16_128)


def test_B9_gpt2_vocabulary() -> None:
    gpt2 = replace(resolve_workload("gpt2"), vocabulary_multiple=128)
    assert gpt2.vocabulary == 50_257
    assert padded_vocabulary(gpt2, 1) == 50_304
    assert padded_vocabulary(gpt2, 8) == 51_200
    # So the parameters that are held change a little with tp.
    held = [parameter_count(replace(gpt2, vocabulary=padded_vocabulary(gpt2, tp))) for tp in (1, 8)]
    assert held[1] - held[0] == (51_200 - 50_304) * 768
    assert parameter_count(gpt2) == 124_439_808
