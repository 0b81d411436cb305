"""Gives memory to the values that are kept: which values share a buffer, and where each buffer lies in scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.cpu.loopir.index_maps import (
    IndexMap,
    inlined_operands,
    is_inlinable,
    operand_reads,
)
from pypto.backends.cpu.loopir.ir import Buffer, item_bytes
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import DType, PtrType
from pypto.passes.carried import LAYOUTS, carried, initial, yields
from pypto.passes.dimensions import is_unit_reshape
from pypto.passes.dot_facts import is_packed

_CACHE_ALIAS_BYTES: Final = 2048  # bytes between rows that would push one another out of the first-level cache
_STAGGER_BYTES = 64 * 9  # buffers of 4 KB multiples would otherwise hit the same cache sets


@dataclass
class BufferAllocation:
    """Buffers by value. Values that a loop hands on share one, as do a dot and its accumulator, if lifetimes allow."""

    plan: Materialization
    target: CpuTarget
    buffer_of: dict[Value, Buffer] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    sharers: dict[Value, list[Value]] = field(default_factory=dict)

    def new(
        self,
        elem: DType | PtrType,
        shape: tuple[int, ...],
        start: int,
        end: int,
        panel: int = 0,
        whole_rows: bool = False,
        compact: bool = False,
    ) -> Buffer:
        """A buffer for a tile. Its last dimension above 1 is padded to whole registers, that of a dot's row always."""
        lanes, sizes = self.lanes_of(elem, compact), list(shape)
        if len(sizes) > 1 and sizes[-2] >= lanes:
            sizes[-2] = round_up(sizes[-2], lanes)
        along = [d for d, n in enumerate(shape) if n > 1]
        if panel or whole_rows:
            sizes[-1] = round_up(sizes[-1], panel or lanes)
        elif along:
            sizes[along[-1]] = round_up(sizes[along[-1]], lanes)
        buffer = Buffer(len(self.buffers), elem, shape, sizes, panel, compact, live_start=start, live_end=end)
        self.buffers.append(buffer)
        return buffer

    def lanes_of(self, elem: DType | PtrType, compact: bool = False) -> int:
        return max(1, self.target.vector_bytes // item_bytes(elem, compact))


def round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def allocate_buffers(plan: Materialization, target: CpuTarget) -> BufferAllocation:
    storage = BufferAllocation(plan, target)
    kept = [v for v in plan.readers if v in plan.materialized]
    storage.sharers = {v: [v] for v in kept}
    for a, b in coalescing_hints(plan.function.body):
        if a in storage.sharers and b in storage.sharers:
            coalesce(storage, a, b)
    for v in sorted(kept, key=plan.defined_at):
        if v in storage.buffer_of or is_view(v):
            continue
        members = storage.sharers[v]
        spans = [live_range(plan, m) for m in members]
        start, end = min(s for s, _ in spans), max(e for _, e in spans)
        summed = any(is_dot_result(plan, m) for m in members)
        buffer = storage.new(
            v.tile.elem,
            v.shape,
            start,
            end,
            whole_rows=summed,
            compact=any(is_packed(plan.uses, m, target) for m in members),
        )
        if summed and buffer.pitch * item_bytes(v.tile.elem) % _CACHE_ALIAS_BYTES == 0:
            buffer.sizes[-1] += storage.lanes_of(v.tile.elem)
        if any(m.op is not None and m.op.name == "sort_keys" for m in members):
            buffer.sizes[-1] = max(storage.lanes_of(v.tile.elem), 1 << (v.shape[-1] - 1).bit_length())
        storage.buffer_of.update(dict.fromkeys(members, buffer))
    for v in sorted(kept, key=plan.defined_at):
        if is_view(v):
            add_view(storage, v)
    return storage


def live_range(plan: Materialization, v: Value) -> tuple[int, int]:
    """From the first write to the last read; what control flow hands on lives for all of it."""
    control = plan.parent_loop[v] if v.op is None else v.op
    if v.op is None or control.regions:
        return plan.position[control], max(plan.end_position[control], plan.last_read(v))
    return plan.defined_at(v), plan.last_read(v)


def is_dot_result(plan: Materialization, v: Value) -> bool:
    """True for what a dot writes: its result, and an accumulator in its place."""
    accumulates = any(user.name == "dot" and v in user.operands[2:] for user in plan.uses[v])
    return accumulates or (v.op is not None and v.op.name == "dot")


def is_view(v: Value) -> bool:
    return v.op is not None and v.op.name == "reshape" and not is_unit_reshape(v.op)


def add_view(storage: BufferAllocation, v: Value) -> None:
    """A reshape that regroups elements: the source's memory, packed without padding, under another shape."""
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
    """Pairs of values that would best share memory."""
    pairs: list[tuple[Value, Value]] = []
    for op in region.ops:
        for inner in op.regions:
            pairs += coalescing_hints(inner)
        if op.name == "dot" and len(op.operands) > 2:
            pairs.append((op.operands[2], op.results[0]))
        if op.name in LAYOUTS:
            first, *others = coalescing_classes(op)
            pairs += [pair for other in others for pair in zip(first, other, strict=True)]
    return pairs


def coalescing_classes(op: Op) -> list[Sequence[Value]]:
    """What control flow hands from one to the other, all in the same order: best, each place is one piece of memory."""
    if op.name == "if":
        return [op.results, *yields(op)]
    args = [carried(op, region) for region in op.regions]
    return [args[-1], *yields(op), op.results, initial(op), *args[:-1]]


def coalesce(storage: BufferAllocation, a: Value, b: Value) -> None:
    ours, theirs = storage.sharers[a], storage.sharers[b]
    if ours is theirs or a.type != b.type or any(is_view(v) for v in (*ours, *theirs)):
        return
    if any(interfere(storage.plan, x, y) for x in ours for y in theirs):
        return
    ours += theirs
    for v in theirs:
        storage.sharers[v] = ours


def interfere(plan: Materialization, a: Value, b: Value) -> bool:
    """True when one value is still to be read at or after the place where the other one is written."""
    first, second = (a, b) if plan.defined_at(a) <= plan.defined_at(b) else (b, a)
    written, last = plan.defined_at(second), plan.last_read(first)
    if plan.defined_at(first) == written:
        # The arguments of both regions of a while are one value; two results of one op are not.
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
    indices = [r.args.index(v) for v in (a, b) for r in plan.parent_loop[a].regions if v in r.args]
    return plan.parent_loop[a].name == "while" and indices[0] == indices[1] and a is not b


def can_overwrite(plan: Materialization, op: Op, old: Value) -> bool:
    """True when `op` reads each element of `old` no later than it writes the same element of its result."""
    if op.name == "dot":
        packed = [v.op.operands[0] for v in op.operands[1:2] if op in plan.packed and v.op is not None]
        return len(op.operands) > 2 and old is op.operands[2] and old not in (*op.operands[:2], *packed)
    if not is_inlinable(op) or old.shape != op.results[0].shape:
        return False
    return all(index == tuple(range(len(old.shape))) for index in index_maps_to(plan, op, old))


def index_maps_to(plan: Materialization, op: Op, leaf: Value) -> list[IndexMap]:
    """Index maps with which computing `op` reads `leaf`."""
    return [
        index
        for v, index in inlined_operands(operand_reads(op), lambda v: v in plan.materialized or v is leaf)
        if v is leaf
    ]


def assign_offsets(buffers: list[Buffer]) -> int:
    """Offsets by lifetime, largest first, in the lowest gap; gives the bytes in all."""
    placed: list[tuple[int, int, Buffer]] = []
    real = [b for b in buffers if b.view_of is None and not b.contracted]
    for buffer in sorted(real, key=lambda b: (-b.elements * item_bytes(b.elem, b.in_memory_format), b.id)):
        size = round_up(buffer.elements * item_bytes(buffer.elem, buffer.in_memory_format), 64) + 64
        if size % 4096 < 128:
            size += _STAGGER_BYTES
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
