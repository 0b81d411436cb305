"""Reductions: accumulators in registers, one partial result per lane, combined horizontally after the loop.

Each strip width of the lane loop has an accumulator of its own. The order of a sum is fixed by the strips alone, so
that a row gives the same bits at any place in the grid.

    %acc0 = identity; for chunks: %acc = combine(%acc, chunk)
    after the loop: halves of %acc are combined until one lane is left
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, llvm_type
from pypto.ir.core import Op
from pypto.ir.types import DType, float32, int1, int32
from pypto.ops.row import Reduction
from pypto.ops.table import ARG_REDUCTIONS, TABLE

_NO_INDEX = 2**31 - 1  # index of a lane that has seen no number
Partial = tuple[VectorValue, ...]


@dataclass(frozen=True, slots=True)
class Combiner:
    """How partial results are combined: their types, the identity, and the operation."""

    dtypes: tuple[DType, ...]
    identity: tuple[float | int, ...]
    combine: Callable[[LaneEmitter, Partial, Partial], Partial]


def combiner_of(op: Op) -> Combiner:
    """The combiner of a reduction op."""
    source = op.operands[0].dtype
    dtype = float32 if source.is_narrow else source
    if op.name in ARG_REDUCTIONS:
        greatest = op.name == "argmax"
        worst = float("nan") if dtype.is_float else dtype.integer_range[0 if greatest else 1]
        predicate = "gt" if greatest else "lt"
        return Combiner((dtype, int32), (worst, _NO_INDEX), lambda e, a, b: better_argument(e, predicate, a, b))
    cell = TABLE[op.name].lane_rule
    assert isinstance(cell, Reduction)
    combine = cell.combine
    return Combiner((dtype,), (cell.identity(dtype),), lambda e, a, b: (combine(e, a[0], b[0]),))


def better_argument(e: LaneEmitter, predicate: str, a: Partial, b: Partial) -> Partial:
    """The better of two pairs of number and index: numbers before NaN, then the lower index."""
    (old, i), (new, j) = a, b
    take = e.or_(e.cmp(predicate, new, old), e.and_(e.cmp("eq", old, new), e.cmp("lt", j, i)))
    if old.dtype.is_float:
        number = e.xor(e.isnan(new), e.const(True, int1))
        take = e.or_(take, e.and_(e.isnan(old), number))
    return e.select(take, new, old), e.select(take, j, i)


@dataclass(slots=True)
class Accumulator:
    """Partial results of `width` lanes in stack slots, which LLVM promotes to registers."""

    e: LaneEmitter
    combiner: Combiner
    width: int
    slots: tuple[str, ...]

    @staticmethod
    def create(e: LaneEmitter, how: Combiner, width: int) -> Accumulator:
        """An accumulator that holds the identity."""
        accumulator = Accumulator(e, how, width, tuple(e.w.slot(llvm_type(d, width)) for d in how.dtypes))
        accumulator.store(tuple(e.const(x, d) for x, d in zip(how.identity, how.dtypes, strict=True)))
        return accumulator

    def load(self) -> Partial:
        """The partial results."""
        w, kinds = self.e.w, [llvm_type(d, self.width) for d in self.combiner.dtypes]
        texts = [w.raw(f"load {kind}, ptr {slot}") for kind, slot in zip(kinds, self.slots, strict=True)]
        return tuple(VectorValue(t, d, self.width, w.depth) for t, d in zip(texts, self.combiner.dtypes, strict=True))

    def store(self, values: Partial) -> None:
        """Set the partial results."""
        for value, slot in zip(values, self.slots, strict=True):
            self.e.w.line(f"store {self.e.splat(value, self.width).typed}, ptr {slot}")

    def add(self, values: Partial, mask: VectorValue | None) -> Partial:
        """Combine with a chunk, in lanes where the mask holds; gives the new partial results."""
        old = self.load()
        joined = self.combiner.combine(self.e, old, values)
        if mask is not None:
            joined = tuple(self.e.select(mask, new, was) for new, was in zip(joined, old, strict=True))
        self.store(joined)
        return joined

    def scan(self, values: Partial) -> Partial:
        """Join a chunk lane after lane; gives what each lane has then. The slots hold the last lane, in all lanes."""
        last, step = [self.width - 1] * self.width, 1
        # LLVM shifts known zeros in by slow instructions (`vexpandps`).
        neutral = [self.e.hidden(self.e.const(x, v.dtype)) for x, v in zip(self.combiner.identity, values, strict=True)]
        while step < self.width:
            picks = [self.width + lane - step for lane in range(self.width)]
            before = (self.e.shuffle(self.e.splat(n, v.width), v, picks) for n, v in zip(neutral, values, strict=True))
            values, step = self.combiner.combine(self.e, tuple(before), values), 2 * step
        old = self.load()
        self.store(self.combiner.combine(self.e, old, tuple(self.e.shuffle(v, v, last) for v in values)))
        return self.combiner.combine(self.e, old, values)

    def total(self, narrower: list[Accumulator], across: bool) -> Partial:
        """The result; with `across`, lanes and narrower accumulators are combined to one lane."""
        total = self.load()
        if across:
            for part in narrower[::-1]:
                total = self.combiner.combine(self.e, self.fold(total, part.width), part.load())
            total = self.fold(total, 1)
        return total

    def fold(self, values: Partial, width: int) -> Partial:
        """Combine halves until `width` lanes are left."""
        while values[0].width > width:
            half = values[0].width // 2
            low, high = (tuple(self.sub_lanes(v, start, half) for v in values) for start in (0, half))
            values = self.combiner.combine(self.e, low, high)
        return values

    def sub_lanes(self, v: VectorValue, start: int, count: int) -> VectorValue:
        """Consecutive lanes of a value."""
        if count > 1:
            return self.e.part(v, start, count)
        return VectorValue(self.e.w.raw(f"extractelement {v.typed}, i32 {start}"), v.dtype, 1, self.e.w.depth)


def finalize(e: LaneEmitter, op: Op, total: Partial) -> VectorValue:
    """The result of the op, from the total of a reduction."""
    elem = op.results[0].dtype
    if op.name in ARG_REDUCTIONS:
        index = total[1]
        return e.select(e.cmp("eq", index, e.const(_NO_INDEX, int32)), e.const(0, int32), index)
    return e.round_to(total[0], elem).as_dtype(elem)
