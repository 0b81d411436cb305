"""Ufuncs of complex numbers as formulas on their parts, with numpy's values for infinities and NaN.

A product is the four real products of numpy. A quotient is by Smith's algorithm, which numpy uses, so that no square
overflows. Functions follow the C standard's rules for special values (ISO C, annex G), as the library does that numpy
calls. An operand is a pair of nodes; `Maker` makes a node at the user's line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pypto.graph.ir.node import Node
from pypto.graph.tracing.complex_numbers.pairs import Pair
from pypto.graph.tracing.ufunc_decompositions import Maker, copysign
from pypto.ir.types import float32

_LOG_2: Final = math.log(2)
_MOST_POWER: Final = 100  # the greatest integer exponent that numpy computes by products


def choose(m: Maker, condition: Node, a: Node | float, b: Node) -> Node:
    """Choose element by element; a known condition has one answer."""
    first = a if isinstance(a, Node) else m.number(a, b)
    if condition.is_constant:
        return first if condition.attr("value") else b
    return m("where", condition, first, b)


def is_infinite(m: Maker, x: Node) -> Node:
    return m("eq", m("abs", x), math.inf)


def is_origin(m: Maker, x: Pair) -> Node:
    return m("and_", m("eq", x[0], 0.0), m("eq", x[1], 0.0))


def is_finite(m: Maker, x: Node) -> Node:
    return m("lt", m("abs", x), math.inf)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def on_parts(op: str) -> Callable[..., Pair]:
    """Apply an op to real and imaginary parts alike."""
    return lambda m, *pairs: (m(op, *(p[0] for p in pairs)), m(op, *(p[1] for p in pairs)))


def multiply(m: Maker, x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return m("sub", m("mul", a, c), m("mul", b, d)), m("add", m("mul", a, d), m("mul", b, c))


def divide(m: Maker, x: Pair, y: Pair) -> Pair:
    """Divide by Smith's algorithm: the quotient of the divisor's smaller and greater part is at most 1."""
    (a, b), (c, d) = x, y
    is_real = m("ge", m("abs", c), m("abs", d))
    great, small = choose(m, is_real, c, d), choose(m, is_real, d, c)
    ratio = m("div", small, great)
    scale = m("div", 1.0, m("add", great, m("mul", small, ratio)))
    real = choose(m, is_real, m("add", a, m("mul", b, ratio)), m("add", m("mul", a, ratio), b))
    imag = choose(m, is_real, m("sub", b, m("mul", a, ratio)), m("sub", m("mul", b, ratio), a))
    is_zero, size = is_origin(m, y), m("abs", great)
    return (
        choose(m, is_zero, m("div", a, size), m("mul", real, scale)),
        choose(m, is_zero, m("div", b, size), m("mul", imag, scale)),
    )


def reciprocal(m: Maker, x: Pair) -> Pair:
    a, b = x
    is_real = m("ge", m("abs", a), m("abs", b))
    great, small = choose(m, is_real, a, b), choose(m, is_real, b, a)
    ratio = m("div", small, great)
    divisor = m("add", great, m("mul", small, ratio))
    one, other = m("div", 1.0, divisor), m("div", ratio, divisor)
    return choose(m, is_real, one, other), m("neg", choose(m, is_real, other, one))


def conjugate(m: Maker, x: Pair) -> Pair:
    return x[0], m("neg", x[1])


def absolute(m: Maker, x: Pair) -> Node:
    return m("hypot", *x)


def integer_power(m: Maker, x: Pair, power: int) -> Pair:
    """Multiply squares of the base, in numpy's order; a negative power of 0 is NaN, and a positive one has no sign."""
    one = m.number(1.0, x[0]), m.number(0.0, x[0])
    left, result, base = abs(power), one, x
    if power in (2, 3):
        square = multiply(m, x, x)
        left, result = 0, square if power == 2 else multiply(m, x, square)
    while left:
        if left & 1:
            result = multiply(m, result, base)
        left >>= 1
        base = multiply(m, base, base) if left else base
    if power == 2:
        return result
    real, imag = result if power > 0 else divide(m, one, result)
    is_zero, at_zero = is_origin(m, x), 0.0 if power > 0 else math.nan
    return choose(m, is_zero, at_zero, real), choose(m, is_zero, at_zero, imag)


def power(m: Maker, x: Pair, y: complex) -> Pair | None:
    """Compute a power with a known exponent, or return None if it is left to numpy."""
    if y.imag == 0 and y.real % 1 == 0 and 0 < abs(y.real) < _MOST_POWER:
        return x if y.real == 1 else integer_power(m, x, int(y.real))
    if y.imag == 0 and y.real == 0.5:
        return square_root(m, x)
    return None


# --- comparisons and tests -------------------------------------------------------------------------------------------


def equal(m: Maker, x: Pair, y: Pair) -> Node:
    return m("and_", m("eq", x[0], y[0]), m("eq", x[1], y[1]))


