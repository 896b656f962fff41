"""The operation classes of a transformer block (spec analytical-model section 5.1).

Each function returns one operation as columns over block keys. Symbols are the specification's: F flop, Y bytes touched
in memory tier 1, I and O input and output elements, K elements kept for the backward pass, G gradient elements; suffix
f forward, a activation gradient, w weight gradient; Kb and Gb bytes of activation and activation-gradient memory.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.peers import Peer
from codesign_opt.analytical.shapes import BlockShapes
from codesign_opt.strategies import CpExchange

Array = NDArray[Any]


class Kind(Enum):
    """How an operation takes part in communication: tensor-parallel, or (`PEER`) context- or expert-parallel."""

    LOCAL = 0
    COLLECTIVE = 1
    OVERLAPPED_PRODUCT = 2
    PEER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the block, as columns over block keys.

    Attributes:
        matrix: Runs on the matrix engine (the vector engine otherwise).
        row_split: The communication reduces after a row-split product (Z = 1); before a column-split one otherwise.
        product: A product with weights, which may compute in 8 bits.
        weights: Weight elements; `expert` where they are those of routed experts, which fewer processors share.
        peer: What a `PEER` exchanges.
        head_size: Head size of attention in one pass; 0 for any other operation.
        parts: Equal products that the operation consists of: as efficient as one of them.
        stored: Bytes kept from forward to backward pass, before `output_dropped`.
        recomputed, recommunicated: Redone in the backward pass (RC, RM).
        shared: The activation shares a buffer counted elsewhere (RU).
        output_dropped: The output is not stored (OS = 0).
    """

    name: str
    matrix: bool = False
    product: bool = False
    expert: bool = False
    peer: Peer | None = None
    kind: Kind = Kind.LOCAL
    row_split: bool = False
    head_size: Array | float = 0.0
    parts: Array | float = 1.0
    Ff: Array | float = 0.0
    Fa: Array | float = 0.0
    Fw: Array | float = 0.0
    I: Array | float = 0.0
    O: Array | float = 0.0
    K: Array | float = 0.0
    G: Array | float = 0.0
    weights: Array | float = 0.0
    Yf: Array | float = 0.0
    Ya: Array | float = 0.0
    Yw: Array | float = 0.0
    Kb: Array | float = 0.0
    Gb: Array | float = 0.0
    stored: Array | float = 0.0
    recomputed: Array | bool = False
    recommunicated: Array | bool = False
    shared: bool = False
    output_dropped: Array | bool = False

    def where(
        self,
        *,
        recomputed: Array | bool = False,
        recommunicated: Array | bool = False,
        shared: bool = False,
        kept: Array | bool = True,
        output_dropped: Array | bool = False,
    ) -> Operation:
        """The operation with its flags set; what is not `kept` is not stored."""
        return replace(
            self,
            recomputed=recomputed,
            recommunicated=recommunicated,
            shared=shared,
            output_dropped=output_dropped,
            stored=np.where(kept, self.stored, 0.0),
        )


def fork(s: BlockShapes, name: str, n: Array, consumers: int) -> Operation:
    """One activation read by several consumers; its gradients are added."""
    return Operation(name=name, Fa=consumers * n, I=n, K=n, Ya=s.e * n * (consumers + 1), Kb=s.e * n, stored=s.e * n)


def norm(s: BlockShapes, name: str, n: Array, width: Array | None = None) -> Operation:
    """Normalisation of n elements, with two weights for each element of its width (one in RMSNorm)."""
    weights = s.structure.workload.norm_weights * (s.workload.h if width is None else width)
    Yf = s.e * (n + n + weights)
    return Operation(
        name=name, Ff=9 * n, Fa=14 * n, Fw=7 * n, I=n, O=n, K=n, G=n, weights=weights,
        Yf=Yf, Ya=Yf, Yw=Yf, Kb=s.e * n, Gb=s.e * n, stored=s.e * n,
    )  # fmt: skip


def linear(s: BlockShapes, name: str, x: Array | float, y: Array | float, rows: Array | None = None) -> Operation:
    """Product of M rows (or `rows`) of width x with a weight matrix x by y."""
    M = s.M if rows is None else rows
    F = 2 * M * x * y
    I, O, weights = M * x, M * y, x * y
    return in_eight_bits(
        s,
        Operation(
            name=name, matrix=True, product=True, Ff=F, Fa=F, Fw=F, I=I, O=O, K=I, G=O, weights=weights,
            Yf=s.e * (I + O + weights), Ya=s.e * (I + O + weights), Yw=s.e * (I + O + weights),
            Kb=s.e * I, Gb=s.e * O, stored=s.e * I,
        ),
    )  # fmt: skip


