"""A vector unit in numpy: formulas of `ViaFormula` on arrays, with functions as far off as the chip's may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.ir.types import DType, int1
from pypto.ops.casts import convert
from pypto.ops.row import LaneRule

Array = np.ndarray[Any, Any]
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
            "ge": np.greater_equal}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArrayLanes:
    """Lanes that are a numpy array."""

    dtype: DType
    at: Array


def in_dtype(fn: Any) -> Any:
    """A method of a unit from a numpy function: the result has the dtype of the first operand."""

    def method(self: Unit, *xs: ArrayLanes) -> ArrayLanes:
        return ArrayLanes(xs[0].dtype, np.asarray(fn(*(x.at for x in xs))).astype(xs[0].dtype.numpy))

    return method


class Unit:
    """`FunctionUnit` on arrays; the exponential and the logarithm are wrong by `off` units in the last place."""

    paired = True

    def __init__(self, off: float = 0.0) -> None:
        self.off = off

    add, sub, mul, div = (in_dtype(f) for f in (np.add, np.subtract, np.multiply, np.divide))
    neg, abs, sqrt = (in_dtype(f) for f in (np.negative, np.abs, np.sqrt))
    and_, or_, xor, shl, shr = (
        in_dtype(f) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)
    )
    maximum, minimum = in_dtype(np.maximum), in_dtype(np.minimum)

    def const(self, value: float, dtype: DType) -> ArrayLanes:
        return ArrayLanes(dtype, np.asarray(value, dtype.numpy))

    def multiply_add(self, a: ArrayLanes, b: ArrayLanes, c: ArrayLanes) -> ArrayLanes:
        return self.add(self.mul(a, b), c)

    def plus_multiple(self, total: ArrayLanes, a: ArrayLanes, factor: float) -> ArrayLanes:
        return self.add(total, self.mul(a, self.const(factor, a.dtype)))

    def cmp(self, predicate: str, a: ArrayLanes, b: ArrayLanes) -> ArrayLanes:
        return ArrayLanes(int1, _COMPARE[predicate](a.at, b.at))

    def select(self, cond: ArrayLanes, a: ArrayLanes, b: ArrayLanes) -> ArrayLanes:
        return ArrayLanes(a.dtype, np.where(cond.at, a.at, b.at))

    def isnan(self, a: ArrayLanes) -> ArrayLanes:
        return ArrayLanes(int1, np.isnan(a.at))

    def round(self, a: ArrayLanes, mode: str) -> ArrayLanes:
        fn = {"even": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}[mode]
        return ArrayLanes(a.dtype, fn(a.at))

    def convert(self, a: ArrayLanes, dtype: DType) -> ArrayLanes:
        return ArrayLanes(dtype, convert(a.at, dtype))

    def bitcast(self, a: ArrayLanes, dtype: DType) -> ArrayLanes:
        return ArrayLanes(dtype, a.at.view(dtype.numpy))

    def saturates(self, a: ArrayLanes) -> bool:
        return False

    def ldexp(self, a: ArrayLanes, n: ArrayLanes) -> ArrayLanes:
        return ArrayLanes(a.dtype, np.ldexp(a.at, np.clip(np.nan_to_num(n.at), -500, 500).astype(np.int32)))

    def exp(self, a: ArrayLanes) -> ArrayLanes:
        return self.wrong(np.exp(a.at.astype(np.float64)), a.dtype)

    def log(self, a: ArrayLanes) -> ArrayLanes:
        return self.wrong(np.log(a.at.astype(np.float64)), a.dtype)

    def wrong(self, exact: Array, dtype: DType) -> ArrayLanes:
        near = exact.astype(dtype.numpy)
        unit = np.where(np.isfinite(near), np.spacing(np.abs(near)), 0)
        return ArrayLanes(dtype, np.where(exact == near, near, (near + self.off * unit).astype(dtype.numpy)))


def evaluated(rule: LaneRule, *arrays: Array, dtype: DType, off: float = 0.0) -> Array:
    """What a formula gives for arrays of a dtype."""
    with np.errstate(all="ignore"):
        made = rule(Unit(off), None, *(ArrayLanes(dtype, a) for a in arrays))
    return np.asarray(made.at)
