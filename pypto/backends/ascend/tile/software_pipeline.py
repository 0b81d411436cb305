"""The cube core works ahead: what it sends in a step of a loop is made some steps before what it takes in that step.

    for j in steps:  s = q kᵀ, sent; p, received; o = p v, sent

becomes, with three more steps, ``s`` of step j beside ``o`` of step j - 3, so that the vector cores find the next ``s``
when they are done with ``p``, and the cube core finds ``p`` when it has sent ``s``. A half that has no work in a step
is a loop that does not run: unlike a branch, it lets copies go on into the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pypto.backends.ascend.tile.core_partition import CorePartition, Transfer
from pypto.backends.ascend.tile.nonnegative import is_nonnegative
from pypto.backends.ascend.tile.operand_facts import Span
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int32
from pypto.ops.build import OpBuilder

PIPELINE_DEPTH: Final = 3  # steps: tiles on their way there, in work, and on their way back


def software_pipeline(sides: CorePartition) -> Function:
    """The cube core's side with loops that begin a step before they end one."""
    return rewrite(sides.cube, lambda r, op: pipeline_loop(r, op, sides), OpBuilder)


def pipeline_loop(r: Rewriter[OpBuilder], op: Op, sides: CorePartition) -> Sequence[Value] | None:
    """A loop in two halves; other ops, whose copies keep their marks."""
    first = (
        producer_ops(op, sides.marks)
        if op.name == "for" and not op.results and is_nonnegative(op.operands[0])
        else set()
    )
    if not first:
        return marked_copy(r, op, sides).results
    sides.initialised |= {sides.marks[x] for x in first if x in sides.marks}
    (body,), b = op.regions, r.builder
    start, stop, step = r.operands(op)
    index = Value(body.args[0].type, body.args[0].hint)
    inside = Region([index])
    with b.inside(inside):
        begun = pipeline_stage(r, [x for x in body.body if x in first], b.emit("lt", index, stop), body.args[0], index)
        distance = b.emit("mul", step, b.constant(PIPELINE_DEPTH, step.dtype))
        before = b.emit("sub", index, distance)
        sides.natural.add(before)
        ended = pipeline_stage(r, consumer_ops(body, first), b.emit("ge", before, start), body.args[0], before)
        sides.loop_spans.update({begun: Span(index, stop), ended: Span(before, stop)})
        b.create("yield")
    distance = b.emit("mul", step, b.constant(PIPELINE_DEPTH, step.dtype))
    b.create("for", (start, b.emit("add", stop, distance), step), {}, (), (inside,))
    return ()


def marked_copy(r: Rewriter[OpBuilder], op: Op, sides: CorePartition) -> Op:
    """A copy that keeps what is known of an op."""
    made = r.copy(op)
    if op in sides.marks:
        sides.marks[made] = sides.marks[op]
    if op in sides.loop_spans:
        sides.loop_spans[made] = Span(r.value(sides.loop_spans[op].index), r.value(sides.loop_spans[op].stop))
    sides.natural |= {new for old, new in zip(op.results, made.results, strict=True) if old in sides.natural}
    return made


def pipeline_stage(r: Rewriter[OpBuilder], ops: list[Op], condition: Value, old: Value, index: Value) -> Op:
    """Some ops of a step, where there is such a step."""
    b, inside = r.builder, Region([Value(TileType((), int32), "once")])
    r.mapping[old] = index
    with b.inside(inside):
        for op in ops:
            r.visit(op)
        b.create("yield")
    zero, one = b.constant(0, int32), b.constant(1, int32)
    return b.create("for", (zero, b.cast(condition, int32), one), {}, (), (inside,))


def producer_ops(loop: Op, marks: dict[Op, Transfer]) -> set[Op]:
    """What is sent in a step without what is received in it, and all that it is made of; nothing if that is all."""
    body = loop.regions[0].body
    received = {op for op in body if op in marks and op.name == "tile_load"}
    sent = [op for op in body if op in marks and op.name == "tile_store"]
    if any(op.regions for op in body) or not received:
        return set()
    makers = {v: op for op in body for v in op.results}
    found: set[Op] = set()
    for op in sent:
        cone = backward_slice(op, makers)
        if not cone & received:
            found |= cone
    return found if found and any(op not in found for op in sent) else set()


def consumer_ops(body: Region, first: set[Op]) -> list[Op]:
    """The rest of a step, with what of the first half it needs, too."""
    makers = {v: op for op in body.body for v in op.results}
    rest: set[Op] = set()
    for op in body.body:
        if op not in first and not op.results:
            rest |= backward_slice(op, makers)
    return [op for op in body.body if op in rest]


def backward_slice(op: Op, makers: dict[Value, Op]) -> set[Op]:
    """An op and all that it is made of."""
    found, todo = {op}, [op]
    while todo:
        for v in todo.pop().operands:
            maker = makers.get(v)
            if maker is not None and maker not in found:
                found.add(maker)
                todo.append(maker)
    return found
