"""Times of the operations of a block (spec analytical-model section 6), as (operation, block key) arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.operations import Kind, Operation
from codesign_opt.analytical.peers import Peer, peer_times
from codesign_opt.analytical.shapes import BlockShapes
from codesign_opt.strategies import TpOverlap
from codesign_opt.strategies.table import OPTION_CODES

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class OperationColumns:
    """The fields of `Operation` stacked: every attribute is an (operation, block key) array, but for `peers`: the rows
    that exchange with other processors than those of tensor parallelism, and what.
    """

    columns: Mapping[str, Array]
    matrix: Array
    product: Array
    expert: Array
    exchanges: Array
    collective: Array
    overlapped: Array
    row_split: Array
    peers: tuple[tuple[int, Peer], ...]

    @classmethod
    def stack(cls, operations: Sequence[Operation], keys: int) -> OperationColumns:
        """Stack operations over `keys` block keys; the flags that concern a whole operation are (operation, 1)."""

        def flags(values: list[bool]) -> Array:
            return np.array(values)[:, np.newaxis]

        return cls(
            {name: _stack(operations, name, keys) for name in _COLUMNS},
            flags([operation.matrix for operation in operations]),
            flags([operation.product for operation in operations]),
            flags([operation.expert for operation in operations]),
            flags([operation.kind in (Kind.COLLECTIVE, Kind.OVERLAPPED_PRODUCT) for operation in operations]),
            flags([operation.kind is Kind.COLLECTIVE for operation in operations]),
            flags([operation.kind is Kind.OVERLAPPED_PRODUCT for operation in operations]),
            flags([operation.row_split for operation in operations]),
            tuple((row, operation.peer) for row, operation in enumerate(operations) if operation.peer is not None),
        )

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]


def over_operations(values: Array) -> Array:
    """Sum over the operations of (operation, block key) values, added in order whatever the number of keys.

    NumPy's own sum adds a single column in pairs, so that a key alone would differ in its last bit from the same key
    among others.
    """
    total: Array = reduce(np.add, values)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Flop and memory time of the forward (f), activation-gradient (a) and weight-gradient (w) stages."""

    ff: Array
    fm: Array
    af: Array
    am: Array
    wf: Array
    wm: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeTimes:
    """Communication and processing of all operations in one kind of block, base or edge.

    Attributes:
        qf, qa, qr: Bytes on the link: forward, activation gradient, re-communication.
        lf, la, lr: Link time of the same, seconds.
        Tf, Ta, Tw: Processing time of forward, activation-gradient and weight-gradient stages.
        Ef, Ea, Er: Exposed communication time.
        Ew: Exposed re-communication time as the per-operation list reports it; `Er` unless erratum E4 is reproduced.
    """

    qf: Array
    qa: Array
    qr: Array
    lf: Array
    la: Array
    lr: Array
    Tf: Array
    Ta: Array
    Tw: Array
    Ef: Array
    Ea: Array
    Er: Array
    Ew: Array


def stage_times(operations: OperationColumns, s: BlockShapes, hardware: Hardware) -> StageTimes:
    """Compute and memory times of every operation, without communication."""
    rows, products = operations.matrix[:, 0], operations.product[:, 0]
    eight_bit = s.eight_bit if s.eight_bit.any() else None
    heads = operations["head_size"]
    fused = np.flatnonzero(heads.any(axis=1))
    parts = operations["parts"] if np.any(operations["parts"] != 1) else None

    def flop_time(flops: Array, *, backward: bool = False) -> Array:
        result = np.empty_like(flops)
        flops = flops if parts is None else flops / parts
        result[rows] = hardware.matrix_time(flops[rows])
        result[~rows] = hardware.vector_time(flops[~rows])
        if eight_bit is not None:
            result[products] = np.where(eight_bit, hardware.eight_bit_time(flops[products]), result[products])
        if parts is not None:
            result = parts * result
        if fused.size:
            result[fused] = hardware.attention_time(flops[fused], heads[fused], backward=backward)
        return result

    return StageTimes(
        ff=flop_time(operations["Ff"]),
        fm=hardware.memory_time(operations["Yf"]),
        af=flop_time(operations["Fa"], backward=True),
        am=hardware.memory_time(operations["Ya"]),
        wf=flop_time(operations["Fw"]),
        wm=hardware.memory_time(operations["Yw"]),
    )


