"""Rules and rows of functions of real numbers.

A function of float32 is computed in float64 lanes wherever that is the simpler way: `widened` makes such a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import float32, float64
from pypto.ops.emitter import Emitter, Lanes
from pypto.ops.math.term import Term
from pypto.ops.row import LaneRule, OpRow, Param, Reference
from pypto.ops.rules import promoted, same_kind

Array = np.ndarray[Any, Any]


def native(fn: Callable[..., Term]) -> LaneRule:
    """A rule that computes in the dtype of its operands."""
    return lambda e, op, *xs: fn(*(Term(e, x) for x in xs)).lanes


def widened(fn: Callable[..., Term]) -> LaneRule:
    """A rule that computes in float64 lanes, and float32 as `short` terms of them."""

    def rule(e: Emitter, op: Op, *xs: Lanes) -> Lanes:
        short = xs[0].dtype == float32
        result = fn(*(Term(e, e.convert(x, float64), short) for x in xs)).lanes
        return e.convert(result, float32) if short and result.dtype == float64 else result

    return rule


def by_size(single: Callable[..., Term], double: Callable[..., Term]) -> LaneRule:
    """A rule with a formula for float32 lanes and another for float64."""
    rules = native(single), widened(double)
    return lambda e, op, *xs: rules[xs[0].dtype == float64](e, op, *xs)


def in_wider(fn: Callable[..., Any]) -> Reference:
    """Meaning of a function: computed in float64, or for float64 in `numpy.longdouble`, then rounded once."""

    def reference(op: Op, *arrays: Array) -> Any:
        with np.errstate(all="ignore"):
            return fn(*(a.astype(np.longdouble if a.dtype == np.float64 else np.float64) for a in arrays))

    return reference


def in_float64(fn: Callable[..., Any]) -> Reference:
    """Meaning of a function that numpy rounds correctly."""

    def reference(op: Op, *arrays: Array) -> Any:
        with np.errstate(all="ignore"):
            return fn(*(a.astype(np.float64) for a in arrays))

    return reference


def one_by_one(fn: Callable[..., float]) -> Callable[..., Array]:
    """A function of Python floats on arrays; what it refuses is NaN."""

    def apply(*xs: float) -> float:
        try:
            return fn(*xs)
        except ValueError:
            return math.nan

    return lambda *arrays: np.asarray(
        np.frompyfunc(apply, len(arrays), 1)(*(a.astype(float) for a in arrays)), dtype=np.float64
    )


def function(
    name: str,
    exact: Callable[..., Any] | None,
    lane_rule: LaneRule,
    doc: str,
    ulp: tuple[float, float] = (0.0, 0.0),
    domain: tuple[float, float] = (-10.0, 10.0),
    names: str = "x",
    **more: Any,
) -> OpRow:
    """The row of a function of floats; integers count as float32.

    `exact` is the function in numpy, which the reference computes in a wider format. `ulp` bounds the error for float32
    and for float64. `names` are those of the operands.
    """
    usual = {
        "infer": same_kind(("float",)),
        "reference": exact and in_wider(exact),
        "dtypes": "float",
        "bind_arguments": promoted(floating=True),
        "traits": frozenset({"elementwise"}),
    }
    return OpRow(
        name,
        params=tuple(Param(n, doc="tile or scalar; integers count as float32") for n in names.split()),
        lane_rule=lane_rule,
        domain=domain,
        ulp=MappingProxyType({"f32": ulp[0], "f64": ulp[1]} if any(ulp) else {}),
        doc=doc,
        example=f"{name}({', '.join(names.split())})",
        **usual | more,
    )
