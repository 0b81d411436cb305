"""Decompositions of ufuncs without a row into a few rows: `floor_divide`, tests of floats, shorthands.

Integer exponents may not be negative, as in numpy. Tracing checks a constant exponent, and the plan checks an array: a
kernel reduces the test for negative elements, and a following step raises or returns 0, which is added to the
exponents. So the power itself stays fused in its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NegativePower
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.reference import apply
from pypto.graph.ir.types import TensorType, broadcast
from pypto.ir.types import DTYPES, DType, float32, int1, uint64
from pypto.loc import UNKNOWN, Caller


class ExponentCheck:
    """A step that raises if an exponent is negative, and returns 0 otherwise."""

    may_raise = True

    def __init__(self, dtype: np.dtype[Any], place: Any) -> None:
        self.dtype = dtype
        self.place = place
        self.__qualname__ = "check of exponents"

    def __call__(self, is_negative: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        if is_negative:
            loc = self.place.loc() if isinstance(self.place, Caller) else self.place or UNKNOWN
            raise NegativePower(loc, problem="an exponent in an array is below 0")
        return [np.zeros((), self.dtype)]


def without_negatives(graph: Graph, y: Node, place: Any) -> Node:
    """Return integer exponents with a check that none is negative.

    Raises
    ------
    NegativePower
        When the exponent is a negative constant.
    """
    if y.is_constant and y.attr("value") < 0:
        loc = place.loc() if isinstance(place, Caller) else place or UNKNOWN
        raise NegativePower(loc, problem=f"the exponent is {y.attr('value')}")
    if is_never_negative(y):
        return y
    below = graph.add("lt", y, graph.constant(0, TensorType((), y.type.dtype), place), place=place)
    flag = graph.add("reduce_or", below, place=place, axes=tuple(range(len(y.shape))), keep_dims=False)
    check = ExponentCheck(y.type.dtype.numpy, place)
    zero = graph.add("call", flag, place=place, type=TensorType((), y.type.dtype), function=check, result=0)
    return graph.add("add", y, zero, place=place)


def is_never_negative(y: Node) -> bool:
    """Whether the definition of an integer array proves that no element is negative."""
    if y.type.dtype.kind in ("uint", "bool") or 0 in y.shape:
        return True
    if y.is_number:
        return not y.is_constant or bool(y.attr("value") >= 0)
    if y.is_movement:
        return is_never_negative(y.inputs[0])
    return y.op in _NEVER_NEGATIVE and _NEVER_NEGATIVE[y.op](y)


def is_widened(y: Node) -> bool:
    """Whether a cast keeps every sign, of an array that has no element below 0."""
    source = y.inputs[0].type.dtype
    keeps = source == y.type.dtype or (not source.is_float and source.bits < y.type.dtype.bits)
    return keeps and is_never_negative(y.inputs[0])


_NEVER_NEGATIVE: Final[Mapping[str, Callable[[Node], bool]]] = MappingProxyType(
    {
        "arange": lambda y: bool(y.attr("start") >= 0),
        "cast": is_widened,
        "where": lambda y: all(map(is_never_negative, y.inputs[1:])),
        "maximum": lambda y: any(map(is_never_negative, y.inputs)),
    }
)


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes nodes at one user's line; numbers take the type of the array operand."""

    graph: Graph
    place: Any

    def __call__(self, op: str, *operands: Any, **attrs: Any) -> Node:
        like = next(x for x in operands if isinstance(x, Node))
        nodes = [x if isinstance(x, Node) else self.number(x, like) for x in operands]
        return self.graph.add(op, *nodes, place=self.place, **attrs)

    def number(self, value: float, like: Node) -> Node:
        return self.graph.constant(value, TensorType((), like.type.dtype), self.place)


def bits_of(dtype: DType) -> DType:
    """Return the unsigned integer type of a float's size."""
    return next(d for d in DTYPES if d.kind == "uint" and d.bits == dtype.bits)


def sign_bit(m: Maker, x: Node) -> Node:
    """Extract the sign bit of a float."""
    bits = m("bitcast", x, dtype=bits_of(x.type.dtype))
    return m("and_", bits, 1 << (x.type.dtype.bits - 1))