def in_eight_bits(s: BlockShapes, product: Operation) -> Operation:
    """A product as it is where it computes in 8 bits: operands are cast before it, and the input is kept in 8 bits.

    Forward, input and weights are read in full and written in 8 bits; backward the same happens to the gradient of the
    output. The products read what the casts wrote.
    """
    if not s.eight_bit.any():
        return product
    I, O, weights = product.I, product.O, product.weights
    cast, once = s.e + 1, 1.0
    forward = cast * (I + weights) + once * (I + weights) + s.e * O
    activation = cast * O + once * (O + weights) + s.e * I
    weight = once * (I + O) + s.e * weights
    kept = once * I
    of = np.where
    return replace(
        product,
        Yf=of(s.eight_bit, forward, product.Yf),
        Ya=of(s.eight_bit, activation, product.Ya),
        Yw=of(s.eight_bit, weight, product.Yw),
        Kb=of(s.eight_bit, kept, product.Kb),
        stored=of(s.eight_bit, kept, product.stored),
    )


def attention_product(s: BlockShapes, name: str, x: Array, y: Array, z: Array, reproduce: Set[Erratum]) -> Operation:
    """H products of x by y with y by z: no weights, two products in the backward pass."""
    # Each key or value head is read once, whatever the number of query heads that share it.
    per_head = s.structure.multiquery and Erratum.E17D in reproduce
    right_operands = s.H if per_head else s.b * s.kv_heads
    # A processor makes those of its rows. What it gathers besides it reads, and does not keep; an all-to-all brings the
    # other rows of fewer heads instead.
    made = right_operands * y * z / s.c
    read = made * (s.c if s.structure.context is CpExchange.ALL_GATHER else 1.0)
    I, K, O = s.H * x * y + read, s.H * x * y + made, s.H * x * z
    passes = 1 if Erratum.E17C in reproduce else 2
    return Operation(
        name=name, matrix=True, Ff=2 * s.H * x * y * z, Fa=4 * s.H * x * y * z, I=I, O=O, K=K, G=O,
        Yf=s.e * (I + O), Ya=passes * s.e * (I + O), Kb=s.e * K, Gb=s.e * O, stored=s.e * K,
    )  # fmt: skip


def softmax(s: BlockShapes, name: str, n: Array) -> Operation:
    """Softmax over n attention scores."""
    Y, bytes_ = s.e * (n + n), s.e * n
    return Operation(name=name, Ff=5 * n, Fa=8 * n, I=n, O=n, K=n, G=n, Yf=Y, Ya=Y, Kb=bytes_, Gb=bytes_, stored=bytes_)


def dropout(s: BlockShapes, name: str, n: Array, reproduce: Set[Erratum]) -> Operation:
    """Dropout, which keeps a mask of one byte an element."""
    Y = s.e * (n + n) + n
    return Operation(
        name=name, Ff=n, Fa=n, I=n, O=n, K=n, G=n, Yf=Y, Ya=Y, Kb=n,
        Gb=n if Erratum.E27 in reproduce else s.e * n, stored=n,
    )  # fmt: skip


def gelu(s: BlockShapes, name: str, n: Array, reproduce: Set[Erratum]) -> Operation:
    """The MLP activation; a fused one keeps nothing and never leaves the processor's registers."""
    K = np.where(s.fused, 0.0, n)
    Y = s.e * (n + n) if Erratum.E17A in reproduce else s.e * (K + K)
    return Operation(
        name=name, Ff=8 * n, Fa=13 * n, I=n, O=n, K=K, G=K, Yf=Y, Ya=Y, Kb=s.e * K, Gb=s.e * K, stored=s.e * K
    )


def gated_activation(s: BlockShapes, name: str, n: Array) -> Operation:
    """Activation of n gate elements times as many others, as in SwiGLU.

    It keeps both, and where it is not fused the activated gate as well.
    """
    K = np.where(s.fused, 2.0, 3.0) * n
    Yf, Ya = s.e * (2 * n + n), s.e * (3 * n + 2 * n)
    return Operation(
        name=name, Ff=9 * n, Fa=15 * n, I=2 * n, O=n, K=K, G=2 * n,
        Yf=Yf, Ya=Ya, Kb=s.e * K, Gb=s.e * 2 * n, stored=s.e * K,
    )  # fmt: skip


