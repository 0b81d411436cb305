"""Sine and cosine on a vector unit: formulas of `rules.kinds.ViaFormula`, by multiples of π instead of π/2.

A float16 has 11 bits, so its products with parts of 1/π are exact, and no argument is too large. A bfloat16 has 8 and
many more sizes. A float32 leaves no bits for exact products, so that multiples of π are subtracted in parts (Cody and
Waite). Both are right up to `REACH`.
"""

from __future__ import annotations

import math
from typing import Final

from pypto.backends.ascend.rules.formulas import unit
from pypto.ir.types import float32, int32
from pypto.ops.math.term import Term, polynomial

# For float16: 1/π in parts of few bits, whose products with a float16 are exact, as is the sum of the first two, and
# the rest; sin(π f) / f in f² for |f| ≤ ½, minimax to 9.4e-7 of it.
_TURNS_F16: Final = (0.31829833984375, 1.1544674634933472e-05, 1.6654057022336133e-09)
_SIN_TURN_F16: Final = (3.1415897067524763, -5.167367712335221, 2.54360354759735, -0.55839208998985)
# For bfloat16: 1/π in a part of 16 bits and the rest; the sine as above, to 1.1e-4 of it.
_TURNS_BF16: Final = (0.31830596923828125, 3.916945509421538e-06)
_SIN_TURN_BF16: Final = (3.1412484748295517, -5.145625533901405, 2.325745924532556)
# For float32: π in parts of 7 bits, whose products with multiples of ½ below 2¹⁶ are exact, and the rest;
# (sin(r) / r - 1) / r² in r² for |r| ≤ 1.6, minimax to 7.4e-9 of sin(r) / r.
# No part is negative: what is left of -0.0 is -0.0.
_PI_PARTS: Final = (
    3.125,
    0.016357421875,
    0.0002346038818359375,
    6.258487701416016e-07,
    1.979060471057892e-09,
    5.115907697472721e-12,
    1.0780605906948477e-14,
)
_SIN_F32: Final = (-0.1666665838820441, 0.008333034445074338, -0.00019807158726043992, 2.600170746969179e-06)
_TURNS: Final = 1 / math.pi
REACH: Final = 200_000.0  # below 2**16 π


def half_turn_f16(x: Term, start: float) -> Term:
    """sin(x + start π) of a float16, in float32: by the distance of x / π to a whole number, and that one's parity."""
    half_turns = x * _TURNS_F16[0]
    k = half_turns.round()
    f = half_turns - k
    if start:
        f = f + start
        k, f = k + f.round(), f - f.round()
    f = unit.plus_multiple(f, x, _TURNS_F16[1])
    more = f.round()
    f = unit.plus_multiple(f - more, x, _TURNS_F16[2])
    return with_parity(f * polynomial(f * f, _SIN_TURN_F16), k + more)


def with_parity(value: Term, k: Term) -> Term:
    """A value with its sign turned where a whole number, of any sign, is odd."""
    return (value.bits() + (k.to(int32) << 31)).bits(float32)


def remainder_of_turns(x: Term, multiple: Term) -> Term:
    """x - multiple · π of a float32, to 2 units in its last place for whole and half turns up to `REACH`."""
    first, *others = _PI_PARTS
    tail = x - multiple * first
    for part in others:
        tail = unit.plus_multiple(tail, multiple, -part)
    return tail


def sine_f32(r: Term) -> Term:
    """The sine within ±1.6, with the sign of zeros."""
    z = r * r
    return r * (z * polynomial(z, _SIN_F32) + 1.0)


def nearest(x: Term) -> Term:
    """The nearest whole number, 0.0 for -0.0, so that less this -0.0 is left."""
    return (x + 0.0).round()


def sin_f32(x: Term) -> Term:
    """By half turns."""
    k = nearest(x * _TURNS)
    return with_parity(sine_f32(remainder_of_turns(x, k)), k)


def cos_f32(x: Term) -> Term:
    """The sine of x + π/2."""
    k = (x * _TURNS + 0.5).round()
    return with_parity(sine_f32(remainder_of_turns(x, k - 0.5)), k)


def half_turn_bf16(f: Term, x: Term, k: Term) -> Term:
    """The sine of a bfloat16, in float32: by the distance of x / π (its upper part) to a whole number, and that one."""
    f = unit.plus_multiple(f, x, _TURNS_BF16[1])
    return with_parity(f * polynomial(f * f, _SIN_TURN_BF16), k)


def sin_bf16(x: Term) -> Term:
    """By half turns."""
    k = nearest(x * _TURNS)
    return half_turn_bf16(x * _TURNS_BF16[0] - k, x, k)


def cos_bf16(x: Term) -> Term:
    """The sine a quarter of a turn further on."""
    k = (x * _TURNS + 0.5).round()
    return half_turn_bf16(x * _TURNS_BF16[0] - k + 0.5, x, k)


def sin_f16(x: Term) -> Term:
    """By half turns, and x itself near 0."""
    return unit.beyond(x, lambda a: half_turn_f16(a, 0.0), x)


def cos_f16(x: Term) -> Term:
    """The sine a quarter of a turn further on."""
    return half_turn_f16(unit.to_single(x), 0.5)
