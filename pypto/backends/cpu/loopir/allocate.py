"""Buffer allocation: gives a buffer to each materialised value, coalesces buffers, and assigns offsets in scratch.

Coalescing puts the values that control flow passes on (initial value, loop argument, yielded value, result), and a
dot with its accumulator, into one buffer: no copies are needed. That is legal where live ranges do not interfere.

    %r = for %i iter(%a = %init) { %b = add %a, %x; yield %b }
coalesced, all four share b0:
    compute %init -> b0 | for { compute add -> b0 }
not coalesced:
    compute %init -> b0 | for { compute add -> b1; copy -> b0 } | copy -> b2

Offsets are assigned by live range, so that buffers that are not live at the same time overlap. They are chosen after
fusion, which may contract a buffer to registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.backends.cpu.loopir.index_maps import IndexMap, inlined_operands, is_inlinable, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer, item_bytes
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.target import CpuTarget
from pypto.blocking import round_up
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import DType, PtrType
from pypto.passes.analysis.carried import LAYOUTS, carried, initial, yields
from pypto.passes.analysis.dimensions import is_unit_reshape
from pypto.passes.analysis.dot_facts import is_packed
from pypto.passes.target_facts import CACHE


@dataclass
class BufferAllocation:
    """Buffers of a function, by value."""

    plan: Materialization
    target: CpuTarget
    buffer_of: dict[Value, Buffer] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)  # in order of their numbers
    sharers: dict[Value, list[Value]] = field(default_factory=dict)  # all values that share a value's buffer

    def new(
        self,
        elem: DType | PtrType,
        shape: tuple[int, ...],
        start: int,
        end: int,
        panel: int = 0,
        pad_columns: bool = False,
        in_memory_format: bool = False,
    ) -> Buffer:
        """A buffer for a tile that is live from `start` to `end`.

        The last dimension above 1 is padded to whole registers, so that chunks need no masks; with `pad_columns` the
        last dimension in any case.
        """
        lanes = self.lanes_of(elem, in_memory_format)
        sizes = list(shape)
        if len(sizes) > 1 and sizes[-2] >= lanes:
            sizes[-2] = round_up(sizes[-2], lanes)
        dims = [d for d, n in enumerate(shape) if n > 1]
        if panel or pad_columns:
            sizes[-1] = round_up(sizes[-1], panel or lanes)
        elif dims:
            sizes[dims[-1]] = round_up(sizes[dims[-1]], lanes)
        buffer = Buffer(len(self.buffers), elem, shape, sizes, panel, in_memory_format, live_start=start, live_end=end)
        self.buffers.append(buffer)
        return buffer

    def lanes_of(self, elem: DType | PtrType, in_memory_format: bool = False) -> int:
        """Elements in a register, in the format of the buffer."""
        return max(1, self.target.vector_bytes // item_bytes(elem, in_memory_format))


def allocate_buffers(plan: Materialization, target: CpuTarget) -> BufferAllocation:
    """Allocate a buffer for each set of coalesced values, then the views of these."""
    storage = BufferAllocation(plan, target)
    materialized = [v for v in plan.readers if v in plan.materialized]
    storage.sharers = {v: [v] for v in materialized}
    for a, b in coalescing_hints(plan.function.body):
        if a in storage.sharers and b in storage.sharers:
            coalesce(storage, a, b)
    ordered = sorted(materialized, key=plan.defined_at)
    for v in ordered:
        if v not in storage.buffer_of and not is_view(v):
            storage.buffer_of.update(dict.fromkeys(storage.sharers[v], shared_buffer(storage, v)))
    for v in ordered:
        if is_view(v):
            add_view(storage, v)
    return storage


def shared_buffer(storage: BufferAllocation, v: Value) -> Buffer:
    """A buffer for a value and all that share it, padded as each of them demands."""
    plan = storage.plan
    values = storage.sharers[v]
    ranges = [live_range(plan, x) for x in values]
    holds_product = any(is_dot_result(plan, x) for x in values)
    buffer = storage.new(
        v.tile.elem,
        v.shape,
        min(start for start, _ in ranges),
        max(end for _, end in ranges),
        pad_columns=holds_product,
        in_memory_format=any(is_packed(plan.uses, x, storage.target) for x in values),
    )
    lanes = storage.lanes_of(v.tile.elem)
    if holds_product and buffer.pitch * item_bytes(v.tile.elem) % CACHE.alias == 0:
        buffer.sizes[-1] += lanes
    if any(x.op is not None and x.op.name == "sort_keys" for x in values):  # the network sorts powers of two
        buffer.sizes[-1] = max(lanes, 1 << (v.shape[-1] - 1).bit_length())
    return buffer


def live_range(plan: Materialization, v: Value) -> tuple[int, int]:
    """Positions of the first write and the last read; an argument or result of a loop is live in all of the loop."""
    control = plan.parent_loop[v] if v.op is None else v.op
    if v.op is None or control.regions:
        return plan.position[control], max(plan.end_position[control], plan.last_read(v))
    return plan.defined_at(v), plan.last_read(v)


def is_dot_result(plan: Materialization, v: Value) -> bool:
    """Whether a dot writes the value, or has it as its accumulator."""
    accumulates = any(user.name == "dot" and v in user.operands[2:] for user in plan.uses[v])
    return accumulates or (v.op is not None and v.op.name == "dot")


def is_view(v: Value) -> bool:
    """Whether a value is the memory of another one under another shape: a reshape that regroups dimensions."""
    return v.op is not None and v.op.name == "reshape" and not is_unit_reshape(v.op)


def add_view(storage: BufferAllocation, v: Value) -> None:
    """Give a reshape its operand's memory under its own shape; neither may have padding then."""
    assert v.op is not None
    source = storage.buffer_of[v.op.operands[0]].memory
    view = Buffer(
        len(storage.buffers),
        source.elem,
        v.shape,
        [],
        in_memory_format=source.in_memory_format,
        view_of=source,
        live_start=source.live_start,
        live_end=source.live_end,
    )
    for buffer in (source, view):
        buffer.unpadded, buffer.sizes = True, list(buffer.shape)
    storage.buffers.append(view)
    storage.buffer_of[v] = view