def add(s: BlockShapes, name: str, n: Array) -> Operation:
    """Residual addition of two activations."""
    Y = s.e * (2 * n + n)
    return Operation(
        name=name, Ff=n, Fa=2 * n, I=2 * n, O=n, K=2 * n, G=n,
        Yf=Y, Ya=Y, Kb=s.e * 2 * n, Gb=s.e * n, stored=s.e * 2 * n,
    )  # fmt: skip


def elementwise(s: BlockShapes, name: str, n: Array, *, flops: float, reads: Array | float = 1.0) -> Operation:
    """Some flop for each of n elements; it reads `reads` elements for each that it writes, and keeps nothing."""
    Y = s.e * (reads * n + n)
    return Operation(name=name, Ff=flops * n, Fa=flops * n, I=reads * n, O=n, G=n, Yf=Y, Ya=Y, Gb=s.e * n)


def collective(s: BlockShapes, name: str, *, row_split: bool) -> Operation:
    """Tensor-parallel communication of the residual stream, not overlapped (`tpcomm`)."""
    n = np.where(s.t > 1, s.A, 0.0)
    Y = s.e * (n + n)
    scattered = s.e * n / s.t
    Kb = np.where(s.sequence_parallel, scattered, s.e * n if row_split else 0.0)
    return Operation(
        name=name,
        kind=Kind.COLLECTIVE,
        row_split=row_split,
        Ff=s.reduction_flops if row_split else 0.0,
        Fa=0.0 if row_split else s.reduction_flops,
        I=n,
        O=n,
        K=n,
        G=n,
        Yf=Y if row_split else np.where(s.sequence_parallel, Y, 0.0),
        Ya=np.where(s.sequence_parallel, Y, 0.0) if row_split else Y,
        Kb=Kb,
        Gb=np.where(s.sequence_parallel, scattered, 0.0 if row_split else s.e * n),
        stored=Kb,
    )


def overlapped_product(
    s: BlockShapes,
    name: str,
    x: Array,
    y: Array,
    *,
    row_split: bool,
    reproduce: Set[Erratum],
    input_kept: Array | bool = True,
    input_counted: bool = True,
) -> Operation:
    """A matrix product fused with its communication (`olinear`); x and y are the unsplit widths.

    Args:
        s: Shapes.
        name: Name of the operation.
        x: Input width.
        y: Output width.
        row_split: Split along x with the reduction behind it; along y with the gather before it otherwise.
        reproduce: Errata to reproduce.
        input_kept: Whether the gathered input of a column-split product is stored (as for row 4 of the sequence).
        input_counted: Whether that input is counted here at all; it is not where a fork beside the product holds it.
    """
    xl: Array | float = x / s.t if row_split else x
    yl: Array | float = y if row_split else y / s.t
    plain = linear(s, name, xl, yl)
    if Erratum.E14 in reproduce:
        K, G = _published_kept_and_gradient(s, s.M * xl, s.M * yl, row_split=row_split)
        Y = s.e * (plain.weights + K + G)
        return replace(
            plain, kind=Kind.OVERLAPPED_PRODUCT, row_split=row_split,
            K=K, G=G, Ya=Y, Yw=Y, Kb=s.e * K, Gb=s.e * G, stored=s.e * K,
        )  # fmt: skip
    exchange = collective(s, name, row_split=row_split)
    held = plain.Kb if row_split or input_counted else 0.0
    return replace(
        plain,
        kind=Kind.OVERLAPPED_PRODUCT,
        row_split=row_split,
        Kb=held + exchange.Kb,
        Gb=plain.Gb + exchange.Gb,
        stored=held if row_split else exchange.stored + np.where(input_kept, held, 0.0),
    )


def _published_kept_and_gradient(
    s: BlockShapes, inputs: Array, outputs: Array, *, row_split: bool
) -> tuple[Array, Array]:
    if row_split:
        return (
            np.where(s.sequence_parallel, inputs, 0.0),
            np.where(s.sequence_parallel, 2 * np.floor(outputs / s.t), 2 * outputs),
        )
    return (
        np.where(s.sequence_parallel, np.floor(inputs / s.t), inputs),
        np.where(s.sequence_parallel, outputs, 0.0),
    )
