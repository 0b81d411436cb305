"""Products whose left side lies with its columns side by side: a block's numbers are neighbours for each step of K.

They are broadcast from where they lie. Where some do not exist, the block is copied, with zeros in their place; a block
of which none exists adds nothing. Products that are added up, one after the other, are added in registers; of these,
where only the first or the last number does not exist, it is left out, which costs nothing. Registers can leave as
columns, for a result that is stored turned. While one is multiplied, what the next one reads is asked for, or what the
next program reads in its place: rows of an image, or of one head of many, lie far apart.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu import windows
from pypto.backends.cpu.crosswise import transposed
from pypto.backends.cpu.kernel import Block, KernelEmitter, Part, Slots, fixed, most_rows
from pypto.backends.cpu.lanes import Lanes, intrinsic_suffix, llvm_type
from pypto.backends.cpu.operands import Direct, Landing
from pypto.backends.cpu.prefetch import fetch, moves, start_ahead
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.dot import DotEmitter, Sides

NOTED: Final = 7  # numbers in the table for each product
FIRST: Final = 64  # what stands there for a block without its first row; 1 for one without its last, 0 for a whole one.
# A block of which some exist lacks fewer rows at either end than that.


def blocks(rows: int, most: int) -> list[tuple[int, int, int]]:
    """First row, rows and number of the blocks: the largest first, so that what exists fills few of them."""
    whole, rest = divmod(rows, most)
    found = (0, most, whole), (whole * most, rest, 1)
    return [(first, size, count) for first, size, count in found if size and count]


class SumEmitter(KernelEmitter):
    """Emits kernels that add up products, out of a table, and store the columns of the sum where there is room."""

    arguments = "ptr noalias %parts, ptr noalias %c, i64 %stop"

    def multiply(self, block: Block, slots: Slots) -> None:
        with self.w.loop("0", str(block.parts), "1") as n:
            if block.lands:
                self.ask(block, n)
            b, *after, a, pitch, depth, gone = self.noted(n, "ptr", "ptr", "i64", "ptr", "i64", "i64", "i64")
            asks = block.parts > 1 or block.early
            part = Part(a, b, pitch, depth, tuple(after) if asks else ())
            if block.whole:
                self.product(block, slots, part)
                return
            last, whole = (self.w.raw(f"icmp eq i64 {gone}, {m}") for m in (1, 0))
            but = functools.partial(self.without_one, last=last)
            self.w.branch(whole, [functools.partial(f, block, slots, part) for f in (self.product, but)])

    def noted(self, n: Lanes, *kinds: str) -> tuple[str, ...]:
        """What the table says of a product."""
        start = self.w.raw(f"getelementptr [{NOTED} x i64], ptr %parts, i64 {n.text}")
        return tuple(self.load(k, self.w.raw(f"getelementptr i64, ptr {start}, i64 {i}")) for i, k in enumerate(kinds))

    def ask(self, block: Block, n: Lanes) -> None:
        """Have some of the rows fetched that the result will go to: they are written all at once, and late.

        Where one begins in another line than it ends, the block before has asked for that. Some may be the next
        panel's.
        """
        some = -(-block.vectors * block.lanes // block.parts)
        for i in range(some):
            row = self.e.add(self.e.mul(n, self.e.const(some, int64)), self.e.const(i, int64))
            start = self.w.raw(f"getelementptr i8, ptr %into, i64 {self.w.raw(f'mul i64 {row.text}, %apart')}")
            fetch(self.w, self.at(start, block.rows - 1, block), 3, writes=True)

    def leave(self, block: Block, slots: Slots, rows: Sequence[str]) -> list[Lanes]:
        stay = functools.partial(super().leave, replace(block, lands=False), slots, rows)
        if not block.lands:
            return stay()
        return self.w.branch(self.w.raw("icmp ne ptr %into, null"), [functools.partial(self.turn, block, slots), stay])

    def turn(self, block: Block, slots: Slots) -> list[Lanes]:
        """Store the columns of the block, as far down as there is room for them."""
        kind, lanes = llvm_type(block.result, block.lanes), block.lanes
        mask = self.e.cmp("lt", self.e.iota(lanes, int64), self.e.splat(Lanes("%stop", int64, 1, 0), lanes))
        rows = [self.e.splat(self.e.const(0, block.result), lanes)] * lanes
        name = f"llvm.masked.store.{intrinsic_suffix(block.result, lanes)}.p0"
        for v in range(block.vectors):
            for r in range(block.rows):
                rows[r] = Lanes(self.load(kind, slots[r, v], 64), block.result, lanes, self.w.depth)
            for n, column in enumerate(transposed(self.e, rows)):
                place = self.w.raw(f"getelementptr i8, ptr %into, i64 {self.w.raw(f'mul i64 %apart, {v * lanes + n}')}")
                self.w.call("void", name, ((kind, column.text), ("ptr", place), ("i32", "4"), (mask.type, mask.text)))
        return []


def multiply(dots: DotEmitter, parts: Sequence[Sides], landing: Landing | None) -> None:
    """All blocks of a result that is the sum of some products."""
    item, e, w = parts[-1].item, dots.e, dots.w
    table = w.slot(f"[{NOTED * len(parts)} x i64]")
    lanes = dots.lanes(item)  # a block that is copied, and one that leaves as columns, has a register for its rows
    most = min(lanes, most_rows(dots.target, item.b.panel // lanes))
    windows.fill(dots, parts, read(dots, parts, landing, most))
    for first, rows, count in blocks(item.c.shape[-2], most):
        with w.loop(str(first), str(first + rows * count), str(rows)) as i:
            some = functools.reduce(e.or_, (exists(dots, sides, i, rows) for sides in parts))
            if parts[0].item.fresh:
                some = e.const(True, int1) if landing is None else wanted(dots, landing, i)
            w.branch(some.text, [functools.partial(block, dots, parts, landing, table, i, rows), list])


def read(dots: DotEmitter, parts: Sequence[Sides], landing: Landing | None, unit: int) -> Lanes:
    """How many rows of the result are computed: all, or the blocks with those that are stored."""
    e, rows = dots.e, dots.number(parts[0].item.c.shape[-2])
    if landing is None or not parts[0].item.fresh:
        return rows
    stored = e.minimum(dots.packs.up_to(landing.place.columns.stop, unit), rows)
    return e.select(landing.done, stored, rows)


def wanted(dots: DotEmitter, landing: Landing, i: Lanes) -> Lanes:
    """True when something is to be done for rows from `i` on."""
    exists = dots.e.cmp("lt", i, landing.place.columns.stop)
    return dots.e.or_(exists, dots.e.xor(landing.done, dots.e.const(True, int1)))


def exists(dots: DotEmitter, sides: Sides, i: Lanes, rows: int) -> Lanes:
    """True when there is something to multiply in a block."""
    m, e = sides.left, dots.e
    some = e.and_(e.cmp("gt", e.add(i, dots.number(rows)), m.columns.start), e.cmp("lt", i, m.columns.stop))
    return e.and_(some, e.cmp("gt", m.rows.stop, m.rows.start))


def block(
    dots: DotEmitter, parts: Sequence[Sides], landing: Landing | None, table: str, i: Lanes, rows: int
) -> list[Lanes]:
    sides, e, w = parts[-1], dots.e, dots.w

    def note(n: int, m: int, number: Lanes) -> None:
        w.line(f"store {number.typed}, ptr {w.raw(f'getelementptr i64, ptr {table}, i64 {NOTED * n + m}')}")

    whole = len(parts) < 2 or all(x.item.window is not None for x in parts)
    lefts, later = [left(dots, x, i, rows, whole) for x in parts], [ahead(dots, x, len(parts), i) for x in parts]
    for n, after in enumerate([*lefts[1:], lefts[0]]):
        for m, number in enumerate([*(later[n] or after[:2]), *lefts[n]]):
            note(n, m + 1, number)

    def multiply(shape: Block, j: Lanes, c: Lanes) -> None:
        for n, x in enumerate(parts):
            note(n, 0, dots.panel(x, j))
        stop, there = dots.number(0), ""
        if landing is not None:
            into = dots.landed(landing, dots.column(sides, j), i)
            apart = e.select(landing.done, landing.place.pitch, dots.number(0))
            stop = e.minimum(e.sub(landing.place.columns.stop, i), dots.number(rows))
            there = f", ptr {dots.packs.at(into)}, {apart.typed}"
        dots.sums.kernel(shape)
        fresh = "true" if parts[0].item.fresh else "false"
        numbers = f"{stop.typed}, {sides.down.typed}, i1 {fresh}"
        w.line(f"call void @{shape.name}(ptr {table}, ptr {dots.packs.at(c)}, {numbers}{there})")

    shape = replace(
        dots.block(sides.item, rows),
        parts=len(parts),
        down=fixed(sides.down),
        lands=landing is not None,
        whole=whole,
        early=any(later),
    )
    dots.panelwise(sides, i, shape.over(*(x.depth for x in parts)), multiply)
    return []


def ahead(dots: DotEmitter, sides: Sides, parts: int, i: Lanes) -> list[Lanes]:
    """Where the next program finds what this one does in a block, and the pitch there; nothing where none is known.

    That is asked for where what the next product reads is near, or the same.
    """
    load, size = sides.item.a.load if isinstance(sides.item.a, Direct) else None, dots.number(dots.word(sides.item))
    if load is None or (sides.item.window is None and parts > 1) or not moves(Access.of(load)):
        return []
    start = dots.e.add(start_ahead(dots.nests.memory, load), dots.e.mul(i, size))
    return [start, dots.e.binary("udiv", sides.left.pitch, size)]


def left(dots: DotEmitter, sides: Sides, i: Lanes, rows: int, whole: bool) -> list[Lanes]:
    """Address of a block's columns, how far they lie apart, how many there are, and which row of the block is not."""
    if sides.item.window is not None:
        return windows.left(dots, sides, sides.item.window, i)
    m, e, size, zero = sides.left, dots.e, dots.number(dots.word(sides.item)), dots.number(0)
    first, behind = e.sub(m.columns.start, i), e.sub(e.add(i, dots.number(rows)), m.columns.stop)
    gone = e.add(e.mul(e.maximum(first, zero), dots.number(FIRST)), e.maximum(behind, zero))
    there = functools.reduce(e.or_, (e.cmp("eq", gone, dots.number(n)) for n in ((0,) if whole else (0, 1, FIRST))))
    inside = e.and_(dots.packs.within(m.rows, zero, e.sub(sides.depth, dots.number(1))), there)
    here = [e.add(m.address, e.mul(i, size)), e.binary("udiv", m.pitch, size), sides.depth, gone]
    some, none = functools.partial(copied, dots, sides, i), [*here[:2], zero, zero]
    which = functools.partial(dots.w.branch, inside.text, [lambda: here, some])
    return dots.w.branch(exists(dots, sides, i, rows).text, [which, lambda: none])


