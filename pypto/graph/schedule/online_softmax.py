"""Online softmax: a softmax along an axis that is too long for a tile becomes one loop over the axis.

The rewrite is algebra on four ops. Let ``m = max(s)`` and ``e = exp(s - m)``, where only sums and products along the
axis of the maximum read e. The loop may then use the maximum so far: where it grows from m to m', all sums so far are
multiplied by ``exp(m - m')``. Attention over a long axis is one instance.

Operations that need the axis again after the sums, as in ``s - m - log(sum(e))``, run in a second loop with the final
maximum. The second loop recomputes its operands from the first loop, which are cheap.

A NaN in s makes all these sums NaN in either form, so the maximum of the loop ignores NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from pypto.graph.ir.node import Node
from pypto.graph.ir.type_rules import is_in_pieces
from pypto.graph.schedule.index_space import Dim, FusionConflict, IndexSpace

TWICE = "a long axis would be gone through twice"


@dataclass(frozen=True, slots=True)
class Online:
    """An online softmax of one or two loops.

    Parameters
    ----------
    maximum : Node
        The maximum along the axis of the loop.
    shapes : tuple of Node
        Reshapes and broadcasts of the maximum.
    difference : Node
        ``s - m``
    sums : tuple of Node
        The sums and products of ``exp(s - m)`` along the axis.
    is_read_late : bool
        Whether a node after the loop needs the maximum itself, as the logarithm of a sum of exponentials does.
    second : tuple of Node
        The nodes of the second loop and the nodes after it.
    repeated : tuple of Node
        The nodes of the first loop that the second loop recomputes.
    """

    maximum: Node
    shapes: tuple[Node, ...]
    difference: Node
    sums: tuple[Node, ...]
    is_read_late: bool = False
    second: tuple[Node, ...] = ()
    repeated: tuple[Node, ...] = ()

    def is_late(self, reader: Node | None, x: Node) -> bool:
        """Whether a reader needs the final maximum, after the loop."""
        return x in (self.maximum, *self.shapes) and reader is not self.difference and reader not in self.shapes


def online_of(space: IndexSpace, axis: int, lines: Mapping[Node, Dim]) -> Online:
    """Match the softmax along an axis.

    Raises
    ------
    FusionConflict
        When the nodes along the axis do not form an online softmax.
    """
    members = set(space.nodes)
    readers: dict[Node, list[Node]] = {n: [] for n in space.nodes}
    for n in space.nodes:
        for x in n.inputs:
            if x in members:
                readers[x].append(n)
    maxima = [n for n in space.nodes if n.op == "max" and axis in lines.get(n.inputs[0], ()) and axis not in lines[n]]
    if len(maxima) != 1:
        raise FusionConflict(TWICE)
    maximum = maxima[0]
    shapes, difference = subtracted(maximum, readers)
    if not members.issuperset((difference, *shapes)):  # a form of the maximum is made elsewhere
        raise FusionConflict(TWICE)
    exponentials = [n for n in readers[difference] if n.op == "exp"]
    if len(exponentials) != 1 or difference.inputs[0] is not maximum.inputs[0]:
        raise FusionConflict(TWICE)
    forms = (exponentials[0], *(n for n in readers[exponentials[0]] if n.op == "cast"))
    sums = tuple(n for x in forms for n in readers[x] if is_sum(n, x, axis, lines))
    if not sums:
        raise FusionConflict(TWICE)
    found_online = Online(maximum, shapes, difference, sums)
    second, repeated = second_loop(space, axis, found_online, forms, lines)
    inner = (*shapes, *(() if difference in repeated else (difference,)))
    chain = (maximum, *shapes)
    is_read_late = any(x in space.outputs or any(r not in inner for r in readers[x]) for x in chain)
    return Online(maximum, shapes, difference, sums, is_read_late, second, repeated)


def subtracted(maximum: Node, readers: Mapping[Node, list[Node]]) -> tuple[tuple[Node, ...], Node]:
    """Return the reshapes and broadcasts of a maximum, and the difference that reads the last of them."""
    shapes: list[Node] = []
    current, source = maximum, maximum.inputs[0]
    while True:
        difference = next((r for r in readers[current] if r.op == "sub" and r.inputs == (source, current)), None)
        if difference is not None:
            return tuple(shapes), difference
        current = next((r for r in readers[current] if r.op in ("reshape", "broadcast_to")), None) or conflict()
        shapes.append(current)


def conflict() -> NoReturn:
    raise FusionConflict(TWICE)


def is_sum(node: Node, exponential: Node, axis: int, lines: Mapping[Node, Dim]) -> bool:
    """Whether a node sums exponentials along the axis."""
    if axis in lines[node]:
        return False
    return node.op == "sum" or (node.is_product and node.inputs[0] is exponential and node.inputs[1] is not exponential)


def second_loop(
    space: IndexSpace, axis: int, online: Online, exponentials: tuple[Node, ...], lines: Mapping[Node, Dim]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the nodes of the second loop and after it, and the nodes of the first loop that it recomputes.

    Raises
    ------
    FusionConflict
        When the recomputed nodes are not cheap.
    """
    first = {online.maximum, online.difference, *exponentials, *online.shapes, *online.sums}
    passing = {online.difference, *exponentials}  # by the maximum so far, which is none to read elsewhere
    late, second = set(online.sums), dict[Node, None]()
    for node in space.nodes:
        if node in first:
            continue
        if any(x in passing or x in second for x in node.inputs):
            second[node] = None
        elif any(x in late or online.is_late(node, x) for x in node.inputs):
            late.add(node)
            if axis in lines[node]:
                second[node] = None
    wanted = [*(x for n in second for x in n.inputs), *(x for x in passing if x in space.outputs)]
    members, repeated = set(space.nodes), set[Node]()
    while wanted:
        node = wanted.pop()
        if node in members and axis in lines[node] and node not in second and node not in repeated:
            repeated.add(node)
            wanted += node.inputs
    if not all(is_cheap(n) for n in repeated) or not all(is_cheap(n) or is_in_pieces(n.op) for n in second):
        raise FusionConflict(TWICE)
    return tuple(second), tuple(n for n in space.nodes if n in repeated)


def is_cheap(node: Node) -> bool:
    """Whether recomputing a node is cheaper than storing it."""
    return node.has("elementwise", "movement") or node.op == "arange"
