"""Sine and cosine of float16 on a vector unit: formulas of `row.ViaFormula`, by multiples of π instead of π/2.

A float16 has 11 bits, so its products with parts of 1/π are exact, and no argument is too large.
"""

from __future__ import annotations

from typing import Final

from pypto.ir.types import float32, int32
from pypto.ops import math_unit as unit
from pypto.ops.math_term import Term, polynomial

# For float16: 1/π in parts of few bits, whose products with a float16 are exact, as is the sum of the first two, and the
# rest; sin(π f) / f in f² for |f| ≤ ½, minimax to 9.4e-7 of it.
_TURNS_F16: Final = (0.31829833984375, 1.1544674634933472e-05, 1.6654057022336133e-09)
_SIN_TURN_F16: Final = (3.1415897067524763, -5.167367712335221, 2.54360354759735, -0.55839208998985)


def half_turn_f16(x: Term, start: float) -> Term:
    """sin(x + start π) of a float16, given in float32, on a vector unit: what x / π is off a whole number, and that number's parity."""
    half_turns = x * _TURNS_F16[0]
    k = half_turns.round()
    f = half_turns - k
    if start:
        f = f + start
        k, f = k + f.round(), f - f.round()
    f = unit.plus_multiple(f, x, _TURNS_F16[1])
    more = f.round()
    f = unit.plus_multiple(f - more, x, _TURNS_F16[2])
    value = f * polynomial(f * f, _SIN_TURN_F16)
    return (value.bits() + ((k + more).to(int32) << 31)).bits(float32)


def sin_f16(x: Term) -> Term:
    """By half turns, and x itself near 0."""
    return unit.beyond(x, lambda a: half_turn_f16(a, 0.0), x)


def cos_f16(x: Term) -> Term:
    """The sine a quarter of a turn further on."""
    return half_turn_f16(unit.to_single(x), 0.5)
