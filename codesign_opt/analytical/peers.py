"""Context- and expert-parallel communication of a block: what is exchanged, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.hardware import Hardware

Array = NDArray[Any]

Group = Literal["cp", "ep", "etp"]
Collective = Literal["all-to-all", "all-gather", "reduce-scatter", "ring"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An exchange within a group of processors of one stage.

    Attributes:
        group: Which parallel dimension.
        forward, backward: The collective of each pass. A ring is n - 1 messages to a neighbour, each beside the part of
            the operation before it that works on what the last one brought.
        q_forward, q_backward: Its bytes: of an all-to-all what a processor holds, of a gather or scatter the whole
            vector, of a ring one message.
        copies: Of an all-to-all: how many destinations the same bytes have.
    """

    group: Group
    forward: Collective
    backward: Collective
    q_forward: Array
    q_backward: Array
    copies: Array | float = 1.0


@dataclass(frozen=True, slots=True)
class PeerTimes:
    """Bytes on the links, link time and exposed time of an exchange in both passes."""

    qf: Array
    qa: Array
    lf: Array
    la: Array
    Ef: Array
    Ea: Array


def peer_times(
    peer: Peer, keys: Mapping[str, Array], hardware: Hardware, beside_f: Array, beside_a: Array
) -> PeerTimes:
    """Times of an exchange.

    Args:
        peer: The exchange.
        keys: Block keys.
        hardware: The system.
        beside_f, beside_a: Seconds of the operation before it, forward and backward.
    """
    n = keys[peer.group].astype(np.float64)
    tier, inner = _place(peer.group, keys)

    def times(collective: Collective, q: Array, beside: Array) -> tuple[Array, Array, Array]:
        q = np.where(n > 1, q, 0.0)
        if collective == "ring":
            step = np.where(n > 1, hardware.transfer_time(tier, "p2p", q, np.array(2.0)), 0.0)
            return q * (n - 1), step * (n - 1), np.maximum(step - beside / n, 0.0) * (n - 1)
        if collective == "all-to-all":
            seconds = hardware.all_to_all_time(tier, q, n, inner, peer.copies)
        else:
            seconds = hardware.transfer_time(tier, collective.replace("-", "_"), q, n, inner)
        seconds = np.where(n > 1, seconds, 0.0)
        return q, seconds, seconds

    qf, lf, Ef = times(peer.forward, peer.q_forward, beside_f)
    qa, la, Ea = times(peer.backward, peer.q_backward, beside_a)
    return PeerTimes(qf, qa, lf, la, Ef, Ea)


def _place(group: Group, keys: Mapping[str, Array]) -> tuple[Array, Array]:
    name = "tp" if group == "etp" else group
    inner = np.minimum(keys["tp_inner"], keys["etp"]) if group == "etp" else keys[f"{name}_inner"]
    return keys[f"{name}_tier"], inner
