"""Where the published tool's arithmetic is wrong, one member per item that changes a number.

The model takes the set of errata to *reproduce*. Reproducing all of them gives the published tool's numbers; the
default reproduces none, which is the corrected model. Numbers are those of spec analytical-model section 16, E30 was
found since; docs/model.md explains each. Every member is read in exactly one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from codesign_opt.errors import InputError


class Erratum(Enum):
    """One item; the value says what the published tool computes."""

    E1 = "recompute sums add running totals instead of each operation's own value"
    E2 = "the exposed tile of a piped product is counted twice"
    E3 = "overlapped products of edge blocks use the base block's communication"
    E4 = "re-communication of overlapped products is charged twice under full recompute"
    E5 = "pipeline messages of zero bytes cost latency"
    E6 = "the last chunk's gradient window subtracts whole block times and foreign pipeline messages"
    E7 = "exposed gradient exchange jumps where it just fits its window"
    E8 = "gradient windows may be negative and the deficit is charged as exposed"
    E9 = "the last chunk's slow-down is that of one block, however many there are"
    E10 = "gradient windows assume as many microbatches in flight as stages"
    E11 = "the all-gather of updated weights is hidden behind the backward pass"
    E12 = "activation offload in inference keeps activations that nothing reads"
    E13 = "the input of query, key and value is neither kept nor recomputed under selective recompute"
    E14 = "overlapped products keep other activations and gradients than plain ones"
    E15 = "optimizer offload is paid in every microbatch"
    E16 = "recompute's memory time is missing from the backward offload test"
    E17A = "a fused activation still reads and writes memory"
    E17B = "the optimizer touches its state once"
    E17C = "the two backward products of an attention product are charged one pass over memory"
    E17D = "multiquery attention reads keys and values once per head"
    E17E = "buffers of collectives are touched beside the wire time, or not at all, by kind of operation"
    E18 = "the offloaded checkpoint size is missing in inference"
    E22 = "checkpoints of full recompute are not sharded under sequence parallelism"
    E23 = "all tiles of an overlapped transfer share one latency"
    E24 = "efficiency counts the fullest stage for the whole machine, and the optimizer in every microbatch"
    E25 = "step-shaped efficiency curves make an operation faster by making it larger"
    E26 = "roofline mode hides communication behind flop time only"
    E27 = "the dropout gradient takes one byte per element"
    E28 = "bandwidth requirements add the slow-down to the window and miscount messages and blocks"
    E30 = "every pass of a gradient window counts the optimizer step, which runs once a batch"


ALL = frozenset(Erratum)
NONE: frozenset[Erratum] = frozenset()


def parse_errata(text: str | Iterable[str], *, where: str = "reproduce") -> frozenset[Erratum]:
    """The errata named by `all`, `none`, or names such as `E2,E7`; `E17` stands for its five parts.

    Raises:
        InputError: For an unknown name; the hint lists all.
    """
    words = text.split(",") if isinstance(text, str) else list(text)
    chosen: set[Erratum] = set()
    for given in words:
        word = given.strip().upper()
        if word == "ALL":
            chosen |= ALL
        elif word in Erratum.__members__:
            chosen.add(Erratum[word])
        elif word == "E17":
            chosen |= {erratum for erratum in Erratum if erratum.name.startswith("E17")}
        elif word not in ("NONE", ""):
            raise InputError(
                f"{where}: unknown erratum '{given.strip()}'", "all, none, or some of " + ", ".join(Erratum.__members__)
            )
    return frozenset(chosen)
