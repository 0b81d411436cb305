"""Mathematics beyond the public names: all that Triton calls `libdevice`, by its names there.

Ops are rows of the op table; the rest is written in the language itself. Names that end in ``_rn``, ``_rz``, ``_rd``
and ``_ru`` round to nearest even, towards zero, down and up.
"""

from __future__ import annotations

from typing import Any

from pypto.ir.types import float32, float64, int32, int64, uint32, uint64
from pypto.language import ops
from pypto.language.bessel import bessel
from pypto.language.directed import (
    INF,
    as_bits,
    as_dtype,
    as_float,
    difference,
    directions,
    from_integers,
    fused,
    inverse,
    isfinite,
    isinf,
    product,
    quotient,
    root,
    row,
    to_floats,
    to_integers,
    two_sum,
    viewed,
)
from pypto.language.standard import clamp, static_assert
from pypto.ops.public import constexpr

Tile = Any  # a tile or scalar; annotations in here are for readers

# fmt: off
__all__ = [  # noqa: RUF022
    "abs", "acos", "acosh", "add_rd", "add_rn", "add_ru", "add_rz", "asin", "asinh", "atan", "atan2", "atanh",
    "brev", "byte_perm", "cbrt", "ceil", "clz", "copysign", "cos", "cosh", "cospi", "cyl_bessel_i0",
    "cyl_bessel_i1", "div_rd", "div_rn", "div_ru", "div_rz", "double2float_rd", "double2float_rn",
    "double2float_ru", "double2float_rz", "double2hiint", "double2int_rd", "double2int_rn", "double2int_ru",
    "double2int_rz", "double2ll_rd", "double2ll_rn", "double2ll_ru", "double2ll_rz", "double2loint",
    "double2uint_rd", "double2uint_rn", "double2uint_ru", "double2uint_rz", "double2ull_rd", "double2ull_rn",
    "double2ull_ru", "double2ull_rz", "double_as_longlong", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp",
    "exp10", "exp2", "expm1", "fast_cosf", "fast_dividef", "fast_exp10f", "fast_expf", "fast_log10f", "fast_log2f",
    "fast_logf", "fast_powf", "fast_sinf", "fast_tanf", "fast_tanhf", "fdim", "fdiv", "ffs", "finitef",
    "float2int_rd", "float2int_rn", "float2int_ru", "float2int_rz", "float2ll_rd", "float2ll_rn", "float2ll_ru",
    "float2ll_rz", "float2uint_rd", "float2uint_rn", "float2uint_ru", "float2uint_rz", "float2ull_rd",
    "float2ull_rn", "float2ull_ru", "float2ull_rz", "float_as_int", "float_as_uint", "floor", "fma", "fma_rd",
    "fma_rn", "fma_ru", "fma_rz", "fmax", "fmin", "fmod", "hadd", "hiloint2double", "hypot", "ilogb",
    "int2double_rn", "int2float_rd", "int2float_rn", "int2float_ru", "int2float_rz", "int_as_float", "isfinite",
    "isfinited", "isinf", "isnan", "j0", "j1", "jn", "ldexp", "lgamma", "ll2double_rd", "ll2double_rn",
    "ll2double_ru", "ll2double_rz", "ll2float_rd", "ll2float_rn", "ll2float_ru", "ll2float_rz", "llrint", "llround",
    "log", "log10", "log1p", "log2", "logb", "longlong_as_double", "max", "min", "mul24", "mul_rd", "mul_rn",
    "mul_ru", "mul_rz", "mulhi", "nearbyint", "nextafter", "norm3d", "norm4d", "normcdf", "normcdfinv", "popc",
    "pow", "rcbrt", "rcp64h", "rcp_rd", "rcp_rn", "rcp_ru", "rcp_rz", "remainder", "rhadd", "rhypot", "rint",
    "rnorm3d", "rnorm4d", "round", "rsqrt", "rsqrt_rn", "sad", "saturatef", "scalbn", "signbit", "sin", "sincos",
    "sinh", "sinpi", "sqrt", "sqrt_rd", "sqrt_rn", "sqrt_ru", "sqrt_rz", "sub_rd", "sub_rn", "sub_ru", "sub_rz",
    "tan", "tanh", "tgamma", "trunc", "uint2double_rn", "uint2float_rd", "uint2float_rn", "uint2float_ru",
    "uint2float_rz", "uint_as_float", "ull2double_rd", "ull2double_rn", "ull2double_ru", "ull2double_rz",
    "ull2float_rd", "ull2float_rn", "ull2float_ru", "ull2float_rz", "umulhi", "y0", "y1", "yn",
]