def copysign(m: Maker, x: Node, y: Node) -> Node:
    magnitude = m("bitcast", m("abs", x), dtype=bits_of(x.type.dtype))
    return m("bitcast", m("or_", magnitude, sign_bit(m, y)), dtype=x.type.dtype)


def signbit(m: Maker, x: Node) -> Node:
    return m("ne", sign_bit(m, x), 0) if x.type.dtype.is_float else m("lt", x, 0)


def has_other_sign(m: Maker, r: Node, y: Node) -> Node:
    """Whether a nonzero remainder with the dividend's sign needs the divisor's sign instead."""
    return m("and_", m("ne", r, 0), m("ne", m("lt", r, 0), m("lt", y, 0)))


def remainder(m: Maker, x: Node, y: Node) -> Node:
    """Compute the remainder with the sign of the divisor, also for 0."""
    r = m("rem", x, y)
    if x.type.dtype.kind == "uint":
        return r
    result = m("where", has_other_sign(m, r, y), m("add", r, y), r)
    return m("where", m("eq", r, 0), copysign(m, r, y), result) if x.type.dtype.is_float else result


def floor_divide(m: Maker, x: Node, y: Node) -> Node:
    """Compute the quotient rounded down; an integer divided by zero gives 0, as in numpy."""
    r = m("rem", x, y)
    if x.type.dtype.is_float:
        exact, quotient = m("div", m("sub", x, r), y), m("div", x, y)
        below = m("where", has_other_sign(m, r, y), m("sub", exact, 1), exact)
        rounded = m("where", m("eq", below, 0), copysign(m, below, quotient), m("floor", m("add", below, 0.5)))
        return m("where", m("ne", y, 0), rounded, quotient)
    q = m("floordiv", x, y)
    return q if x.type.dtype.kind == "uint" else m("where", has_other_sign(m, r, y), m("sub", q, 1), q)


def logaddexp(m: Maker, x: Node, y: Node) -> Node:
    """Compute `logaddexp` as the maximum plus a correction; equal operands, even infinities, add log 2."""
    correction = m("log1p", m("exp", m("neg", m("abs", m("sub", x, y)))))
    return m("add", m("maximum", x, y, propagate_nan=True), m("where", m("eq", x, y), m.number(_LOG_2, x), correction))


def logaddexp2(m: Maker, x: Node, y: Node) -> Node:
    """Compute `logaddexp2` as the maximum plus a correction; equal operands, even infinities, add 1."""
    power = m("exp2", m("neg", m("abs", m("sub", x, y))))
    correction = m("mul", m("log1p", power), 1 / _LOG_2)
    return m("add", m("maximum", x, y, propagate_nan=True), m("where", m("eq", x, y), m.number(1.0, x), correction))


def in_float32(function: Callable[..., Node]) -> Callable[..., Node]:
    """Return a function that computes narrow floats in float32, and rounds once."""

    def widened(m: Maker, *operands: Node) -> Node:
        dtype = operands[0].type.dtype
        if not dtype.is_narrow:
            return function(m, *operands)
        return m("cast", function(m, *(m("cast", x, dtype=float32) for x in operands)), dtype=dtype)

    return widened


def of_integers(op: str) -> Callable[..., Node]:
    """Round, which is the identity for integers."""
    return lambda m, x: m(op, x) if x.type.dtype.is_float else x


def compared(op: str) -> Callable[..., Node]:
    """Compare; signed and unsigned 64-bit integers have no common type, so a sign test comes first."""

    def function(m: Maker, x: Node, y: Node) -> Node:
        kinds = x.type.dtype.kind, y.type.dtype.kind
        if kinds not in (("int", "uint"), ("uint", "int")):
            return m(op, x, y)
        signed = x if kinds[0] == "int" else y
        below = m("lt", signed, 0)
        result = m(op, *(m("cast", n, dtype=uint64) for n in (x, y)))
        numbers = [np.asarray(-1 if n is signed else 0) for n in (x, y)]
        is_so = apply(op, numbers, {}, TensorType((), int1))
        return m("or_", below, result) if is_so else m("and_", m("not_", below), result)

    return function


