"""The operations of the MLP: one product in and one out, around an activation (spec analytical-model section 5.2)."""

from __future__ import annotations

from collections.abc import Set

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.operations import (
    Array,
    Operation,
    collective,
    gated_activation,
    gelu,
    linear,
    overlapped_product,
)
from codesign_opt.analytical.shapes import BlockShapes


def mlp_operations(s: BlockShapes, f: Array, reproduce: Set[Erratum]) -> list[Operation]:
    """An MLP of inner width f, from the gathered input to the reduced output; a gated one has twice the products in."""
    h, regather = s.workload.h, s.regather_mlp
    gated = s.structure.workload.gated
    n = f * s.M / s.t
    made = gated_activation(s, "MlpBlock_SwiGLU", n) if gated else gelu(s, "MlpBlock_GeLU", n, reproduce)
    activation = made.where(recomputed=s.full)
    inner = 2 * f if gated else f
    if not s.structure.overlapped:
        return [
            collective(s, "MlpBlock_F", row_split=False).where(recommunicated=regather),
            linear(s, "MlpBlock_Mlp1", h, inner / s.t).where(recomputed=s.full, kept=~regather),
            activation,
            linear(s, "MlpBlock_Mlp2", f / s.t, h).where(recomputed=s.full),
            collective(s, "MlpBlock_G", row_split=True).where(recommunicated=s.full, kept=False),
        ]
    first = overlapped_product(
        s, "MlpBlock_Mlp1_AG", h, inner, row_split=False, reproduce=reproduce, input_kept=~regather
    )
    second = overlapped_product(s, "MlpBlock_Mlp2_RS", f, h, row_split=True, reproduce=reproduce)
    return [
        first.where(recomputed=s.full, recommunicated=regather),
        activation,
        second.where(recomputed=s.full, recommunicated=s.full),
    ]
