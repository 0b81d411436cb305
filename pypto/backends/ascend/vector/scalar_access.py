"""Single elements of arrays, read and written by the scalar unit."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Read, Record, Scalar, View
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.region import Region
from pypto.backends.ascend.vector.values import Pointer, Pointers, Splat
from pypto.ir.core import Op, Value


def load_element(low: Lowering, op: Op, area: Region, other: Value | None) -> Splat | Scalar:
    """A load of a single element, by the scalar unit."""
    dtype, shape = op.result.dtype, op.result.shape
    default: Scalar = low.number(other) if other else zero(dtype)
    value = load_predicated(low, op.result, area.base, area.offset(low, (0,) * len(shape)), area.exists, default)
    return Splat(shape, dtype, value) if shape else value


def load_predicated(
    low: Lowering, v: Value, base: Pointer | Pointers, at: Scalar, condition: Scalar, default: Scalar
) -> Scalar:
    name = None if condition is True else low.variable(v.hint, v.dtype, default)
    with low.when(condition):
        value = read_element(low, View(base.array, at))
        if v.dtype.is_bool:
            value = Expr("!=", (value, 0))
        if name is not None:
            low.assign(name, value)
    return low.let(v.hint, v.dtype, value) if name is None else name


def read_element(low: Lowering, there: View) -> Scalar:
    """One element of an array. The scalar unit's cache does not see what the copy engines write: they fetch it then."""
    if not low.may_be_written(there.of.name):
        return Read(there)
    block = low.block_of(there.elem, "fetched")
    low.instr("DataCopyPad", block, there, Record((1, there.elem.itemsize, 0, 0, 0)), Record((False, 0, 0, 0)))
    return Read(block)


def store_element(low: Lowering, there: View, value: Scalar) -> None:
    """One element into an array, from a block of its own."""
    block = low.block_of(there.elem, "element")
    low.instr("SetValue", block, value)
    low.instr("DataCopyPad", there, block, Record((1, there.elem.itemsize, 0, 0, 0)))