def sign(m: Maker, x: Node) -> Node:
    dtype = x.type.dtype
    positive, negative = (m("cast", m(op, x, 0), dtype=dtype) for op in ("gt", "lt"))
    result = m("sub", positive, negative)
    return m("where", m("ne", x, x), x, result) if dtype.is_float else result


def isnan(m: Maker, x: Node) -> Node:
    return m("ne", x, x)


def isinf(m: Maker, x: Node) -> Node:
    return m("eq", m("abs", x), float("inf")) if x.type.dtype.is_float else m("ne", x, x)


def isfinite(m: Maker, x: Node) -> Node:
    return m("lt", m("abs", x), float("inf")) if x.type.dtype.is_float else m("eq", x, x)


def power(m: Maker, x: Node, y: Node) -> Node:
    """Decompose small integer and half-integer powers into products and roots; other powers use the float op."""
    if x.type.dtype.is_int:
        y = without_negatives(m.graph, y, m.place)
    if not y.is_constant or y.attr("value") not in _POWERS or broadcast(x.shape, y.shape) != x.shape:
        return m("pow", x, y)
    value = y.attr("value")
    if value > 0 and value % 1 == 0:
        products: Callable[..., Node] = partial(by_products, power=int(value))
        return (in_float32(products) if value > 2 else products)(m, x)
    if value == 0.5:
        return m("sqrt", x)
    if not x.type.dtype.is_float or x.type.dtype.is_narrow:
        return m("pow", x, y)
    if value % 1 == 0:
        return by_products(m, m("div", 1.0, x), int(-value))
    least, end = m.number(-float("inf"), x), m.number(0.0 if value < 0 else float("inf"), x)
    return m("where", m("eq", x, least), end, of_root(m, x, value))  # the root of -inf alone is not as its power


def of_root(m: Maker, x: Node, power: float) -> Node:
    """Compute a half-integer power by a root; 0 is added because 1 / -0.0 has no root."""
    if power > 0:
        return m("mul", x, m("sqrt", x))
    positive = m("add", x, 0.0)
    if power == -0.5:
        return m("div", 1.0, m("sqrt", positive))
    inverse = m("div", 1.0, positive)
    return m("mul", inverse, m("sqrt", inverse))


def by_products(m: Maker, x: Node, power: int) -> Node:
    square = x if power == 1 else m("mul", x, x)
    return square if power < 3 else m("mul", square, x if power == 3 else square)


def scaled(factor: float) -> Callable[..., Node]:
    return in_float32(lambda m, x: m("mul", x, factor))


_POWERS: Final = (-2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2, 3, 4)
_LOG_2: Final = 0.6931471805599453
_DEGREES: Final = 57.29577951308232

_COMPARISONS: Final = {
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip

COMPOSED: Final[Mapping[str, Callable[..., Node]]] = MappingProxyType(
    {
        "absolute": lambda m, x: x if x.type.dtype.is_bool else m("abs", x),
        **{name: compared(op) for name, op in _COMPARISONS.items()},
        "square": lambda m, x: m("mul", x, x),
        "reciprocal": lambda m, x: m("div", 1.0, x),
        "positive": lambda m, x: x,
        "conjugate": lambda m, x: x,
        "copysign": copysign,
        "signbit": signbit,
        "remainder": in_float32(remainder),
        "floor_divide": in_float32(floor_divide),
        "fmod": lambda m, x, y: m("rem", x, y),
        "sign": sign,
        "isnan": isnan,
        "isinf": isinf,
        "isfinite": isfinite,
        "power": power,
        "logaddexp": in_float32(logaddexp),
        "logaddexp2": in_float32(logaddexp2),
        **{name: of_integers(name) for name in ("floor", "ceil", "trunc", "rint")},
        "heaviside": lambda m, x, y: m(
            "where", m("eq", x, 0), y, m("where", m("ne", x, x), x, m("cast", m("gt", x, 0), dtype=x.type.dtype))
        ),
        "deg2rad": scaled(1 / _DEGREES),
        "radians": scaled(1 / _DEGREES),
        "rad2deg": scaled(_DEGREES),
        "degrees": scaled(_DEGREES),
    }
)
