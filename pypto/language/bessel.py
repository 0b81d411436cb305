"""Bessel functions of float64: power series near 0, Miller's recurrence up to 25, Hankel's expansion above.

Each of the functions gives a pair, of the first and of the second kind. Sources: Abramowitz and Stegun, 9.1.10 to
9.1.13, 9.1.88 and 9.1.89 (Neumann's series), 9.2.5 to 9.2.10, and 9.12 for the recurrence.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pypto.ir.types import float64
from pypto.language import ops

Tile = Any

GAMMA: Final = 0.5772156649015329
BY_PI: Final = 2 / math.pi
ROOT_HALF: Final = math.sqrt(0.5)
START: Final = 1e-250  # a number for the highest order, so small that none after it is too large
TERMS: Final = 10


def hankel(order: int) -> tuple[tuple[float, float], ...]:
    """Coefficients of Hankel's expansion in powers of 1/x², by even and odd powers of 1/x."""
    terms = [1.0]
    for k in range(1, 2 * TERMS):
        terms.append(terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return tuple(((-1) ** k * terms[2 * k], (-1) ** k * terms[2 * k + 1]) for k in range(TERMS))


HANKEL: Final = (hankel(0), hankel(1))


def near_zero(x: Tile, order: Any) -> Any:
    """Power series for 0 < x < 0.05."""
    q, log = x * x * 0.25, ops.log(x * 0.5)
    if order == 0:
        first = 1 - q * (1 - q / 4 * (1 - q / 9 * (1 - q / 16)))
        return first, BY_PI * ((log + GAMMA) * first + q * (1 - q * (3 / 8 - q * (11 / 216 - q * (25 / 6912)))))
    first = x * 0.5 * (1 - q / 2 * (1 - q / 6 * (1 - q / 12 * (1 - q / 20))))
    inner = (5 / 2 - 2 * GAMMA) / 2 - q * ((10 / 3 - 2 * GAMMA) / 12 - q * (47 / 12 - 2 * GAMMA) / 144)
    return first, BY_PI * (log * first - 1 / x - x * 0.25 * (1 - 2 * GAMMA - q * inner))


def by_recurrence(x: Tile, order: Any) -> Any:
    """Miller's recurrence from a high order down, for 0.05 <= x <= 25; Neumann's series on the way."""
    of_odd, of_even, inverse = ops.full(x.shape, START, float64), ops.full(x.shape, 0.0, float64), 2 / x
    total, series, sign = of_even, of_even, 1.0
    for n in ops.range(32):
        k = ops.cast(32 - n, float64)
        of_even = (2 * k + 1) * inverse * of_odd - of_even
        series += sign * (of_even / k if order == 0 else (2 * k + 1) / (k * (k + 1)) * of_odd)
        total += 2 * of_even
        of_odd = 2 * k * inverse * of_even - of_odd
        sign = -sign
    zeroth = inverse * of_odd - of_even
    total += zeroth
    log = ops.log(x * 0.5) + GAMMA
    if order == 0:
        return zeroth / total, BY_PI * (log * zeroth - 2 * series) / total
    return of_odd / total, BY_PI * ((log - 1) * of_odd - series - zeroth / x) / total


def far(x: Tile, order: Any) -> Any:
    """Hankel's expansion for x > 25."""
    p, q, inverse = ops.full(x.shape, 0.0, float64), ops.full(x.shape, 0.0, float64), 1 / (x * x)
    for k in ops.static_range(TERMS):
        p = p * inverse + HANKEL[order][TERMS - 1 - k][0]
        q = q * inverse + HANKEL[order][TERMS - 1 - k][1]
    q, size = q / x, ops.sqrt(BY_PI / x) * ROOT_HALF
    both, difference = ops.sin(x) + ops.cos(x), ops.sin(x) - ops.cos(x)
    cosine, sine = (both, difference) if order == 0 else (difference, -both)
    return size * (p * cosine - q * sine), size * (p * sine + q * cosine)


def bessel(x: Tile, order: Any) -> Any:
    """Bessel functions of order 0 or 1 of float64: the first kind, and the second kind."""
    size = ops.abs(x)
    small = near_zero(ops.minimum(ops.maximum(size, 1e-300), 0.05), order)
    middle = by_recurrence(ops.minimum(ops.maximum(size, 0.05), 25.0), order)
    large = far(ops.maximum(size, 25.0), order)
    first = ops.where(size < 0.05, small[0], ops.where(size <= 25, middle[0], large[0]))
    second = ops.where(size < 0.05, small[1], ops.where(size <= 25, middle[1], large[1]))
    first = ops.where(size == math.inf, 0.0, first)
    second = ops.where(size == math.inf, 0.0, ops.where(size == 0, -math.inf, second))
    if order == 1:
        first = ops.where(x < 0, -first, ops.where(size < 1e-300, x * 0.5, first))
    return ops.where(x == x, first, x), ops.where(x >= 0, second, math.nan)  # noqa: PLR0124
