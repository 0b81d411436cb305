"""Adjoint rules of elementwise ops. What they give at a kink stands in the rows of the ops, as `kink`.

Every rule takes the op, its operands, its result and the gradient of the result: see `pypto.ops.adjoint`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pypto.ir.core import Op
from pypto.ops.adjoint import AdjointRule, Expression, Number

E = Expression
Gradients = Sequence[Expression | None]
_LN2 = math.log(2)
_LN10 = math.log(10)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def times(derivative: Any) -> AdjointRule:
    """The rule of a function of one operand, from its derivative by the operand and the result."""
    return lambda op, x, y, g: (g * derivative(x, y),)


def call(x: E, name: str, **attrs: Any) -> E:
    return x.op(name, **attrs)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    return g, g


def sub(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    return g, -g


def mul(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    return g * y, g * x


def div(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    """By the reciprocal of y, so that there is one division for both."""
    reciprocal = 1 / y
    by_x = g * reciprocal
    return by_x, -by_x * (x * reciprocal)


def rem(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    """x - y · quotient, where the quotient is an integer and constant nearby."""
    return g, -g * ((x - result) / y)


def fma(op: Op, x: E, y: E, z: E, result: E, g: E) -> Gradients:
    return g * y, g * x, g


def neg(op: Op, x: E, result: E, g: E) -> Gradients:
    return (-g,)


def absolute(op: Op, x: E, result: E, g: E) -> Gradients:
    """0 at 0."""
    return ((-g).where(x < 0, g.where(x > 0)),)


def extremum(is_better: str) -> AdjointRule:
    """The rule of `maximum` ("ge") or `minimum` ("le"): half each at a tie. The gradient goes where the result is from.

    Where the result is NaN, both operands get the gradient. Where one operand is NaN and the result is not, the other
    one gets it.
    """

    def rule(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
        shared = (0.5 * g).where(x.equals(y), g)
        nan = [v.op("ne", v) for v in (x, y)]
        if op.attrs["propagate_nan"]:
            either = nan[0].op("or_", nan[1])
            chosen = [x.op(is_better, y).op("or_", either), y.op(is_better, x).op("or_", either)]
        else:
            chosen = [x.op(is_better, y).op("or_", nan[1]), y.op(is_better, x).op("or_", nan[0])]
        return shared.where(chosen[0]), shared.where(chosen[1])

    return rule


maximum, minimum = extremum("ge"), extremum("le")


def where(op: Op, condition: E, x: E, y: E, result: E, g: E) -> Gradients:
    return None, g.where(condition), g.zero().where(condition, g)


def constant_pieces(op: Op, *values: E) -> Gradients:
    """0 everywhere: floor, rounding and the like are constant between their steps."""
    return (None,) * len(op.operands)


def cast(op: Op, x: E, result: E, g: E) -> Gradients:
    return (g.cast(x.dtype),)


def ldexp(op: Op, x: E, n: E, result: E, g: E) -> Gradients:
    return g.op("ldexp", n), None


# --- exponentials and roots -------------------------------------------------------------------------------------------

exp = times(lambda x, y: y)
exp2 = times(lambda x, y: y * _LN2)
exp10 = times(lambda x, y: y * _LN10)
expm1 = times(lambda x, y: call(x, "exp"))
sigmoid = times(lambda x, y: y * (1 - y))
log = times(lambda x, y: 1 / x)
log2 = times(lambda x, y: (1 / _LN2) / x)
log10 = times(lambda x, y: (1 / _LN10) / x)
log1p = times(lambda x, y: 1 / (x + 1))
sqrt = times(lambda x, y: 0.5 / y)
rsqrt = times(lambda x, y: -0.5 * (y * y * y))
cbrt = times(lambda x, y: 1 / (3 * (y * y)))


def power(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    """y · x**(y - 1), 0 where y is 0; and result · log(x), 0 where x is 0 and y is not negative."""
    by_x = (g * y * x.op("pow", y - 1)).where(y.op("ne", 0))
    vanishes = x.equals(0).op("and_", y >= 0)
    by_y = g.zero().where(vanishes, g * result * call(x, "log"))
    return by_x, by_y


def hypot(op: Op, x: E, y: E, result: E, g: E) -> Gradients:
    """0 at the origin."""
    scale = (g / result).where(result.op("ne", 0))
    return scale * x, scale * y


# --- trigonometry -----------------------------------------------------------------------------------------------------

sin = times(lambda x, y: call(x, "cos"))
cos = times(lambda x, y: -call(x, "sin"))
tan = times(lambda x, y: 1 + y * y)
sinpi = times(lambda x, y: math.pi * call(x, "cospi"))
cospi = times(lambda x, y: -math.pi * call(x, "sinpi"))
asin = times(lambda x, y: call((1 - x) * (1 + x), "rsqrt"))
acos = times(lambda x, y: -call((1 - x) * (1 + x), "rsqrt"))
atan = times(lambda x, y: 1 / (1 + x * x))
tanh = times(lambda x, y: 1 - y * y)
sinh = times(lambda x, y: call(x, "cosh"))
cosh = times(lambda x, y: call(x, "sinh"))
asinh = times(lambda x, y: 1 / x.op("hypot", 1))
acosh = times(lambda x, y: call(x - 1, "rsqrt") * call(x + 1, "rsqrt"))
atanh = times(lambda x, y: 1 / ((1 - x) * (1 + x)))


def atan2(op: Op, y: E, x: E, result: E, g: E) -> Gradients:
    """0 at the origin."""
    square = x * x + y * y
    scale = (g / square).where(square.op("ne", 0))
    return scale * x, -scale * y


# --- special functions ------------------------------------------------------------------------------------------------


def bell(x: E, scale: Number, exponent: Number) -> E:
    """scale · exp(exponent · x²)."""
    return scale * call(exponent * (x * x), "exp")


erf = times(lambda x, y: bell(x, _TWO_OVER_ROOT_PI, -1))
erfc = times(lambda x, y: bell(x, -_TWO_OVER_ROOT_PI, -1))
erfcx = times(lambda x, y: 2 * (x * y) - _TWO_OVER_ROOT_PI)
erfinv = times(lambda x, y: bell(y, 1 / _TWO_OVER_ROOT_PI, 1))
erfcinv = times(lambda x, y: bell(y, -1 / _TWO_OVER_ROOT_PI, 1))
normcdf = times(lambda x, y: bell(x, 1 / _ROOT_TWO_PI, -0.5))
normcdfinv = times(lambda x, y: bell(y, _ROOT_TWO_PI, 0.5))
j0 = times(lambda x, y: -call(x, "j1"))
j1 = times(lambda x, y: (call(x, "j0") - y / x).where(x.op("ne", 0), 0.5))
y0 = times(lambda x, y: -call(x, "y1"))
y1 = times(lambda x, y: call(x, "y0") - y / x)
cyl_bessel_i0 = times(lambda x, y: call(x, "cyl_bessel_i1"))
cyl_bessel_i1 = times(lambda x, y: (call(x, "cyl_bessel_i0") - y / x).where(x.op("ne", 0), 0.5))
