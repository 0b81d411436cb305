"""A loop of the vector cores taken apart: what they send in a step, and what they make of what comes back for it.

    for j in steps:  s, received; p, a = …; p, sent; o, received; acc = acc * a + o

The cube core needs a while for ``o``, and meanwhile the next ``s`` is there. So the second half of a step runs some
steps later, and what it needs of the first one (``a``) is kept until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.nonnegative import is_natural
from pypto.backends.ascend.tile.software_pipeline import backward_slice
from pypto.ir.core import Op, Value
from pypto.ir.types import TileType
from pypto.passes.memory_effects import is_atomic, is_pure
from pypto.passes.pattern import constant_of


@dataclass
class PipelinePartition:
    """What comes before a loop, its two halves and what comes after it.

    `live_across` are tiles that the second half needs of the first one; `late` are the places of what the loop carries
    that the second half changes.
    """

    prologue: list[Op]
    loop: Op
    epilogue: list[Op]
    produce: list[Op] = field(default_factory=list)
    consume: list[Op] = field(default_factory=list)
    live_across: list[Value] = field(default_factory=list)
    late: set[int] = field(default_factory=set)

    def only_load(self, half: list[Op], sides: CorePartition) -> Op | None:
        """The only tile that a half receives, if nothing needs it when the half has ended."""
        found = [op for op in half if op in sides.marks and op.name == "tile_load"]
        ends = {*self.live_across, *self.loop.regions[0].terminator.operands}
        shapes = {"reshape", "permute", "broadcast_to", "slice"}
        alike = {v for op in half if op.name in shapes for v in op.results} | {op.result for op in found}
        return found[0] if len(found) == 1 and not alike & ends else None

    @property
    def args(self) -> tuple[Value, ...]:
        """What the loop carries."""
        return tuple(self.loop.regions[0].args[1:])


def partition_loop(body: list[Op], sides: CorePartition) -> PipelinePartition | None:
    """The halves of the only loop in which tiles go over; None where there is none that can be taken apart."""
    loops = [op for op in body if any(inner in sides.marks for region in op.regions for inner in region.ops)]
    if len(loops) != 1 or loops[0].name != "for" or not is_countable(loops[0]):
        return None
    at = body.index(loops[0])
    steps = PipelinePartition(body[:at], loops[0], body[at + 1 :])
    ops = steps.loop.regions[0].body
    late = {
        op for op in ops if op in sides.marks and op.name == "tile_load" and sides.marks[op] not in sides.initialised
    }
    if not late or any(op.regions for op in (*steps.prologue, *steps.epilogue)):
        return None
    late_dependents(steps, ops, late)
    if any((op in late and op.name == "tile_store") or is_atomic(op) for op in ops):
        return None
    assign_stages(steps, ops, late)
    return steps if all(can_stay_live(v) for v in steps.live_across) else None


def is_countable(loop: Op) -> bool:
    """Whether a loop counts up from 0 or more by a known step, and carries tiles of numbers alone."""
    step = constant_of(loop.operands[2])
    return (
        step is not None
        and step > 0
        and is_natural(loop.operands[0])
        and all(can_stay_live(v) for v in loop.results)
        and not any(op.regions for op in loop.regions[0].body)
    )


def can_stay_live(v: Value) -> bool:
    """Whether several of a value fit side by side in memory, each at whole repeats."""
    return isinstance(v.type, TileType) and bool(v.shape) and not v.tile.is_ptr and v.dtype.bits in (16, 32)


def late_dependents(steps: PipelinePartition, ops: list[Op], late: set[Op]) -> None:
    """All that depends on what comes late, or on what that changes from step to step."""
    ends = steps.loop.regions[0].terminator.operands
    size = -1
    while size != (size := len(late)):
        steps.late = {i for i, v in enumerate(ends) if v.op in late}
        values = {v for op in late for v in op.results} | {steps.args[i] for i in steps.late}
        late.update(op for op in ops if values & set(op.operands))


def assign_stages(steps: PipelinePartition, ops: list[Op], late: set[Op]) -> None:
    """Who runs in which half: numbers and what they make in both, and what only the second one needs there alone."""
    makers = {v: op for op in ops for v in op.results}
    ends = steps.loop.regions[0].terminator.operands
    roots = [op for op in ops if op not in late and not op.results]
    roots += [v.op for i, v in enumerate(ends) if i not in steps.late and v.op in set(ops)]
    first = {op for root in roots for op in backward_slice(root, makers)}
    anew = {op for op in ops if is_rematerializable(op, makers, steps)}
    second, todo = set(late), [v for op in late for v in op.operands]
    todo += [v for i, v in enumerate(ends) if i in steps.late]
    kept: dict[Value, None] = {}
    while todo:
        v = todo.pop()
        maker = makers.get(v)
        if maker is None:
            if v in steps.args and steps.args.index(v) not in steps.late:
                kept[v] = None
        elif maker in first and maker not in anew:
            kept[v] = None
        elif maker not in second or maker in late:
            todo += [x for x in maker.operands if maker not in second]
            second.add(maker)
    steps.produce, steps.consume = [op for op in ops if op in first], [op for op in ops if op in second]
    steps.live_across = list(kept)


def is_rematerializable(op: Op, makers: dict[Value, Op], steps: PipelinePartition) -> bool:
    """Whether an op and all behind it depend on nothing but numbers, so that it can be done once more."""
    cone = backward_slice(op, makers)
    pure = all(is_pure(x) for x in cone)
    return pure and not any(v in steps.args for x in cone for v in x.operands)


def can_rematerialize_prologue(steps: PipelinePartition) -> bool:
    """Whether what both halves and the end need of what comes before the loop can be computed for each part anew."""
    makers = {v: op for op in steps.prologue for v in op.results}
    users = [*steps.loop.regions[0].body, *steps.epilogue]
    needed = {x for op in users for v in op.operands if v in makers for x in backward_slice(makers[v], makers)}
    return all(is_pure(op) for op in needed)
