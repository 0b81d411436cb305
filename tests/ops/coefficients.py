"""Where the coefficients of the mathematics come from, and how far their polynomials are from what they stand for.

Each row is a function, an interval and a count of nodes. The polynomial interpolates the function at the Chebyshev
nodes of the interval (the zeros of the Chebyshev polynomial of that degree), which is within a factor of two or so of
the least possible error; it is found from Newton's divided differences in 80 digits and rounded to float64. `weight`
turns the error of the polynomial into that of the result, which the row states as its bound.

    python -m tests.ops.coefficients        prints all tables anew, with their errors
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import mpmath
from mpmath import mp, mpf

from pypto.ops.math import arc as math_arc
from pypto.ops.math import bessel as math_bessel
from pypto.ops.math import erf_tables as math_erf_tables
from pypto.ops.math import exp as math_exp
from pypto.ops.math import gamma as math_gamma
from pypto.ops.math import hyper as math_hyper
from pypto.ops.math import log as math_log
from pypto.ops.math import trig as math_trig

Number = Any
Function = Callable[[Number], Number]
DIGITS: Final = 80
ROOT: Final = mpmath.sqrt


@dataclass(frozen=True)
class Fit:
    """`coefficients` belong to `function` in the variable of the polynomial, from `low` to `high`."""

    name: str
    coefficients: Sequence[float]
    function: Function
    low: Number
    high: Number
    bound: float
    weight: Function = lambda u: 1

    def derived(self) -> list[Number]:
        """Coefficients of the interpolant, from the constant one up."""
        with mp.workdps(DIGITS):
            count, low, high = len(self.coefficients), mpf(self.low), mpf(self.high)
            angles = [mp.pi * (2 * k + 1) / (2 * count) for k in range(count)]
            nodes = [(low + high) / 2 + (high - low) / 2 * mpmath.cos(a) for a in angles]
            return monomials(nodes, [mpf(self.function(u)) for u in nodes])

    def error(self, points: int = 301) -> float:
        """The greatest weighted error of the coefficients as they stand in the table."""
        with mp.workdps(DIGITS):
            low, high = mpf(self.low), mpf(self.high)
            near = [low + (high - low) * (1 - mpmath.cos(mp.pi * k / points)) / 2 for k in range(1, points)]
            return float(max(abs(self.weight(u) * (self.value(u) - self.function(u))) for u in near))

    def value(self, u: Number) -> Number:
        total = mpf(0)
        for c in reversed(self.coefficients):
            total = total * u + mpf(c)
        return total


def monomials(nodes: list[Number], values: list[Number]) -> list[Number]:
    """The interpolating polynomial in powers of its variable: divided differences, then Horner's scheme on them."""
    d = list(values)
    for step in range(1, len(nodes)):
        for i in range(len(nodes) - 1, step - 1, -1):
            d[i] = (d[i] - d[i - 1]) / (nodes[i] - nodes[i - step])
    result = [mpf(0)] * len(nodes)
    for node, c in zip(reversed(nodes), reversed(d), strict=True):
        shifted = [mpf(0), *result[:-1]]
        result = [s - node * r for s, r in zip(shifted, result, strict=True)]
        result[0] += c
    return result


# --- functions in the variables of their polynomials ------------------------------------------------------------------


def from_square(f: Function) -> Function:
    """Of z = x², where the function is even in x."""
    return lambda z: f(ROOT(z))


def from_unit(f: Function, low: float, high: float) -> Function:
    """Of t from -1 to 1, where x goes from low to high."""
    return lambda t: f((mpf(low) + high) / 2 + t * (mpf(high) - low) / 2)


def minus_log_erfc(x: Number) -> Number:
    return -mpmath.log(mpmath.erfc(x)) - x * x


def log2_erfc(x: Number) -> Number:
    return mpmath.log(mpmath.erfc(x), 2)


def scaled_erfc(t: Number) -> Number:
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


def erfcx(x: Number) -> Number:
    if x < 30:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    return mpmath.hyperu(mpf(1) / 2, mpf(1) / 2, x * x) / ROOT(mp.pi)


def erfc_root(w: Number) -> tuple[Number, Number]:
    """y and c = erfc(y) with -log(c (2 - c)) = w."""
    c = mpmath.exp(-w) / (1 + ROOT(1 - mpmath.exp(-w)))
    start = mpmath.erfinv(1 - c) if w < 50 else ROOT(w - mpmath.log(w * mp.pi) / 2)
    return mpmath.findroot(lambda y: mpmath.log(mpmath.erfc(y) / c), start), c


