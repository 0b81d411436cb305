"""Facts about reductions and elementwise ops, read from the lane rules and references of their rows."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import DType
from pypto.ops.row import OpRow, Reduction, Search
from pypto.ops.table import TABLE


def better(row: OpRow) -> str | None:
    """Return the comparison by which a maximum, minimum, argmax or argmin prefers an element, or None."""
    return row.lane_rule.better if isinstance(row.lane_rule, Reduction | Search) else None


def is_in_pieces(op: str) -> bool:
    """Whether an op is a reduction whose partial results can be combined."""
    return op in TABLE and "reduction" in TABLE[op].traits and isinstance(TABLE[op].lane_rule, Reduction)


def may_propagate_nan(op: str) -> bool:
    """Whether a reduction may have the attribute `propagate_nan`, as numpy's maximum and minimum do."""
    return is_in_pieces(op) and better(TABLE[op]) is not None


def neutral(row: OpRow, dtype: DType) -> float | int | bool:
    """Return the neutral element of a reduction, which fills masked lanes.

    Raises
    ------
    LookupError
        With the reason, when the row has no neutral element.
    """
    order = better(row)
    if order is not None:
        least, greatest = (-math.inf, math.inf) if dtype.is_float else dtype.integer_range
        return least if order == "gt" else greatest
    if not isinstance(row.lane_rule, Reduction):
        raise LookupError(f"the row of {row.name} tells no neutral element")
    identity = row.lane_rule.identity(dtype)
    return bool(identity) if dtype.is_bool else identity


@lru_cache(maxsize=1024)
def is_strict(op: str) -> bool:
    """Whether an elementwise op without attributes is NaN if an operand is, according to its reference."""
    row = TABLE.get(op)
    if row is None or not row.elementwise or row.attributes or row.reference is None or row.dtypes in ("int", "bool"):
        return False
    operands, reference = [p for p in row.params if p.is_operand], row.reference
    others = np.array([0.0, 1.0, -1.0, math.inf])
    arrays = ([np.full(4, math.nan) if p is at else others for p in operands] for at in operands)
    return all(np.isnan(np.asarray(reference(Op(op, (), {}, ()), *x), np.float64)).all() for x in arrays)
