"""Shared im2col windows: the products of a convolution read A from the same image rows, some columns apart.

Each step of K reads another image row, and rows that lie a multiple of half a page apart share few sets of the
first-level cache: what one register tile reads has left before the next one comes. The columns that the products of a
chain read together are then copied once, side by side in scratch, with zeros for those that do not exist. Other rows
are read where they lie, as a copy would cost more than it saves. The choice is made at run time.

It is legal where the loads agree in all but one offset, which differs by a known number of columns:

    dot(x[k, j : j + 64]), dot(x[k, j + 1 : j + 65])    read    window[k, 0 : 64], window[k, 1 : 65]
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.backends.cpu.gemm.ir import ConvWindow, Gemm
from pypto.backends.cpu.gemm.micro_kernel import claim_name, side_function
from pypto.backends.cpu.gemm.operands import Matrix, ValidRange
from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.ir import Buffer, item_bytes
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand
from pypto.passes.analysis.scalar_evolution import affine_of
from pypto.passes.target_facts import CACHE

if TYPE_CHECKING:
    from pypto.backends.cpu.gemm.emitted_operands import GemmOperands
    from pypto.backends.cpu.gemm.macro_kernel import MacroKernel


def share_window(gemm: Gemm, storage: BufferAllocation) -> None:
    """Let a product read the window of one before it in its chain, if it begins at most one register behind."""
    lanes = storage.lanes_of(gemm.op.operands[0].tile.elem, in_memory_format=True)
    for other in gemm.accumulation_chain[:-1]:
        offset = other.conv_window.offset if other.conv_window is not None else 0
        distance = column_distance(other, gemm)
        if distance is None or not 0 <= offset + distance <= lanes:
            continue
        if other.conv_window is None:
            other.conv_window = ConvWindow(window_buffer(gemm, other, storage), 0)
        gemm.conv_window = ConvWindow(other.conv_window.buffer, offset + distance)
        return


def window_buffer(gemm: Gemm, first: Gemm, storage: BufferAllocation) -> Buffer:
    """Scratch for a window: the columns of one product and a register's more, as long as the first one is alive."""
    (*_, columns, k), elem = gemm.op.operands[0].shape, gemm.op.operands[0].tile.elem
    lanes = storage.lanes_of(elem, in_memory_format=True)
    assert first.left_block is not None
    shape = k, columns + lanes
    buffer = storage.new(elem, shape, first.left_block.live_start, first.left_block.live_end, in_memory_format=True)
    if buffer.pitch * item_bytes(elem, True) // CACHE.line % 2 == 0:  # rows of an odd number of lines use all sets
        buffer.sizes[-1] += lanes
    return buffer


def column_distance(first: Gemm, second: Gemm) -> int | None:
    """Columns from where one product begins to where another does, in the same rows; None if they are not the same."""
    left, right = first.a, second.a
    if not (isinstance(left, InPlaceOperand) and isinstance(right, InPlaceOperand)):
        return None
    a = Access.of(left.load)
    b = Access.of(right.load)
    column_dim = left.columns
    if len(a.shape) != len(b.shape):
        return None
    row_dims = [d for d in range(len(a.shape)) if d != column_dim]
    rows = [(x.base, x.strides, x.shape, [(x.offsets[d], x.extents[d]) for d in row_dims]) for x in (a, b)]
    if rows[0] != rows[1] or (left.rows, column_dim) != (right.rows, right.columns):
        return None
    distance = affine_of(b.offsets[column_dim]) - affine_of(a.offsets[column_dim])
    return None if distance.terms else distance.number


def is_copied(macro: MacroKernel, operands: GemmOperands) -> VectorValue:
    """Whether a product reads its window: its image rows share sets of the first-level cache."""
    e = macro.e
    return e.cmp("eq", e.binary("urem", operands.left.pitch, macro.index(CACHE.alias)), macro.index(0))


def copy_windows(macro: MacroKernel, chain: Sequence[GemmOperands], rows: VectorValue) -> None:
    """Copy each window that is read, once: the columns behind the first `rows` rows of the results."""
    members = defaultdict[Buffer, list[Gemm]](list)
    for operands in chain:
        if operands.item.conv_window is not None:
            members[operands.item.conv_window.buffer].append(operands.item)
    for operands in chain:
        window = operands.item.conv_window
        if window is not None and operands.item is members[window.buffer][0]:
            copied = functools.partial(copy_window, macro, operands, window.buffer, members[window.buffer], rows)
            macro.w.branch(is_copied(macro, operands).text, [copied, list])


