"""The columns that the event engine's inner loop works on."""

from __future__ import annotations

from typing import Any, NamedTuple

Column = Any
"""Numbers by index: a list where Python runs the loop, an array where numba does."""


class Code(NamedTuple):
    """What runs; columns as in `machine.Machine`, but over the instructions that are executed.

    Users and sources stand last first; the caller of an entry is -1 less its number; `ranked` says whether priorities
    differ.
    """

    entries: Column
    kind: Column
    stream: Column
    priority: Column
    seconds: Column
    bytes: Column
    bonded: Column
    needs: Column
    users_from: Column
    users: Column
    subroutine: Column
    sources_from: Column
    sources: Column
    size: Column
    caller: Column
    first: Column
    following: Column
    repeats: Column
    draws: Column
    ranked: bool
    sends: Column
    asks: Column
    pair: Column


class Wires(NamedTuple):
    """What messages meet: links that take them in turn.

    Attributes:
        direct: Whether a message leaves its sender at the pair's own pace, and comes to its first link a latency later.
        latency, seconds_per_byte: Of a pair, where `direct`.
        route_from, link: The route of a pair is `link[route_from[pair]:route_from[pair + 1]]`.
        link_latency, link_seconds_per_byte: By entry of `link`.
        server_from: First server of each link; a link with k servers takes k messages at once.
    """

    direct: bool
    latency: Column
    seconds_per_byte: Column
    route_from: Column
    link: Column
    link_latency: Column
    link_seconds_per_byte: Column
    server_from: Column


class State(NamedTuple):
    """What changes. From `sender` on it is the result.

    Attributes:
        free, head, tail, released: By stream: how many are free, its queue, the row that freed one last.
        server_free: By server: seconds at which it is free.
        waiting, drawn: By instruction: operands that have not finished, the next draw or -1.
        running, turns: By subroutine: instructions that have not finished, iterations that are left.
        next, asked_next: By instruction: the one behind it in the queue of its stream, and of its channel.
        ready, started, clock, cause: By instruction: seconds, and the row that let it start.
        blocked, message: By instruction: how many messages it waits for, and the last that it dealt with.
        asked, asked_last, sent_first, sent_last: By channel: queues of receives and of messages without a partner.
        chain: By event: the next one at the same time.
        message_next, message_row, hop: By message: queue of its channel, row of its sender, place on its route.
        sender, receiver, posted, left, arrived: By message: instructions, seconds.
        timed, timed_started: Executions that held a stream for their seconds, in the order of starting.
        row_…: Executions in the order of finishing, where they are recorded.
        link_bytes, link_busy: By link: bytes, seconds.
        ended: By program: seconds at which it is over; -1 where it is not.
    """

    free: Column
    head: Column
    tail: Column
    released: Column
    server_free: Column
    waiting: Column
    running: Column
    turns: Column
    drawn: Column
    next: Column
    asked_next: Column
    ready: Column
    started: Column
    clock: Column
    cause: Column
    blocked: Column
    message: Column
    asked: Column
    asked_last: Column
    sent_first: Column
    sent_last: Column
    chain: Column
    message_next: Column
    hop: Column
    message_row: Column
    sender: Column
    receiver: Column
    posted: Column
    left: Column
    arrived: Column
    timed: Column
    timed_started: Column
    row_instruction: Column
    row_ready: Column
    row_started: Column
    row_finished: Column
    row_clock: Column
    row_cause: Column
    row_message: Column
    link_bytes: Column
    link_busy: Column
    ended: Column
