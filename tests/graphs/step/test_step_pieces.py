"""What a block does in a pass: pieces against the operation list and the block totals of the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from step_cases import StepCase, one, step_cases

from codesign_opt.graphs.step.pieces import Piece, block_passes, condensed, repeated
from codesign_opt.graphs.step.work import BlockWork
from codesign_opt.strategies import Recompute, TpCommunication, TpOverlap
from codesign_opt.tables import Table


@cache
def cases() -> list[StepCase]:
    return [case for case in step_cases(21, 60) if case.strategy.training]


def block_of(case: StepCase) -> BlockWork:
    """The only kind of block."""
    [block] = case.work.kinds
    return block


def seconds(pieces: Iterable[Piece], part: str) -> float:
    return sum(piece.compute for piece in pieces if piece.part == part)


def exposed(pieces: Iterable[Piece], communication: str) -> float:
    return sum(piece.exposed for piece in pieces if piece.communication == communication)


def test_pieces_add_up_to_the_block_totals() -> None:
    for case in cases():
        table, block = case.estimate.model.tables.blocks, block_of(case)
        for suffix, passes in (("_b", block.base), ("_e", block.edge)):
            forward, backward = passes.forward, passes.backward
            wanted = {name: one(getattr(table, name + suffix)) for name in _TOTALS}
            found = {
                "fw_T": seconds(forward, "forward"),
                "exf": exposed(forward, "tp_communication"),
                "re_T": seconds(backward, "recompute"),
                "exr": exposed(backward, "recompute_communication"),
                "exa": exposed(backward, "tp_communication"),
                "gradients": seconds(backward, "backward"),
            }
            wanted["gradients"] = wanted.pop("ag_T") + wanted.pop("wg_T")
            assert found == pytest.approx(wanted, rel=1e-12, abs=1e-300), case


def test_the_halves_of_a_backward_pass_are_the_whole() -> None:
    again = 0
    for case in cases():
        table = case.estimate.model.tables.blocks
        for suffix, passes in (("_b", block_of(case).base), ("_e", block_of(case).edge)):
            halves = (*passes.activation_gradient, *passes.weight_gradient)
            assert _sums(halves) == pytest.approx(_sums(passes.backward), rel=1e-12)
            assert seconds(passes.weight_gradient, "backward") == pytest.approx(one(getattr(table, f"wg_T{suffix}")))
            # What is gathered again beside weight gradients is gathered with them.
            beside = [piece for piece in passes.weight_gradient if piece.communication]
            assert {piece.communication for piece in beside} <= {"recompute_communication"}
            again += bool(beside)
    assert again


def test_bytes_and_link_times_are_those_of_the_block() -> None:
    for case in cases():
        table, block = case.estimate.model.tables.blocks, block_of(case)
        ring = case.strategy.tp_overlap is TpOverlap.RING
        # Everything that communicates is a product then, and a ring keeps one of its tiles.
        share = (case.strategy.tp - 1) / case.strategy.tp if ring else 1.0
        for pieces, size, link in (
            (block.base.forward, table.szf_b, table.lkf_b),
            (block.edge.backward, table.sza_e + table.szr_e, table.lka_e + table.lkr_e),
        ):
            assert sum(piece.size for piece in pieces) == pytest.approx(one(size) * share, rel=1e-12)
            assert sum(piece.link for piece in pieces) == pytest.approx(one(link) * share, rel=1e-12)


def test_no_hidden_transfer_outlasts_its_piece() -> None:
    hidden = [
        (piece, case)
        for case in cases()
        for piece in (*block_of(case).edge.forward, *block_of(case).edge.backward)
        if piece.collective and piece.compute
    ]
    assert {case.strategy.tp_overlap for _, case in hidden} == {TpOverlap.RING, TpOverlap.PIPE}
    for piece, case in hidden:
        assert piece.link <= piece.seconds * (1 + 1e-12), (piece, case)
        parts = case.strategy.tp - (case.strategy.tp_overlap is TpOverlap.RING)
        assert piece.transfers == parts
        transfer = case.work.transfer("tp", piece.collective, piece.size)
        assert piece.link >= (transfer.wire + parts * transfer.latency) * (1 - 1e-12)


def test_what_is_gathered_again_hides_beside_the_weight_gradient() -> None:
    chosen = [case for case in cases() if case.strategy.gather_redo and case.strategy.tp_overlap is not TpOverlap.NONE]
    assert chosen
    for case in chosen:
        again = [p for p in block_of(case).base.backward if p.communication == "recompute_communication"]
        assert again
        assert {(piece.part, piece.collective) for piece in again} == {("backward", "all-gather")}
        assert all(piece.compute for piece in again)


def test_full_recompute_hides_again_what_the_forward_pass_hides() -> None:
    chosen = [
        case
        for case in cases()
        if case.strategy.recompute is Recompute.FULL and case.strategy.tp_overlap is not TpOverlap.NONE
    ]
    assert chosen
    for case in chosen:
        forward = [piece for piece in block_of(case).base.forward if piece.collective]
        again = [p for p in block_of(case).base.backward if p.communication == "recompute_communication"]
        assert again == [replace(piece, part="recompute", communication="recompute_communication") for piece in forward]


def test_collectives_of_a_block() -> None:
    # Row-parallel products end in a reduction, column-parallel ones begin with a gather where activations are split.
    for case in cases():
        if case.strategy.tp == 1:
            assert not any(piece.collective for piece in block_of(case).edge.forward)
            continue
        base, edge = (
            [piece.collective for piece in passes.forward if piece.collective]
            for passes in (block_of(case).base, block_of(case).edge)
        )
        split = ["all-gather", "reduce-scatter"] * 2
        match case.strategy.tp_communication:
            case TpCommunication.ALL_REDUCE:
                assert base == edge == ["all-reduce"] * 2
            case TpCommunication.SEQUENCE_PARALLEL:
                assert base == edge == split
            case TpCommunication.STAGE_BOUNDARY:
                assert (base, edge) == (["all-reduce"] * 2, split)


def test_pieces_without_time_are_left_out_and_plain_ones_joined() -> None:
    passes = block_passes(_operations([("a", 1.0, 0.0), ("b", 0.0, 0.0), ("c", 2.0, 0.0), ("d", 0.0, 3.0)]))
    assert passes.forward == (
        Piece(name="a to c", part="forward", compute=3.0),
        Piece(
            name="d", part="forward", communication="tp_communication", group="tp", collective="all-reduce", size=30.0,
            transfers=1, link=3.0, exposed=3.0,
        ),
    )  # fmt: skip
    backward = block_passes(_operations([("a", 1.0, 0.0), ("b", 2.0, 0.0)])).backward
    assert [piece.name for piece in backward] == ["b to a"]


def test_a_ring_keeps_a_tile() -> None:
    operations = _operations([("product", 2.0, 6.0)], tiles=3, exposed=4.0)
    [pipe] = block_passes(operations, overlap=TpOverlap.PIPE).forward
    [ring] = block_passes(operations, overlap=TpOverlap.RING).forward
    assert (pipe.size, pipe.transfers, pipe.link, pipe.exposed) == (60.0, 3, 6.0, 4.0)
    assert (ring.size, ring.transfers, ring.link, ring.exposed) == (40.0, 2, 4.0, 4.0)


def test_condensed_pieces_do_the_same_work() -> None:
    for case in cases():
        for pieces in (block_of(case).edge.forward, block_of(case).edge.backward):
            few = condensed(pieces)
            assert _sums(few) == pytest.approx(_sums(pieces), rel=1e-12)
            kinds = [(piece.part, piece.communication, piece.collective, piece.compute > 0) for piece in few]
            assert len(set(kinds)) == len(kinds)


def test_repeated_pieces() -> None:
    piece = Piece(
        name="x", part="forward", compute=1.0, communication="tp_communication", group="tp", collective="all-gather",
        size=2.0, transfers=3, link=4.0, exposed=5.0,
    )  # fmt: skip
    threefold = replace(piece, compute=3.0, size=6.0, transfers=9, link=12.0, exposed=15.0)
    assert repeated([piece], 3) == [threefold]
    assert repeated([piece], 0) == []


_TOTALS = ("fw_T", "re_T", "ag_T", "wg_T", "exf", "exa", "exr")


def _sums(pieces: Sequence[Piece]) -> dict[str, float]:
    sums = {name: sum(getattr(piece, name) for piece in pieces) for name in ("compute", "size", "link", "exposed")}
    for piece in pieces:
        for part, value in ((piece.part, piece.compute), (piece.communication, piece.exposed)):
            sums[part] = sums.get(part, 0.0) + value
    return sums


def _operations(
    rows: Sequence[tuple[str, float, float]], *, tiles: int = 1, exposed: float | None = None
) -> list[dict[str, object]]:
    """Operations by name, seconds of computation and of an all-reduce of ten bytes a second, in every direction."""
    names, compute, link = (list(column) for column in zip(*rows, strict=True))
    columns: dict[str, list[object]] = {
        "name": names,
        "group": ["tp"] * len(rows),
        "tiles": [tiles] * len(rows),
        "recomputed": [False] * len(rows),
        "recommunicated": [False] * len(rows),
    }
    for stage in ("forward", "activation_gradient"):
        columns[f"base_{stage}_time"] = compute
    columns["base_weight_gradient_time"] = [0.0] * len(rows)
    for what in ("forward", "backward"):
        columns[f"base_{what}_collective"] = ["all-reduce" if time else "" for time in link]
        columns[f"base_{what}_communication_bytes"] = [10 * time for time in link]
        columns[f"base_{what}_communication_time"] = link
        columns[f"base_{what}_communication_exposed_time"] = [time if exposed is None else exposed for time in link]
    return list(Table(columns, {}).to_dicts())
