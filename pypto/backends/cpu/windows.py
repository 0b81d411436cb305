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

from pypto.backends.cpu.kernel import function, is_new
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Buffer, item_bytes
from pypto.backends.cpu.matmul import Matmul, Window
from pypto.backends.cpu.operands import Direct, Matrix, Span
from pypto.backends.cpu.storage import Storage
from pypto.ir.core import Value
from pypto.ir.types import int32, int64
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.dot import DotEmitter, Sides

_LINE: Final = 64


def join(item: Matmul, storage: Storage) -> None:
    """Let a product read what one before it in its chain does, where that lies no more than a register behind."""
    for other in item.chain[:-1]:
        before, n = other.window.ahead if other.window is not None else 0, apart(other, item)
        shape, elem = item.op.operands[0].shape, item.op.operands[0].tile.elem
        lanes = storage.lanes(elem, compact=True)
        if n is None or not 0 <= before + n <= lanes:
            continue
        if other.window is None:
            width = shape[-2] + lanes
            assert other.block is not None
            buffer = storage.new(elem, (shape[-1], width), other.block.start, other.block.end, compact=True)
            if buffer.pitch * item_bytes(elem, True) // _LINE % 2 == 0:  # rows of an odd number of lines use all sets
                buffer.sizes[-1] += lanes
            other.window = Window(buffer, 0)
        item.window = Window(other.window.buffer, before + n)
        return


def apart(first: Matmul, second: Matmul) -> int | None:
    """How many columns of the same rows lie between what two products read; None where that is not known."""
    one, other = first.a, second.a
    if not (isinstance(one, Direct) and isinstance(other, Direct)):
        return None
    a, b, d = Access.of(one.load), Access.of(other.load), one.columns
    rest = [n for n in range(len(a.shape)) if n != d]
    same = [(x.base, x.strides, x.shape, [(x.offsets[n], x.extents[n]) for n in rest]) for x in (a, b)]
    if same[0] != same[1] or (one.rows, d) != (other.rows, other.columns):
        return None
    (origin, start), (base, end) = plus(a.offsets[d]), plus(b.offsets[d])
    return end - start if origin is base else None


def plus(v: Value) -> tuple[Value, int]:
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


def fill(dots: DotEmitter, parts: Sequence[Sides], rows: Lanes) -> None:
    """Copy what products read together: as many columns as the first `rows` of their results take."""
    e, members = dots.e, defaultdict[Buffer, list[Matmul]](list)
    for x in parts:
        if x.item.window is not None:
            members[x.item.window.buffer].append(x.item)
    for sides in parts:
        window = sides.item.window
        if window is None or sides.item is not members[window.buffer][0]:
            continue
        found = [(direct.load, direct.columns) for x in members[window.buffer] if isinstance(direct := x.a, Direct)]
        extents = [dots.scalar(Access.of(load).extents[d]) for load, d in found]
        width = e.add(rows, dots.number(max(x.window.ahead for x in members[window.buffer] if x.window is not None)))
        start = dots.scalar(Access.of(found[0][0]).offsets[found[0][1]])
        ends = e.neg(start), e.sub(functools.reduce(e.maximum, extents), start)
        there = Span(*(e.minimum(e.maximum(x, dots.number(0)), width) for x in ends))
        copied(dots, replace(sides.left, columns=there), window.buffer, sides.base_of[window.buffer.id], width)


def copied(dots: DotEmitter, m: Matrix, into: Buffer, base: Lanes, width: Lanes) -> None:
    """Call a function that copies columns; there is one for each shape."""
    name = f"columns_{m.dtype}_{into.shape[0]}_{into.pitch}"
    values = m.address, m.pitch, m.rows.start, m.rows.stop, m.columns.start, m.columns.stop, base, width
    if is_new(dots.w, name):
        own = [Lanes(f"%v{n}", int64, 1, 0) for n in range(len(values))]
        source = Matrix(own[0], own[1], Span(*own[2:4]), Span(*own[4:6]), m.dtype)
        with function(dots.w, f"internal void @{name}({', '.join(v.typed for v in own)}) noinline nounwind"):
            there = dots.packs.within(source.rows, dots.number(0), dots.number(into.shape[0] - 1))
            ways = [functools.partial(way, dots, source, into, *own[6:]) for way in (strips, one_by_one)]
            dots.w.branch(there.text, ways)
    dots.w.line(f"call void @{name}({', '.join(v.typed for v in values)})")


def strips(dots: DotEmitter, m: Matrix, into: Buffer, base: Lanes, width: Lanes) -> list[Lanes]:
    """Copy rows that all exist, one register of each after the other: which columns do is the same for all of them."""
    e, w, packs, size = dots.e, dots.w, dots.packs, dots.number(m.dtype.itemsize)
    lanes = packs.bytes // m.dtype.itemsize
    with w.loop("0", width.text, str(lanes)) as k:
        there, some = packs.existing(m.columns, k, lanes)
        along = e.mul(k, size)
        first = w.raw(f"select i1 {some.text}, ptr {packs.at(e.add(m.address, along))}, ptr {w.harmless()}")
        down, out = e.select(some, m.pitch, dots.number(0)), packs.at(e.add(base, along))
        with w.loop("0", str(into.shape[0]), "1") as r:
            row = w.raw(f"getelementptr i8, ptr {first}, i64 {e.mul(r, down).text}")
            step = e.mul(r, dots.number(into.pitch * m.dtype.itemsize))
            place = w.raw(f"getelementptr i8, ptr {out}, i64 {step.text}")
            packs.store(packs.some(m, row, there), place, packs.bytes)
    return []


def one_by_one(dots: DotEmitter, m: Matrix, into: Buffer, base: Lanes, width: Lanes) -> list[Lanes]:
    """Copy rows that may not exist."""
    dots.packs.rows(m, dots.number(0), into.shape[0], into, base, width)
    return []


def left(dots: DotEmitter, sides: Sides, window: Window, i: Lanes) -> list[Lanes]:
    """What columns.left returns, for columns of a window: a block is always whole there, if there are rows at all."""
    e, start = dots.e, dots.e.mul(dots.e.add(i, dots.number(window.ahead)), dots.number(sides.left.dtype.itemsize))
    depth = e.select(e.cmp("gt", sides.left.rows.stop, sides.left.rows.start), sides.depth, dots.number(0))
    return [e.add(sides.base_of[window.buffer.id], start), dots.number(window.buffer.pitch), depth, dots.number(0)]
