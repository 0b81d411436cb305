"""In-place updates: a step writes its result to the memory of an operand that no later step reads.

The operand is an array of the arena, or an argument that the function updates. An update by numpy or by indices, and a
launch in the user's function, write into the array that they update. A kernel may overwrite an operand if each of its
programs reads exactly the elements that it writes. Then no program reads elements that another program wrote, and each
program loads before it stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.writer import Access
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Graph, Node, base_of
from pypto.graph.plan.schedule import Step
from pypto.graph.tracing.launches import launch_of

LEAST_BYTES: Final = 1 << 18  # of an array; smaller ones are worth no second version of a kernel
FORMS: Final = ("pointwise", "rows", "columns")  # of kernels that are as fast in place
Spans = Mapping[Node, tuple[int, int]]


def updated_in_place(
    steps: Sequence[Step],
    ends: Sequence[tuple[int, int]],
    spans: Spans,
    stored: set[Node],
    updates: Mapping[Node, Node],
) -> dict[Node, Node]:
    """Buffer aliasing: map each array that a step overwrites to the array that owns the shared buffer.

    The last array of a chain of updates owns the buffer: if it is a result, the whole chain uses the result's memory.
    If it is the new value of an argument that the function updates, the chain uses the argument's memory.
    """
    aliases: dict[Node, Node] = {}
    last = {node: number for number, step in enumerate(steps) for node in step.reads if node in updates}
    for number in reversed(range(len(steps))):
        if ends[number] != (number, number):
            continue  # a step that overlaps this one may still read
        updated = set[Node]()
        for base, node in updates_of(steps[number], stored):
            if base in spans and spans[base][1] == number and base not in aliases and node not in updated:
                aliases[base] = aliases.get(node, node)
                updated.add(node)
            elif last.get(base) == number and updates[base] is aliases.get(node, node) and node not in updated:
                final = updates[base]
                aliases |= dict.fromkeys([final, *(n for n, owner in aliases.items() if owner is final)], base)
                updated.add(node)
    return aliases


def updates_in(graph: Graph, updates: Mapping[Node, Node], steps: Sequence[Step]) -> Mapping[Node, Node]:
    """Return the arguments, with their new values, whose memory steps may write.

    A step that may raise leaves all arguments as they were, so a plan with such a step writes to none of them.
    """
    read = set(map(base_of, graph.outputs))
    hosts = (s.nodes[-1] for s in steps)
    if any(n.has("indexed") or (n.is_call and launch_of(n) is None) for n in hosts):
        return {}
    return {node: final for node, final in updates.items() if node not in read and not final.is_movement}


def updates_of(step: Step, stored: set[Node]) -> Iterator[tuple[Node, Node]]:
    """Yield the operands that a step may overwrite, each with the result that overwrites it."""
    node = step.nodes[-1]
    launch = launch_of(node)
    if launch is not None:
        for result in step.nodes:
            source = launch.written[result.attr("result")].source
            others = [base_of(x, stored) for n, x in enumerate(node.inputs) if n != source]
            if source is not None and node.inputs[source] not in others:
                yield node.inputs[source], result
        return
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
    """Whether each program of a kernel reads exactly those elements of an array that it writes of the result.

    The kernel must have one load of the array and one store of the result, indexed by the same axes. A second load
    could read elements that the program already wrote.
    """
    read = [a for a in step.arguments if not a.is_output and base_of(a.node, {source}) is source]
    if len(read) != 1 or read[0].node is not source:
        return False
    (target,) = [a for a in step.arguments if a.is_output and a.node is result] or (None,)
    places = [x for x in step.accesses if x.array == read[0].name]
    if target is None or len(places) != 1 or None in places[0].axes:
        return False
    return [x for x in step.accesses if x.array == target.name] == [Access(target.name, places[0].axes, "write")]
