"""Columns that products of a chain read from the same rows, some columns apart, as those of a convolution do.

The rows of an image lie far apart, so that each step of K reads another line, and lines a page apart share few sets of
the first-level cache. What such products read is copied once for all of them, side by side, with zeros for what does
not exist: then all of their blocks are whole.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.gemm.ir import ConvWindow, Gemm
from pypto.backends.cpu.gemm.micro_kernel import claim_name, side_function
from pypto.backends.cpu.gemm.operands import Matrix, ValidRange
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.ir import Buffer, item_bytes
from pypto.ir.core import Value
from pypto.ir.types import int32, int64
from pypto.ops.memory import Access
from pypto.passes.dot_facts import InPlaceOperand
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.gemm.macro_kernel import GemmOperands, MacroKernel

_CACHE_LINE: Final = 64


def share_window(item: Gemm, storage: BufferAllocation) -> None:
    """Let a product read what one before it in its chain does, where that lies no more than a register behind."""
    for other in item.accumulation_chain[:-1]:
        before, n = other.conv_window.offset if other.conv_window is not None else 0, column_distance(other, item)
        shape, elem = item.op.operands[0].shape, item.op.operands[0].tile.elem
        lanes = storage.lanes_of(elem, compact=True)
        if n is None or not 0 <= before + n <= lanes:
            continue
        if other.conv_window is None:
            width = shape[-2] + lanes
            assert other.left_block is not None
            buffer = storage.new(
                elem, (shape[-1], width), other.left_block.live_start, other.left_block.live_end, compact=True
            )
            if (
                buffer.pitch * item_bytes(elem, True) // _CACHE_LINE % 2 == 0
            ):  # rows of an odd number of lines use all sets
                buffer.sizes[-1] += lanes
            other.conv_window = ConvWindow(buffer, 0)
        item.conv_window = ConvWindow(other.conv_window.buffer, before + n)
        return


def column_distance(first: Gemm, second: Gemm) -> int | None:
    """How many columns of the same rows lie between what two products read; None where that is not known."""
    one, other = first.a, second.a
    if not (isinstance(one, InPlaceOperand) and isinstance(other, InPlaceOperand)):
        return None
    a, b, d = Access.of(one.load), Access.of(other.load), one.columns
    rest = [n for n in range(len(a.shape)) if n != d]
    same = [(x.base, x.strides, x.shape, [(x.offsets[n], x.extents[n]) for n in rest]) for x in (a, b)]
    if same[0] != same[1] or (one.rows, d) != (other.rows, other.columns):
        return None
    (origin, start), (base, end) = base_plus_constant(a.offsets[d]), base_plus_constant(b.offsets[d])
    return end - start if origin is base else None


def base_plus_constant(v: Value) -> tuple[Value, int]:
    """A number as another one plus a constant; of numbers that do not wrap around in an array."""
    total = 0
    while v.op is not None and v.dtype in (int32, int64):
        operands = v.op.operands
        n = constant_of(operands[1]) if v.op.name in ("add", "sub") else None
        widens = v.op.name == "cast" and operands[0].dtype in (int32, v.dtype)
        if n is None and not widens:
            break
        total, v = total + (0 if n is None else int(n) if v.op.name == "add" else -int(n)), operands[0]
    return v, total


def copy_windows(dots: MacroKernel, parts: Sequence[GemmOperands], rows: VectorValue) -> None:
    """Copy what products read together: as many columns as the first `pack_rows` of their results take."""
    e, members = dots.e, defaultdict[Buffer, list[Gemm]](list)
    for x in parts:
        if x.item.conv_window is not None:
            members[x.item.conv_window.buffer].append(x.item)
    for sides in parts:
        window = sides.item.conv_window
        if window is None or sides.item is not members[window.buffer][0]:
            continue
        found = [
            (direct.load, direct.columns) for x in members[window.buffer] if isinstance(direct := x.a, InPlaceOperand)
        ]
        extents = [dots.scalar(Access.of(load).extents[d]) for load, d in found]
        width = e.add(
            rows, dots.index(max(x.conv_window.offset for x in members[window.buffer] if x.conv_window is not None))
        )
        start = dots.scalar(Access.of(found[0][0]).offsets[found[0][1]])
        ends = e.neg(start), e.sub(functools.reduce(e.maximum, extents), start)
        there = ValidRange(*(e.minimum(e.maximum(x, dots.index(0)), width) for x in ends))
        call_copy(dots, replace(sides.left, columns=there), window.buffer, sides.buffer_bases[window.buffer.id], width)


def call_copy(dots: MacroKernel, m: Matrix, into: Buffer, base: VectorValue, width: VectorValue) -> None:
    """Call a function that copies columns; there is one for each shape."""
    name = f"columns_{m.dtype}_{into.shape[0]}_{into.pitch}"
    values = m.address, m.pitch, m.rows.start, m.rows.stop, m.columns.start, m.columns.stop, base, width
    if claim_name(dots.w, name):
        own = [VectorValue(f"%v{n}", int64, 1, 0) for n in range(len(values))]
        source = Matrix(own[0], own[1], ValidRange(*own[2:4]), ValidRange(*own[4:6]), m.dtype)
        with side_function(dots.w, f"internal void @{name}({', '.join(v.typed for v in own)}) noinline nounwind"):
            there = dots.packing.is_within(source.rows, dots.index(0), dots.index(into.shape[0] - 1))
            ways = [
                functools.partial(way, dots, source, into, *own[6:]) for way in (copy_by_registers, copy_row_by_row)
            ]
            dots.w.branch(there.text, ways)
    dots.w.line(f"call void @{name}({', '.join(v.typed for v in values)})")


def copy_by_registers(
    dots: MacroKernel, m: Matrix, into: Buffer, base: VectorValue, width: VectorValue
) -> list[VectorValue]:
    """Copy rows that all exist, one register of each after the other: which columns do is the same for all of them."""
    e, w, packs, size = dots.e, dots.w, dots.packing, dots.index(m.dtype.itemsize)
    lanes = packs.bytes // m.dtype.itemsize
    with w.loop("0", width.text, str(lanes)) as k:
        there, some = packs.valid_lanes(m.columns, k, lanes)
        along = e.mul(k, size)
        first = w.raw(f"select i1 {some.text}, ptr {packs.pointer_at(e.add(m.address, along))}, ptr {w.harmless()}")
        down, out = e.select(some, m.pitch, dots.index(0)), packs.pointer_at(e.add(base, along))
        with w.loop("0", str(into.shape[0]), "1") as r:
            row = w.raw(f"getelementptr i8, ptr {first}, i64 {e.mul(r, down).text}")
            step = e.mul(r, dots.index(into.pitch * m.dtype.itemsize))
            place = w.raw(f"getelementptr i8, ptr {out}, i64 {step.text}")
            packs.store(packs.load_lanes(m, row, there), place, packs.bytes)
    return []


def copy_row_by_row(
    dots: MacroKernel, m: Matrix, into: Buffer, base: VectorValue, width: VectorValue
) -> list[VectorValue]:
    """Copy rows that may not exist."""
    dots.packing.pack_rows(m, dots.index(0), into.shape[0], into, base, width)
    return []


def window_columns(dots: MacroKernel, sides: GemmOperands, window: ConvWindow, i: VectorValue) -> list[VectorValue]:
    """What columns.left returns, for columns of a window: a block is always whole there, if there are rows at all."""
    e, start = dots.e, dots.e.mul(dots.e.add(i, dots.index(window.offset)), dots.index(sides.left.dtype.itemsize))
    depth = e.select(e.cmp("gt", sides.left.rows.stop, sides.left.rows.start), sides.k, dots.index(0))
    return [e.add(sides.buffer_bases[window.buffer.id], start), dots.index(window.buffer.pitch), depth, dots.index(0)]
