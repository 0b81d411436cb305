"""In-place updates: a step writes its result to the memory of an operand that no later step reads.

An update by numpy or by indices writes into the array that it updates. A kernel may write a result over an operand if
each of its programs reads exactly the elements that it writes. Then no program reads what another one has written,
and a program stores after it has loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.writer import Access
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Node, base_of
from pypto.graph.plan.schedule import Step

LEAST_BYTES: Final = 1 << 18  # of an array; smaller ones are worth no second version of a kernel
FORMS: Final = ("pointwise", "rows", "columns")  # of kernels that are as fast in place
Spans = Mapping[Node, tuple[int, int]]


def updated_in_place(
    steps: Sequence[Step], ends: Sequence[tuple[int, int]], spans: Spans, stored: set[Node]
) -> dict[Node, Node]:
    """Arrays that are made in the memory of another one, which is in the arena and not read any more, with its owner.

    The last array of a row of updates owns the memory: where it is a result, all are made in its memory.
    """
    aliases: dict[Node, Node] = {}
    for number in reversed(range(len(steps))):
        if ends[number] != (number, number):
            continue  # a step that overlaps this one may still read
        updated = set[Node]()
        for base, node in updates_of(steps[number], stored):
            if base in spans and spans[base][1] == number and base not in aliases and node not in updated:
                aliases[base] = aliases.get(node, node)
                updated.add(node)
    return aliases


def updates_of(step: Step, stored: set[Node]) -> Iterator[tuple[Node, Node]]:
    """Arrays that a step may update, each with what it makes of it."""
    node = step.nodes[-1]
    if step.kernel is None or step.kernel.form == SCATTER:
        if node.has("update") and node.type.size:
            base, *others = node.inputs
            if all(base_of(x, stored) is not base for x in others):
                yield base, node
        return
    if step.kernel.form not in FORMS:
        return
    for result in (x for x in step.writes if hint(x.type.nbytes) >= LEAST_BYTES):
        yield from ((x, result) for x in step.reads if x.type == result.type and is_in_place(step, x, result))


def is_in_place(step: Step, source: Node, result: Node) -> bool:
    """Whether the programs of a kernel read each element of an array where they write that of the result.

    The kernel reads the array in one place and writes the result in one place, by the same axes. A second place could
    read what the program has written already.
    """
    read = [a for a in step.arguments if not a.is_output and base_of(a.node, {source}) is source]
    if len(read) != 1 or read[0].node is not source:
        return False
    (target,) = [a for a in step.arguments if a.is_output and a.node is result] or (None,)
    places = [x for x in step.accesses if x.array == read[0].name]
    if target is None or len(places) != 1 or None in places[0].axes:
        return False
    return [x for x in step.accesses if x.array == target.name] == [Access(target.name, places[0].axes, "write")]
