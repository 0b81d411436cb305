"""Pipeline partition: splits the vector cores' loop into two stages, around the product that the cube core makes.

    for j in steps:  s, received; p, a = …; p, sent; o, received; acc = acc * a + o

The cube core needs a while for ``o``, and meanwhile the next ``s`` is there. So the second stage of a step runs some
steps later. Values of the first stage that the second one needs (``a``) stay live until then. It is legal if the loop
counts up by a known step, the second stage sends nothing back, and all live values are tiles of numbers.

    first stage of step i:              second stage of step i - depth:
        receive s; p, a = f(s)              receive o
        send p; keep a                      acc = acc * a + o
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.software_pipeline import backward_slice
from pypto.ir.core import Op, Value
from pypto.ir.types import TileType
from pypto.ops.table import MOVEMENT_OPS
from pypto.passes.analysis.memory_effects import is_atomic, is_constant_load, is_pure, written_arrays
from pypto.passes.analysis.ranges import is_nonnegative
from pypto.passes.pattern import constant_of


@dataclass
class PipelinePartition:
    """A loop in two stages, with what comes before and behind it."""

    prologue: list[Op]  # ops before the loop
    loop: Op  # the loop
    epilogue: list[Op]  # ops behind the loop
    produce: list[Op] = field(default_factory=list)  # ops of the first stage
    consume: list[Op] = field(default_factory=list)  # ops of the second stage
    live_across: list[Value] = field(default_factory=list)  # tiles of the first stage that the second one needs
    late_carried: set[int] = field(default_factory=set)  # positions of carried values that the second stage updates

    def only_received(self, stage: list[Op], sides: CorePartition) -> Op | None:
        """Return the only tile that a stage receives, if it is dead at the end of the stage."""
        loads = [op for op in stage if op in sides.transfer_of_op and op.name == "tile_load"]
        live_at_end = {*self.live_across, *self.loop.regions[0].terminator.operands}
        shapes = (*MOVEMENT_OPS, "slice")
        views = {v for op in stage if op.name in shapes for v in op.results} | {op.result for op in loads}
        return loads[0] if len(loads) == 1 and not views & live_at_end else None

    @property
    def carried_args(self) -> tuple[Value, ...]:
        """The values that the loop carries."""
        return tuple(self.loop.regions[0].args[1:])


def partition_loop(body: list[Op], sides: CorePartition) -> PipelinePartition | None:
    """Split the only loop that exchanges tiles; None where there is none, or it cannot be split."""
    loops = [op for op in body if any(inner in sides.transfer_of_op for region in op.regions for inner in region.ops)]
    if len(loops) != 1 or loops[0].name != "for" or not is_countable(loops[0]):
        return None
    position = body.index(loops[0])
    steps = PipelinePartition(body[:position], loops[0], body[position + 1 :])
    ops = steps.loop.regions[0].body
    second_stage = {
        op
        for op in ops
        if op in sides.transfer_of_op and op.name == "tile_load" and sides.transfer_of_op[op] not in sides.sent_first
    }
    if not second_stage or any(op.regions for op in (*steps.prologue, *steps.epilogue)):
        return None
    late_dependents(steps, ops, second_stage)
    if any((op in second_stage and op.name == "tile_store") or is_atomic(op) for op in ops):
        return None
    assign_stages(steps, ops, second_stage)
    return steps if all(can_stay_live(v) for v in steps.live_across) else None


def is_countable(loop: Op) -> bool:
    """Whether a loop counts up from 0 or more by a known step, and carries only tiles of numbers."""
    step = constant_of(loop.operands[2])
    return (
        step is not None
        and step > 0
        and is_nonnegative(loop.operands[0])
        and all(can_stay_live(v) for v in loop.results)
        and not any(op.regions for op in loop.regions[0].body)
    )


def can_stay_live(v: Value) -> bool:
    """Whether several copies of a value fit side by side in memory, each at whole repeats."""
    return isinstance(v.type, TileType) and bool(v.shape) and not v.tile.is_ptr and v.dtype.bits in (16, 32)


def late_dependents(steps: PipelinePartition, ops: list[Op], second_stage: set[Op]) -> None:
    """Add all ops that depend on the second stage, or on what it carries from step to step."""
    next_values = steps.loop.regions[0].terminator.operands
    size = -1
    while size != (size := len(second_stage)):
        steps.late_carried = {i for i, v in enumerate(next_values) if v.op in second_stage}
        values = {v for op in second_stage for v in op.results} | {steps.carried_args[i] for i in steps.late_carried}
        second_stage.update(op for op in ops if values & set(op.operands))


def assign_stages(steps: PipelinePartition, ops: list[Op], second_stage: set[Op]) -> None:
    """Assign ops to stages: scalars to both, and what only the second one needs to that one alone."""
    makers = {v: op for op in ops for v in op.results}
    next_values = steps.loop.regions[0].terminator.operands
    roots = [op for op in ops if op not in second_stage and not op.results]
    roots += [v.op for i, v in enumerate(next_values) if i not in steps.late_carried and v.op in set(ops)]
    produced = {op for root in roots for op in backward_slice(root, makers)}
    rematerialised = {op for op in ops if is_rematerializable(op, makers, steps)}
    consumed = set(second_stage)
    worklist = [v for op in second_stage for v in op.operands]
    worklist += [v for i, v in enumerate(next_values) if i in steps.late_carried]
    live: dict[Value, None] = {}
    while worklist:
        v = worklist.pop()
        maker = makers.get(v)
        if maker is None:
            if v in steps.carried_args and steps.carried_args.index(v) not in steps.late_carried:
                live[v] = None
        elif maker in produced and maker not in rematerialised:
            live[v] = None
        elif maker not in consumed or maker in second_stage:
            worklist += [x for x in maker.operands if maker not in consumed]
            consumed.add(maker)
    steps.produce = [op for op in ops if op in produced]
    steps.consume = [op for op in ops if op in consumed]
    steps.live_across = list(live)


def is_rematerializable(op: Op, makers: dict[Value, Op], steps: PipelinePartition) -> bool:
    """Whether an op and all that it depends on are pure and use nothing that the loop carries."""
    slice_ = backward_slice(op, makers)
    pure = all(is_pure(x) for x in slice_)
    return pure and not any(v in steps.carried_args for x in slice_ for v in x.operands)


def can_rematerialize_prologue(steps: PipelinePartition, sides: CorePartition) -> bool:
    """Whether all that the loop and the epilogue need of the prologue can be computed again for each chunk of rows."""
    makers = {v: op for op in steps.prologue for v in op.results}
    users = [*steps.loop.regions[0].body, *steps.epilogue]
    needed = {x for op in users for v in op.operands if v in makers for x in backward_slice(makers[v], makers)}
    written = written_arrays(sides.vector)
    return all(is_pure(op) or is_constant_load(sides.vector, op, written) for op in needed)
