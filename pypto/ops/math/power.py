"""Powers, roots and lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import Type, int32, int64
from pypto.ops import adjoint_math
from pypto.ops.emitter import Emitter, Lanes
from pypto.ops.math import reference
from pypto.ops.math.exp import exp_of
from pypto.ops.math.log import THIRD, log_of
from pypto.ops.math.pair import Pair, choose, constant, product
from pypto.ops.math.rows import Array, by_size, function, in_float64, native, widened
from pypto.ops.math.term import Term, is_negative, scaling, where
from pypto.ops.rules import BoundArguments, same, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder


def power(x: Term, y: Term) -> Term:
    """exp(y log |x|), with IEEE 754's answers where that is no number or has no sign."""
    size = abs(x)
    log = log_of(Pair(size))
    edge = where(size.same(0.0), -math.inf, where(size.same(math.inf), math.inf, log.hi)) * y
    exponent = choose(abs(edge) < 1000.0, log * y, Pair(edge))
    result = where(size.same(1.0), 1.0, exp_of(exponent))
    half, integral = y * 0.5, y.round().same(y)
    is_odd = integral & half.round().differs(half)
    result = where(is_odd & is_negative(x), -result, result)
    result = where((x < 0.0) & (x > -math.inf) & ~integral | x.is_nan(), math.nan, result)
    return where(y.same(0.0), 1.0, result)


def integer_power(x: Term, y: Term) -> Term:
    """Squares, multiplied where the exponent has a bit. For negative exponents 1 / x**-y, towards zero."""
    signed = y.dtype.kind == "int"
    result, square = x.number(1), x
    for bit in range(y.dtype.bits - signed):
        result = where((y & (1 << bit)).differs(0), result * square, result)
        square = square * square
    if not signed:
        return result
    inverse = where(x.same(1), 1, where(x.same(-1), where((y & 1).same(0), x.number(1), -1), 0))
    return where(y < 0, inverse, result)


def power_rule(e: Emitter, op: Op, x: Lanes, y: Lanes) -> Any:
    return (native(integer_power) if x.dtype.is_int else widened(power))(e, op, x, y)


def power_reference(op: Op, x: Array, y: Array) -> Any:
    if x.dtype.kind in "iu":
        return integer_powers(x, y)
    return in_float64(np.power)(op, x, y)  # C libraries differ over powers of infinities in longdouble


def integer_powers(x: Array, y: Array) -> Array:
    modulus = 1 << 8 * x.itemsize

    def one(a: int, n: int) -> int:
        return pow(a, n, modulus) if n >= 0 else a ** (n % 2) % modulus if abs(a) == 1 else 0

    wrapped = np.frompyfunc(one, 2, 1)(x.astype(object), y.astype(object))
    return np.asarray(wrapped, dtype=f"u{x.itemsize}").view(x.dtype)


def bind_power(b: OpBuilder, x: Any, y: Any) -> BoundArguments | Value:
    """Squares are products; floats to integers keep the exponent an integer; all else is promoted."""
    if isinstance(x, Value) and not isinstance(y, Value) and y == 2 and not x.dtype.is_bool:
        return b.emit("mul", x, x)
    if isinstance(x, Value) and isinstance(y, Value) and x.dtype.is_float and y.dtype.is_int:
        return b.align(
            [x, b.cast(y, int64 if y.dtype.bits == 64 or (y.dtype.bits == 32 and y.dtype.kind == "uint") else int32)]
        ), {}
    values = b.promote([x, y])
    return [b.cast(v, int32) if v.dtype.is_bool else v for v in values], {}


def infer_power(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    x, y = map(tile, types)
    if x.dtype.is_float and y.dtype in (int32, int64) and x.shape == y.shape:
        return (x,)
    return same(types, attrs)


def cbrt(x: Term) -> Term:
    """exp(log |x| / 3) with the sign of x."""
    size, result = abs(x), exp_of(log_of(Pair(abs(x))) * constant(x, THIRD))
    return where((size > 0.0) & (size < math.inf), where(x < 0.0, -result, result), x)


def hypot(x: Term, y: Term) -> Term:
    """√(x² + y²), scaled by a power of two so that no square overflows."""
    width, height = abs(x), abs(y)
    shrink, scale = scaling(where(width > height, width, height))
    squares = product(width * shrink, width * shrink) + product(height * shrink, height * shrink)
    infinite = width.same(math.inf) | height.same(math.inf)
    return where(infinite, math.inf, where(squares.hi.same(0.0), 0.0, squares.sqrt().value * scale))


def reciprocal_root(x: Term) -> Term:
    """1 / √x and one step of Newton's method, whose residue 1 - x y² keeps its digits: its factors stay far from the limits."""
    y = 1.0 / x.sqrt()
    large = x > 1.0
    square = product(x * where(large, x.number(2.0**-100), 2.0**100), y) * (
        y * where(large, x.number(2.0**100), 2.0**-100)
    )
    assert square.lo is not None
    residual = 1.0 - square.hi - square.lo
    return where(abs(residual) < 1.0, y + y * residual * 0.5, y)


ROWS = (
    function(
        "sqrt",
        None,
        native(Term.sqrt),
        "Square root, correctly rounded.",
        domain=(0.0, 1e4),
        reference=in_float64(np.sqrt),
        adjoint=adjoint_math.sqrt,
        kink="infinite at 0.",
    ),
    function(
        "rsqrt",
        lambda a: 1 / np.sqrt(a),
        by_size(lambda x: 1.0 / x.sqrt(), reciprocal_root),
        "1 / sqrt(x).",
        (1.5, 1.0),
        (0.0, 1e4),
        adjoint=adjoint_math.rsqrt,
    ),
    function(
        "cbrt",
        np.cbrt,
        widened(cbrt),
        "Cube root.",
        (0.6, 1.0),
        public=False,
        adjoint=adjoint_math.cbrt,
        kink="infinite at 0.",
    ),
    function(
        "pow",
        None,
        power_rule,
        "x to the power of y. Integers wrap, and to a negative power they give 1 / x**-y towards zero.",
        (0.6, 1.0),
        (0.0, 20.0),
        "x y",
        infer=infer_power,
        bind_arguments=bind_power,
        reference=power_reference,
        dtypes="number",
        adjoint=adjoint_math.power,
        kink="for x, 0 where y is 0; for y, 0 where x is 0 and y is not negative.",
    ),
    function(
        "hypot",
        reference.lengths,
        widened(hypot),
        "sqrt(x * x + y * y), without overflow in between.",
        (0.6, 1.0),
        names="x y",
        public=False,
        adjoint=adjoint_math.hypot,
        kink="0 at the origin.",
    ),
)