def copied(dots: DotEmitter, sides: Sides, i: Lanes) -> list[Lanes]:
    item, m, e, w = sides.item, sides.left, dots.e, dots.w
    assert item.block is not None
    base, lanes, size = sides.base_of[item.block.id], item.block.pitch, m.dtype.itemsize
    start, stop = (e.splat(e.sub(x, i), lanes) for x in (m.columns.start, m.columns.stop))
    place = e.iota(lanes, int64)
    mask = e.and_(e.cmp("ge", place, start), e.cmp("lt", place, stop))
    first, kind = e.add(m.address, e.mul(i, dots.number(size))), Lanes("zeroinitializer", m.dtype, lanes, 0)
    ends = dots.number(0), m.rows.start, e.minimum(m.rows.stop, sides.depth), sides.depth
    for (begin, finish), there in zip(itertools.pairwise(ends), (False, True, False), strict=True):
        with w.loop(begin.text, finish.text, "1") as k:
            loaded = kind
            if there:
                pointer = dots.packs.at(e.add(first, e.mul(k, m.pitch)))
                args = ("ptr", pointer), ("i32", str(size)), (mask.type, mask.text), (kind.type, kind.text)
                name = f"llvm.masked.load.{intrinsic_suffix(m.dtype, lanes)}.p0"
                loaded = e.call(name, m.dtype, lanes, w.depth, *args)
            dots.packs.store(loaded, dots.packs.at(e.add(base, e.mul(k, dots.number(lanes * size)))), size)
    return [base, dots.number(lanes), sides.depth, dots.number(0)]