def near_guess(w: Number) -> Number:
    y, c = erfc_root(w)
    return y / (1 - c)


def far_guess(u: Number) -> Number:
    return erfc_root(1 / (u * u))[0] * u


def stirling_rest(z: Number) -> Number:
    x = 1 / ROOT(z)
    return (mpmath.loggamma(x) - (x - mpf(1) / 2) * mpmath.log(x) + x - mpmath.log(2 * mp.pi) / 2) * x


def bessel_argument(t: Number) -> Number:
    return ROOT(32 * (t + 1))


def near_j(order: int) -> Function:
    return lambda t: mpmath.besselj(order, x := bessel_argument(t)) / x**order


def near_y0(t: Number) -> Number:
    x = bessel_argument(t)
    return mpmath.bessely(0, x) - 2 / mp.pi * mpmath.log(x) * mpmath.besselj(0, x)


def near_y1(t: Number) -> Number:
    x = bessel_argument(t)
    return (mpmath.bessely(1, x) - 2 / mp.pi * (mpmath.log(x) * mpmath.besselj(1, x) - 1 / x)) / x


def hankel(order: int, part: int) -> Function:
    """P, or Q x, of 1/x²."""

    def apply(z: Number) -> Number:
        x = 1 / ROOT(z)
        angle = x - (2 * order + 1) * mp.pi / 4
        j, y = (f(order, x) * ROOT(mp.pi * x / 2) for f in (mpmath.besselj, mpmath.bessely))
        c, s = mpmath.cos(angle), mpmath.sin(angle)
        return x * (y * c - j * s) if part else j * c + y * s

    return apply


def growing(order: int) -> Function:
    """exp(-x) √x I of t = 16/x - 1."""

    def apply(t: Number) -> Number:
        x = 16 / (1 + t)
        return mpmath.exp(-x) * ROOT(x) * mpmath.besseli(order, x)

    return apply


# --- the tables -------------------------------------------------------------------------------------------------------

mp.dps = DIGITS
_HALF_LOG2: Final = mpmath.log(2) / 2
_QUARTER: Final = (mp.pi / 4) ** 2
_EIGHTH: Final = (ROOT(2) - 1) ** 2


def exp_tail(terms: int) -> Function:
    """What the first terms of the series leave, over the next power."""
    return lambda r: sum(r**k / mpmath.factorial(terms + k) for k in range(60))


def sine_rest(z: Number) -> Number:
    return (mpmath.sin(r := ROOT(z)) / r - 1) / z


def cosine_rest(z: Number) -> Number:
    return (mpmath.cos(ROOT(z)) - 1 + z / 2) / z**2


def atan_rest(z: Number) -> Number:
    return (mpmath.atan(t := ROOT(z)) / t - 1) / z


def asin_rest(z: Number) -> Number:
    return (mpmath.asin(s := ROOT(z)) / s - 1) / z


def artanh_rest(z: Number) -> Number:
    return (mpmath.atanh(s := ROOT(z)) / s - 1) / z


def artanh_tail(z: Number) -> Number:
    return (artanh_rest(z) - mpf(1) / 3) / z


def tanh_rest(z: Number) -> Number:
    return (mpmath.tanh(x := ROOT(z)) / x - 1) / z


def small_erf(z: Number) -> Number:
    return mpmath.erf(x := ROOT(z)) / x - 1


def middle_erf(u: Number) -> Number:
    return mpmath.erf(u + mpf("1.125")) - mpf("0.888671875")


def small_gamma(t: Number) -> Number:
    return mpmath.loggamma(2 + t) / (t * (1 + t))


