"""Functions of real numbers: square roots, exponentials, logarithms, tanh, erf, rounding.

Lanes compute them with polynomials of our own, since LLVM's intrinsics for them become scalar library calls. Error
bounds are in units of the last place against float64, over the whole range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import float32, float64, int32, int64
from pypto.ops.emitter import Emitter, Lanes
from pypto.ops.row import OpRow, Param, Unsupported
from pypto.ops.rules import promoted, same_kind

Array = np.ndarray[Any, Any]
_LOG2E = 1.4426950408889634
# log 2 in two parts: the first has few enough bits that its product with an exponent is exact.
_LN2 = {"f32": (0.693359375, -2.12194440054690583e-4), "f64": (0.6931471803691238, 1.9082149292705877e-10)}
# exp on ±log(2)/2. float32: Chebyshev interpolant of degree 6, error 2.0e-9. float64: 1/k!, error 4e-18.
_EXP = {
    "f32": (1.0, 1.0000000377204035, 0.5000000047122991, 0.1666641549604781, 0.04166635287353722, 0.008375127947279674,
            0.0013941110368767256),
    "f64": tuple(1 / math.factorial(k) for k in range(14)),
}
# log((1 + s) / (1 - s)) = 2 s + s · (2/3 s² + 2/5 s⁴ + …) on |s| < 0.1716; what is left out is below half an ulp.
_LOG_TERMS = {"f32": tuple(2 / (2 * k + 3) for k in range(5)), "f64": tuple(2 / (2 * k + 3) for k in range(12))}
# erf(x) / x in x², Chebyshev interpolants: x² ≤ 0.85 to 4.2e-10, x² ≤ 1 to 3.4e-23.
_ERF_SMALL = {
    "f32": (1.1283791666726832, -0.3761263402339505, 0.1128369935115317, -0.026859588116109587, 0.005201456326433703,
            -0.0008147081117456024, 8.387074556861946e-05),
    "f64": (1.1283791670955126, -0.37612638903183754, 0.11283791670955126, -0.026866170645131218, 0.005223977625441674,
            -0.0008548327023403001, 0.00012055332978879483, -1.4925650236967501e-05, 1.6462110782018636e-06, -1.636576864883207e-07,
            1.4806027146128752e-08, -1.2277734486795524e-09, 9.323723518153027e-11, -6.1967364287877e-12, 2.8067128195611264e-13),
}
# -log(erfc(x)) - x² in t = (x - middle) / half, Chebyshev interpolants to 1.9e-8 and 8.2e-18: (from, to), coefficients.
_ERF_LARGE = {
    "f32": ((0.921875, 4.0), (1.5429524172513132, 0.5496210861288922, -0.13596135916491106, 0.04084294722039801,
                              -0.012619948308253774, 0.0037882367857312495, -0.001076039176477292, 0.0002826940853222836,
                              -5.174143869606628e-05)),
    "f64": ((1.0, 6.0), (1.8624374021481738, 0.6652489709129772, -0.2077934078610613, 0.08165090971780906,
                         -0.034128411079749774, 0.01438454833033345, -0.005953704476190262, 0.002373997280513564,
                         -0.0008935765855845794, 0.00030781955951396384, -9.090090217256991e-05, 1.847452395376142e-05,
                         1.477503599641089e-06, -4.56596712020318e-06, 3.422294334462001e-06, -1.917889171144331e-06,
                         9.124365065445989e-07, -3.8437394165273846e-07, 1.3611972043197023e-07, -2.6131458709239564e-08,
                         -3.922377494569264e-09, -1.9305509283414644e-10, -6.621479020937692e-10, 5.618027658915205e-09,
                         -3.6630997068853925e-09, 2.5668825356579424e-10, 2.283670456893158e-10)),
}


def polynomial(e: Emitter, x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's scheme; coefficients from the constant one up."""
    total = e.const(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        total = e.multiply_add(total, x, e.const(c, x.dtype))
    return total


def clamp(e: Emitter, x: Lanes, low: float, high: float) -> Lanes:
    """Between two numbers; NaN passes."""
    least, most = e.const(low, x.dtype), e.const(high, x.dtype)
    x = e.select(e.cmp("lt", x, least), least, x)
    return e.select(e.cmp("gt", x, most), most, x)


def reduce_exp(e: Emitter, x: Lanes) -> tuple[Lanes, Lanes]:
    """n and r with x = n log 2 + r and r within ±log(2)/2."""
    high, low = _LN2[x.dtype.name]
    n = e.round(e.mul(x, e.const(_LOG2E, x.dtype)), "even")
    r = e.multiply_add(n, e.const(-high, x.dtype), x)
    return n, e.multiply_add(n, e.const(-low, x.dtype), r)


def lane_exp(e: Emitter, op: Op | None, x: Lanes) -> Lanes:
    x = clamp(e, x, -150.0, 130.0) if x.dtype == float32 else clamp(e, x, -800.0, 800.0)
    n, r = reduce_exp(e, x)
    return e.ldexp(polynomial(e, r, _EXP[x.dtype.name]), n)


def lane_exp2(e: Emitter, op: Op, x: Lanes) -> Lanes:
    """2**x = 2**n · exp((x - n) log 2)."""
    x = clamp(e, x, -200.0, 200.0) if x.dtype == float32 else clamp(e, x, -1200.0, 1200.0)
    n = e.round(x, "even")
    r = e.sub(x, n)
    coefficients = [c * math.log(2) ** k for k, c in enumerate(_EXP["f64"][: 8 if x.dtype == float32 else 14])]
    return e.ldexp(polynomial(e, r, coefficients), n)


def split_log(e: Emitter, x: Lanes) -> tuple[Lanes, Lanes]:
    """k and f with x = 2**k · (1 + f) and 1 + f between √½ and √2, for positive finite x."""
    double = x.dtype == float64
    ints, mantissa = (int64, 52) if double else (int32, 23)
    root = 0x3FE6A09E667F3BCD if double else 0x3F3504F3  # bits of √½
    tiny = e.cmp("lt", x, e.const(2.2250738585072014e-308 if double else 1.17549435e-38, x.dtype))
    x = e.select(tiny, e.mul(x, e.const(2.0**mantissa, x.dtype)), x)
    bits = e.bitcast(x, ints)
    k = e.shr(e.sub(bits, e.const(root, ints)), e.const(mantissa, ints))
    f = e.sub(e.bitcast(e.sub(bits, e.shl(k, e.const(mantissa, ints))), x.dtype), e.const(1.0, x.dtype))
    k = e.sub(k, e.select(tiny, e.const(mantissa, ints), e.const(0, ints)))
    return e.convert(k, x.dtype), f


def log_parts(e: Emitter, f: Lanes) -> tuple[Lanes, Lanes]:
    """log(1 + f) = f - h with h small: from s = f / (2 + f), h = f²/2 - s · (f²/2 + R(s²))."""
    s = e.div(f, e.add(f, e.const(2.0, f.dtype)))
    z = e.mul(s, s)
    half = e.mul(e.mul(f, f), e.const(0.5, f.dtype))
    rest = e.mul(z, polynomial(e, z, _LOG_TERMS[f.dtype.name]))
    return half, e.mul(s, e.add(half, rest))


def special_log(e: Emitter, x: Lanes, result: Lanes) -> Lanes:
    """-inf at 0, NaN below, inf at inf."""
    zero, inf = e.const(0.0, x.dtype), e.const(math.inf, x.dtype)
    result = e.select(e.cmp("eq", x, zero), e.const(-math.inf, x.dtype), result)
    result = e.select(e.cmp("eq", x, inf), inf, result)
    return e.select(e.cmp("ge", x, zero), result, e.const(math.nan, x.dtype))


def lane_log(e: Emitter, op: Op, x: Lanes) -> Lanes:
    k, f = split_log(e, x)
    half, rest = log_parts(e, f)
    high, low = _LN2[x.dtype.name]
    small = e.sub(half, e.add(rest, e.mul(k, e.const(low, x.dtype))))
    return special_log(e, x, e.sub(e.mul(k, e.const(high, x.dtype)), e.sub(small, f)))


def lane_log2(e: Emitter, op: Op, x: Lanes) -> Lanes:
    """The logarithm of the mantissa times log2 e in two parts, so that no more is lost than by one rounding."""
    k, f = split_log(e, x)
    half, rest = log_parts(e, f)
    # The upper part of f - half has few bits: its product with the upper part of log2 e is exact.
    keep = e.const(-(1 << 32) if x.dtype == float64 else -(1 << 12), int64 if x.dtype == float64 else int32)
    upper = e.bitcast(e.and_(e.bitcast(e.sub(f, half), keep.dtype), keep), x.dtype)
    lower = e.add(e.sub(e.sub(f, upper), half), rest)
    high = 1.44269504072144627571 if x.dtype == float64 else 1.4428710937500
    rest_of = 1.67517131648865118353e-10 if x.dtype == float64 else -1.7605285393e-4
    tail = e.add(e.mul(e.add(lower, upper), e.const(rest_of, x.dtype)), e.mul(lower, e.const(high, x.dtype)))
    return special_log(e, x, e.add(e.add(tail, e.mul(upper, e.const(high, x.dtype))), k))


def lane_expm1(e: Emitter, x: Lanes) -> Lanes:
    """exp(x) - 1 without cancellation: 2**n · (exp(r) - 1) + (2**n - 1)."""
    # Small arguments are not reduced: the sum below would cancel a part of their digits.
    small = e.cmp("lt", e.abs(x), e.const(0.75, x.dtype))
    n, r = reduce_exp(e, x)
    n, r = e.select(small, e.const(0.0, x.dtype), n), e.select(small, x, r)
    one = e.const(1.0, x.dtype)
    terms = [1 / math.factorial(k) for k in range(2, 11 if x.dtype == float32 else 19)]
    q = e.multiply_add(e.mul(r, r), polynomial(e, r, terms), r)
    power = e.ldexp(one, n)
    return e.multiply_add(power, q, e.sub(power, one))


def copysign(e: Emitter, size: Lanes, sign: Lanes) -> Lanes:
    """A non-negative size with the sign of another number, by bits."""
    ints = int64 if size.dtype == float64 else int32
    mask = e.const(-(1 << (ints.bits - 1)), ints)
    return e.bitcast(e.or_(e.bitcast(size, ints), e.and_(e.bitcast(sign, ints), mask)), size.dtype)


def lane_tanh(e: Emitter, op: Op, x: Lanes) -> Lanes:
    """m / (m + 2) with m = exp(2|x|) - 1."""
    size = clamp(e, e.abs(x), 0.0, 10.0 if x.dtype == float32 else 20.0)
    m = lane_expm1(e, e.add(size, size))
    return copysign(e, e.div(m, e.add(m, e.const(2.0, x.dtype))), x)


def lane_erf(e: Emitter, op: Op, x: Lanes) -> Lanes:
    """x + x · (P(x²) - 1) near 0, else 1 - exp(-x² - h(|x|)) with h = -log erfc - x²."""
    name = x.dtype.name
    size = e.abs(x)
    first, *rest = _ERF_SMALL[name]
    small = e.multiply_add(size, polynomial(e, e.mul(size, size), (first - 1, *rest)), size)
    (low, high), coefficients = _ERF_LARGE[name]
    middle, half = (low + high) / 2, (high - low) / 2
    size = clamp(e, size, 0.0, high)
    t = e.mul(e.sub(size, e.const(middle, x.dtype)), e.const(1 / half, x.dtype))
    tail = lane_exp(e, None, e.neg(e.multiply_add(size, size, polynomial(e, t, coefficients))))
    large = e.sub(e.const(1.0, x.dtype), tail)
    return copysign(e, e.select(e.cmp("lt", size, e.const(low, x.dtype)), small, large), x)


def lane_rsqrt(e: Emitter, op: Op, x: Lanes) -> Lanes:
    return e.div(e.const(1.0, x.dtype), e.sqrt(x))


def rounding(mode: str) -> Callable[[Emitter, Op, Lanes], Lanes]:
    return lambda e, op, x: e.round(x, mode)


def in_float64(fn: Callable[[Array], Any]) -> Callable[..., Any]:
    """Meaning of a function: computed in float64, then rounded once."""

    def meaning(op: Op, a: Array) -> Any:
        with np.errstate(all="ignore"):
            return fn(a.astype(np.float64))

    return meaning


def erf(a: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(a), dtype=np.float64)


def exact_fma(a: float, b: float, c: float) -> float:
    """x * y + z of float64 with one rounding."""
    if math.isinf(c) and math.isfinite(a) and math.isfinite(b):
        return c  # the product may overflow, but is finite
    if not all(map(math.isfinite, (a, b, c))):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return float(np.float64(a) * np.float64(b) + np.float64(c))  # which zero it is
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fma_meaning(op: Op, a: Array, b: Array, c: Array) -> Array:
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    with np.errstate(all="ignore"):
        if a.dtype != np.float64:  # the product is exact, and the sum has digits to spare
            return np.asarray(x * y + z)
        return np.asarray(np.frompyfunc(exact_fma, 3, 1)(x, y, z), dtype=np.float64)


def function(name: str, meaning: Callable[[Array], Any], cpu: Any, ascend: Any, doc: str, ulp: tuple[float, float],
             domain: tuple[float, float] = (-10.0, 10.0)) -> OpRow:
    return OpRow(name, (Param("x", doc="tile or scalar; integers count as float32"),), same_kind(("float",)), in_float64(meaning), cpu,
                 ascend, promoted(floating=True), traits=frozenset({"elementwise"}), dtypes="float", domain=domain, doc=doc,
                 ulp=MappingProxyType({"f32": ulp[0], "f64": ulp[1]} if any(ulp) else {}), example=f"{name}(x)")


def unary(name: str) -> str:
    return f"{name}({{dst}}, {{0}}, {{count}});"


ROWS = (
    function("exp", np.exp, lane_exp, unary("Exp"), "e to the power of x.", (1.1, 1.1), (-100.0, 90.0)),
    function("exp2", np.exp2, lane_exp2, Unsupported("no exp2; write exp(x * 0.6931471805599453)"), "2 to the power of x.", (1.1, 1.1),
             (-150.0, 128.0)),
    function("log", np.log, lane_log, unary("Ln"), "Natural logarithm: -inf at 0, NaN below.", (1.0, 1.0), (0.0, 1e4)),
    function("log2", np.log2, lane_log2, Unsupported("no log2; write log(x) * 1.4426950408889634"), "Logarithm to base 2.", (1.0, 1.0),
             (0.0, 1e4)),
    function("sqrt", np.sqrt, lambda e, op, x: e.sqrt(x), unary("Sqrt"), "Square root, correctly rounded.", (0.0, 0.0), (0.0, 1e4)),
    function("rsqrt", lambda a: 1 / np.sqrt(a), lane_rsqrt, unary("Rsqrt"), "1 / sqrt(x).", (1.5, 1.5), (0.0, 1e4)),
    function("tanh", np.tanh, lane_tanh, unary("Tanh"), "Hyperbolic tangent.", (2.2, 2.0)),
    function("erf", erf, lane_erf, unary("Erf"), "Error function, 2/√π · ∫₀ˣ exp(-t²) dt.", (1.5, 1.5), (-5.0, 5.0)),
    function("floor", np.floor, rounding("floor"), unary("Floor"), "Greatest integral value not above x.", (0.0, 0.0)),
    function("ceil", np.ceil, rounding("ceil"), unary("Ceil"), "Least integral value not below x.", (0.0, 0.0)),
    OpRow("abs", (Param("x"),), same_kind(("int", "uint", "float")), lambda op, a: np.abs(a), lambda e, op, x: e.abs(x), unary("Abs"),
          promoted(arithmetic=True), traits=frozenset({"elementwise"}), dtypes="number", doc="Magnitude; the least integer stays as it is.",
          example="abs(x)"),
    OpRow("fma", (Param("x"), Param("y"), Param("z")), same_kind(("float",)),
          fma_meaning, lambda e, op, a, b, c: e.fma(a, b, c),
          "FusedMulAdd({dst}, {0}, {1}, {2}, {count});", promoted(floating=True), traits=frozenset({"elementwise"}), dtypes="float",
          ulp=MappingProxyType({"f32": 0.51, "f64": 1.0}), doc="x * y + z with one rounding.", example="fma(x, y, z)"),
)