def coalescing_hints(region: Region) -> list[tuple[Value, Value]]:
    """Pairs of values whose buffers would save a copy if they were one."""
    pairs: list[tuple[Value, Value]] = []
    for op in region.ops:
        for inner in op.regions:
            pairs += coalescing_hints(inner)
        if op.name == "dot" and len(op.operands) > 2:
            pairs.append((op.operands[2], op.results[0]))
        if op.name in LAYOUTS:
            first, *others = coalescing_classes(op)
            for values in others:
                pairs += zip(first, values, strict=True)
    return pairs


def coalescing_classes(op: Op) -> list[Sequence[Value]]:
    """Lists of values that a control op passes on, in the same order: arguments, yielded values, results."""
    if op.name == "if":
        return [op.results, *yields(op)]
    args = [carried(op, region) for region in op.regions]
    return [args[-1], *yields(op), op.results, initial(op), *args[:-1]]


def coalesce(storage: BufferAllocation, a: Value, b: Value) -> None:
    """Let all values that share a buffer with `a` or `b` share one, if no two of them interfere."""
    first = storage.sharers[a]
    second = storage.sharers[b]
    if first is second or a.type != b.type or any(is_view(v) for v in (*first, *second)):
        return
    if any(interfere(storage.plan, x, y) for x in first for y in second):
        return
    first += second
    for v in second:
        storage.sharers[v] = first


def interfere(plan: Materialization, a: Value, b: Value) -> bool:
    """Whether one value is read at or after the position where the other one is written."""
    first, second = (a, b) if plan.defined_at(a) <= plan.defined_at(b) else (b, a)
    written = plan.defined_at(second)
    last = plan.last_read(first)
    if plan.defined_at(first) == written:
        # The same argument of both regions of a `while` is one value; two results of one op are not.
        return not (
            first.op is None
            and second.op is None
            and plan.parent_loop[first] is plan.parent_loop[second]
            and same_argument(plan, first, second)
        )
    if last != written:
        return last > written
    return not (second.op is None or second.op.regions or can_overwrite(plan, second.op, first))


def same_argument(plan: Materialization, a: Value, b: Value) -> bool:
    """Whether two region arguments are the same one, in both regions of a `while`."""
    indices = [r.args.index(v) for v in (a, b) for r in plan.parent_loop[a].regions if v in r.args]
    return plan.parent_loop[a].name == "while" and indices[0] == indices[1] and a is not b


def can_overwrite(plan: Materialization, op: Op, old: Value) -> bool:
    """Whether `op` can write its result over `old`: it reads each element before it writes the same element."""
    if op.name == "dot":
        packed = [v.op.operands[0] for v in op.operands[1:2] if op in plan.packed and v.op is not None]
        return len(op.operands) > 2 and old is op.operands[2] and old not in (*op.operands[:2], *packed)
    if not is_inlinable(op) or old.shape != op.results[0].shape:
        return False
    return all(index == tuple(range(len(old.shape))) for index in index_maps_to(plan, op, old))


def index_maps_to(plan: Materialization, op: Op, leaf: Value) -> list[IndexMap]:
    """Index maps at which the statement of `op` reads `leaf`."""
    return [
        index
        for v, index in inlined_operands(operand_reads(op), lambda v: v in plan.materialized or v is leaf)
        if v is leaf
    ]


def assign_offsets(buffers: list[Buffer]) -> int:
    """Assign offsets by first fit, largest buffer first; buffers that are live together get separate bytes.

    Gives the bytes of scratch in all.
    """
    placed: list[tuple[int, int, Buffer]] = []
    stored = [b for b in buffers if b.view_of is None and not b.contracted]
    for buffer in sorted(stored, key=lambda b: (-b.size_bytes, b.id)):
        size = round_up(buffer.size_bytes, CACHE.line) + CACHE.line
        if size % CACHE.page < 2 * CACHE.line:
            size += CACHE.spacing
        offset = 0
        for start, stop, other in sorted(placed, key=lambda p: p[0]):
            if other.live_start <= buffer.live_end and buffer.live_start <= other.live_end and offset + size > start:
                offset = max(offset, stop)
        buffer.offset = offset
        placed.append((offset, offset + size, buffer))
    for buffer in buffers:
        if buffer.view_of is not None:
            buffer.offset = buffer.view_of.offset
    return max((stop for _, stop, _ in placed), default=0)