abs, floor, ceil, trunc, round, rint = map(row, ("abs", "floor", "ceil", "trunc", "round", "rint"))
sqrt, rsqrt, cbrt, hypot, pow, fma = map(row, ("sqrt", "rsqrt", "cbrt", "hypot", "pow", "fma"))
exp, exp2, exp10, expm1 = map(row, ("exp", "exp2", "exp10", "expm1"))
log, log2, log10, log1p = map(row, ("log", "log2", "log10", "log1p"))
sin, cos, tan, sinpi, cospi = map(row, ("sin", "cos", "tan", "sinpi", "cospi"))
asin, acos, atan, atan2 = map(row, ("asin", "acos", "atan", "atan2"))
sinh, cosh, tanh, asinh, acosh, atanh = map(row, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
erf, erfc, erfcx, erfinv, erfcinv = map(row, ("erf", "erfc", "erfcx", "erfinv", "erfcinv"))
normcdf, normcdfinv, tgamma, lgamma = map(row, ("normcdf", "normcdfinv", "tgamma", "lgamma"))
cyl_bessel_i0, cyl_bessel_i1 = map(row, ("cyl_bessel_i0", "cyl_bessel_i1"))
narrow_j0, narrow_j1, narrow_y0, narrow_y1 = map(row, ("j0", "j1", "y0", "y1"))  # of float32 and less
ldexp, ilogb, nextafter = map(row, ("ldexp", "ilogb", "nextafter"))
popc, brev, umulhi = map(row, ("popc", "brev", "umulhi"))
min, max = map(row, ("minimum", "maximum"))
fmin, fmax = min, max

# Under other names: what a GPU computes fast and roughly is as right here as the rest.
nearbyint, scalbn, fma_rn, sqrt_rn = rint, ldexp, fma, sqrt
fast_sinf, fast_cosf, fast_tanf, fast_tanhf, fast_powf = sin, cos, tan, tanh, pow
fast_expf, fast_exp10f, fast_logf, fast_log2f, fast_log10f = exp, exp10, log, log2, log10
# fmt: on


# --- kinds and signs --------------------------------------------------------------------------------------------------


def isnan(x: Tile) -> Tile:
    """Whether x is no number."""
    return x != x  # noqa: PLR0124


finitef = isfinited = isfinite


def signbit(x: Tile) -> Tile:
    """Whether the sign of x is negative, of zeros and NaN too."""
    return as_bits(x) < 0 if x.dtype.is_float else x < 0


def copysign(x: Tile, y: Tile) -> Tile:
    """Magnitude of x with the sign of y."""
    size = ops.abs(as_float(x))
    return ops.where(signbit(as_float(y)), -size, size)


def saturatef(x: Tile) -> Tile:
    """x limited to the range from 0 to 1; NaN gives 0."""
    return clamp(x, 0.0, 1.0)


def fdim(x: Tile, y: Tile) -> Tile:
    """x - y where that is positive, else 0."""
    return ops.where(x <= y, 0.0, x - y)


def logb(x: Tile) -> Tile:
    """Exponent of x to base 2, as a float: -inf at 0."""
    size = ops.abs(as_float(x))
    return ops.where((size > 0.0) & (size < INF), ops.cast(ilogb(x), size.dtype), ops.where(size == 0.0, -INF, size))


# --- quotients and lengths --------------------------------------------------------------------------------------------


def fdiv(x: Tile, y: Tile, ieee_rounding: Any = False) -> Tile:
    """x / y of floats. The quotient is always IEEE's; `ieee_rounding` is accepted for Triton's sake."""
    return x / y


def div_rn(x: Tile, y: Tile) -> Tile:
    """x / y of floats, rounded to nearest even."""
    return x / y


fast_dividef = div_rn


def rcp_rn(x: Tile) -> Tile:
    """1 / x, rounded to nearest even."""
    return 1.0 / x


def rcp64h(x: Tile) -> Tile:
    """1 / x of float64 with the lower half of its bits zero."""
    return ops.bitcast(as_bits(1.0 / x) & -(1 << 32), float64)


def rsqrt_rn(x: Tile) -> Tile:
    """1 / sqrt(x) of float32, rounded once."""
    return ops.cast(1.0 / ops.sqrt(as_dtype(x, float64)), float32)


def rcbrt(x: Tile) -> Tile:
    """1 / cbrt(x)."""
    return 1.0 / cbrt(x)


def shrink(size: Tile) -> Tile:
    """A factor that keeps lengths of vectors of large numbers from overflow."""
    return ops.where(size > 1.0, 0.25, 1.0)


def rhypot(x: Tile, y: Tile) -> Tile:
    """1 / sqrt(x * x + y * y), without overflow in between."""
    scale = shrink(ops.maximum(ops.abs(x), ops.abs(y)))
    return scale / hypot(x * scale, y * scale)


def norm3d(x: Tile, y: Tile, z: Tile) -> Tile:
    """Length of a vector of three, without overflow in between."""
    return hypot(hypot(x, y), z)


def norm4d(x: Tile, y: Tile, z: Tile, w: Tile) -> Tile:
    """Length of a vector of four, without overflow in between."""
    return hypot(hypot(x, y), hypot(z, w))


def rnorm3d(x: Tile, y: Tile, z: Tile) -> Tile:
    """1 / norm3d(x, y, z)."""
    scale = shrink(ops.maximum(ops.maximum(ops.abs(x), ops.abs(y)), ops.abs(z)))
    return scale / norm3d(x * scale, y * scale, z * scale)


def rnorm4d(x: Tile, y: Tile, z: Tile, w: Tile) -> Tile:
    """1 / norm4d(x, y, z, w)."""
    scale = shrink(ops.maximum(ops.maximum(ops.abs(x), ops.abs(y)), ops.maximum(ops.abs(z), ops.abs(w))))
    return scale / norm4d(x * scale, y * scale, z * scale, w * scale)


def fmod(x: Tile, y: Tile) -> Tile:
    """Remainder of x / y with the sign of x, exact."""
    return as_float(x) % y


def remainder(x: Tile, y: Tile) -> Tile:
    """x less the nearest multiple of y, exact; ties go to the even multiple."""
    size, is_negative = ops.abs(as_float(y)), signbit(as_float(x))
    folded = ops.where(is_negative, -as_float(x), as_float(x)) % (size + size)  # `abs` has no gradient at 0
    once = folded - size
    folded = ops.where(folded > size - folded, ops.where(once >= size - once, once - size, once), folded)
    return ops.where(is_negative, -folded, folded)


def sincos(x: Tile) -> tuple[Tile, Tile]:
    """Sine and cosine."""
    return ops.sin(x), ops.cos(x)


def j0(x: Tile) -> Tile:
    """Bessel function of the first kind, of order 0: `j0(x)`."""
    return bessel(x, 0)[0] if x.dtype == float64 else narrow_j0(x)


def j1(x: Tile) -> Tile:
    """Bessel function of the first kind, of order 1: `j1(x)`."""
    return bessel(x, 1)[0] if x.dtype == float64 else narrow_j1(x)


def y0(x: Tile) -> Tile:
    """Bessel function of the second kind, of order 0: `y0(x)`."""
    return bessel(x, 0)[1] if x.dtype == float64 else narrow_y0(x)


def y1(x: Tile) -> Tile:
    """Bessel function of the second kind, of order 1: `y1(x)`."""
    return bessel(x, 1)[1] if x.dtype == float64 else narrow_y1(x)


def jn(n: Any, x: Tile) -> Tile:
    """Bessel functions of the first kind of higher order are not there."""
    static_assert(constexpr(False), "libdevice.jn is not there: write the recurrence from j0 and j1")


def yn(n: Any, x: Tile) -> Tile:
    """Bessel functions of the second kind of higher order are not there."""
    static_assert(constexpr(False), "libdevice.yn is not there: write the recurrence from y0 and y1")


# --- integers ---------------------------------------------------------------------------------------------------------


def clz(x: Tile) -> Tile:
    """Number of leading zero bits: those below the lowest bit of the reverse."""
    reverse = brev(x)
    return popc((reverse & -reverse) - 1)


def ffs(x: Tile) -> Tile:
    """Position of the lowest bit that is set, from 1; 0 where none is."""
    return ops.where(x == 0, 0, popc(x ^ (x - 1)))


def mulhi(x: Tile, y: Tile) -> Tile:
    """Upper half of the product of two integers."""
    high = ops.umulhi(x, y)
    return high - ops.where(x < 0, y, 0) - ops.where(y < 0, x, 0) if high.dtype.kind == "int" else high


def mul24(x: Tile, y: Tile) -> Tile:
    """Product of the lower 24 bits of two integers of 32 bits."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


def sad(x: Tile, y: Tile, z: Tile) -> Tile:
    """|x - y| + z of integers."""
    return ops.where(x > y, x - y, y - x) + ops.cast(z, x.dtype)


def hadd(x: Tile, y: Tile) -> Tile:
    """(x + y) >> 1 without overflow in between."""
    return (x & y) + ((x ^ y) >> 1)


def rhadd(x: Tile, y: Tile) -> Tile:
    """(x + y + 1) >> 1 without overflow in between."""
    return (x | y) - ((x ^ y) >> 1)


def byte_perm(x: Tile, y: Tile, s: Tile) -> Tile:
    """Four of the eight bytes of x (the lower ones) and y, each picked by three bits of a half byte of s."""
    both = ops.cast(ops.cast(x, uint32), uint64) | (ops.cast(ops.cast(y, uint32), uint64) << 32)
    picks = ops.cast(ops.cast(s, uint32), uint64)
    result = both & 0
    for i in ops.static_range(4):
        result = result | (((both >> (((picks >> (4 * i)) & 7) * 8)) & 255) << (8 * i))
    return ops.cast(result, x.dtype)


# --- bits -------------------------------------------------------------------------------------------------------------


int_as_float, uint_as_float = viewed("int_as_float", float32), viewed("uint_as_float", float32)
float_as_int, float_as_uint = viewed("float_as_int", int32), viewed("float_as_uint", int32)
longlong_as_double, double_as_longlong = viewed("longlong_as_double", float64), viewed("double_as_longlong", int64)


def double2loint(x: Tile) -> Tile:
    """The lower half of the bits."""
    return ops.cast(ops.bitcast(x, int64), int32)


def double2hiint(x: Tile) -> Tile:
    """The upper half of the bits."""
    return ops.cast(ops.bitcast(x, int64) >> 32, int32)


def hiloint2double(hi: Tile, lo: Tile) -> Tile:
    """The float64 with these halves of its bits."""
    return ops.bitcast((ops.cast(hi, int64) << 32) | ops.cast(ops.cast(lo, uint32), int64), float64)


# --- directed rounding ------------------------------------------------------------------------------------------------


def add_rn(x: Tile, y: Tile) -> Tile:
    """x + y, rounded to nearest even."""
    return x + y


def sub_rn(x: Tile, y: Tile) -> Tile:
    """x - y, rounded to nearest even."""
    return x - y


def mul_rn(x: Tile, y: Tile) -> Tile:
    """x * y, rounded to nearest even."""
    return x * y


def llrint(x: Tile) -> Tile:
    """Nearest integer as int64, ties to even."""
    return ops.cast(rint(x), int64)


def llround(x: Tile) -> Tile:
    """Nearest integer as int64, ties away from 0."""
    return ops.cast(ops.round(x), int64)


# fmt: off
add_rz, add_rd, add_ru = directions("add", two_sum, 2)
sub_rz, sub_rd, sub_ru = directions("sub", difference, 2)
mul_rz, mul_rd, mul_ru = directions("mul", product, 2)
div_rz, div_rd, div_ru = directions("div", quotient, 2)
rcp_rz, rcp_rd, rcp_ru = directions("rcp", inverse, 1)
sqrt_rz, sqrt_rd, sqrt_ru = directions("sqrt", root, 1)
fma_rz, fma_rd, fma_ru = directions("fma", fused, 3)

double2float_rn, double2float_rz, double2float_rd, double2float_ru = to_floats("double2float")
int2float_rn, int2float_rz, int2float_rd, int2float_ru = from_integers("int2float", int64, float32)
uint2float_rn, uint2float_rz, uint2float_rd, uint2float_ru = from_integers("uint2float", int64, float32)
ll2float_rn, ll2float_rz, ll2float_rd, ll2float_ru = from_integers("ll2float", int64, float32)
ull2float_rn, ull2float_rz, ull2float_rd, ull2float_ru = from_integers("ull2float", uint64, float32)
ll2double_rn, ll2double_rz, ll2double_rd, ll2double_ru = from_integers("ll2double", int64, float64)
ull2double_rn, ull2double_rz, ull2double_rd, ull2double_ru = from_integers("ull2double", uint64, float64)
int2double_rn = uint2double_rn = ll2double_rn

float2int_rn, float2int_rz, float2int_rd, float2int_ru = to_integers("float2int", int32, int32)
float2uint_rn, float2uint_rz, float2uint_rd, float2uint_ru = to_integers("float2uint", uint32, int32)
float2ll_rn, float2ll_rz, float2ll_rd, float2ll_ru = to_integers("float2ll", int64, int64)
float2ull_rn, float2ull_rz, float2ull_rd, float2ull_ru = to_integers("float2ull", uint64, int64)
double2int_rn, double2int_rz, double2int_rd, double2int_ru = to_integers("double2int", int32, int32)
double2uint_rn, double2uint_rz, double2uint_rd, double2uint_ru = to_integers("double2uint", uint32, int32)
double2ll_rn, double2ll_rz, double2ll_rd, double2ll_ru = to_integers("double2ll", int64, int64)
double2ull_rn, double2ull_rz, double2ull_rd, double2ull_ru = to_integers("double2ull", uint64, int64)
# fmt: on
