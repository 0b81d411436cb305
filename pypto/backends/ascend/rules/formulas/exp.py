"""Exponentials, logarithms and the hyperbolic tangent on the vector unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pypto.backends.ascend.rules.formulas import unit
from pypto.ir.types import float32
from pypto.ops.math.exp import LOG2, LOG2E
from pypto.ops.math.hyper import TANH
from pypto.ops.math.term import Term, copysign, polynomial, where

LOG10E: Final = 0.4342944819032518
_ROOT_HALF: Final = 0x3F3504F3  # bits of √½ in float32
_LEAST_NORMAL: Final = 2.0**-126


def exp2(x: Term) -> Term:
    """2**n · exp(r log 2) for the nearest whole n, so that powers of whole numbers are exact."""
    x = unit.lesser(unit.greater(x, -160.0), 140.0)
    n = x.round()
    return unit.exp((x - n) * LOG2[0]).scaled(n)


def exp2_narrow(x: Term) -> Term:
    """exp(x log 2): where a result of 16 bits is finite, the product is right to 2⁻¹⁷."""
    return unit.exp(unit.to_single(x) * LOG2[0])


def sigmoid(x: Term) -> Term:
    """e / (1 + e) with e = exp(x), where e is too small to overflow: right down to the least subnormal number."""
    e = unit.exp(unit.lesser(x, 80.0))
    return e / (e + 1.0)


def sigmoid_f16(x: Term) -> Term:
    """1 / (1 + exp(-x)), which is subnormal in float32 only where it is 0 in float16."""
    return 1.0 / (unit.exp(unit.to_single(-x)) + 1.0)


def log2(x: Term) -> Term:
    """k + log2(m) with x = 2**k · m, so that powers of two are exact; what is not normal, at once."""
    bits = x.bits()
    k = bits - _ROOT_HALF >> 23
    mantissa = (bits - (k << 23)).bits(float32)
    result = unit.log(mantissa) * LOG2E + k.to(float32)
    return where((x >= _LEAST_NORMAL) & (x < math.inf), result, unit.log(x) * LOG2E)


def log_narrow(factor: float) -> Callable[[Term], Term]:
    """A logarithm as a multiple of the natural one."""
    return lambda x: unit.log(unit.to_single(x)) * factor


def log1p(x: Term) -> Term:
    """log(u) + (x - (u - 1)) / u with u the rounded 1 + x."""
    u = x + 1.0
    back = u - 1.0
    mend = where(back.same(x), 0.0, (x - back) / u)
    return where(u.same(1.0), x, unit.log(u) + mend)


def log1p_narrow(x: Term) -> Term:
    """log of 1 + x, and x - x² / 2 near 0, where that sum loses digits."""
    return unit.beyond(x, lambda a: unit.log(a + 1.0), x + x * x * -0.5)


def tanh(x: Term) -> Term:
    """a polynomial near 0, else 1 - 2 / (exp(2 |x|) + 1)."""
    size, z = abs(x), x * x
    small = x * (z * polynomial(z, TANH) + 1.0)
    far = copysign(1.0 - 2.0 / (unit.exp(size + size) + 1.0), x)
    return where(size < 0.625, small, far)


def tanh_narrow(x: Term) -> Term:
    """1 - 2 / (exp(2 x) + 1), and x itself where that is as near."""
    return unit.beyond(x, lambda twice: -2.0 / (unit.exp(twice) + 1.0) + 1.0, x, x + x)
