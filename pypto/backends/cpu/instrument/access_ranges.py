"""Ranges of structured accesses: the first and last byte that an access touches, for one program or for a whole loop.

Checked mode compares a range with the array once, instead of each element. An access whose address is affine in a
loop's index is tested before the loop: at the first, the second and the last iteration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.codegen.memory import and_all
from pypto.backends.cpu.codegen.values import ValueEmitter, pointer_plus
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Op, Value
from pypto.ir.types import DType, PtrType, int64, uint64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.pattern import constant_of

_MAX_STEP: Final = 2**36  # bytes or elements of a step; spans of larger ones might overflow 64 bits


@dataclass(frozen=True, slots=True)
class Watched:
    """An array's record in the report, with its words 0, 1 and 5: see `bounds.c`."""

    record: str
    low: VectorValue
    quick: VectorValue
    owners: VectorValue


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes that an access touches."""

    first: VectorValue  # distance of the first element from the start of the array
    inside: VectorValue  # whether all bytes are the array's


@dataclass
class Ranges:
    """Emits the ranges of accesses whose pointers come from one array."""

    values: ValueEmitter
    roots: Mapping[Value, frozenset[str]]
    arrays: Mapping[str, Watched]

    def __post_init__(self) -> None:
        self.e = self.values.e
        self.env = self.values.env

    def of(self, op: Op) -> Range:
        """The range of an access."""
        access = Access.of(op)
        return self.range(op, access, self.env.__getitem__, set(range(len(access.shape))))

    def range(self, op: Op, access: Access, scalar: Callable[[Value], VectorValue], clipped: set[int]) -> Range:
        """The range of an access to its only array; dimensions that are not in `clipped` count as a whole."""
        e = self.e
        zero = e.const(0, int64)
        one = e.const(1, int64)
        (name,) = self.roots[op.operands[0]]
        array = self.arrays[name]
        item = e.const(item_of(op), int64)
        first = e.sub(scalar(access.base), array.low)
        below = above = zero
        is_small = list[VectorValue]()
        is_empty = list[VectorValue]()
        for d, size in enumerate(access.shape):
            start, stride = scalar(access.offsets[d]), scalar(access.strides[d])
            stop = e.add(start, e.const(size, int64))
            step = e.mul(stride, item)
            if d in clipped:
                start = e.maximum(start, zero)
                stop = e.minimum(stop, scalar(access.extents[d]))
                is_empty.append(e.cmp("le", stop, start))
            first = e.add(first, e.mul(start, step))
            if size == 1 or constant_of(access.strides[d]) == 0:
                continue
            span = e.mul(e.sub(e.sub(stop, start), one), step)
            below, above = e.add(below, e.minimum(span, zero)), e.add(above, e.maximum(span, zero))
            is_small.append(self.is_small_step(stride))
        starts_inside = e.cmp("lt", first.as_dtype(uint64), array.quick.as_dtype(uint64))
        end = e.add(e.add(first, above), item)
        fits = starts_inside, e.cmp("ge", e.add(first, below), zero), e.cmp("le", end, array.quick)
        inside = and_all(e, (*fits, *is_small))
        assert inside is not None
        return Range(first, functools.reduce(e.or_, is_empty, inside))

    def is_small_step(self, step: VectorValue) -> VectorValue:
        """Whether a step is small enough that spans do not overflow 64 bits."""
        shifted = self.e.add(step, self.e.const(_MAX_STEP, int64)).as_dtype(uint64)
        return self.e.cmp("lt", shifted, self.e.const(2 * _MAX_STEP, uint64))

    def affine_in_bounds(self, op: Op, index: Value, places: Sequence[VectorValue]) -> VectorValue | None:
        """Whether an access with an affine address stays in its array, for the iterations of a loop; None where
        unknown.

        `places` are the first, the second and the last value of the loop's index.
        """
        access = Access.of(op)
        if len(self.roots.get(op.operands[0], ())) != 1 or not all(v in self.env for v in access.strides):
            return None
        if not all(is_affine(v, index, self.env) for v in (access.base, *access.offsets)):
            return None
        bounds = zip(access.offsets, access.extents, strict=True)
        clipped = {d for d, pair in enumerate(bounds) if all(v in self.env for v in pair)}
        ranges = [self.range(op, access, functools.partial(self.at, index, place), clipped) for place in places]
        steps = self.is_small_step(self.e.sub(ranges[1].first, ranges[0].first))
        return and_all(self.e, (ranges[0].inside, ranges[2].inside, steps))

    def at(self, index: Value, place: VectorValue, v: Value) -> VectorValue:
        """The value of an affine scalar at a value of the loop's index."""
        if v in self.env or v is index:
            return self.env.get(v, place)
        assert v.op is not None
        operands = [self.at(index, place, x) for x in v.op.operands]
        if v.op.name == "addptr":
            return pointer_plus(self.e, v.op, *operands)
        return self.values.apply(v.op, tuple(operands))


def is_affine(v: Value, index: Value, known: Container[Value]) -> bool:
    """Whether a scalar is affine in a loop's index, in 64 bits: sums, and products with invariants."""
    if v in known or v is index:
        return True
    op = v.op
    if op is None or op.regions:
        return False
    if op.name == "cast":  # of the index alone, since sums in 32 bits might overflow
        return v.dtype == int64 and (op.operands[0] is index or op.operands[0] in known)
    has_64_bits = v.tile.is_ptr or v.dtype == int64
    is_linear = "additive" in TABLE[op.name].traits or (op.name == "mul" and any(x in known for x in op.operands))
    return has_64_bits and is_linear and all(is_affine(x, index, known) for x in op.operands)


def pointee_of(pointer: Value) -> DType:
    """The element type of a pointer."""
    assert isinstance(pointer.tile.elem, PtrType)
    return pointer.tile.elem.pointee


def item_of(op: Op) -> int:
    """Bytes of an element that an op touches."""
    return pointee_of(op.operands[0]).itemsize if op.operands[0].tile.is_ptr else 0