def not_equal(m: Maker, x: Pair, y: Pair) -> Node:
    return m("or_", m("ne", x[0], y[0]), m("ne", x[1], y[1]))


def ordered(first: str, second: str) -> Callable[..., Node]:
    """Compare real parts, and imaginary parts where these are equal; a NaN in an imaginary part is no number."""

    def compare(m: Maker, x: Pair, y: Pair) -> Node:
        are_numbers = m("and_", m("eq", x[1], x[1]), m("eq", y[1], y[1]))
        by_real = m("and_", m(first, x[0], y[0]), are_numbers)
        return m("or_", by_real, m("and_", m("eq", x[0], y[0]), m(second, x[1], y[1])))

    return compare


def either(test: Callable[[Maker, Node], Node], how: str) -> Callable[..., Node]:
    """Combine a test of both parts."""
    return lambda m, x: m(how, test(m, x[0]), test(m, x[1]))


def is_nan(m: Maker, x: Node) -> Node:
    return m("ne", x, x)


def truth(m: Maker, x: Pair) -> Node:
    return m("or_", m("ne", x[0], 0.0), m("ne", x[1], 0.0))


def extreme(compare: Callable[..., Node], propagates: bool) -> Callable[..., Pair]:
    """Choose the greater or the smaller element; NaN counts as either, or as neither."""

    def choice(m: Maker, x: Pair, y: Pair) -> Pair:
        has_nan = either(is_nan, "or_")(m, x if propagates else y)
        is_first = m("or_", compare(m, x, y), has_nan)
        return choose(m, is_first, x[0], y[0]), choose(m, is_first, x[1], y[1])

    return choice


# --- functions -------------------------------------------------------------------------------------------------------


def exponential(m: Maker, x: Pair) -> Pair:
    """Compute ``exp(a) * (cos b + i sin b)``, in two factors for a great `a`, so that only the result overflows."""
    a, b = x
    most = 88.0 if a.type.dtype == float32 else 709.0
    is_great = m("gt", a, most)
    size = m("exp", choose(m, is_great, m("sub", a, most), a))
    more = choose(m, is_great, m.number(math.exp(most), a), m.number(1.0, a))
    real = m("mul", m("mul", size, m("cos", b)), more)
    imag = choose(m, m("eq", b, 0.0), b, m("mul", m("mul", size, m("sin", b)), more))
    is_end = m("not_", is_finite(m, b))
    is_zero = m("and_", is_end, m("eq", a, -math.inf))
    real = choose(m, is_zero, 0.0, choose(m, m("and_", is_end, m("eq", a, math.inf)), math.inf, real))
    return real, choose(m, is_zero, 0.0, imag)


def logarithm(m: Maker, x: Pair) -> Pair:
    return log_size(m, x), m("atan2", x[1], x[0])


def log_size(m: Maker, x: Pair) -> Node:
    """Compute the logarithm of the absolute value: near 1 from the square less 1, and elsewhere in a safe scale."""
    a, b = m("abs", x[0]), m("abs", x[1])
    is_first = m("ge", a, b)
    great, small = choose(m, is_first, a, b), choose(m, is_first, b, a)
    top = 120 if a.type.dtype == float32 else 1000
    is_huge, is_tiny = m("gt", great, 2.0**top), m("lt", great, 2.0**-top)
    scale = choose(m, is_huge, 2.0**-4, choose(m, is_tiny, m.number(2.0**60, a), m.number(1.0, a)))
    added = choose(m, is_huge, 4 * _LOG_2, choose(m, is_tiny, m.number(-60 * _LOG_2, a), m.number(0.0, a)))
    far = m("add", m("log", m("hypot", m("mul", great, scale), m("mul", small, scale))), added)
    less = m("add", m("mul", m("sub", great, 1.0), m("add", great, 1.0)), m("mul", small, small))
    is_near = m("and_", m("gt", great, 0.5), m("lt", great, 1.5))
    return choose(m, is_near, m("mul", m("log1p", less), 0.5), far)


def square_root(m: Maker, x: Pair) -> Pair:
    """Compute the root on the right half plane from half the sum of the absolute value and the real part's."""
    a, b = x
    size, other = m("abs", a), m("abs", b)
    great = choose(m, m("ge", size, other), size, other)
    top = 120 if a.type.dtype == float32 else 1000
    is_huge, is_tiny = m("gt", great, 2.0**top), m("lt", great, 2.0 ** -(top - 20))
    scale = choose(m, is_huge, 2.0**-4, choose(m, is_tiny, m.number(2.0**60, a), m.number(1.0, a)))
    back = choose(m, is_huge, 2.0**2, choose(m, is_tiny, m.number(2.0**-30, a), m.number(1.0, a)))
    real, imag = m("mul", a, scale), m("mul", b, scale)
    half = m("mul", m("add", m("abs", real), m("hypot", real, imag)), 0.5)
    root = m("sqrt", half)
    quotient = m("div", m("abs", imag), m("mul", root, 2.0))
    is_right = m("or_", m("ge", a, 0.0), m("ne", a, a))
    is_zero, is_end = is_origin(m, x), is_infinite(m, b)
    first = m("mul", choose(m, is_right, root, quotient), back)
    second = m("mul", choose(m, is_right, quotient, root), back)
    first = choose(m, is_end, math.inf, choose(m, is_zero, 0.0, first))
    return first, choose(m, m("or_", is_zero, is_end), b, copysign(m, second, b))


