"""The operations of a mixture of experts: router, exchange of tokens, the experts' products, and back.

docs/model.md derives them. Every processor sends each of its tokens to the k experts that the router picks, which lie
on `ep` processors; tensor parallelism inside an expert (`etp`) gathers the tokens of its processors first and scatters
the sums afterwards.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.mlp import mlp_operations
from codesign_opt.analytical.operations import (
    Array,
    Kind,
    Operation,
    elementwise,
    gated_activation,
    gelu,
    linear,
    softmax,
)
from codesign_opt.analytical.peers import Collective, Peer
from codesign_opt.analytical.shapes import BlockShapes


def expert_operations(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """A block's experts, the shared ones first, which every token visits."""
    w = s.workload
    shared = mlp_operations(s, w.fs, reproduce) if s.structure.workload.shared_experts else []
    visits = s.tokens * w.k * w.crowding
    # Shared experts keep the router's input as their own.
    kept = not shared
    return [
        *(replace(operation, name=operation.name.replace("MlpBlock", "MlpBlock_Shared")) for operation in shared),
        linear(s, "MlpBlock_Router", w.h, w.E, rows=s.tokens).where(recomputed=s.full, shared=not kept, kept=kept),
        softmax(s, "MlpBlock_RouterScores", s.tokens * w.E).where(recomputed=s.full),
        elementwise(s, "MlpBlock_Permute", visits * w.h, flops=0).where(recomputed=s.full),
        *_exchange(s, "MlpBlock_Dispatch", visits, back=False),
        *_products(s, visits * s.etp, reproduce),
        *_exchange(s, "MlpBlock_Combine", visits, back=True),
        elementwise(s, "MlpBlock_Unpermute", s.X, flops=2, reads=w.k).where(recomputed=s.full),
    ]


def _exchange(s: BlockShapes, name: str, visits: Array, *, back: bool) -> list[Operation]:
    """Tokens to the processors of their experts, or what these made of them back."""
    q = s.e * visits * s.workload.h

    def peer(name: str, peer: Peer) -> Operation:
        return Operation(name=name, kind=Kind.PEER, peer=peer).where(recommunicated=s.full)

    ways: tuple[Collective, Collective] = ("reduce-scatter", "all-gather") if back else ("all-gather", "reduce-scatter")
    among = Peer(
        group="ep", forward="all-to-all", backward="all-to-all", q_forward=q, q_backward=q, copies=s.workload.k
    )
    operations = [peer(name, among)]
    if (s.etp > 1).any():
        gathered = q * s.etp
        inside = Peer(group="etp", forward=ways[0], backward=ways[1], q_forward=gathered, q_backward=gathered)
        operations.append(peer(f"{name}_Tp", inside))
    return operations[::-1] if back else operations


def _products(s: BlockShapes, visits: Array, reproduce: Set[Erratum]) -> list[Operation]:
    """The experts of one processor, which take `visits` tokens altogether."""
    w = s.workload
    f, local = w.fe / s.etp, w.E / s.ep
    gated = s.structure.workload.gated
    n = visits * f
    activation = (
        gated_activation(s, "MlpBlock_ExpertSwiGLU", n) if gated else gelu(s, "MlpBlock_ExpertGeLU", n, reproduce)
    )

    def grouped(name: str, x: Array, y: Array) -> Operation:
        one = linear(s, name, x, y, rows=visits)
        # The same flop, with the weights of all experts, each of which multiplies its own tokens.
        more = (local - 1) * x * y
        read = s.e * more
        return replace(
            one, weights=local * x * y, expert=True, parts=local, Yf=one.Yf + read, Ya=one.Ya + read, Yw=one.Yw + read
        ).where(recomputed=s.full)

    return [
        grouped("MlpBlock_Expert1", w.h, (2 if gated else 1) * f),
        activation.where(recomputed=s.full),
        grouped("MlpBlock_Expert2", f, w.h),
    ]
