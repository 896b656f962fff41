"""The operations of one transformer block, in order (spec analytical-model section 5.2)."""

from __future__ import annotations

from collections.abc import Set

from codesign_opt.analytical.attention import attention_operations
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.experts import expert_operations
from codesign_opt.analytical.mlp import mlp_operations
from codesign_opt.analytical.operations import Operation, add, dropout, fork, norm
from codesign_opt.analytical.shapes import BlockShapes


def block_operations(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """The operations of one block; of a GPT-3-like one 24 without overlap, and 17 or (multiquery) 20 with it."""
    mlp = (
        expert_operations(s, reproduce) if s.structure.workload.experts else mlp_operations(s, s.workload.f, reproduce)
    )
    return [
        *_half(s, "AttnBlock", attention_operations(s, reproduce), reproduce),
        *_half(s, "MlpBlock", mlp, reproduce),
    ]


def _half(s: BlockShapes, name: str, inside: list[Operation], reproduce: Set[Erratum]) -> list[Operation]:
    """Attention or MLP with what stands around it: norm before, dropout and residual after."""
    dropped = [dropout(s, f"{name}_DropOut", s.X, reproduce).where(recomputed=s.full)]
    # A workload with more norms than two has one behind each half as well.
    after = [norm(s, f"{name}_AfterNorm", s.X).where(recomputed=s.full)]
    structure = s.structure.workload
    return [
        fork(s, f"{name}_Fork", s.X, 2).where(recomputed=s.full),
        norm(s, f"{name}_LayerNorm", s.X).where(recomputed=s.full, shared=True, kept=False),
        *inside,
        *(after if structure.norms > 2 else []),
        *(dropped if structure.dropout else []),
        add(s, f"{name}_Residual", s.X).where(recomputed=s.full, shared=True, kept=False),
    ]
