"""The inner loop of the event engine: one heap, flat columns, no objects (spec graph-simulation 11).

`run` is plain Python over lists, and the same function over arrays where numba compiles it. Instructions, subroutines,
streams, channels, messages and links are numbers; -1 is none.

An event is a number: i < N where instruction i has ended, otherwise N + 3m + phase for message m, which comes to its
next link (phase 0), has left its sender (1) or has arrived (2). Events of one kind and one time that are made one after
the other form a chain, but for those due at once; the heap holds the first of each, keyed by time and sequence number.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Any

from codesign_opt.simulation.kernel_columns import Code, State, Wires

(
    _TIMED, _SEND_START, _SEND, _EXCHANGE, _RECEIVE_START, _RECEIVE, _RECEIVE_DONE, _SEND_DONE, _NULL, _CALLER,
) = range(10)  # fmt: skip
"""`kinds.Kind`, written out here: what numba keeps on disk is renewed when this file changes, and only then."""

_ON, _LEFT, _ARRIVED = range(3)


def run(code: Code, wires: Wires, state: State, flows: Any, record: bool) -> tuple[int, int, int, int]:
    """Run all programs to the end, or until nothing happens any more.

    Args:
        code: What runs.
        wires: What messages meet.
        state: At the start; holds the result afterwards.
        flows: A network that says itself when messages have left (`networks.flows`), or None.
        record: Whether to write the rows.

    Returns:
        How many events there were (ends of instructions with seconds; messages that come to a link, leave, and arrive),
        how many rows, messages and timed executions were written.
    """
    entries, kind, stream, priority, seconds = code.entries, code.kind, code.stream, code.priority, code.seconds
    size_of, bonded, needs, users_from, users = code.bytes, code.bonded, code.needs, code.users_from, code.users
    subroutine, sources_from, sources, size, caller = (
        code.subroutine, code.sources_from, code.sources, code.size, code.caller,
    )  # fmt: skip
    first, following, repeats, draws = code.first, code.following, code.repeats, code.draws
    sends, asks, pair = code.sends, code.asks, code.pair
    free, head, tail, released, server_free = state.free, state.head, state.tail, state.released, state.server_free
    waiting, running, turns, drawn = state.waiting, state.running, state.turns, state.drawn
    queue_next, ready_at, started, ranked = state.next, state.ready, state.started, code.ranked
    clock, cause, blocked, message_of = state.clock, state.cause, state.blocked, state.message
    asked, asked_last, asked_next = state.asked, state.asked_last, state.asked_next
    sent_first, sent_last = state.sent_first, state.sent_last
    chain, message_next, hop, message_row = state.chain, state.message_next, state.hop, state.message_row
    sender, receiver, posted, left, arrived = state.sender, state.receiver, state.posted, state.left, state.arrived
    timed, timed_started, link_bytes, link_busy = state.timed, state.timed_started, state.link_bytes, state.link_busy
    direct, pair_latency, pair_pace = wires.direct, wires.latency, wires.seconds_per_byte
    route_from, route, route_latency, route_pace = (
        wires.route_from, wires.link, wires.link_latency, wires.link_seconds_per_byte,
    )  # fmt: skip
    server_from, ended = wires.server_from, state.ended
    row_instruction, row_ready, row_started, row_finished, row_clock, row_cause, row_message = (
        state.row_instruction, state.row_ready, state.row_started, state.row_finished, state.row_clock,
        state.row_cause, state.row_message,
    )  # fmt: skip

    instructions = len(kind)
    # Empty lists, of which numba must know what will be in them.
    heap = [(0.0, 0, 0)][:0]
    # What is to be followed next, the top first; what is ready, starts, goes on its way; streams that have become free.
    stack, ready, starting, departing, touched = [0][:0], [0][:0], [0][:0], [0][:0], [0][:0]
    number = hops = rows = messages = timings = 0
    now, event, ending = 0.0, -1, -1
    # The last event of the open chain of each kind, and its time.
    end_last = hop_last = left_last = arrival_last = 0
    end_time = hop_time = left_time = arrival_time = -1.0
    completion, stale = -1.0, True

    for entry in entries[::-1]:
        for source in sources[sources_from[entry] : sources_from[entry + 1]]:
            stack.append(source)

    while True:
        while True:
            if ending >= 0:
                i = ending
                ending = -1
            elif stack:
                # What can run (number i) or has finished (number -1 - i).
                i = stack.pop()
                if i >= 0:
                    what = kind[i]
                    if record:
                        ready_at[i] = started[i] = now
                    if what < _EXCHANGE:
                        ready.append(i)
                        continue
                    if what == _CALLER:
                        n = first[i]
                        if drawn[i] >= 0:
                            n = draws[drawn[i]]
                            drawn[i] += 1
                        if record:
                            started[i], clock[i] = inf, 0.0
                        for source in sources[sources_from[n] : sources_from[n + 1]]:
                            stack.append(source)
                            if record:
                                cause[source] = cause[i]
                        continue
                    if what <= _RECEIVE:
                        c = asks[i]
                        m = sent_first[c]
                        message_of[bonded[i]] = m
                        if m >= 0:
                            sent_first[c] = message_next[m]
                            receiver[m] = bonded[i]
                        else:
                            asked_next[i] = -1
                            if asked[c] >= 0:
                                asked_next[asked_last[c]] = i
                            else:
                                asked[c] = i
                            asked_last[c] = i
                        if what == _EXCHANGE:
                            blocked[i] = 2 if m < 0 or arrived[m] < 0 else 1
                            ready.append(i)
                            continue
                    if _RECEIVE <= what <= _RECEIVE_DONE:
                        m = message_of[i]
                        if m < 0 or arrived[m] < 0:
                            blocked[i] = 1
                            continue
                    elif what == _SEND_DONE and left[message_of[i]] < 0:
                        blocked[i] = 1
                        continue
                else:
                    i = -1 - i
            else:
                break
            # Instruction i has finished, and with it perhaps its subroutine, the caller of that, and so on.
            while True:
                n = subroutine[i]
                if record:
                    c = caller[n]
                    busy = clock[i] if kind[i] == _CALLER else now - started[i]
                    row_instruction[rows] = i
                    row_ready[rows] = ready_at[i]
                    row_started[rows] = started[i]
                    row_finished[rows] = now
                    row_clock[rows] = busy
                    row_cause[rows] = rows - 1 if kind[i] == _CALLER else cause[i]
                    row_message[rows] = message_of[i]
                    if kind[i] == _SEND_START:
                        message_row[message_of[i]] = rows
                    if c >= 0:
                        clock[c] += busy
                        if started[i] < started[c]:
                            started[c] = started[i]
                    rows += 1
                remaining = running[n] - 1
                if remaining:
                    running[n] = remaining
                    for user in users[users_from[i] : users_from[i + 1]]:
                        remaining = waiting[user] - 1
                        if remaining:
                            waiting[user] = remaining
                        else:
                            waiting[user] = needs[user]
                            stack.append(user)
                            if record:
                                cause[user] = rows - 1
                    break
                running[n] = size[n]
                c = caller[n]
                if c < 0:
                    ended[-1 - c] = now
                    break
                follower = following[n]
                if repeats[n]:
                    turns[n] -= 1
                    if turns[n] == 0:
                        turns[n] = repeats[n]
                        follower = -1
                if follower >= 0:
                    for source in sources[sources_from[follower] : sources_from[follower + 1]]:
                        stack.append(source)
                        if record:
                            cause[source] = rows - 1
                    break
                i = c

        if event < 0:
            if departing:
                hops += len(departing)
                for m in departing:
                    load, p, k = size_of[sender[m]], pair[sender[m]], hop[m]
                    if flows is not None:
                        flows.post(now, p, load, m)
                        stale = True
                        continue
                    leaving = -1.0
                    if k < 0:
                        leaving = now + load * pair_pace[p]
                        k = route_from[p]
                        when = leaving + pair_latency[p] if k == route_from[p + 1] else now + pair_latency[p]
                    else:
                        line = route[k]
                        server = server_from[line]
                        if server_from[line + 1] > server + 1:
                            for other in range(server + 1, server_from[line + 1]):
                                if server_free[other] < server_free[server]:
                                    server = other
                        service = load * route_pace[k]
                        when = (server_free[server] if server_free[server] > now else now) + service
                        server_free[server] = when
                        link_busy[line] += service
                        link_bytes[line] += load
                        if k == route_from[p] and not direct:
                            leaving = when
                        when += route_latency[k]
                        k += 1
                    hop[m] = k
                    upcoming = instructions + 3 * m
                    if leaving >= 0:
                        if leaving == left_time and leaving > now:
                            chain[left_last] = upcoming + _LEFT
                        else:
                            heappush(heap, (leaving, number, upcoming + _LEFT))
                            number += 1
                            left_time = leaving
                        left_last = upcoming + _LEFT
                    if k < route_from[p + 1]:
                        if when == hop_time and when > now:
                            chain[hop_last] = upcoming
                        else:
                            heappush(heap, (when, number, upcoming))
                            number += 1
                            hop_time = when
                        hop_last = upcoming
                    else:
                        if when == arrival_time and when > now:
                            chain[arrival_last] = upcoming + _ARRIVED
                        else:
                            heappush(heap, (when, number, upcoming + _ARRIVED))
                            number += 1
                            arrival_time = when
                        arrival_last = upcoming + _ARRIVED
                departing.clear()
            # Where all events of this time are known, streams go to what waits for them.
            if (ready or touched) and (not heap or heap[0][0] > now):
                if len(ready) > 1:
                    ready.sort()
                # A stream that is free and not among those touched has no queue.
                at_once = len(touched) == 0 and not ranked
                for i in ready:
                    s = stream[i]
                    if at_once and free[s] > 0:
                        free[s] -= 1
                        starting.append(i)
                        continue
                    if not at_once:
                        touched.append(s)
                    ready_at[i] = now
                    last = tail[s]
                    if last < 0:
                        head[s] = tail[s] = i
                        continue
                    # By priority, by the time of becoming ready, by number; nearly always the last.
                    before, behind, urgency = last, -1, priority[i]
                    if urgency < priority[last] or (urgency == priority[last] and i < last and ready_at[last] == now):
                        before, behind = -1, head[s]
                        while priority[behind] < urgency or (
                            priority[behind] == urgency and (behind < i or ready_at[behind] < now)
                        ):
                            before, behind = behind, queue_next[behind]
                    queue_next[i] = behind
                    if behind < 0:
                        tail[s] = i
                    if before >= 0:
                        queue_next[before] = i
                    else:
                        head[s] = i
                ready.clear()
                if touched:
                    touched.sort()
                    for s in touched:
                        while free[s] > 0 and head[s] >= 0:
                            i = head[s]
                            head[s] = queue_next[i]
                            queue_next[i] = -1
                            if head[s] < 0:
                                tail[s] = -1
                            free[s] -= 1
                            starting.append(i)
                            if record and now > ready_at[i]:
                                cause[i] = released[s]
                    touched.clear()
                for i in starting:
                    if record:
                        started[i] = now
                    what = kind[i]
                    if what == _TIMED:
                        timed[timings] = i
                        timed_started[timings] = now
                        timings += 1
                        when = now + seconds[i]
                        if when == end_time and when > now:
                            chain[end_last] = i
                        else:
                            heappush(heap, (when, number, i))
                            number += 1
                            end_time = when
                        end_last = i
                        continue
                    m = messages
                    messages += 1
                    sender[m] = i
                    posted[m] = now
                    message_of[i] = message_of[bonded[i]] = m
                    c = sends[i]
                    r = asked[c]
                    if r >= 0:
                        asked[c] = asked_next[r]
                        receiver[m] = bonded[r]
                        message_of[bonded[r]] = m
                    else:
                        if sent_first[c] >= 0:
                            message_next[sent_last[c]] = m
                        else:
                            sent_first[c] = m
                        sent_last[c] = m
                    hop[m] = -1 if direct else route_from[pair[i]]
                    departing.append(m)
                    if what == _SEND_START:
                        stack.append(-1 - i)
                    elif what == _SEND:
                        blocked[i] = 1
                starting.clear()
                if departing:
                    # The first one that started is the first to be followed.
                    stack.reverse()
                    continue
            if flows is not None:
                if stale:
                    completion, stale = flows.next_completion(), False
                if completion < inf and (not heap or completion < heap[0][0]):
                    now, stale = completion, True
                    for m, leaving, when in flows.advance(now):
                        upcoming = instructions + 3 * m
                        heappush(heap, (leaving, number, upcoming + _LEFT))
                        heappush(heap, (when, number + 1, upcoming + _ARRIVED))
                        number += 2
                    continue
            if not heap:
                break
            now, _, event = heappop(heap)

        happened, event = event, chain[event]
        chain[happened] = -1
        if happened >= instructions:
            happened -= instructions
            m = happened // 3
            phase = happened - 3 * m
            if phase == _ON:
                departing.append(m)
                continue
            if phase == _ARRIVED:
                arrived[m] = now
                i = receiver[m]
                if i >= 0 and blocked[i]:
                    blocked[i] -= 1
                    if blocked[i] == 0:
                        stack.append(-1 - i)
                continue
            left[m] = now
            s = stream[sender[m]]
            i = bonded[sender[m]]
            if record:
                released[s] = message_row[m]
            free[s] += 1
            if head[s] >= 0:
                touched.append(s)
            if blocked[i]:
                blocked[i] -= 1
                if blocked[i] == 0:
                    stack.append(-1 - i)
            continue
        ending = happened
        s = stream[happened]
        if record:
            released[s] = rows
        free[s] += 1
        if head[s] >= 0:
            touched.append(s)
    return timings + hops + 2 * messages, rows, messages, timings