def copy_window(
    macro: MacroKernel, operands: GemmOperands, buffer: Buffer, members: Sequence[Gemm], rows: VectorValue
) -> list[VectorValue]:
    """Copy one window from where its first product begins to where the last of its members ends."""
    e = macro.e
    loads = [(a.load, a.columns) for gemm in members if isinstance(a := gemm.a, InPlaceOperand)]
    extents = [macro.scalar(Access.of(load).extents[d]) for load, d in loads]
    offsets = [gemm.conv_window.offset for gemm in members if gemm.conv_window is not None]
    width = e.add(rows, macro.index(max(offsets)))
    first, d = loads[0]
    start = macro.scalar(Access.of(first).offsets[d])
    ends = e.neg(start), e.sub(functools.reduce(e.maximum, extents), start)
    columns = ValidRange(*(e.minimum(e.maximum(x, macro.index(0)), width) for x in ends))
    call_copy(macro, replace(operands.left, columns=columns), buffer, operands.buffer_bases[buffer.id], width)
    return []


def call_copy(macro: MacroKernel, m: Matrix, into: Buffer, base: VectorValue, width: VectorValue) -> None:
    """Call the function that copies a window; there is one for each shape."""
    name = f"columns_{m.dtype}_{into.shape[0]}_{into.pitch}"
    values = m.address, m.pitch, m.rows.start, m.rows.stop, m.columns.start, m.columns.stop, base, width
    if claim_name(macro.w, name):
        args = [VectorValue(f"%v{n}", int64, 1, 0) for n in range(len(values))]
        source = Matrix(args[0], args[1], ValidRange(*args[2:4]), ValidRange(*args[4:6]), m.dtype)
        with side_function(macro.w, f"internal void @{name}({', '.join(v.typed for v in args)}) noinline nounwind"):
            has_all_rows = macro.packing.is_within(source.rows, macro.index(0), macro.index(into.shape[0] - 1))
            copies = [
                functools.partial(copy, macro, source, into, *args[6:]) for copy in (copy_by_registers, copy_row_by_row)
            ]
            macro.w.branch(has_all_rows.text, copies)
    macro.w.line(f"call void @{name}({', '.join(v.typed for v in values)})")


def copy_by_registers(
    macro: MacroKernel, m: Matrix, into: Buffer, base: VectorValue, width: VectorValue
) -> list[VectorValue]:
    """Copy rows that all exist, a register of every row before the next: all rows share its mask."""
    e = macro.e
    w = macro.w
    packing = macro.packing
    size = macro.index(m.dtype.itemsize)
    lanes = packing.bytes // m.dtype.itemsize
    with w.loop("0", width.text, str(lanes)) as k:
        mask, any_lane = packing.valid_lanes(m.columns, k, lanes)
        along = e.mul(k, size)
        source = packing.pointer_at(e.add(m.address, along))
        first = w.raw(f"select i1 {any_lane.text}, ptr {source}, ptr {w.harmless()}")
        pitch = e.select(any_lane, m.pitch, macro.index(0))
        out = packing.pointer_at(e.add(base, along))
        with w.loop("0", str(into.shape[0]), "1") as r:
            row = w.raw(f"getelementptr i8, ptr {first}, i64 {e.mul(r, pitch).text}")
            step = e.mul(r, macro.index(into.pitch * m.dtype.itemsize))
            place = w.raw(f"getelementptr i8, ptr {out}, i64 {step.text}")
            packing.store(packing.load_lanes(m, row, mask), place, packing.bytes)
    return []


def copy_row_by_row(
    macro: MacroKernel, m: Matrix, into: Buffer, base: VectorValue, width: VectorValue
) -> list[VectorValue]:
    """Copy rows of which some may not exist."""
    macro.packing.pack_rows(m, macro.index(0), into.shape[0], into, base, width)
    return []


def window_columns(macro: MacroKernel, operands: GemmOperands, window: ConvWindow, i: VectorValue) -> list[VectorValue]:
    """Where a register tile finds A in its window: address, pitch, depth, and 0 for no missing row.

    The depth is 0 where A has no rows at all. Used in place of `column_major_a.columns_in_place`.
    """
    e, left = macro.e, operands.left
    start = e.mul(e.add(i, macro.index(window.offset)), macro.index(left.dtype.itemsize))
    depth = e.select(e.cmp("gt", left.rows.stop, left.rows.start), operands.k, macro.index(0))
    base = operands.buffer_bases[window.buffer.id]
    return [e.add(base, start), macro.index(window.buffer.pitch), depth, macro.index(0)]