def sine(m: Maker, x: Pair) -> Pair:
    """Compute ``sin a * cosh b + i cos a * sinh b``; a factor of 0 makes 0 even with an infinity."""
    a, b = x
    real, imag = m("mul", m("sin", a), m("cosh", b)), m("mul", m("cos", a), m("sinh", b))
    a_ends, b_ends = m("not_", is_finite(m, a)), m("not_", is_finite(m, b))
    real = choose(m, m("and_", m("eq", a, 0.0), b_ends), a, real)
    imag = choose(m, m("and_", m("eq", b, 0.0), a_ends), b, imag)
    return real, choose(m, m("and_", is_infinite(m, b), a_ends), b, imag)


def hyperbolic_sine(m: Maker, x: Pair) -> Pair:
    imag, real = sine(m, (x[1], x[0]))
    return real, imag


def hyperbolic_cosine(m: Maker, x: Pair) -> Pair:
    a, b = x
    real, imag = m("mul", m("cosh", a), m("cos", b)), m("mul", m("sinh", a), m("sin", b))
    a_ends, b_ends = m("not_", is_finite(m, a)), m("not_", is_finite(m, b))
    imag = choose(m, m("and_", m("eq", a, 0.0), b_ends), 0.0, imag)
    zero = m("mul", b, copysign(m, m.number(1.0, a), a))
    imag = choose(m, m("and_", m("eq", b, 0.0), a_ends), zero, imag)
    return choose(m, m("and_", is_infinite(m, a), b_ends), math.inf, real), imag


def cosine(m: Maker, x: Pair) -> Pair:
    return hyperbolic_cosine(m, (m("neg", x[1]), x[0]))


def scaled(function: Callable[..., Pair], factor: float) -> Callable[..., Pair]:
    """Multiply both parts of a function by a number."""

    def result(m: Maker, x: Pair) -> Pair:
        real, imag = function(m, x)
        return m("mul", real, factor), m("mul", imag, factor)

    return result


def log1p(m: Maker, x: Pair) -> Pair:
    real = m("add", x[0], 1.0)
    return m("log", m("hypot", real, x[1])), m("atan2", x[1], real)


def expm1(m: Maker, x: Pair) -> Pair:
    a, b = x
    half = m("sin", m("mul", b, 0.5))
    real = m("sub", m("mul", m("expm1", a), m("cos", b)), m("mul", m("mul", half, half), 2.0))
    return real, m("mul", m("exp", a), m("sin", b))


_LESS: Final = ordered("lt", "lt")
_LESS_EQUAL: Final = ordered("lt", "le")
_GREATER: Final = ordered("gt", "gt")
_GREATER_EQUAL: Final = ordered("gt", "ge")
FORMULAS: Final[Mapping[str, Callable[..., Node | Pair]]] = MappingProxyType(
    {
        "add": on_parts("add"), "subtract": on_parts("sub"), "negative": on_parts("neg"), "multiply": multiply,
        "divide": divide, "reciprocal": reciprocal, "conjugate": conjugate, "absolute": absolute,
        "square": lambda m, x: multiply(m, x, x), "positive": lambda m, x: x, "rint": on_parts("rint"),
        "equal": equal, "not_equal": not_equal, "less": _LESS, "less_equal": _LESS_EQUAL, "greater": _GREATER,
        "greater_equal": _GREATER_EQUAL, "maximum": extreme(_GREATER_EQUAL, True),
        "minimum": extreme(_LESS_EQUAL, True), "fmax": extreme(_GREATER_EQUAL, False),
        "fmin": extreme(_LESS_EQUAL, False), "isnan": either(is_nan, "or_"), "isinf": either(is_infinite, "or_"),
        "isfinite": either(is_finite, "and_"), "exp": exponential, "log": logarithm, "sqrt": square_root,
        "log2": scaled(logarithm, 1 / _LOG_2), "log10": scaled(logarithm, 1 / math.log(10)), "log1p": log1p,
        "expm1": expm1, "sin": sine, "cos": cosine, "sinh": hyperbolic_sine, "cosh": hyperbolic_cosine,
    }
)  # fmt: skip
LOGICAL: Final = ("logical_and", "logical_or", "logical_xor", "logical_not")
