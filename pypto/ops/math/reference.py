"""What functions mean that numpy lacks, on arrays of floats: series and continued fractions, written to be right, not fast.

They keep the digits of the array's type, so that in `numpy.longdouble` they judge float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pi(x: Array) -> Any:
    return np.arccos(x.dtype.type(-1))


def lengths(*arrays: Array) -> Array:
    """√(x² + y² + …); infinite where one is, and what is NaN otherwise."""
    most = reduce(np.fmax, map(np.abs, arrays))
    unit = np.where((most > 0) & (most < np.inf), most, 1)
    root = np.sqrt(sum((a / unit) ** 2 for a in arrays))
    return np.asarray(np.where(np.isinf(most), np.inf, root * unit))


def half_turns(shift: int) -> Callable[[Array], Array]:
    """sin(π x + shift π/2), exact at multiples of ½."""

    def apply(x: Array) -> Array:
        reduced = np.fmod(x, 2)
        n = np.rint(2 * reduced)
        angle = (reduced - n / 2) * pi(x)
        value = np.choose(
            np.nan_to_num(n + shift).astype(int) % 4, [np.sin(angle), np.cos(angle), -np.sin(angle), -np.cos(angle)]
        )
        return np.where(value == 0, 0 * (np.abs(x) if shift else x), value + 0 * reduced)

    return apply


def round_away(x: Array) -> Array:
    truncated = np.trunc(x)
    return np.where(np.abs(x - truncated) >= 0.5, truncated + np.copysign(1.0, x), truncated)


def exponent(x: Array) -> Array:
    return np.frexp(x)[1].astype(np.int64) - 1


def fma(x: float, y: float, z: float) -> float:
    rounded = x * y + z
    if not all(map(math.isfinite, (x, y, z))):
        return z if math.isfinite(x) and math.isfinite(y) else rounded
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else rounded
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


# --- error functions --------------------------------------------------------------------------------------------------


def erf_near(x: Array) -> Array:
    """Kummer's series, for |x| up to 1."""
    term = total = x
    for n in range(1, 40):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return np.asarray(total * np.exp(-x * x) * 2 / np.sqrt(pi(x)))


def erfcx_far(x: Array) -> Array:
    """exp(x²) erfc(x) for x from 1: Laplace's continued fraction, once for all numbers that were raised to the same one."""
    x, least = np.asarray(x), x.dtype.type(1)
    if (x == least).sum() > 1:
        first, others = erfcx_far(np.full(1, least)), x != least
        result = np.full(x.shape, first[0])
        result[others] = erfcx_far(x[others])
        return result
    tail = np.zeros_like(x)
    for k in range(300, 0, -1):
        tail = k / 2 / (x + tail)
    return np.asarray(1 / (x + tail) / np.sqrt(pi(x)))


def bell(x: Array, width: int) -> Array:
    """exp(-x² / width), with a part of x whose square is exact."""
    upper = np.rint(x * 2**20) / 2**20
    return np.asarray(np.exp(-upper * upper / width) * np.exp((upper - x) * (upper + x) / width))


def erfc(x: Array) -> Array:
    size = np.clip(np.abs(x), 1, 200)
    far = erfcx_far(size) * bell(size, 1)
    return np.where(np.abs(x) < 1, 1 - erf_near(np.clip(x, -1, 1)), np.where(x < 0, 2 - far, far + 0 * np.sign(x)))


def erf(x: Array) -> Array:
    """The error function."""
    return np.where(np.abs(x) < 1, erf_near(np.clip(x, -1, 1)), np.copysign(1 - erfc(np.abs(x)), x))


def erfcx(x: Array) -> Array:
    return np.where(x < 1, np.exp(x * x) * erfc(np.minimum(x, 1)), erfcx_far(np.maximum(x, 1)))


def erfc_root(c: Array) -> Array:
    """The y with erfc(y) = c up to ½: Newton's method on the logarithm."""
    y = np.sqrt(-np.log(c))
    for _ in range(8):
        scaled = erfcx(y)
        y = y + (np.log(scaled / c) - y * y) * scaled * np.sqrt(pi(c)) / 2
    return np.asarray(y)


def erfinv_near(x: Array) -> Array:
    y = x * np.sqrt(pi(x)) / 2
    for _ in range(6):
        y = y - (erf_near(y) - x) * np.exp(y * y) * np.sqrt(pi(x)) / 2
    return np.asarray(y)


def from_root(x: Array, c: Array) -> Array:
    """The inverse of erf at x = 1 - c, for the sign of x and c from 0 to 1."""
    is_small = np.abs(x) < 0.5
    far = erfc_root(np.minimum(np.where(is_small | ~(c > 0), 0.5, c), 0.5))  # a NaN would take a hundred times as long
    y = np.where(is_small, erfinv_near(np.clip(x, -0.5, 0.5)), np.copysign(far, x))
    return np.where(c > 0, y, np.where(c == 0, np.copysign(np.inf, x), np.nan))


def erfinv(x: Array) -> Array:
    return from_root(x, 1 - np.abs(x))


def erfcinv(c: Array) -> Array:
    return from_root(1 - c, np.where(c < 1, c, 2 - c))


def normcdf(x: Array) -> Array:
    below = erfcx_far(np.maximum(-x, 2) / np.sqrt(x.dtype.type(2))) * bell(np.clip(x, -200, -2), 2)
    return np.where(x < -2, below, erfc(-x / np.sqrt(x.dtype.type(2)))) / 2


