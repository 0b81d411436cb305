"""Accumulators: partial results in registers, one per lane, joined when the loop ends."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.loopir import Stmt
from pypto.ir.core import Op
from pypto.ir.types import DType, float32, int1, int32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE

_LAST = 2**31 - 1  # index of a lane that has seen no number


@dataclass(slots=True)
class Accumulator:
    """A reduction over `width` lanes at once, held in stack slots that become registers."""

    e: LaneEmitter
    op: Op
    dtype: DType
    width: int
    slot: str
    index_slot: str = ""

    def load(self) -> Lanes:
        e = self.e
        return Lanes(e.w.raw(f"load {llvm_type(self.dtype, self.width)}, ptr {self.slot}"), self.dtype, self.width,
            e.w.depth)

    def load_index(self) -> Lanes:
        e = self.e
        return Lanes(e.w.raw(f"load {llvm_type(int32, self.width)}, ptr {self.index_slot}"), int32, self.width,
            e.w.depth)

    def save(self, value: Lanes, index: Lanes | None = None) -> None:
        self.e.w.line(f"store {self.e.splat(value, self.width).typed}, ptr {self.slot}")
        if index is not None:
            self.e.w.line(f"store {self.e.splat(index, self.width).typed}, ptr {self.index_slot}")

    def add(self, value: Lanes, mask: Lanes | None, where: Lanes | None, along: bool) -> Lanes:
        """Join a chunk; `where` is its index along the axis, which runs along the lanes when `along`."""
        old = self.load()
        if where is not None:
            self.join_arg(old, value, mask, where, along)
            return old
        joined = combine(self.e, self.op, old, value)
        if mask is not None and along:
            joined = self.e.select(mask, joined, old)
        self.save(joined)
        return joined

    def join_arg(self, old: Lanes, value: Lanes, mask: Lanes | None, where: Lanes, along: bool) -> None:
        e = self.e
        better = is_better(e, self.op, value, old)
        if mask is not None and along:
            better = e.and_(better, mask)
        index = e.convert(where, int32)
        index = e.add(index, e.iota(self.width, int32)) if along and self.width > 1 else index
        self.save(e.select(better, value, old), e.select(better, index, self.load_index()))

    def total(self, narrower: list[Accumulator], across: bool) -> Lanes:
        """The result: lanes joined into one when the reduction ran across them."""
        value = self.load()
        index = self.load_index() if self.index_slot else None
        if across:
            parts = [(a.load(), a.load_index() if a.index_slot else None) for a in narrower]
            value, index = self.fold(value, index, min((a.width for a in narrower), default=1))
            for part, part_index in parts:
                value, index = self.join(*self.meet(value, index), *self.meet(part, part_index, value.width))
            value, index = self.fold(value, index, 1)
        if index is None:
            return value
        return self.e.select(self.e.cmp("eq", index, self.e.const(_LAST, int32)), self.e.const(0, int32), index)

    def meet(self, value: Lanes, index: Lanes | None, width: int = 0) -> tuple[Lanes, Lanes | None]:
        """Fold to a width."""
        return self.fold(value, index, width or value.width)

    def fold(self, value: Lanes, index: Lanes | None, width: int) -> tuple[Lanes, Lanes | None]:
        """Join upper and lower halves until `width` lanes are left."""
        while value.width > width:
            half = value.width // 2
            low, high = self.halves(value, half)
            if index is None:
                value = combine(self.e, self.op, low, high)
            else:
                value, index = self.join(low, self.halves(index, half)[0], high, self.halves(index, half)[1])
        return value, index

    def join(self, a: Lanes, i: Lanes | None, b: Lanes, j: Lanes | None) -> tuple[Lanes, Lanes | None]:
        if i is None or j is None:
            return combine(self.e, self.op, a, b), None
        e = self.e
        tie = e.and_(e.cmp("eq", a, b), e.cmp("lt", j, i))
        take = e.or_(is_better(e, self.op, b, a), tie)
        return e.select(take, b, a), e.select(take, j, i)

    def halves(self, v: Lanes, half: int) -> tuple[Lanes, Lanes]:
        if half == 1:
            texts = [self.e.w.raw(f"extractelement {v.typed}, i32 {i}") for i in (0, 1)]
        else:
            picks = [", ".join(f"i32 {i + at}" for i in range(half)) for at in (0, half)]
            texts = [self.e.w.raw(f"shufflevector {v.typed}, {v.type} poison, <{half} x i32> <{p}>") for p in picks]
        return tuple(Lanes(t, v.dtype, half, self.e.w.depth) for t in texts)  # type: ignore[return-value]


def combine(e: LaneEmitter, op: Op, a: Lanes, b: Lanes) -> Lanes:
    joined: Lanes = cell_of(op).combine(e, a, b)
    return joined


def cell_of(op: Op) -> Reduction:
    cell = TABLE["sum" if op.name == "cumsum" else op.name].cpu
    assert isinstance(cell, Reduction)
    return cell


def is_better(e: LaneEmitter, op: Op, new: Lanes, old: Lanes) -> Lanes:
    """True where `new` beats `old`; numbers beat NaN."""
    better = e.cmp("gt" if op.name == "argmax" else "lt", new, old)
    if not new.dtype.is_float:
        return better
    number = e.xor(e.isnan(new), e.const(True, int1))
    return e.or_(better, e.and_(e.isnan(old), number))


def make_accumulator(e: LaneEmitter, stmt: Stmt, width: int) -> Accumulator:
    """Slots that hold what changes nothing."""
    op = stmt.op
    assert op is not None
    source = op.operands[0].dtype
    dtype = float32 if source.is_float and source.bits == 16 else source
    accumulator = Accumulator(e, op, dtype, width, e.w.slot(llvm_type(dtype, width)))
    if stmt.kind != "arg":
        accumulator.save(e.const(cell_of(op).identity(dtype), dtype))
        return accumulator
    accumulator.index_slot = e.w.slot(llvm_type(int32, width))
    worst = float("nan") if dtype.is_float else dtype.integer_range[0 if op.name == "argmax" else 1]
    accumulator.save(e.const(worst, dtype), e.const(_LAST, int32))
    return accumulator
