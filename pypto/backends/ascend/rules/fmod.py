"""Remainder of float32 by long division in digits of 12 bits: exact, whatever the quotient's size.

A quotient has up to 277 bits, so a rounded quotient would be useless. Each of 24 steps shifts the remainder by 12 bits
and subtracts what it holds of the divisor; products with 12 bits are exact.

    left = left * 2**12;  digit = trunc(left / divisor);  left = left - digit * divisor
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pypto.backends.ascend.rules.control import loop_over_lanes
from pypto.backends.ascend.rules.operand import Lanes, lanes_of
from pypto.ir.types import float32
from pypto.ops.math.term import Term, copysign, where

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.emitter import VectorEmitter

_DIGITS = 12  # quotient bits of a step: their products with 12 bits are exact
_REACH = 277  # from the least float32 to the greatest one


def remainder(e: VectorEmitter, x: Lanes, y: Lanes) -> Lanes:
    """Emit the remainder, with the sign of x: long division on the mantissas, which are scaled to 1 up to 2."""
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
    """Split a positive number into a mantissa from 1 to 2 and an exponent."""
    tiny = x < 2.0**-126
    bits = where(tiny, x * 2.0**24, x).bits()
    exponent = (bits >> 23) - where(tiny, bits.number(127 + 24), 127)
    return (bits & (1 << 23) - 1 | 127 << 23).bits(x.dtype), exponent


def power(n: Term) -> Term:
    """Return 2**n for an integer n from -126 on."""
    return (n + 127 << 23).bits(float32)
