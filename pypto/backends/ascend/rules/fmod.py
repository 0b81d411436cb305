"""The remainder of float32, digit by digit: exact, whatever the quotient's size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pypto.backends.ascend.rules.control import loop_over_lanes
from pypto.backends.ascend.rules.operand import Lanes, lanes_of
from pypto.ir.types import float32
from pypto.ops.math_term import Term, copysign, where

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.emitter import VectorEmitter

_DIGITS = 12  # quotient bits of a step: their products with 12 bits are exact
_REACH = 277  # from the least float32 to the greatest one


def remainder(e: VectorEmitter, x: Lanes, y: Lanes) -> Lanes:
    """Of mantissas from 1 to 2: each step shifts the rest and takes off what it holds of the divisor."""
    a, b = e.term(Lanes(x.dtype, e.view(x))), e.term(Lanes(y.dtype, e.view(y)))
    size, divisor = abs(a), abs(b)
    (rest, exponent), (whole, other) = mantissa(size), mantissa(divisor)
    upper = (whole.bits() & -(1 << _DIGITS)).bits(whole.dtype)
    lower = whole - upper

    def step(left: Lanes, todo: Lanes) -> list[Lanes]:
        digits = e.arithmetic("Min", todo, e.const(_DIGITS, todo.dtype))
        shifted = e.term(left) * power(e.term(digits))
        quotient = (shifted / whole).round("trunc")
        less = shifted - quotient * upper - quotient * lower
        return [lanes_of(less + where(less < 0.0, whole, 0.0)), e.sub(todo, digits)]

    # One step less shifts than subtracts.
    start = where(rest >= whole, rest - whole, rest)
    reach = e.arithmetic("Max", lanes_of(exponent - other), e.const(0, exponent.dtype))
    found = e.term(loop_over_lanes(e, -(-_REACH // _DIGITS), [lanes_of(start), reach], step)[0])
    result = where(size < divisor, size, found.scaled(other.to(x.dtype)))
    usable = (size < math.inf) & (divisor > 0.0)
    return lanes_of(copysign(where(usable, result, math.nan), a))


def mantissa(x: Term) -> tuple[Term, Term]:
    """From 1 to 2, and the exponent as an integer."""
    tiny = x < 2.0**-126
    bits = where(tiny, x * 2.0**24, x).bits()
    exponent = (bits >> 23) - where(tiny, bits.number(127 + 24), 127)
    return (bits & (1 << 23) - 1 | 127 << 23).bits(x.dtype), exponent


def power(n: Term) -> Term:
    """2**n for an integer from -126 on."""
    return (n + 127 << 23).bits(float32)