def normcdfinv(p: Array) -> Array:
    return np.asarray(-erfcinv(2 * p) * np.sqrt(p.dtype.type(2)))


# --- gamma functions --------------------------------------------------------------------------------------------------


def log_gamma_near(z: Array) -> Array:
    """log Γ(2 + z) for |z| up to ½: Taylor's series, with ζ(k) - 1 by Euler and Maclaurin's formula."""
    total = z * (1 - (z.dtype.type(0.5772156649015329) - z.dtype.type(4.942915152430645e-18)))
    n, last = np.arange(2, 200).astype(z.dtype), z.dtype.type(200)
    for k in range(2, 42):
        remainder = last / (k - 1) + 0.5 + k / last / 12 - k * (k + 1) * (k + 2) / last**3 / 720
        remainder = remainder + k * (k + 1) * (k + 2) * (k + 3) * (k + 4) / last**5 / 30240
        total = total + ((n**-k).sum() + remainder * last**-k) * (-z) ** k / k
    return np.asarray(total)


def stirling(x: Array) -> Array:
    """log Γ for x from 20."""
    series = sum(
        b / x ** (2 * k + 1)
        for k, b in enumerate((1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156))
    )
    correction = (x.dtype.type(1) / 12 - 1 / 12) / x - (x.dtype.type(1) / 360 - 1 / 360) / x**3
    return np.asarray((x - 0.5) * (np.log(x) - 1) - 0.5 + np.log(2 * pi(x)) / 2 + series + correction)


def log_gamma(x: Array) -> Array:
    """log Γ for x above 0."""
    y, product = np.clip(x, 0, 20), np.ones_like(x)
    for _ in range(18):
        y, product = np.where(y > 2.5, y - 1, y), product * np.where(y > 2.5, y - 1, 1)
    first, second = y < 1.5, y < 0.5
    z = np.where(second, y, np.where(first, y - 1, y - 2))
    middle = (
        log_gamma_near(z) + np.log(product) - np.where(second, np.log1p(y) + np.log(y), np.where(first, np.log(y), 0))
    )
    return np.where(x < 20, middle, stirling(np.maximum(x, 20)))


def lgamma(x: Array) -> Array:
    size = np.abs(x)
    right = log_gamma(size)
    mirrored = np.log(pi(x) / np.abs(size * half_turns(0)(size))) - right
    return np.where(np.isinf(x), np.inf, np.where(x > 0, right, np.where(np.floor(x) == x, np.inf, mirrored)))


def tgamma(x: Array) -> Array:
    size = np.abs(x)
    growth = np.exp(log_gamma(size))
    value = np.where(x > 0, growth, -pi(x) / (size * half_turns(0)(size)) / growth)
    return np.where(x == 0, np.copysign(np.inf, x), np.where((x < 0) & (np.floor(x) == x), np.nan, value))


# --- Bessel functions -------------------------------------------------------------------------------------------------


def hankel(order: int, x: Array) -> Array:
    """J + i Y for large x: Hankel's series."""
    term = total = np.ones(x.shape, complex)
    for k in range(1, 30):
        term = term * 1j * (4 * order - (2 * k - 1) ** 2) / (8 * k * x)
        total = total + term
    return np.asarray(np.sqrt(2 / np.pi / x) * total * np.exp(1j * x) * np.exp(-0.25j * np.pi * (2 * order + 1)))


def integral(order: int, x: Array, kernel: Callable[[Array], Array]) -> Array:
    """Mean of the kernel at x cos θ over a turn, for order 1 with weight x sin² θ: J from cos and I from exp."""
    theta = pi(x) * (np.arange(256) + 0.5) / 256
    values = kernel(x[..., None] * np.cos(theta))
    return np.asarray((values * np.sin(theta) ** 2).mean(-1) * x if order else values.mean(-1))


def neumann(order: int, x: Array) -> Array:
    """Y as a sum of J of higher orders (Abramowitz and Stegun 9.1.88), those from a Fourier transform."""
    angles = 2 * np.pi * np.arange(128) / 128
    j = np.fft.fft(np.exp(1j * x[..., None] * np.sin(angles))).real / 128
    k = np.arange(1, 30)
    logs = (np.log(x / 2) + np.euler_gamma) * 2 / np.pi
    if order == 0:
        return np.asarray(logs * j[..., 0] - 4 / np.pi * (j[..., 2 * k] * (-1.0) ** k / k).sum(-1))
    tail = (j[..., 2 * k + 1] * (-1.0) ** k * (2 * k + 1) / (k * (k + 1))).sum(-1)
    return np.asarray((logs - 2 / np.pi) * integral(1, x, np.cos) - (j[..., 0] / x + tail) * 2 / np.pi)


def bessel_j(order: int) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        size = np.abs(x)
        value = np.where(
            size < 25, integral(order, np.minimum(size, 25), np.cos), hankel(order, np.maximum(size, 25)).real
        )
        return np.where(np.isinf(x), 0.0, np.where(np.isnan(x), x, value * (np.sign(x) if order else 1)))

    return apply


def bessel_y(order: int) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        value = np.where(x < 25, neumann(order, np.clip(x, 1e-300, 25)), hankel(order, np.maximum(x, 25)).imag)
        return np.where(x >= 0, np.where(np.isinf(x), 0.0, np.where(x == 0, -np.inf, value)), np.nan)

    return apply


def bessel_i(order: int) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        inside = integral(order, np.clip(x, -714, 714), np.exp)
        return np.where(np.abs(x) > 714, np.inf * (np.sign(x) if order else 1), inside)

    return apply
