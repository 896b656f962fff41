"""Which operations a block has: what block keys share whose operations are evaluated together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies import Attention, AttentionKernel, CpExchange, TpOverlap
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import QueryKeyNorm

Array = NDArray[Any]

CHUNK_ROWS = 2048
"""Rows whose operations are evaluated at once, so that an (operation, key) array stays in the processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStructure:
    """What of a workload decides which operations there are, whatever their sizes.

    Attributes:
        gated: A gated MLP.
        dropout, rotary, causal: As in `Workload`.
        norm_weights: Weights of a norm for each element, 2 or 1.
        norms: Norms of the whole width in a block.
        query_key_norm: Norm of queries and keys.
        latent, compressed_queries: Latent attention; with a latent vector of the queries as well.
        experts, shared_experts: Experts in place of the MLP; shared ones among them.
        windowed: A token sees a window alone.
        vocabulary, final_norm: Embedding and output projection; the norm before the latter.
    """

    gated: bool
    dropout: bool
    rotary: bool
    causal: bool
    norm_weights: int
    norms: int
    query_key_norm: QueryKeyNorm
    latent: bool
    compressed_queries: bool
    experts: bool
    shared_experts: bool
    windowed: bool
    vocabulary: bool
    final_norm: bool

    @classmethod
    def of(cls, workload: Workload) -> WorkloadStructure:
        """That of a workload whose blocks are all alike (`workloads.kinds`)."""
        experts, latent = workload.experts, workload.latent_attention
        return cls(
            gated=workload.gated_mlp,
            dropout=workload.dropout,
            rotary=workload.rotary and latent is None,
            causal=workload.causal,
            norm_weights=1 if workload.root_mean_square_norm else 2,
            norms=workload.norms,
            query_key_norm=workload.query_key_norm,
            latent=latent is not None,
            compressed_queries=latent is not None and latent.query_rank > 0,
            experts=experts is not None,
            shared_experts=experts is not None and experts.shared_feedforward > 0,
            windowed=workload.windowed_blocks > 0,
            vocabulary=workload.vocabulary > 0,
            final_norm=workload.final_norm,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Which operations block keys share: their workload's structure, and options.

    Attributes:
        workload: The workload's part.
        multiquery, overlapped, flash: Multiquery attention; collectives fused with products; attention in one pass.
        context: Whether the sequence is split, and then how keys and values are exchanged; None where it is not.
    """

    workload: WorkloadStructure
    multiquery: bool
    overlapped: bool
    flash: bool
    context: CpExchange | None


def structures(
    workloads: Sequence[Workload], keys: Mapping[str, Array]
) -> Iterator[tuple[Structure, Array, dict[str, Array]]]:
    """Each structure among some keys, with rows that have it, and these rows; at most `CHUNK_ROWS` of them at once."""
    shapes = [WorkloadStructure.of(workload) for workload in workloads]
    distinct = list(dict.fromkeys(shapes))
    number = np.array([distinct.index(shape) for shape in shapes])[keys["workload"]]
    overlapped = keys["tp_overlap"] != OPTION_CODES[TpOverlap.NONE]
    exchange = np.where(keys["cp"] > 1, keys["cp_exchange"].astype(np.int64) + 1, 0)
    code = ((number * 4 + exchange) * 2 + keys["attention_kernel"]) * 4 + keys["attention"] * 2 + overlapped
    for value in np.unique(code):
        members = np.flatnonzero(code == value)
        first = {name: int(values[members[0]]) for name, values in keys.items()}
        structure = Structure(
            workload=distinct[int(number[members[0]])],
            multiquery=first["attention"] == OPTION_CODES[Attention.MULTIQUERY],
            overlapped=bool(overlapped[members[0]]),
            flash=first["attention_kernel"] == OPTION_CODES[AttentionKernel.FLASH],
            context=list(CpExchange)[first["cp_exchange"]] if first["cp"] > 1 else None,
        )
        for start in range(0, len(members), CHUNK_ROWS):
            rows = members[start : start + CHUNK_ROWS]
            yield structure, rows, {name: values[rows] for name, values in keys.items()}
