"""Accesses of single elements, by the scalar unit."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Read, Record, Scalar, View
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.region import AccessRegion
from pypto.backends.ascend.vector.values import Pointer, Pointers, Splat
from pypto.ir.core import Op, Value


def load_element(low: Lowering, op: Op, region: AccessRegion, other: Value | None) -> Splat | Scalar:
    """Load a single element."""
    dtype, shape = op.result.dtype, op.result.shape
    default: Scalar = low.number(other) if other else zero(dtype)
    value = load_predicated(low, op.result, region.base, region.offset(low, (0,) * len(shape)), region.exists, default)
    return Splat(shape, dtype, value) if shape else value


def load_predicated(
    low: Lowering, v: Value, base: Pointer | Pointers, at: Scalar, condition: Scalar, default: Scalar
) -> Scalar:
    """Load an element if a condition holds; otherwise return the default."""
    name = None if condition is True else low.variable(v.hint, v.dtype, default)
    with low.when(condition):
        value = read_element(low, View(base.array, at))
        if v.dtype.is_bool:
            value = Expr("!=", (value, 0))
        if name is not None:
            low.assign(name, value)
    return low.let(v.hint, v.dtype, value) if name is None else name


def read_element(low: Lowering, place: View) -> Scalar:
    """Read an element of an array.

    The scalar unit's cache does not see what the copy engines write. If the kernel may write to the array, a copy
    engine fetches the element.
    """
    if not low.may_be_written(place.of.name):
        return Read(place)
    block = low.scalar_block(place.elem, "fetched")
    low.instr("DataCopyPad", block, place, Record((1, place.elem.itemsize, 0, 0, 0)), Record((False, 0, 0, 0)))
    return Read(block)


def store_element(low: Lowering, place: View, value: Scalar) -> None:
    """Store an element through a block of memory."""
    block = low.scalar_block(place.elem, "element")
    low.instr("SetValue", block, value)
    low.instr("DataCopyPad", place, block, Record((1, place.elem.itemsize, 0, 0, 0)))
