"""What executing an instruction means, and what it occupies meanwhile."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from codesign_opt.graphs.opcodes import COLLECTIVES, OPCODES


class Kind(IntEnum):
    """What executing an instruction means. Those up to EXCHANGE wait for a stream, those from it to RECEIVE ask."""

    TIMED = 0  # holds a stream for its seconds
    SEND_START = 1  # puts a message on its way; over at once
    SEND = 2  # puts a message on its way; over when it has left
    EXCHANGE = 3  # asks for a message and puts one on its way; over when both are through
    RECEIVE_START = 4  # asks for the next message of its channel; over at once
    RECEIVE = 5  # asks for the next message of its channel; over when it has arrived
    RECEIVE_DONE = 6  # over when the message that was asked for has arrived
    SEND_DONE = 7  # over when the message has left
    NULL = 8  # over at once
    CALLER = 9  # over when its subroutines are


class Stream(IntEnum):
    """What an instruction occupies while it runs; a processor has a number of each (`streams.Streams`)."""

    COMPUTE = 0
    HOST = 1
    SEND = 2
    RECEIVE = 3
    COLLECTIVE = 4


LEAF_KIND: Final = np.array(
    [
        {
            "null": Kind.NULL,
            "send-start": Kind.SEND_START,
            "send-done": Kind.SEND_DONE,
            "recv-start": Kind.RECEIVE_START,
            "recv-done": Kind.RECEIVE_DONE,
        }.get(name, Kind.TIMED)
        for name in OPCODES
    ],
    dtype=np.int64,
)
"""By index of the opcode, for an instruction without subroutines."""

STREAM: Final = np.array(
    [
        {
            "infeed": Stream.HOST,
            "outfeed": Stream.HOST,
            "send-start": Stream.SEND,
            "send-done": Stream.SEND,
            "recv-start": Stream.RECEIVE,
            "recv-done": Stream.RECEIVE,
            **dict.fromkeys(COLLECTIVES, Stream.COLLECTIVE),
        }.get(name, Stream.COMPUTE)
        for name in OPCODES
    ],
    dtype=np.int64,
)
"""By index of the opcode."""
