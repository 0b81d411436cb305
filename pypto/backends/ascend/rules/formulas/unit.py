"""Functions by formulas on a vector unit that has the exponential, the logarithm and the quotient as instructions.

A formula for float32 is right to four units in the last place, as long as the unit's exponential and logarithm are
right to two. One for float16 works in float32 and is right to one unit in the last place of float16; what it gives for
small arguments has a formula of its own, so that no digits are lost there. Reciprocals and reciprocal roots of the unit
are no part of them: of the reciprocal root the documentation promises less than four digits, and of the reciprocal no
figure was found.

Read `rules.kinds.ViaFormula` for how an op has such formulas, and `ops/math/term.py` for the terms they are written in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pypto.backends.ascend.rules.kinds import ViaFormula
from pypto.ir.core import Op
from pypto.ir.types import float32
from pypto.ops.emitter import Emitter, Lanes
from pypto.ops.math.term import Operand, Term, where
from pypto.ops.row import LaneRule

_SMALL: Final = 2.0**-8  # below it, float16 formulas have polynomials of one or two terms


def exp(x: Term) -> Term:
    """The unit's exponential."""
    unit: Any = x.e
    return x.new(unit.exp(x.lanes))


def log(x: Term) -> Term:
    """The unit's natural logarithm."""
    unit: Any = x.e
    return x.new(unit.log(x.lanes))


def greater(x: Term, bound: Operand) -> Term:
    """The greater of two; NaN passes."""
    unit: Any = x.e
    return x.new(unit.maximum(x.lanes, x.of(bound)))


def lesser(x: Term, bound: Operand) -> Term:
    """The lesser of two; NaN passes."""
    unit: Any = x.e
    return x.new(unit.minimum(x.lanes, x.of(bound)))


def formula(
    f32: Callable[..., Term] | None,
    f16: Callable[..., Term] | None = None,
    bf16: Callable[..., Term] | None = None,
    ulp: float = 4.0,
    reach: float = math.inf,
) -> ViaFormula:
    """The rule of a row, from functions of terms."""
    return ViaFormula(f32 and of_terms(f32), f16 and of_terms(f16), bf16 and of_terms(bf16), ulp, reach)


def of_terms(fn: Callable[..., Term]) -> LaneRule:
    """A rule from a function of terms."""

    def rule(e: Emitter, op: Op, *xs: Lanes) -> Any:
        return fn(*(Term(e, x) for x in xs)).lanes

    return rule


def to_single(x: Term) -> Term:
    """A term in float32."""
    return x if x.dtype == float32 else x.to(float32)


def plus_multiple(total: Term, x: Term, factor: float) -> Term:
    """total + x * factor by one instruction, which takes the memory of the total: nothing else may read that."""
    unit: Any = x.e
    return x.new(unit.plus_multiple(total.lanes, x.lanes, factor))


def beyond(x: Term, far: Callable[[Term], Term], usual: Term, start: Term | None = None, limit: float = _SMALL) -> Term:
    """What `far` gives for x, or for `start`, in float32, where |x| is at least `limit`; `usual` elsewhere.

    The comparison stands beside the conversion, since the unit need not wait between instructions that are independent.
    """
    size = abs(x)
    single = to_single(x if start is None else start)
    is_far = size >= limit
    result = far(single)
    return where(is_far, result if result.dtype == x.dtype else result.to(x.dtype), usual)
