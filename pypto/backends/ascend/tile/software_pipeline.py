"""Software pipelining of the cube core's loop: it sends the scores of step j beside the result of step j - 3.

    for j in steps:  s = q kᵀ, sent; p, received; o = p v, sent

The vector cores compute ``p`` from ``s``. With `PIPELINE_DEPTH` more steps, they find the next ``s`` when they are done
with ``p``, and the cube core finds ``p`` when it has sent ``s``. It is legal because the first stage needs nothing that
the loop receives. A stage that has no work in a step is a loop that does not run; unlike a branch, it lets copies go on
into the next step.

    for j in range(n + 3):
        for once in range(j < n):        s = q kᵀ, sent            # step j
        for once in range(j - 3 >= 0):   p, received; o = p v      # step j - 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.operand_facts import Span
from pypto.backends.ascend.tile.transfers import Transfer
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int32
from pypto.ops.build import OpBuilder
from pypto.passes.analysis.ranges import is_nonnegative

PIPELINE_DEPTH: Final = 3  # steps in flight: to the vector cores, in work, and back


def software_pipeline(sides: CorePartition) -> Function:
    """Return the cube side with its loops pipelined."""
    return rewrite(sides.cube, lambda r, op: pipeline_loop(r, op, sides), OpBuilder)


def pipeline_loop(r: Rewriter[OpBuilder], op: Op, sides: CorePartition) -> Sequence[Value] | None:
    """Pipeline a loop; copy any other op."""
    producers = (
        producer_ops(op, sides.transfer_of_op)
        if op.name == "for" and not op.results and is_nonnegative(op.operands[0])
        else set()
    )
    if not producers:
        return marked_copy(r, op, sides).results
    sides.sent_first |= {sides.transfer_of_op[x] for x in producers if x in sides.transfer_of_op}
    (body,), b = op.regions, r.builder
    start, stop, step = r.operands(op)
    index = Value(body.args[0].type, body.args[0].hint)
    new_body = Region([index])
    with b.inside(new_body):
        first_stage = pipeline_stage(
            r, [x for x in body.body if x in producers], b.emit("lt", index, stop), body.args[0], index
        )
        distance = b.emit("mul", step, b.constant(PIPELINE_DEPTH, step.dtype))
        consumed_index = b.emit("sub", index, distance)
        sides.nonnegative.add(consumed_index)
        second_stage = pipeline_stage(
            r, consumer_ops(body, producers), b.emit("ge", consumed_index, start), body.args[0], consumed_index
        )
        sides.loop_spans.update({first_stage: Span(index, stop), second_stage: Span(consumed_index, stop)})
        b.create("yield")
    distance = b.emit("mul", step, b.constant(PIPELINE_DEPTH, step.dtype))
    b.create("for", (start, b.emit("add", stop, distance), step), {}, (), (new_body,))
    return ()


def marked_copy(r: Rewriter[OpBuilder], op: Op, sides: CorePartition) -> Op:
    """Copy an op and all that the partition knows of it."""
    copy = r.copy(op)
    if op in sides.transfer_of_op:
        sides.transfer_of_op[copy] = sides.transfer_of_op[op]
    if op in sides.loop_spans:
        sides.loop_spans[copy] = Span(r.value(sides.loop_spans[op].index), r.value(sides.loop_spans[op].stop))
    sides.nonnegative |= {new for old, new in zip(op.results, copy.results, strict=True) if old in sides.nonnegative}
    return copy


def pipeline_stage(r: Rewriter[OpBuilder], ops: list[Op], condition: Value, old: Value, index: Value) -> Op:
    """Emit one stage of a step as a loop that runs once or not at all."""
    b = r.builder
    new_body = Region([Value(TileType((), int32), "once")])
    r.mapping[old] = index
    with b.inside(new_body):
        for op in ops:
            r.visit(op)
        b.create("yield")
    zero = b.constant(0, int32)
    one = b.constant(1, int32)
    return b.create("for", (zero, b.cast(condition, int32), one), {}, (), (new_body,))


def producer_ops(loop: Op, marks: dict[Op, Transfer]) -> set[Op]:
    """Return the ops of the first stage: what is sent without anything received. It is empty if that is all."""
    body = loop.regions[0].body
    received = {op for op in body if op in marks and op.name == "tile_load"}
    sent = [op for op in body if op in marks and op.name == "tile_store"]
    if any(op.regions for op in body) or not received:
        return set()
    makers = {v: op for op in body for v in op.results}
    producers: set[Op] = set()
    for op in sent:
        slice_ = backward_slice(op, makers)
        if not slice_ & received:
            producers |= slice_
    return producers if producers and any(op not in producers for op in sent) else set()


def consumer_ops(body: Region, producers: set[Op]) -> list[Op]:
    """Return the ops of the second stage, with what it needs of the first one."""
    makers = {v: op for op in body.body for v in op.results}
    consumers: set[Op] = set()
    for op in body.body:
        if op not in producers and not op.results:
            consumers |= backward_slice(op, makers)
    return [op for op in body.body if op in consumers]


def backward_slice(op: Op, makers: dict[Value, Op]) -> set[Op]:
    """Return an op and all ops that it depends on."""
    slice_ = {op}
    worklist = [op]
    while worklist:
        for v in worklist.pop().operands:
            maker = makers.get(v)
            if maker is not None and maker not in slice_:
                slice_.add(maker)
                worklist.append(maker)
    return slice_