def exchange_times(
    operations: OperationColumns,
    stages: StageTimes,
    s: BlockShapes,
    keys: Mapping[str, Array],
    hardware: Hardware,
    reproduce: Set[Erratum],
) -> tuple[ExchangeTimes, ExchangeTimes]:
    """Communication and processing times in a base block and in an edge block."""
    split_base = s.sequence_parallel
    split_edge = s.sequence_parallel | s.boundary
    wire = _wire(operations, s, keys, hardware, reproduce)
    base = _exchange(operations, stages, s, keys, hardware, wire, split_base, split_base, reproduce)
    _add_peers(base, operations, keys, hardware)
    if not s.boundary.any():
        return base, base
    split_hidden = split_base if Erratum.E3 in reproduce else split_edge
    edge = _exchange(operations, stages, s, keys, hardware, wire, split_edge, split_hidden, reproduce)
    _add_peers(edge, operations, keys, hardware)
    return base, edge


def _add_peers(
    times: ExchangeTimes, operations: OperationColumns, keys: Mapping[str, Array], hardware: Hardware
) -> None:
    """Fill the rows of context- and expert-parallel exchanges, which nothing else fills."""
    for row, peer in operations.peers:
        found = peer_times(peer, keys, hardware, times.Tf[row - 1], times.Ta[row - 1])
        again = operations["recommunicated"][row]
        times.qf[row], times.lf[row], times.Ef[row] = found.qf, found.lf, found.Ef
        times.qa[row], times.la[row], times.Ea[row] = found.qa, found.la, found.Ea
        times.qr[row], times.lr[row] = again * found.qf, again * found.lf
        times.Er[row] = again * found.Ef
        times.Ew[row] = times.Er[row]


@dataclass(frozen=True, slots=True)
class _Wire:
    """Wire time of each collective, and the time to touch its buffers and to add."""

    Q: Array
    reduce_scatter: Array
    all_gather: Array
    all_reduce: Array
    touch_forward: Array
    touch_backward: Array
    touch_again: Array
    beside_wire: bool


def _wire(
    operations: OperationColumns,
    s: BlockShapes,
    keys: Mapping[str, Array],
    hardware: Hardware,
    reproduce: Set[Erratum],
) -> _Wire:
    Q = np.where(s.t > 1, s.e * s.A, 0.0)
    tier = keys["tp_tier"]
    tile_latency = np.where(operations.overlapped, (s.t - 1) * hardware.latency(tier), 0.0)
    if Erratum.E23 in reproduce:
        tile_latency = np.zeros_like(tile_latency)
    times = {
        name: hardware.transfer_time(tier, name, Q, s.t, keys["tp_inner"]) + tile_latency
        for name in ("reduce_scatter", "all_gather", "all_reduce")
    }
    touched, added = _touch_times(operations, s, hardware, 2 * Q)
    beside_wire = Erratum.E17E in reproduce
    if beside_wire:
        full = {stage: np.where(operations.collective, touched[stage], added[stage]) for stage in touched}
        return _Wire(Q, **times, touch_forward=full["f"], touch_backward=full["a"],
                     touch_again=np.zeros_like(full["f"]), beside_wire=True)  # fmt: skip
    return _Wire(Q, **times, touch_forward=touched["f"], touch_backward=touched["a"],
                 touch_again=touched["f"], beside_wire=False)  # fmt: skip


