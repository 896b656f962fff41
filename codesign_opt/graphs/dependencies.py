"""Orders of instructions by their operands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from codesign_opt.graphs.graph import Array, Ragged


def operands_first(operands: Ragged) -> Array:
    """The instructions, each after its operands; without those that stand on a cycle or wait for one.

    Where every instruction comes after its operands already, that is their order as it stands.
    """
    count = len(operands)
    waiting = np.diff(operands.offsets)
    user = np.repeat(np.arange(count), waiting)
    if np.all(operands.values < user):
        return np.arange(count)
    lists = Ragged.grouped(operands.values, count)
    offsets, users = lists.offsets.tolist(), user[lists.values].tolist()
    missing = waiting.tolist()
    ready = deque(np.flatnonzero(waiting == 0).tolist())
    order = []
    while ready:
        instruction = ready.popleft()
        order.append(instruction)
        for follower in users[offsets[instruction] : offsets[instruction + 1]]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return np.array(order, dtype=np.int64)


def find_cycle(operands: Ragged) -> list[int]:
    """Instructions of which each waits for the next, and the last for the first; empty where there are none."""
    left = np.ones(len(operands), dtype=bool)
    left[operands_first(operands)] = False
    if not left.any():
        return []
    # Whatever is left has an operand that is left, so that the walk comes back to where it was.
    instruction = int(np.flatnonzero(left)[0])
    visited: dict[int, int] = {}
    while instruction not in visited:
        visited[instruction] = len(visited)
        instruction = next(operand for operand in operands[instruction].tolist() if left[operand])
    return list(visited)[visited[instruction] :]


def post_order(operands: Ragged, root: int, members: Iterable[int]) -> list[int]:
    """The instructions of a subroutine, each after its operands.

    Depth first in the order of the operands, starting from the root, then from each member that is not reached, in
    order; the root comes last.
    """
    order: list[int] = []
    visited: set[int] = set()
    for start in (root, *members):
        if start in visited:
            continue
        visited.add(start)
        walks = [(start, iter(operands[start].tolist()))]
        while walks:
            instruction, rest = walks[-1]
            for operand in rest:
                if operand not in visited:
                    visited.add(operand)
                    walks.append((operand, iter(operands[operand].tolist())))
                    break
            else:
                walks.pop()
                order.append(instruction)
    order.remove(root)
    return [*order, root]