FITS: Final = (
    Fit("exp f32", math_exp._EXP["f32"], mpmath.exp, -_HALF_LOG2, _HALF_LOG2, 2e-9),
    Fit("exp rest", math_exp._EXP_REST, exp_tail(3), -_HALF_LOG2, _HALF_LOG2, 1.2e-18, lambda r: r * r),
    Fit("exp short", math_exp._EXP_SHORT, exp_tail(2), -_HALF_LOG2, _HALF_LOG2, 4.9e-10, lambda r: r),
    Fit("log rest", math_log._REST, artanh_tail, 0, mpf("0.0295"), 1.1e-20, lambda z: z * z),
    Fit("log short", math_log._SHORT, artanh_rest, 0, mpf("0.0295"), 1.1e-13, lambda z: z),
    Fit("tanh", math_hyper.TANH, tanh_rest, 0, mpf("0.391"), 5.5e-10, lambda z: z),
    Fit("sin", math_trig._SIN, sine_rest, 0, _QUARTER, 5.7e-18, lambda z: z),
    Fit("sin short", math_trig._SIN_SHORT, sine_rest, 0, _QUARTER, 1.8e-11, lambda z: z),
    Fit("sin single", math_trig._SIN_SINGLE, sine_rest, 0, _QUARTER, 1.3e-8, lambda z: z),
    Fit("cos", math_trig._COS, cosine_rest, 0, _QUARTER, 8.9e-19, lambda z: z * z),
    Fit("cos short", math_trig._COS_SHORT, cosine_rest, 0, _QUARTER, 9e-13, lambda z: z * z),
    Fit("cos single", math_trig._COS_SINGLE, cosine_rest, 0, _QUARTER, 7.7e-10, lambda z: z * z),
    Fit("atan", math_arc._ATAN, atan_rest, 0, _EIGHTH, 3e-18, lambda z: z),
    Fit("atan short", math_arc._ATAN_SHORT, atan_rest, 0, _EIGHTH, 8.1e-11, lambda z: z),
    Fit("asin", math_arc._ASIN, asin_rest, 0, mpf("0.25"), 5.4e-18, lambda z: z),
    Fit("asin short", math_arc._ASIN_SHORT, asin_rest, 0, mpf("0.25"), 6.2e-11, lambda z: z),
    Fit("erf small f32", math_erf_tables.SMALL["f32"], small_erf, 0, mpf("0.85"), 4.3e-10),
    Fit("erf small f64", math_erf_tables.SMALL["f64"], small_erf, 0, 1, 1.3e-17),
    Fit("erf middle", math_erf_tables.MIDDLE, middle_erf, mpf("-0.375"), mpf("0.375"), 1.1e-17),
    Fit("erf large f32", math_erf_tables.LARGE_SHORT, log2_erfc, 0.921875, 4, 2.7e-8),
    Fit("erf large f64", math_erf_tables.LARGE, from_unit(minus_log_erfc, 1.5, 6), -1, 1, 1.5e-16),
    Fit("erfc scaled", math_erf_tables.SCALED, scaled_erfc, -1, 1, 4.8e-17),
    Fit("erfc scaled short", math_erf_tables.SCALED_SHORT, scaled_erfc, -1, 1, 2.2e-10),
    Fit("erfinv near", math_erf_tables.GUESS_NEAR, near_guess, 0, 5, 6e-7),
    Fit("erfinv middle", math_erf_tables.GUESS_MIDDLE, far_guess, 1 / ROOT(38), 1 / ROOT(5), 4e-8),
    Fit("erfinv far", math_erf_tables.GUESS_FAR, far_guess, 1 / ROOT(746), 1 / ROOT(38), 2e-8),
    Fit("lgamma small", math_gamma._SMALL, small_gamma, -1, 1, 6.5e-18),
    Fit("lgamma small short", math_gamma._SMALL_SHORT, small_gamma, -1, 1, 6.4e-11),
    Fit("lgamma large", math_gamma._LARGE, stirling_rest, 0, mpf(1) / 9, 6.9e-18, ROOT),
    Fit("lgamma large short", math_gamma._LARGE_SHORT, stirling_rest, 0, mpf(1) / 9, 4.8e-13, ROOT),
    Fit("j0 near", math_bessel._J0, near_j(0), -1, 1, 8e-17),
    Fit("j1 near", math_bessel._J1, near_j(1), -1, 1, 4.2e-17),
    Fit("y0 near", math_bessel._R0, near_y0, -1, 1, 1.7e-16),
    Fit("y1 near", math_bessel._R1, near_y1, -1, 1, 1e-17),
    Fit("p0", math_bessel._P0, hankel(0, 0), 0, mpf(1) / 64, 1.8e-16),
    Fit("q0", math_bessel._Q0, hankel(0, 1), 0, mpf(1) / 64, 4.5e-16, ROOT),
    Fit("p1", math_bessel._P1, hankel(1, 0), 0, mpf(1) / 64, 2.3e-16),
    Fit("q1", math_bessel._Q1, hankel(1, 1), 0, mpf(1) / 64, 4.8e-16, ROOT),
    Fit("i0", math_bessel._I0, growing(0), -1, 1, 2.7e-17),
    Fit("i1", math_bessel._I1, growing(1), -1, 1, 2.7e-17),
)


def main() -> None:
    for fit in FITS:
        print(f"{fit.name}: {fit.error():.1e}")
        print("   ", tuple(map(float, fit.derived())))


if __name__ == "__main__":
    main()