def _touch_times(
    operations: OperationColumns, s: BlockShapes, hardware: Hardware, Y: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Time to touch Y bytes of buffers and to add, and to add only, of the forward (f) and backward (a) stage."""
    zero = np.zeros((len(operations.row_split), len(Y)))
    touched, added = {}, {}
    for stage, reduces in (("f", operations.row_split), ("a", ~operations.row_split)):
        adding = operations.exchanges & reduces
        added[stage] = hardware.vector_time(np.where(adding, s.reduction_flops, zero))
        moving = operations.exchanges & (reduces | s.sequence_parallel)
        touched[stage] = hardware.combine(added[stage], hardware.memory_time(np.where(moving, Y, zero)))
    return touched, added


def _exchange(
    operations: OperationColumns,
    stages: StageTimes,
    s: BlockShapes,
    keys: Mapping[str, Array],
    hardware: Hardware,
    wire: _Wire,
    split: Array,
    split_hidden: Array,
    reproduce: Set[Erratum],
) -> ExchangeTimes:
    """Times where `split` says which keys reduce-scatter and gather; `split_hidden` says it for overlapped products."""
    Z, RM = operations.row_split, operations["recommunicated"]
    communicates = operations.exchanges & (s.t > 1)

    def link(split: Array) -> tuple[Array, Array, Array]:
        forward = communicates & (Z | split)
        backward = communicates & (~Z | split)
        reduced = np.where(split, wire.reduce_scatter, wire.all_reduce)
        wf = np.where(forward, np.where(Z, reduced, wire.all_gather), 0.0)
        wa = np.where(backward, np.where(Z, wire.all_gather, reduced), 0.0)
        again = np.where(RM, wf, 0.0)
        if wire.beside_wire:
            return wf + wire.touch_forward, wa + wire.touch_backward, again
        return (
            np.maximum(wf, wire.touch_forward),
            np.maximum(wa, wire.touch_backward),
            np.where(RM & forward, np.maximum(wf, wire.touch_again), 0.0),
        )

    lf, la, lr = link(split)
    hf, ha, hr = (lf, la, lr) if split_hidden is split else link(split_hidden)
    charged_twice = Erratum.E4 in reproduce
    overlap = _overlap(s, keys, hardware, reproduce)
    Tf, Ef = _stage(operations, overlap, hardware, stages.ff, stages.fm, hf, lf)
    Ta, Ea = _stage(operations, overlap, hardware, stages.af, stages.am, ha, la)
    beside_weight = hr if charged_twice else np.where(s.full, 0.0, hr)
    Tw, Ew = _stage(operations, overlap, hardware, stages.wf, stages.wm, beside_weight, lr)
    of_forward = np.where(RM, Ef, 0.0)
    of_product = of_forward if charged_twice else np.where(s.full, of_forward, Ew)
    Er = np.where(operations.overlapped, of_product, np.where(operations.collective, lr, 0.0))
    return ExchangeTimes(
        qf=np.where(communicates & (Z | split), wire.Q, 0.0),
        qa=np.where(communicates & (~Z | split), wire.Q, 0.0),
        qr=np.where(communicates & (Z | split) & RM, wire.Q, 0.0),
        lf=lf, la=la, lr=lr, Tf=Tf, Ta=Ta, Tw=Tw, Ef=Ef, Ea=Ea,
        Er=Er, Ew=Ew if charged_twice else Er,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Overlap:
    """How transfers hide behind t tiles of a product, of which t - 1 run beside communication."""

    t: Array
    U: Array
    pipe: Array
    flop_only: Array
    published: bool
    pipe_in_processing: bool


def _overlap(s: BlockShapes, keys: Mapping[str, Array], hardware: Hardware, reproduce: Set[Erratum]) -> _Overlap:
    published = Erratum.E26 in reproduce
    return _Overlap(
        s.t,
        hardware.processor_usage(keys["tp_tier"]),
        keys["tp_overlap"] == OPTION_CODES[TpOverlap.PIPE],
        ~hardware.roofline | published,
        published,
        Erratum.E2 in reproduce,
    )


def _stage(
    operations: OperationColumns, o: _Overlap, hardware: Hardware, z: Array, y: Array, n: Array, exposed: Array
) -> tuple[Array, Array]:
    """Processing time T and exposed time E of one stage; z flop time, y memory time, n hidden link time."""
    T = hardware.combine(z, y)
    if not operations.overlapped.any():
        return np.where(operations.collective, 0.0, T), np.where(operations.collective, exposed, 0.0)
    t, U = o.t, o.U
    slowed = z / (1 - U)
    # A tile takes as long as its slower part, and the transfer beside it takes its share of compute meanwhile.
    beside = T / t + (t - 1) / t * hardware.combine(np.minimum(z + n * U, slowed), y)
    surplus = n - np.where(o.flop_only, slowed, hardware.combine(slowed, y))
    if o.published:
        beside = np.where(surplus > 0, beside, T + (t - 1) / t * n * U)
    tile = np.where(o.pipe, n / t, 0.0)
    if o.pipe_in_processing:
        beside = beside + tile
    hides = operations.overlapped & (n != 0)
    E = np.where(hides, np.maximum(surplus, 0.0) * (t - 1) / t + tile, 0.0)
    return (
        np.where(operations.collective, 0.0, np.where(hides, beside, T)),
        np.where(operations.collective, exposed, E),
    )


_COLUMNS = (
    "head_size", "parts", "Ff", "Fa", "Fw", "I", "O", "K", "G", "weights", "Yf", "Ya", "Yw", "Kb", "Gb", "stored",
    "recomputed", "recommunicated", "shared", "output_dropped",
)  # fmt: skip

_FLAGS = frozenset({"recomputed", "recommunicated", "shared", "output_dropped"})


def _stack(operations: Sequence[Operation], name: str, keys: int) -> Array:
    result: Array = np.empty((len(operations), keys), dtype=np.bool_ if name in _FLAGS else np.float64)
    for row, operation in enumerate(operations):
        result[row] = getattr(operation, name)
    return result
