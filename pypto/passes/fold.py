"""Constant folding: an elementwise op on constants is computed now, by the row's own numpy meaning.

A constant is one number in every element, so one element is computed, whatever the size of the tile.
"""

from __future__ import annotations

import math

import numpy as np

from pypto.ir.core import Op
from pypto.ops.build import Number
from pypto.ops.table import TABLE
from pypto.passes.pattern import constant_of


def folded(op: Op) -> Number | None:
    """The number in every element of the result, where it is known now."""
    row = TABLE[op.name]
    if not row.elementwise or row.meaning is None or not op.operands:
        return None
    numbers = [constant_of(v) for v in op.operands]
    if None in numbers or op.result.dtype.kind == "bits":
        return None
    arrays = [np.array([n], v.dtype.numpy) for n, v in zip(numbers, op.operands, strict=True)]
    dtype = op.result.dtype
    with np.errstate(all="ignore"):
        (result,) = np.asarray(row.meaning(op, *arrays)).astype(dtype.numpy)
    if not dtype.is_float:
        return bool(result) if dtype.is_bool else int(result)
    # The bits of a NaN can carry a meaning (`bitcast`), which a constant would lose.
    return None if math.isnan(result) else float(result)
