"""The operations at the ends of the stack: embedding before the first block, output projection and loss after the last.

docs/model.md derives them. Both split the vocabulary among the processors of a tensor-parallel group.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.operations import Array, Operation, collective, dropout, linear, norm
from codesign_opt.analytical.shapes import BlockShapes

LOSS_FLOPS = 8.0
"""Flop for each score of the loss: maximum, difference, exponential (as 4), sum and quotient."""


def first_operations(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """Before the first block: look tokens up, add those that other processors hold, and drop out."""
    w = s.workload
    rows = padded_vocabulary(s) / s.t
    n = s.A
    embedding = Operation(
        name="Embedding",
        O=n,
        G=n,
        weights=(rows + w.positions) * w.h,
        Yf=s.e * 2 * n,
        # The gradient is added to rows of 32 bits.
        Yw=(s.e + 2 * 4) * n,
        Gb=s.e * n,
    )
    dropped = [dropout(s, "Embedding_DropOut", s.X, reproduce)] if s.structure.workload.dropout else []
    return [embedding, collective(s, "Embedding_G", row_split=True).where(kept=False), *dropped]


def last_operations(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """After the last block: norm, output projection and cross-entropy loss; once more for each prediction block."""
    w = s.workload
    scores = padded_vocabulary(s) / s.t
    normed = [norm(s, "Head_LayerNorm", s.X)] if s.structure.workload.final_norm else []
    times = 1 + w.prediction_blocks
    # Prediction blocks share the weights of the output projection, and have a product that joins two inputs.
    projection = linear(s, "Head_Projection", w.h, scores, rows=s.M * times)
    joined = linear(s, "Head_Join", 2 * w.h, w.h, rows=s.tokens * w.prediction_blocks)
    n = s.M * times * scores
    # Scores are kept as they come and in 32 bits; their gradient is that of the projection's output.
    loss = Operation(
        name="Head_Loss", Ff=LOSS_FLOPS * n, Fa=2 * n, I=n, K=n,
        Yf=(2 * s.e + 4) * n, Ya=(4 + s.e) * n, Kb=(s.e + 4) * n, stored=(s.e + 4) * n,
    )  # fmt: skip
    return [
        *normed,
        collective(s, "Head_F", row_split=False),
        projection,
        *([joined] if np.any(w.prediction_blocks) else []),
        loss,
    ]


def padded_vocabulary(s: BlockShapes) -> Array:
    """Rows of the embedding: the vocabulary up to a multiple of what each processor's part is a multiple of."""
    multiple = s.workload.vocabulary_multiple * s.t
    return np.asarray(np.ceil(s.workload.V / multiple) * multiple)
