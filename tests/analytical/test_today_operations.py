"""Flop and bytes of the operations of today's models, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from today_cases import (
    CLASSIC,
    DENSE,
    FE,
    FS,
    LATENT,
    PADDED,
    ROUTED,
    SHARED,
    A,
    D,
    E,
    F,
    G,
    H,
    K,
    S,
    forward_flops,
    judged,
    machine,
    number,
    operations,
    sequence_parallel,
    strategy,
)

from codesign_opt.analytical.parts import Part
from codesign_opt.strategies import AttentionKernel, CpExchange, ProductPrecision, Recompute, Strategy, TpCommunication
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import QueryKeyNorm

B = 2
M = B * S
"""Tokens of a microbatch."""


class TestProducts:
    """2 · rows · width in · width out, on one processor of each split."""

    PRODUCTS = (
        "AttnBlock_Query",
        "AttnBlock_Key",
        "AttnBlock_Value",
        "AttnBlock_MLP",
        "MlpBlock_Mlp1",
        "MlpBlock_Mlp2",
    )

    @pytest.mark.parametrize(("tp", "cp"), [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 4)])
    def test_grouped_heads_and_a_gated_mlp(self, tp: int, cp: int) -> None:
        rows = 2 * M / cp
        queries, keys = A * D / tp, G * D / tp
        expected = [H * queries, H * keys, H * keys, queries * H, H * 2 * F / tp, F / tp * H]
        found = forward_flops(DENSE, sequence_parallel(tp=tp, cp=cp), *self.PRODUCTS)
        assert found == [rows * weights for weights in expected]

    def test_more_processors_than_key_and_value_heads_repeat_them(self) -> None:
        found = forward_flops(DENSE, sequence_parallel(tp=8), "AttnBlock_Query", "AttnBlock_Key")
        # One of eight query heads, and one of four key heads on two processors each.
        assert found == [2 * M * H * D, 2 * M * H * D]

    def test_weight_bytes_of_a_block(self) -> None:
        # Norms have one weight an element in RMSNorm, and are on every processor.
        attention, mlp, norms = 2 * H * (A + G) * D, 3 * H * F, 2 * H
        for tp in (1, 2, 4):
            spaces = judged(DENSE, sequence_parallel(tp=tp)).model.tables.spaces
            assert number(spaces.spW) == 2 * ((attention + mlp) / tp + norms)

    def test_norm_of_queries_and_keys(self) -> None:
        for kind, width in ((QueryKeyNorm.HEAD, 2 * D), (QueryKeyNorm.WIDTH, (A + G) * D)):
            for rms, each in ((True, 1), (False, 2)):
                with_norm = replace(DENSE, query_key_norm=kind, root_mean_square_norm=rms)
                without = replace(with_norm, query_key_norm=QueryKeyNorm.NONE)
                weights = [number(judged(one, strategy()).model.tables.spaces.spW) for one in (with_norm, without)]
                assert weights[0] - weights[1] == 2 * each * width
                assert operations(with_norm, strategy())["AttnBlock_QueryKeyNorm"]["inputs"] == M * (A + G) * D

    @pytest.mark.parametrize("tp", [1, 2, 4])
    def test_latent_attention(self, tp: int) -> None:
        names = ("AttnBlock_Query_Down", "AttnBlock_Query_Up", "AttnBlock_KV_Down", "AttnBlock_KV_Up", "AttnBlock_MLP")
        # Ranks 24 and 16, a rotary part of 4, values of 6; the way down is the same on all processors.
        expected = [H * 24, 24 * A * (D + 4) / tp, H * (16 + 4), 16 * A * (D + 6) / tp, A * 6 / tp * H]
        assert forward_flops(LATENT, sequence_parallel(tp=tp), *names) == [2 * M * weights for weights in expected]
        # Keys have 12 elements and values 6; a query meets half of the sequence.
        flash = operations(LATENT, sequence_parallel(tp=tp))["AttnBlock_Flash"]
        pairs = B * A / tp * S * S / 2
        assert flash["forward_flops"] == 2 * pairs * (12 + 6)
        assert flash["activation_gradient_flops"] == 2 * pairs * (3 * 12 + 2 * 6)


class TestExperts:
    """Every token visits two of eight experts; tokens are split by tp (sequence parallelism) and cp."""

    NAMES = ("MlpBlock_Router", "MlpBlock_Expert1", "MlpBlock_Expert2")

    @pytest.mark.parametrize(
        ("tp", "cp", "dp", "ep", "etp"),
        [(1, 1, 1, 1, 1), (1, 1, 4, 4, 1), (2, 2, 1, 4, 1), (4, 1, 2, 2, 4), (4, 1, 1, 1, 2)],
    )
    def test_flop_and_weights(self, tp: int, cp: int, dp: int, ep: int, etp: int) -> None:
        chosen = sequence_parallel(tp=tp, cp=cp, dp=dp, ep=ep, etp=etp)
        tokens = M / (tp * cp)
        # A processor gets as many visits as it sends, and those of the others that share its experts.
        visits = tokens * K * etp
        assert forward_flops(ROUTED, chosen, *self.NAMES) == [
            2 * tokens * H * E,
            2 * visits * H * 2 * FE / etp,
            2 * visits * FE / etp * H,
        ]
        spaces = judged(ROUTED, chosen).model.tables.spaces
        assert number(spaces.spX) == 2 * (E / ep) * 3 * H * FE / etp
        assert number(spaces.spW) - number(spaces.spX) == 2 * (2 * H * (A + G) * D / tp + 2 * H + H * E)

    def test_shared_experts_are_a_dense_mlp(self) -> None:
        names = ("MlpBlock_Shared_Mlp1", "MlpBlock_Shared_Mlp2")
        assert forward_flops(SHARED, sequence_parallel(tp=2), *names) == [2 * M * H * FS, 2 * M * FS / 2 * H]

    @pytest.mark.parametrize(("capacity", "imbalance", "crowding"), [(1.25, 1.0, 1.25), (None, 1.5, 1.5)])
    def test_the_busiest_processor_decides(self, capacity: float | None, imbalance: float, crowding: float) -> None:
        assert ROUTED.experts is not None
        experts = replace(ROUTED.experts, capacity_factor=capacity, imbalance=imbalance)
        [found] = forward_flops(replace(ROUTED, experts=experts), strategy(dp=4, ep=4), "MlpBlock_Expert2")
        assert found == pytest.approx(crowding * 2 * M * K * FE * H)

    def test_weights_of_all_experts_of_a_processor_are_read(self) -> None:
        found = operations(ROUTED, strategy(dp=4, ep=4))["MlpBlock_Expert1"]
        visits, weights = M * K, E / 4 * H * 2 * FE
        assert found["forward_bytes"] == 2 * (visits * H + visits * 2 * FE + weights)


class TestAttentionInOnePass:
    """Two products forward, five backward, one of which makes the scores again (arXiv 2205.14135)."""

    def test_causal(self) -> None:
        flash = operations(DENSE, strategy())["AttnBlock_Flash"]
        pairs = B * A * S * S / 2
        assert flash["forward_flops"] == 2 * (2 * pairs * D)
        assert flash["activation_gradient_flops"] == 5 * (2 * pairs * D)
        assert flash["weight_gradient_flops"] == 0

    def test_without_causality(self) -> None:
        assert forward_flops(replace(DENSE, causal=False), strategy(), "AttnBlock_Flash") == [4 * B * A * S * S * D]

    @pytest.mark.parametrize("window", [1, 8, 31, 32, 100])
    def test_window(self, window: int) -> None:
        # Row i of the scores has min(i, window) entries; the closed form counts half of the diagonal.
        width = min(window, S)
        entries = sum(min(row, width) for row in range(1, S + 1)) - width / 2
        windowed = replace(DENSE, window=window, windowed_blocks=4)
        [found] = forward_flops(windowed, strategy(), "AttnBlock_Flash")
        assert found == pytest.approx(4 * B * A * entries * D)

    def test_bytes(self) -> None:
        flash = operations(DENSE, strategy())["AttnBlock_Flash"]
        queries, keys, outputs, statistics = M * A * D, 2 * M * G * D, M * A * D, M * A
        assert flash["forward_bytes"] == 2 * (queries + keys + outputs) + 4 * statistics
        # Backward it reads the same and the gradient of the output, and writes those of queries, keys and values.
        assert flash["activation_gradient_bytes"] == 2 * (2 * queries + 2 * keys + 2 * outputs) + 4 * statistics

    @pytest.mark.parametrize("exchange", list(CpExchange))
    def test_context_parallelism_shares_the_work_and_gathers_keys(self, exchange: CpExchange) -> None:
        flash = operations(DENSE, strategy(cp=2, cp_exchange=exchange))["AttnBlock_Flash"]
        assert flash["forward_flops"] == 4 * B * A * S * S / 2 * D / 2
        own_keys = 2 * M / 2 * G * D
        read = own_keys if exchange is CpExchange.ALL_TO_ALL else 2 * own_keys
        assert flash["forward_bytes"] == 2 * (2 * M / 2 * A * D + read) + 4 * M / 2 * A


def stored(workload: Workload, chosen: Strategy) -> float:
    """Bytes that a block keeps from forward to backward pass."""
    return number(judged(workload, chosen).model.tables.spaces.sto)


class TestKeptActivations:
    """In units of one byte for each element of the residual stream, sbh (arXiv 2205.05198)."""

    SBH = S * B * H
    STATISTICS = 4 * M * A
    SCORES = 5 * A * S / H

    @staticmethod
    def classic(**changes: object) -> Strategy:
        return strategy(fused_activation=False, **changes)

    def test_published_formulas(self) -> None:
        unfused = {"attention_kernel": AttentionKernel.UNFUSED}
        assert stored(CLASSIC, self.classic(**unfused)) == (34 + self.SCORES) * self.SBH
        for tp in (2, 4):
            plain = stored(CLASSIC, self.classic(tp=tp, **unfused))
            assert plain == pytest.approx((10 + 24 / tp + self.SCORES / tp) * self.SBH)
            split = sequence_parallel(tp=tp, fused_activation=False, **unfused)
            assert stored(CLASSIC, split) == pytest.approx((34 + self.SCORES) / tp * self.SBH)

    def test_one_pass_keeps_no_scores(self) -> None:
        assert stored(CLASSIC, self.classic()) == 34 * self.SBH + self.STATISTICS
        for tp in (2, 4):
            statistics = self.STATISTICS / tp
            assert stored(CLASSIC, self.classic(tp=tp)) == pytest.approx((10 + 24 / tp) * self.SBH + statistics)
            split = sequence_parallel(tp=tp, fused_activation=False)
            assert stored(CLASSIC, split) == pytest.approx(34 / tp * self.SBH + statistics)

    def test_without_dropout(self) -> None:
        # Two masks of one byte an element, behind attention and MLP.
        found = stored(replace(CLASSIC, dropout=False), self.classic())
        assert found == (34 - 2) * self.SBH + self.STATISTICS

    def test_grouped_heads_and_gate(self) -> None:
        # Inputs of two norms, of attention and of the MLP; queries and output; keys and values; gate, other, product.
        sbh = 4 * 2 + 2 * 2 + 2 * 2 * G / A + 3 * 2 * F / H
        assert stored(DENSE, strategy()) == pytest.approx(sbh * self.SBH + self.STATISTICS)
        unfused = strategy(fused_activation=False)
        assert stored(DENSE, unfused) == pytest.approx((sbh + 2 * F / H) * self.SBH + self.STATISTICS)

    def test_context_parallelism_keeps_what_a_processor_made(self) -> None:
        whole = stored(DENSE, strategy())
        for exchange in (CpExchange.RING, CpExchange.ALL_GATHER):
            assert stored(DENSE, strategy(cp=2, cp_exchange=exchange)) == whole / 2
        # Attention and the product behind it have the output in different parts: both keep theirs.
        by_heads = strategy(cp=2, cp_exchange=CpExchange.ALL_TO_ALL)
        assert stored(DENSE, by_heads) == (whole + 2 * self.SBH) / 2
        unfused = strategy(attention_kernel=AttentionKernel.UNFUSED)
        for exchange in (CpExchange.ALL_GATHER, CpExchange.ALL_TO_ALL):
            assert (
                stored(DENSE, replace(unfused, processors=2, cp=2, cp_exchange=exchange)) == stored(DENSE, unfused) / 2
            )

    def test_experts(self) -> None:
        # Instead of the MLP's input the router's; scores; for each visit the input, gate, other and product.
        visits = M * K
        mlp = 2 * M * H + 3 * 2 * M * F
        experts = 2 * M * H + 2 * M * E + 2 * visits * (H + 3 * FE)
        assert stored(ROUTED, strategy()) - stored(DENSE, strategy()) == experts - mlp
        # Shared experts keep that input as well as the router would.
        assert stored(SHARED, strategy()) - stored(ROUTED, strategy()) == 3 * 2 * M * FS

    def test_full_recompute_keeps_the_input_of_a_block(self) -> None:
        for tp in (1, 2):
            spaces = judged(DENSE, sequence_parallel_full(tp)).model.tables.spaces
            assert (number(spaces.sto), number(spaces.ckp)) == (0, 2 * M * H / tp)


def sequence_parallel_full(tp: int) -> Strategy:
    return strategy(tp=tp, tp_communication=TpCommunication.SEQUENCE_PARALLEL, recompute=Recompute.FULL)


class TestEnds:
    """Embedding, output projection and loss, which split a padded vocabulary of 100."""

    @pytest.mark.parametrize(("tp", "rows"), [(1, PADDED), (2, 112 / 2), (4, 128 / 4)])
    def test_products_and_weights(self, tp: int, rows: float) -> None:
        chosen = sequence_parallel(tp=tp)
        first = operations(DENSE, chosen, part=Part.FIRST)["Embedding"]
        assert first["forward_flops"] == 0
        assert first["weight_memory"] == 2 * rows * H
        last = operations(DENSE, chosen, part=Part.LAST)
        assert last["Head_Projection"]["forward_flops"] == 2 * M * H * rows
        assert last["Head_Projection"]["weight_memory"] == 2 * H * rows
        # Scores as they come, and in 32 bits.
        assert last["Head_Loss"]["activation_memory"] == (2 + 4) * M * rows

    def test_learned_positions(self) -> None:
        first = operations(replace(DENSE, learned_positions=40), strategy(tp=2), part=Part.FIRST)["Embedding"]
        assert first["weight_memory"] == 2 * (112 / 2 + 40) * H

    def test_collectives_of_both(self) -> None:
        for chosen, forward in ((sequence_parallel(tp=2), "reduce-scatter"), (strategy(tp=2), "all-reduce")):
            row = operations(DENSE, chosen, part=Part.FIRST)["Embedding_G"]
            assert (row["base_forward_collective"], row["base_forward_communication_bytes"]) == (forward, 2 * M * H)

    def test_prediction_blocks_pass_the_projection_once_more(self) -> None:
        [one, two] = [
            operations(replace(DENSE, prediction_blocks=blocks), strategy(), part=Part.LAST) for blocks in (0, 1)
        ]
        projections = [last["Head_Projection"] for last in (one, two)]
        assert projections[1]["forward_flops"] == 2 * projections[0]["forward_flops"]
        assert projections[1]["weight_memory"] == projections[0]["weight_memory"]
        assert two["Head_Join"]["forward_flops"] == 2 * M * 2 * H * H


class TestEightBits:
    """Products at 8 bits: casts before them, half the time on an engine of twice the rate, inputs of one byte."""

    CHOSEN = strategy(product_precision=ProductPrecision.FLOAT8)

    def test_bytes(self) -> None:
        inputs, outputs, weights = M * F, M * H, F * H
        found = operations(DENSE, self.CHOSEN, machine(matrix8=1e30))["MlpBlock_Mlp2"]
        # Read in 16 bits, written and read again in 8.
        assert found["forward_bytes"] == (2 + 1 + 1) * (inputs + weights) + 2 * outputs
        assert found["activation_gradient_bytes"] == (2 + 1 + 1) * outputs + weights + 2 * inputs
        assert found["weight_gradient_bytes"] == inputs + outputs + 2 * weights
        assert found["activation_memory"] == inputs

    def test_time(self) -> None:
        system = machine(matrix=1e9, matrix8=2e9)
        same, eight = (judged(DENSE, one, system).model.tables.blocks for one in (strategy(), self.CHOSEN))
        flash = 4 * B * A * S * S / 2 * D
        products = 2 * M * (2 * H * (A + G) * D + 3 * H * F)
        assert number(same.fw_T_b) == pytest.approx((products + flash) / 1e9)
        assert number(eight.fw_T_b) == pytest.approx((products / 2 + flash) / 1e9)

    def test_whole_sequence_of_a_block(self) -> None:
        assert np.isclose(
            stored(DENSE, strategy()) - stored(DENSE, self.CHOSEN),
            # The inputs of both products of the MLP and of the output; those of queries and keys stay.
            M * H + M * F + M * A * D,
        )
