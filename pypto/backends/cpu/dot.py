"""Matrix products: blocks of C by rows of A and packed panels of B, in an order that suits the caches.

Blocks of C are spread evenly, so that no thin rest is left. A block of A stays in the first-level cache while the
panels of B go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pypto.backends.cpu import amx, columns
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.kernel import Block, KernelEmitter, fixed, function, is_new, most_rows, row_blocks
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Buffer, CellItem
from pypto.backends.cpu.matmul import Matmul, Stay
from pypto.backends.cpu.memory import scratch_dtype
from pypto.backends.cpu.nest import NestEmitter
from pypto.backends.cpu.operands import Direct, Landing, Matrix, Span, dot_dtype
from pypto.backends.cpu.packing import PackEmitter, matrix
from pypto.backends.cpu.prefetch import ROOM
from pypto.backends.cpu.rest import run
from pypto.backends.cpu.streaming import Stream, StreamEmitter, is_streamed
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Op
from pypto.ir.types import DType, int1, int32, int64
from pypto.ops.memory import Access

_FEW: Final = 4  # rows of a block that is run but seldom, or along few numbers
_SHALLOW: Final = 64  # so many: sums are loaded and stored as long as products are added to them
_HALF: Final = 2  # registers of a panel of four; a narrower panel is not halved


@dataclass(frozen=True, slots=True)
class Sides:
    """A dot as it is emitted: addresses of its panels and result, its left side, and how deep it goes, in words too."""

    item: Matmul
    left: Matrix
    panels: Lanes
    result: Lanes
    words: Lanes
    depth: Lanes
    base_of: dict[int, Lanes]
    down: Lanes  # bytes from row to row of the result, and of the left side
    apart: Lanes
    landing: Landing | None = None
    sums: str = ""  # where it stands what is too much in each row
    across: Lanes | None = None  # columns of the right side that exist, where others need not be multiplied

    @property
    def lands(self) -> bool:
        """Whether register kernels store the result where it goes."""
        return self.landing is not None and not self.landing.rest


class DotEmitter:
    """Emits products with the packing that they need; register kernels become functions, once for each shape."""

    def __init__(self, e: LaneEmitter, target: CpuTarget, nests: NestEmitter) -> None:
        self.e, memory = e, nests.memory
        self.w = e.w
        self.target = target
        self.matrix, self.scalar, self.interior = partial(matrix, memory), memory.scalar, memory.interior
        self.done: dict[CellItem, Lanes] = {}
        self.nests = nests
        self.may_store, self.seldom = True, False
        self.several = e.const(True, int1)  # programs along the first axis
        self.filled: dict[Matmul, str] = {}  # where it stands how many steps have their panels
        self.keys: dict[Matmul, list[str]] = {}  # where it stands for which programs
        self.kernels, self.tiles = KernelEmitter(e), amx.TileEmitter(e)
        self.sums, self.streams = columns.SumEmitter(e), StreamEmitter(e)
        self.packs = PackEmitter(e, target)

    def number(self, n: int) -> Lanes:
        return self.e.const(n, int64)

    def emit(self, item: Matmul, base_of: dict[int, Lanes]) -> None:
        """A dot, or one for each matrix of a stack."""
        if len(item.c.shape) < 3:
            self.one(item, base_of, self.number(0))
            return
        with self.w.loop("0", str(item.c.shape[0]), "1") as i:
            self.one(item, base_of, i)

    def one(self, item: Matmul, base_of: dict[int, Lanes], i: Lanes) -> None:
        if item.is_across:
            parts = [self.filled_sides(*self.sides(x, base_of, i)) for x in item.chain]
            columns.multiply(self, parts, parts[-1].landing)
            return
        sides, right = self.sides(item, base_of, i)
        if right is None or not is_streamed(item, self.target):
            self.stack(self.filled_sides(sides, right))
            return
        direct = self.is_whole(right, sides)
        if item.stay is not None:  # panels that other programs need, too, are worth their packing
            direct = self.e.and_(direct, self.e.xor(self.several, self.e.const(True, int1)))

        def packed() -> list[Lanes]:
            self.stack(self.filled_sides(sides, right))
            return []

        self.w.branch(direct.text, [lambda: self.streamed(sides, right), packed])

    def sides(self, item: Matmul, base_of: dict[int, Lanes], i: Lanes) -> tuple[Sides, Matrix | None]:
        left = self.operand(item.a, base_of, i)
        right = self.operand(item.source, base_of, i) if item.source is not None else None
        depth, size = self.packs.up_to(self.depth(item, left, right), item.step * item.words), self.word(item)
        panels, result = (self.nth(x, base_of, i, size) for x in (item.b, item.c))
        down = self.number(item.c.pitch * size)
        words = self.packs.words(depth, max(1, item.words))
        landing = self.landing(item, item.store) if item.store is not None else None
        idle = item.step and right is not None and (not item.fresh or "merged" in self.nests.function.attrs)
        across = (right.rows if item.turned else right.columns).stop if right is not None and idle else None
        return Sides(item, left, panels, result, words, depth, base_of, down, left.pitch, landing, across=across), right

    def landing(self, item: Matmul, store: Direct) -> Landing | None:
        """Where the result goes: where it is stored, if all of the tile exists; if turned, all of its columns."""
        e, there, zero, last = self.e, self.matrix(store), self.number(0), self.e.const(True, int1)
        if not self.may_store or is_streamed(item, self.target):
            self.done[item] = e.const(False, int1)
            return None
        if item.is_across:
            done = self.packs.within(there.rows, zero, self.number(item.c.shape[-1] - 1))
            done = e.and_(done, e.cmp("eq", there.columns.start, zero))
        else:
            done = self.interior(Access.of(store.load)) or last
        if item.loop is not None:
            index, start, stop, step = map(self.scalar, (item.loop.regions[0].args[0], *item.loop.operands[:3]))
            done, last = e.and_(done, e.cmp("lt", start, stop)), e.cmp("le", e.sub(stop, index), step)
        self.done[item] = e.const(True, int1) if item.rest is not None else done
        return Landing(there, last if item.rest is not None else e.and_(done, last), item.rest is not None)

    def landed(self, landing: Landing, row: Lanes, column: Lanes) -> Lanes:
        """Address of an element where the result goes; 0 where it goes elsewhere."""
        along = self.e.mul(column, self.number(landing.place.dtype.itemsize))
        place = self.e.add(self.e.add(landing.place.address, self.e.mul(row, landing.place.pitch)), along)
        return self.e.select(landing.done, place, self.number(0))

    def is_whole(self, right: Matrix, sides: Sides) -> Lanes:
        """True when all rows exist of the right side that are multiplied, from the first column on."""
        zero = self.number(0)
        rows = self.packs.within(right.rows, zero, self.e.sub(sides.depth, self.number(1)))
        return self.e.and_(rows, self.e.cmp("eq", right.columns.start, zero))

    def filled_sides(self, sides: Sides, right: Matrix | None) -> Sides:
        """With panels, filled where they are not yet."""
        item = sides.item
        if item.stay is not None and right is not None:
            return replace(sides, panels=self.once(item, item.stay, right, sides))
        if right is not None:
            self.pack(item, right, sides.panels, sides.depth)
        return sides

    def streamed(self, sides: Sides, right: Matrix) -> list[Lanes]:
        """Few rows: the right side goes by row for row."""
        item, size = sides.item, self.word(sides.item)
        rows, lanes = item.c.shape[-2], self.target.vector_bytes // size
        a, pitch = self.left(sides, self.number(0), rows)
        stream = Stream(rows, lanes, pitch, item.c.pitch, item.c.shape[-1], self.multiplied(item))
        self.streams.kernel(stream)
        pointers = ", ".join(f"ptr {self.packs.at(x)}" for x in (a, right.address, sides.result))
        pitch_b = self.e.binary("udiv", right.pitch, self.number(size))
        numbers = ", ".join(f"i64 {x.text}" for x in (pitch_b, sides.depth, right.columns.stop))
        self.w.line(f"call void @{stream.name}({pointers}, {numbers}, i1 {'true' if item.fresh else 'false'})")
        return []

    def pack(self, item: Matmul, right: Matrix, panels: Lanes, depth: Lanes) -> None:
        self.packs.flips, self.packs.parts = not item.step, item.parts
        (self.turned if item.turned else self.packs.panels)(right, item.b, panels, depth, max(1, item.words))

    def turned(self, m: Matrix, target: Buffer, panels: Lanes, depth: Lanes, per: int) -> None:
        """Rows that become columns, by a function for each shape: many dots of a kernel often share it."""
        shape = *target.shape, target.panel, target.rows, per, int(self.packs.flips), self.packs.parts
        name = f"turn_{m.dtype}_" + "_".join(map(str, shape))
        values = m.address, m.pitch, m.rows.start, m.rows.stop, m.columns.start, m.columns.stop, panels, depth
        if is_new(self.w, name):
            own = [Lanes(f"%v{n}", int64, 1, 0) for n in range(len(values))]
            source = Matrix(own[0], own[1], Span(*own[2:4]), Span(*own[4:6]), m.dtype)
            with function(self.w, f"internal void @{name}({', '.join(v.typed for v in own)}) noinline nounwind"):
                self.packs.turned(source, target, own[6], own[7], per)
        self.w.line(f"call void @{name}({', '.join(v.typed for v in values)})")

    def begin(self, items: Iterable[Matmul], begins: Lanes, row: Lanes) -> None:
        """As a program begins: where it is the first of all or of a row, no panels are there yet that these share."""
        for item in (item for item in items if item.stay is not None):
            slot = self.filled[item] = self.w.slot("i64")
            steps = self.remembered(slot)
            first = begins if item.stay is not None and (item.stay.common or item.stay.keys) else row
            self.keys[item] = [self.w.slot("i64") for _ in (item.stay.keys if item.stay is not None else ())]
            self.w.line(f"store i64 {self.e.select(first, self.number(0), steps).text}, ptr {slot}")

    def once(self, item: Matmul, stay: Stay, right: Matrix, sides: Sides) -> Lanes:
        """The panels of this step; filled, unless a program before has done so."""
        step = self.step_of(stay.loop)
        place = self.e.minimum(step, self.number(stay.places - 1))
        place = self.e.select(self.several, place, self.number(0))
        size = self.number(item.b.elements // stay.places * self.word(item))
        panels = self.e.add(sides.panels, self.e.mul(place, size))
        keys = [self.e.convert(self.scalar(v), int64) for v in stay.keys]
        filled = self.remembered(self.filled[item])
        for slot, key in zip(self.keys[item], keys, strict=True):
            filled = self.e.select(self.e.cmp("eq", self.remembered(slot), key), filled, self.number(0))
        there = self.e.cmp("lt", step, self.e.minimum(filled, self.number(stay.steps)))

        def fill() -> list[Lanes]:
            deepest = self.number(item.op.operands[0].shape[-1])
            self.pack(item, right, panels, deepest if stay.whole else sides.depth)
            slots, now = (self.filled[item], *self.keys[item]), (self.e.add(step, self.number(1)), *keys)
            for slot, v in zip(slots, now, strict=True):
                self.w.line(f"store {v.typed}, ptr {slot}")
            return []

        self.w.branch(there.text, [list, fill])
        return panels

    def remembered(self, slot: str) -> Lanes:
        return Lanes(self.w.raw(f"load i64, ptr {slot}"), int64, 1, self.w.depth)

    def step_of(self, loop: Op | None) -> Lanes:
        """How many steps of a loop are done."""
        if loop is None:
            return self.number(0)
        own = loop.regions[0].args[0], loop.operands[0], loop.operands[2]
        index, start, by = (self.e.convert(self.scalar(v), int64) for v in own)
        return self.e.binary("sdiv", self.e.sub(index, start), by)  # both are negative where it counts down

    def operand(self, source: Buffer | Direct, base_of: dict[int, Lanes], i: Lanes) -> Matrix:
        if isinstance(source, Direct):
            return self.matrix(source)
        dtype = scratch_dtype(source)
        rows, columns = (Span(self.number(0), self.number(n)) for n in source.shape[-2:])
        address = self.nth(source, base_of, i, dtype.itemsize)
        return Matrix(address, self.number(source.pitch * dtype.itemsize), rows, columns, dtype)

    def nth(self, buffer: Buffer, base_of: dict[int, Lanes], i: Lanes, size: int) -> Lanes:
        """Address of a matrix in a stack."""
        return self.e.add(base_of[buffer.id], self.e.mul(i, self.number(buffer.rows * buffer.pitch * size)))

    def word(self, item: Matmul) -> int:
        """Bytes of what is multiplied, and of a result."""
        assert isinstance(item.c.elem, DType)
        return item.c.elem.itemsize

    def depth(self, item: Matmul, left: Matrix, right: Matrix | None) -> Lanes:
        """How far along K one of the sides exists; what lies beyond is zero on both."""
        if not isinstance(item.a, Direct) or not isinstance(item.source, Direct) or right is None:
            return self.number(item.op.operands[0].shape[-1])
        ours = left.rows if item.a.turned else left.columns
        return self.e.maximum(ours.stop, (right.columns if item.turned else right.rows).stop)

    def stack(self, sides: Sides) -> None:
        """All blocks of the result, row by row."""
        item, row = sides.item, 0
        most = most_rows(self.target, item.b.panel // self.lanes(item), isinstance(item.a, Direct))
        most = amx.ROWS if item.step else most
        most = min(most, _FEW) if self.seldom or self.is_shallow(item) else most
        for rows, count in row_blocks(item.c.shape[-2], most):
            if item.step:
                amx.configure(self.w, rows, item.step)
            coming = -(-rows * item.b.panel // item.b.shape[-1]) if isinstance(item.a, Direct) else 0
            with self.w.loop(str(row), self.end(sides, "rows", row + rows * count), str(rows)) as i:
                a, apart = self.rows(sides, i, rows)
                block = replace(self.block(item, rows), coming=min(coming, rows), lands=sides.lands)
                places = a, self.later(sides, self.e.add(i, self.number(rows))), i
                biased = item.words == 4 and not item.step
                of = self.packs.sums(a, apart, rows, sides.words, self.kernels.byte_sums) if biased else ""
                self.panelwise(sides, i, block, partial(self.panel_times, replace(sides, apart=apart, sums=of), places))
                run(self, sides, i, rows, self.number(0))
            row += rows * count
        if item.step:
            amx.release(self.w)

    def is_shallow(self, item: Matmul) -> bool:
        """True where few rows are as fast as more, which would not fill the last block: that is a kernel of its own."""
        rows, depth = item.op.operands[0].shape[-2:]
        wide = isinstance(item.a, Direct) and item.b.panel > _HALF * self.lanes(item)
        return wide and depth <= _SHALLOW and rows % _FEW == 0

    def end(self, sides: Sides, side: str, most: int, of: int = 1, some: int = 1) -> str:
        """Where rows end, or panels `of` so many columns: where the result is but stored, no further than that.

        Panels count of which `some` columns exist. Where the result is added to, rows end with those of the left side,
        and columns with those of the right one.
        """
        item, stop = sides.item, sides.across if side == "columns" else None
        if sides.landing is not None:
            stop = getattr(sides.landing.place, side).stop
        elif side == "rows" and isinstance(item.a, Direct) and not item.a.turned and not item.fresh:
            stop = sides.left.rows.stop
        if item.is_across or stop is None:
            return str(most)
        if of > 1:
            stop = self.e.binary("udiv", self.e.add(stop, self.number(of - some)), self.number(of))
        return self.e.minimum(stop, self.number(most)).text

    def panel_times(self, sides: Sides, places: tuple[Lanes, ...], block: Block, j: Lanes, c: Lanes) -> None:
        """Rows of A times a panel; those that a later block will copy are asked for."""
        (a, later, i), pitch = places, sides.left.pitch
        later = self.e.add(later, self.e.mul(self.e.mul(j, self.number(block.coming)), pitch))
        into = [self.landed(sides.landing, i, self.column(sides, j))] if sides.landing and sides.lands else []
        self.call(block, sides, (a, self.panel(sides, j), c, later, *into), pitch)
        run(self, sides, i, block.rows, self.column(sides, j), block.vectors * block.lanes)

    def column(self, sides: Sides, j: Lanes) -> Lanes:
        """The first column of a panel."""
        return self.e.mul(j, self.number(sides.item.b.panel))

    def panel(self, sides: Sides, j: Lanes) -> Lanes:
        """Address of a panel."""
        b = sides.item.b
        return self.e.add(sides.panels, self.e.mul(j, self.number(b.panel * b.rows * self.word(sides.item))))

    def lanes(self, item: Matmul) -> int:
        return self.target.vector_bytes // self.word(item)

    def block(self, item: Matmul, rows: int) -> Block:
        """A block of so many rows, over a whole panel."""
        lanes, b = self.lanes(item), item.b
        far = b.rows * b.panel * self.word(item) > ROOM
        found = Block(rows, b.panel // lanes, lanes, b.panel, self.multiplied(item), item.words, far=far)
        parted = amx.parted(item) if item.step else found.parted
        return replace(found, seldom=self.seldom, step=item.step, parted=parted)

    def panelwise(self, sides: Sides, i: Lanes, block: Block, multiply: Callable[[Block, Lanes, Lanes], None]) -> None:
        """Rows of the result, panel by panel; the last panel may be narrower, and half of a wide one may not exist."""
        item, size = sides.item, self.word(sides.item)
        out = self.e.add(sides.result, self.e.mul(i, sides.down))
        whole, rest = divmod(-(-item.b.shape[-1] // block.lanes), block.vectors)
        stop = wide = self.end(sides, "columns", whole, item.b.panel)
        if block.vectors > _HALF:
            wide = self.end(sides, "columns", whole, item.b.panel, 1 + _HALF * block.lanes)
        half = replace(block, vectors=_HALF, seldom=True)
        parts = [("0", wide, block), (wide, stop, half)]
        if rest:
            end = self.end(sides, "columns", whole + 1, item.b.panel)
            parts.append((str(whole), end, replace(block, vectors=rest)))
        for first, last, part in (x for x in parts if x[0] != x[1]):
            with self.w.loop(first, last, "1") as j:
                along = self.e.mul(j, self.number(item.b.panel * size))
                multiply(part, j, self.e.add(out, along))

    def call(self, block: Block, sides: Sides, places: tuple[Lanes, ...], pitch: Lanes) -> None:
        block = replace(block, apart=fixed(sides.apart), down=fixed(sides.down)).over(sides.words)
        (self.tiles if block.step else self.kernels).kernel(block)
        pointers, into = [f"ptr {self.packs.at(x)}" for x in places], ""
        if sides.landing is not None and block.lands:
            into = f", {pointers.pop()}, {sides.landing.place.pitch.typed}"
        fresh = "true" if sides.item.fresh else "false"
        numbers = f"i64 {pitch.text}, i64 {sides.words.text}, i64 {sides.down.text}, i1 {fresh}{into}"
        aparts = "".join(f", {self.e.mul(sides.apart, self.number(n)).typed}" for n in block.multiples)
        sums = f", ptr {sides.sums}" if sides.sums else ""
        self.w.line(f"call void @{block.name}({', '.join(pointers)}, {numbers}{aparts}{sums})")

    def later(self, sides: Sides, row: Lanes) -> Lanes:
        """Address of the rows that are copied after those that are multiplied: here, or further along K."""
        m, (rows, depth) = sides.left, sides.item.op.operands[0].shape[-2:]
        along, below = (
            self.e.add(m.address, far) for far in (self.number(depth * m.dtype.itemsize), self.e.mul(row, m.pitch))
        )
        return self.e.select(self.e.cmp("lt", row, self.number(rows)), below, along)

    def left(self, sides: Sides, i: Lanes, rows: int) -> tuple[Lanes, int]:
        """Address of a block of rows in scratch, and how many words they lie apart."""
        item, m = sides.item, sides.left
        if item.block is not None:
            base, self.packs.parts = sides.base_of[item.block.id], item.parts
            self.packs.rows(m, i, rows, item.block, base, sides.depth)
            return base, item.block.pitch * scratch_dtype(item.block).itemsize // self.word(item)
        assert isinstance(item.a, Buffer)
        return self.e.add(m.address, self.e.mul(i, m.pitch)), item.a.pitch // max(1, item.words)

    def rows(self, sides: Sides, i: Lanes, rows: int) -> list[Lanes]:
        """Address of a block of rows, and how many bytes they lie apart: where they are, if they can stay there."""
        item, m, e = sides.item, sides.left, self.e
        here = [e.add(m.address, e.mul(i, m.pitch)), m.pitch]

        def copied() -> list[Lanes]:
            base, pitch = self.left(sides, i, rows)
            return [base, self.number(pitch * self.word(item))]

        if item.parts > 1:
            return copied()
        if not isinstance(item.a, Direct):
            return here
        last, zero = e.sub(sides.depth, self.number(1)), self.number(0)
        stays = e.cmp("eq", e.and_(sides.depth, self.number(max(1, item.words) - 1)), zero)
        stays = e.and_(stays, self.packs.inside(m, (i, zero), (e.add(i, self.number(rows - 1)), last)))
        if item.step:
            row = m.dtype.itemsize * item.op.operands[0].shape[-1]
            stays = e.and_(stays, amx.may_stay(e, m.pitch, row, item.c.shape[-1]))
        return self.w.branch(stays.text, [lambda: here, copied])

    def multiplied(self, item: Matmul) -> DType:
        """Type of an element of the panels."""
        return int32 if item.words else dot_dtype(item.op.operands[0].dtype)
