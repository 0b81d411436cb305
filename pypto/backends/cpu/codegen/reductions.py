"""Reductions: accumulators in registers, one partial result per lane, combined horizontally after the loop.

Each strip width of the lane loop has an accumulator of its own. The order of a sum is fixed by the strips alone, so
that a row gives the same bits at any place in the grid.

    %acc0 = identity; for chunks: %acc = combine(%acc, chunk)
    after the loop: halves of %acc are combined until one lane is left
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue, llvm_type
from pypto.ir.core import Op
from pypto.ir.types import DType, float32, int1, int32
from pypto.ops.row import Reduction, Search
from pypto.ops.table import ARG_REDUCTIONS, TABLE

_NO_INDEX = 2**31 - 1  # index of a lane that has met no number
Partial = tuple[VectorValue, ...]


@dataclass(frozen=True, slots=True)
class Combiner:
    """How partial results are combined: their types, the identity, and the operation."""

    dtypes: tuple[DType, ...]
    identity: tuple[float | int, ...]
    combine: Callable[[CpuLaneEmitter, Partial, Partial], Partial]


def combiner_of(op: Op) -> Combiner:
    """The combiner of a reduction op."""
    source = op.operands[0].dtype
    dtype = float32 if source.is_narrow else source
    reduction = TABLE[op.name].lane_rule
    if isinstance(reduction, Search):
        better = reduction.better
        identity = float("nan") if dtype.is_float else dtype.integer_range[0 if better == "gt" else 1]
        return Combiner((dtype, int32), (identity, _NO_INDEX), lambda e, a, b: better_argument(e, better, a, b))
    assert isinstance(reduction, Reduction)
    combine = reduction.combine
    return Combiner((dtype,), (reduction.identity(dtype),), lambda e, a, b: (combine(e, a[0], b[0]),))


def better_argument(e: CpuLaneEmitter, predicate: str, a: Partial, b: Partial) -> Partial:
    """The better of two pairs of number and index: numbers before NaN, then the lower index."""
    (old, i), (new, j) = a, b
    is_better = e.or_(e.cmp(predicate, new, old), e.and_(e.cmp("eq", old, new), e.cmp("lt", j, i)))
    if old.dtype.is_float:
        is_number = e.xor(e.isnan(new), e.const(True, int1))
        is_better = e.or_(is_better, e.and_(e.isnan(old), is_number))
    return e.select(is_better, new, old), e.select(is_better, j, i)


@dataclass(slots=True)
class Accumulator:
    """Partial results of `width` lanes in stack slots, which LLVM promotes to registers."""

    e: CpuLaneEmitter
    combiner: Combiner
    width: int
    slots: tuple[str, ...]

    @staticmethod
    def create(e: CpuLaneEmitter, combiner: Combiner, width: int) -> Accumulator:
        """An accumulator that holds the identity."""
        slots = tuple(e.w.slot(llvm_type(d, width)) for d in combiner.dtypes)
        accumulator = Accumulator(e, combiner, width, slots)
        accumulator.store(tuple(e.const(x, d) for x, d in zip(combiner.identity, combiner.dtypes, strict=True)))
        return accumulator

    def load(self) -> Partial:
        """The partial results."""
        w = self.e.w
        kinds = [llvm_type(d, self.width) for d in self.combiner.dtypes]
        texts = [w.raw(f"load {kind}, ptr {slot}") for kind, slot in zip(kinds, self.slots, strict=True)]
        return tuple(VectorValue(t, d, self.width, w.depth) for t, d in zip(texts, self.combiner.dtypes, strict=True))

    def store(self, values: Partial) -> None:
        """Set the partial results."""
        for value, slot in zip(values, self.slots, strict=True):
            self.e.w.line(f"store {self.e.splat(value, self.width).typed}, ptr {slot}")

    def add(self, values: Partial, mask: VectorValue | None) -> Partial:
        """Combine with a chunk, in lanes where the mask holds; gives the new partial results."""
        old = self.load()
        combined = self.combiner.combine(self.e, old, values)
        if mask is not None:
            combined = tuple(self.e.select(mask, new, before) for new, before in zip(combined, old, strict=True))
        self.store(combined)
        return combined

    def scan(self, values: Partial) -> Partial:
        """Inclusive scan of a chunk, in log2(width) steps; gives the partial result of each lane.

        All lanes of the slots hold the last one after it.
        """
        step = 1
        # Hidden, since LLVM shifts known zeros in by slow instructions (`vexpandps`).
        identities = [
            self.e.hidden(self.e.const(x, v.dtype)) for x, v in zip(self.combiner.identity, values, strict=True)
        ]
        while step < self.width:
            picks = [self.width + lane - step for lane in range(self.width)]
            pairs = zip(identities, values, strict=True)
            shifted = tuple(self.e.shuffle(self.e.splat(identity, v.width), v, picks) for identity, v in pairs)
            values = self.combiner.combine(self.e, shifted, values)
            step *= 2
        old = self.load()
        last = [self.width - 1] * self.width
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


def finalize(e: CpuLaneEmitter, op: Op, total: Partial) -> VectorValue:
    """The result of the op, from the total of a reduction."""
    elem = op.results[0].dtype
    if op.name in ARG_REDUCTIONS:
        index = total[1]
        return e.select(e.cmp("eq", index, e.const(_NO_INDEX, int32)), e.const(0, int32), index)
    return e.round_to(total[0], elem).as_dtype(elem)
