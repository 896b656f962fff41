"""The opcodes of instructions, and what each class of them may do (spec graph-simulation section 1.3)."""

from __future__ import annotations

from typing import Final

GENERAL: Final = ("null", "delay", "infeed", "outfeed")
CONTROL: Final = ("call", "while", "conditional")
COLLECTIVES: Final = (
    "all-gather", "all-reduce", "all-to-all", "barrier", "broadcast", "gather", "reduce", "reduce-scatter", "scatter",
)  # fmt: skip
INDIVIDUAL: Final = ("send", "recv", "sendrecv")
PROTOCOL: Final = ("send-start", "send-done", "recv-start", "recv-done")
COMMUNICATION: Final = (*COLLECTIVES, *INDIVIDUAL, *PROTOCOL)

OPCODES: Final = (*GENERAL, *CONTROL, *COMMUNICATION)
"""All opcodes; a graph stores the index."""

CODES: Final = {name: code for code, name in enumerate(OPCODES)}
"""Opcode in words to its index."""
