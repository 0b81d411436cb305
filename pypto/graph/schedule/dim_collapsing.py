"""Dimension collapsing: axes that are adjacent and contiguous in every array of a group become one axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from pypto.graph.ir.node import Node
from pypto.graph.schedule.axes import Dim, Dims
from pypto.graph.schedule.index_space import IndexSpace, flat, ordered

Strides = Callable[[Node], tuple[int, ...] | None]


def chain(axis: int, merged: Mapping[int, int]) -> Dim:
    """Return an axis with the axes that follow it in every array."""
    chain = [axis]
    while chain[-1] in merged:
        chain.append(merged[chain[-1]])
    return tuple(chain)


def heads(space: IndexSpace, merged: Mapping[int, int]) -> list[int]:
    followers = set(merged.values())
    every = dict.fromkeys(a for dims in every_dims(space) for a in flat(dims))
    return [a for a in every if a not in followers]


def every_dims(space: IndexSpace) -> list[Dims]:
    """Return the distinct dimensions of all arrays."""
    return list(dict.fromkeys((*space.values.values(), *space.reads.values())))


def neighbours(space: IndexSpace, strides: Strides) -> dict[int, int]:
    """Map each axis that has the same following axis in every array to that axis."""
    after: dict[int, set[int | None]] = {}
    before: dict[int, set[int | None]] = {}
    arrays: dict[tuple[Dims, tuple[int, ...] | None], None] = dict.fromkeys((d, None) for d in space.values.values())
    arrays.update(dict.fromkeys((dims, steps_of(node, n, strides)) for (node, n), dims in space.reads.items()))
    for dims, steps in arrays:
        line = flat(dims)
        breaks = breaks_of(dims, steps, space)
        for i, axis in enumerate(line):
            follower = line[i + 1] if i + 1 < len(line) and axis not in breaks else None
            after.setdefault(axis, set()).add(follower)
            leader = line[i - 1] if i and line[i - 1] not in breaks else None
            before.setdefault(axis, set()).add(leader)
    neighbours = {}
    lines = [set(line) for n in space.nodes for line in ordered(n, space.values, space.reads)]
    for axis, followers in after.items():
        (follower, *others) = followers
        if others or follower is None or before[follower] != {axis}:
            continue
        if any((axis in line) != (follower in line) for line in lines):  # a running result goes along one alone
            continue
        if (axis in space.parallel, axis in space.reduced) == (follower in space.parallel, follower in space.reduced):
            neighbours[axis] = follower
    return neighbours


def steps_of(node: Node, number: int, strides: Strides) -> tuple[int, ...] | None:
    """Return the strides of an operand; those of a window are all 1, so that its dimensions never collapse."""
    return (1,) * len(node.shape) if node.has("shifted") else strides(node.inputs[number])


def breaks_of(dims: Dims, steps: tuple[int, ...] | None, space: IndexSpace) -> set[int]:
    """Return the last axis of each dimension whose next dimension is not contiguous with it in memory."""
    if steps is None:
        return set()
    present = [(dim, step) for dim, step in zip(dims, steps, strict=True) if dim]
    pairs = pairwise(present)
    return {a[-1] for (a, step), (b, inner) in pairs if step != inner * space.axes.size(b)}
