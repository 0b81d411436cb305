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
    """How a better element compares with another one where an op finds an extreme, or the place of one."""
    return row.lane_rule.better if isinstance(row.lane_rule, Reduction | Search) else None


def is_in_pieces(op: str) -> bool:
    """Whether an op is a reduction, and two results of it combine to one."""
    return op in TABLE and "reduction" in TABLE[op].traits and isinstance(TABLE[op].lane_rule, Reduction)


def may_propagate_nan(op: str) -> bool:
    """Whether a reduction may have the attribute `propagate_nan`: extremes of numpy do, where the rows ignore NaN."""
    return is_in_pieces(op) and better(TABLE[op]) is not None


def neutral(row: OpRow, dtype: DType) -> float | int | bool:
    """An element that changes no result of a reduction.

    Raises
    ------
    LookupError
        With a sentence, when the row tells none.
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
    """Whether an elementwise op without attributes is NaN where an operand is, as its reference says."""
    row = TABLE.get(op)
    if row is None or not row.elementwise or row.attributes or row.reference is None or row.dtypes in ("int", "bool"):
        return False
    operands, reference = [p for p in row.params if p.is_operand], row.reference
    others = np.array([0.0, 1.0, -1.0, math.inf])
    arrays = ([np.full(4, math.nan) if p is at else others for p in operands] for at in operands)
    return all(np.isnan(np.asarray(reference(Op(op, (), {}, ()), *x), np.float64)).all() for x in arrays)
