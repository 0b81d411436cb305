"""What a structured access touches, by the range of its offsets: where it stands, or in all steps of a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.codegen.memory import and_all
from pypto.backends.cpu.codegen.values import ValueEmitter, pointer_plus
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.core import Op, Value
from pypto.ir.types import DType, PtrType, int64, uint64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.pattern import constant_of

_STEEP: Final = 2**36  # bytes, or elements; from such steps on, spans might not fit into 64 bits


@dataclass(frozen=True, slots=True)
class Watched:
    """An array's record in the report, with its words 0, 1 and 5: see `checking.ll`."""

    record: str
    low: VectorValue
    quick: VectorValue
    owners: VectorValue


@dataclass(frozen=True, slots=True)
class Range:
    """Distance in bytes of the first element that an access touches, and whether all of them are the array's."""

    first: VectorValue
    inside: VectorValue


@dataclass
class Ranges:
    """Emits the ranges of accesses whose pointers come from one array alone."""

    values: ValueEmitter
    roots: Mapping[Value, frozenset[str]]
    arrays: Mapping[str, Watched]

    def __post_init__(self) -> None:
        self.e, self.env = self.values.e, self.values.env

    def whole(self, op: Op) -> Range:
        """What an access touches."""
        access = Access.of(op)
        return self.range(op, access, self.env.__getitem__, set(range(len(access.shape))))

    def range(self, op: Op, access: Access, scalar: Callable[[Value], VectorValue], cut: set[int]) -> Range:
        """What an access touches of its only array, by the range of its offsets.

        Of the dimensions that are not `cut` to what exists, all elements of the tile count.
        """
        e, zero, one = self.e, self.e.const(0, int64), self.e.const(1, int64)
        (array,) = self.roots[op.operands[0]]
        known, item = self.arrays[array], e.const(item_of(op), int64)
        first, below, above = e.sub(scalar(access.base), known.low), zero, zero
        flat, nothing = list[VectorValue](), list[VectorValue]()
        for d, size in enumerate(access.shape):
            start, stride = scalar(access.offsets[d]), scalar(access.strides[d])
            stop, step = e.add(start, e.const(size, int64)), e.mul(stride, item)
            if d in cut:
                start, stop = e.maximum(start, zero), e.minimum(stop, scalar(access.extents[d]))
                nothing.append(e.cmp("le", stop, start))
            first = e.add(first, e.mul(start, step))
            if size == 1 or constant_of(access.strides[d]) == 0:
                continue
            span = e.mul(e.sub(e.sub(stop, start), one), step)
            below, above = e.add(below, e.minimum(span, zero)), e.add(above, e.maximum(span, zero))
            flat.append(self.gentle(stride))
        inside = e.cmp("lt", first.as_dtype(uint64), known.quick.as_dtype(uint64))
        end = e.add(e.add(first, above), item)
        fits = inside, e.cmp("ge", e.add(first, below), zero), e.cmp("le", end, known.quick)
        whole = and_all(e, (*fits, *flat))
        assert whole is not None
        return Range(first, functools.reduce(e.or_, nothing, whole))

    def gentle(self, step: VectorValue) -> VectorValue:
        """Whether so many steps as tiles and loops have do not wrap around."""
        near = self.e.add(step, self.e.const(_STEEP, int64)).as_dtype(uint64)
        return self.e.cmp("lt", near, self.e.const(2 * _STEEP, uint64))

    def evenly(self, op: Op, index: Value, places: Sequence[VectorValue]) -> VectorValue | None:
        """Whether an access that moves evenly with a loop touches its array alone, from the first place to the last."""
        access = Access.of(op)
        if len(self.roots.get(op.operands[0], ())) != 1 or not all(v in self.env for v in access.strides):
            return None
        if not all(is_even(v, index, self.env) for v in (access.base, *access.offsets)):
            return None
        still = zip(access.offsets, access.extents, strict=True)
        cut = {d for d, pair in enumerate(still) if all(v in self.env for v in pair)}
        ranges = [self.range(op, access, functools.partial(self.at, index, place), cut) for place in places]
        steps = self.gentle(self.e.sub(ranges[1].first, ranges[0].first))
        return and_all(self.e, (ranges[0].inside, ranges[2].inside, steps))

    def at(self, index: Value, place: VectorValue, v: Value) -> VectorValue:
        """A number that moves evenly with a loop's index, at a place of it."""
        if v in self.env or v is index:
            return self.env.get(v, place)
        assert v.op is not None
        operands = [self.at(index, place, x) for x in v.op.operands]
        return (
            pointer_plus(self.e, v.op, *operands) if v.op.name == "addptr" else self.values.apply(v.op, tuple(operands))
        )


def is_even(v: Value, index: Value, known: Container[Value]) -> bool:
    """Whether a number moves by the same step whenever a loop's index does: a sum of 64 bits, or a product with one."""
    if v in known or v is index:
        return True
    op = v.op
    if op is None or op.regions:
        return False
    if op.name == "cast":  # of an index, whose sums in 32 bits might wrap around
        return v.dtype == int64 and (op.operands[0] is index or op.operands[0] in known)
    factors = op.name == "mul" and any(x in known for x in op.operands)
    wide = v.tile.is_ptr or v.dtype == int64
    return (
        wide and (factors or "additive" in TABLE[op.name].traits) and all(is_even(x, index, known) for x in op.operands)
    )


def pointee_of(pointer: Value) -> DType:
    assert isinstance(pointer.tile.elem, PtrType)
    return pointer.tile.elem.pointee


def item_of(op: Op) -> int:
    """Bytes of an element that an op touches."""
    return pointee_of(op.operands[0]).itemsize if op.operands[0].tile.is_ptr else 0
