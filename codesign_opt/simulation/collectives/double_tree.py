"""Double binary tree all-reduce: two trees with half of the vector each; who forwards in one is a leaf in the other."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign_opt.graphs.graph import Array
from codesign_opt.simulation.collectives.composition import side_by_side
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import RECV, REDUCE, SEND, Schedule
from codesign_opt.simulation.collectives.team import Team

DOUBLE_TREE: Final = "double-binary-tree"
DEFAULT_CHUNKS: Final = 8


def double_tree_all_reduce(team: Team, *, chunks: int = DEFAULT_CHUNKS) -> Schedule:
    """Chunk after chunk is reduced towards the root of each tree, and broadcast back from it.

    Args:
        team: The group.
        chunks: Into which each half of the vector is cut.
    """
    position = np.arange(team.members)
    # For an even number the mirrored tree swaps leaves and forwarders; for an odd one a shift does for all but one.
    second = position[::-1] if team.members % 2 == 0 else np.roll(position, -1)
    trees = [
        (f"tree_{number + 1}", _tree_all_reduce(team.part(number, 2).ordered(order), chunks))
        for number, order in enumerate((position, second))
    ]
    return side_by_side("all-reduce", DOUBLE_TREE, team, trees)


def tree_depth(members: int) -> int:
    """Hops from the root of a tree of so many members to the farthest leaf."""
    return (members - 1).bit_length()


def _parents(members: int) -> Array:
    """The member above each; -1 for 0, the root, which stands above a binary tree of 1 to n - 1 in order.

    The lowest set bit of a member says how many hops it is above the leaves, the odd members. The one above it is one
    bit away, up or down, such that its own lowest set bit is the next higher one; past the end, the next one down.
    """
    member = np.arange(1, members)
    bit = member & -member
    above = (member ^ bit) | 2 * bit
    return np.concatenate(([-1], np.where(above < members, above, member ^ bit)))


def _depths(parents: Array) -> Array:
    depth = np.zeros(len(parents), dtype=np.int64)
    above = parents
    while np.any(above >= 0):
        depth += above >= 0
        above = np.where(above >= 0, parents[above], -1)
    return depth


def _heights(parents: Array, depth: Array) -> Array:
    """Hops from each member down to the farthest leaf below it."""
    height = np.zeros(len(parents), dtype=np.int64)
    for level in range(int(depth.max()), 0, -1):
        members = np.flatnonzero(depth == level)
        np.maximum.at(height, parents[members], height[members] + 1)
    return height


def _tree_all_reduce(team: Team, chunks: int) -> Schedule:
    """Rows of shape (chunks, members); a link of the tree stands at the place of its lower end."""
    rows = RowBuilder()
    rank = team.groups[0]
    parents = _parents(team.members)
    depth = _depths(parents)
    height = _heights(parents, depth)
    below = np.flatnonzero(parents >= 0)
    above = parents[below]
    chunk = np.arange(chunks)[:, np.newaxis]
    size = team.size / chunks
    send_up = rows.add(
        SEND, rank=rank[below], to=rank[above], bytes_out=size, block=chunk, level=2 * (height[below] + chunk)
    )
    receive_up = rows.add(RECV, rank=rank[above], adds=True, level=2 * (height[above] - 1 + chunk))
    reduction = rows.add(REDUCE, rank=rank[above], scale=team.share / chunks, level=2 * (height[above] - 1 + chunk) + 1)
    turn = 2 * (height[0] + chunk + depth[above])
    send_down = rows.add(SEND, rank=rank[above], to=rank[below], bytes_out=size, block=chunk, level=turn)
    receive_down = rows.add(RECV, rank=rank[below], level=turn)
    rows.deliver(send_up, receive_up)
    rows.deliver(send_down, receive_down)
    rows.wait(reduction, receive_up)
    rows.wait(receive_down, send_up)
    for link in (send_up, receive_up, send_down, receive_down):
        rows.wait(link[1:], link[:-1])
    # A forwarder sends up what it has reduced, and down what comes from above; the root has one link, where it turns.
    own_link = np.full(team.members, -1)
    own_link[below] = np.arange(len(below))
    onward = own_link[above]
    forwards = onward >= 0
    rows.wait(send_up[:, onward[forwards]], reduction[:, forwards])
    rows.wait(send_down[:, forwards], receive_down[:, onward[forwards]])
    rows.wait(send_down[:, ~forwards], reduction[:, ~forwards])
    return rows.build("all-reduce", "binary-tree", team, blocks=team.vectors().slices(chunks))
