"""All of `libdevice`: what is written in the language there is right, and every name works or says why not."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from pypto.language import libdevice
from tests.conformance.sources import define
from tests.ops.samples import assert_same, ulp_errors

Array = np.ndarray[Any, Any]
DTYPES: Final = {
    **{"f": np.float32, "d": np.float64, "b": np.bool_},
    **{"i": np.int32, "u": np.uint32, "l": np.int64, "m": np.uint64},
}
COUNT: Final = 600
# The names of Triton's module.
TRITON: Final = (
    "clz popc byte_perm mulhi mul24 brev sad abs floor rcp64h rsqrt ceil trunc exp2 saturatef fma_rn fma_rz fma_rd "
    "fma_ru fast_dividef div_rn div_rz div_rd div_ru rcp_rn rcp_rz rcp_rd rcp_ru sqrt_rn sqrt_rz sqrt_rd sqrt_ru "
    "sqrt add_rn add_rz add_rd add_ru mul_rn mul_rz mul_rd mul_ru double2float_rn double2float_rz double2float_rd "
    "double2float_ru double2int_rn double2int_rz double2int_rd double2int_ru double2uint_rn double2uint_rz "
    "double2uint_rd double2uint_ru int2double_rn uint2double_rn float2int_rn float2int_rz float2int_rd float2int_ru "
    "float2uint_rn float2uint_rz float2uint_rd float2uint_ru int2float_rn int2float_rz int2float_rd int2float_ru "
    "uint2float_rn uint2float_rz uint2float_rd uint2float_ru hiloint2double double2loint double2hiint float2ll_rn "
    "float2ll_rz float2ll_rd float2ll_ru float2ull_rn float2ull_rz float2ull_rd float2ull_ru double2ll_rn "
    "double2ll_rz double2ll_rd double2ll_ru double2ull_rn double2ull_rz double2ull_rd double2ull_ru ll2float_rn "
    "ll2float_rz ll2float_rd ll2float_ru ull2float_rn ull2float_rz ull2float_rd ull2float_ru ll2double_rn "
    "ll2double_rz ll2double_rd ll2double_ru ull2double_rn ull2double_rz ull2double_rd ull2double_ru int_as_float "
    "float_as_int uint_as_float float_as_uint longlong_as_double double_as_longlong fast_sinf fast_cosf fast_log2f "
    "fast_logf fast_expf fast_tanf fast_exp10f fast_log10f fast_powf hadd rhadd sub_rn sub_rz sub_rd sub_ru "
    "rsqrt_rn ffs rint llrint nearbyint isnan signbit copysign finitef isinf nextafter sin cos sinpi cospi tan log2 "
    "exp exp10 cosh sinh tanh atan2 atan asin acos log log10 log1p acosh asinh atanh expm1 hypot rhypot norm3d "
    "rnorm3d norm4d rnorm4d cbrt rcbrt j0 j1 y0 y1 yn jn cyl_bessel_i0 cyl_bessel_i1 erf erfinv erfc erfcx erfcinv "
    "normcdfinv normcdf lgamma ldexp scalbn fmod remainder fma pow tgamma round llround fdim ilogb logb isfinited "
)


def specials(code: str) -> Array:
    dtype = np.dtype(DTYPES[code])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, 2, 7, info.max // 2, info.max - 1], dtype)
    limits = np.finfo(dtype)
    small = [0.0, limits.smallest_subnormal, limits.tiny, 0.5]
    sizes = [*small, 1 - limits.epsneg, 1.0, 1.5, 2.5, 3.0, 2.0**31, 2.0**63, limits.max]
    return np.array([*sizes, *(-s for s in sizes), math.inf, -math.inf, math.nan], dtype)


def numbers(code: str, seed: int) -> Array:
    """Special values in an order of their own, small numbers, and those of all sizes."""
    rng, dtype = np.random.default_rng(seed), np.dtype(DTYPES[code])
    first = rng.permutation(np.repeat(specials(code), 8))[: COUNT // 3]
    rest = COUNT - len(first)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, rest, dtype) >> rng.integers(0, info.bits, rest, dtype)
        return np.concatenate([first, values])
    limits = np.finfo(dtype)
    wide = np.exp2(rng.uniform(limits.minexp - limits.nmant, limits.maxexp - 0.01, rest)) * rng.choice([-1, 1], rest)
    return np.concatenate([first, np.where(rng.random(rest) < 0.6, rng.uniform(-9, 9, rest), wide)]).astype(dtype)


def kernel_text(calls: list[str], operands: str) -> str:
    names = [f"x{i}" for i in range(len(operands))]
    outputs = [f"y{i}" for i in range(len(calls))]
    tiles = ", ".join(f"{x}[:]" for x in names)
    lines = [f"    {y}[:] = pto.language.libdevice.{call}({tiles})" for y, call in zip(outputs, calls, strict=True)]
    return "\n".join([f"def kernel({', '.join(names + outputs)}):", *lines, ""])


def run(calls: list[str], operands: str, result: str, level: str = "") -> tuple[list[Array], list[Array]]:
    """Operands and results of all calls, on the CPU; the interpreter gives the same."""
    arrays = [numbers(code, seed) for seed, code in enumerate(operands)]
    text = kernel_text(calls, operands)
    found, right = ([np.zeros(COUNT, DTYPES[result]) for _ in calls] for _ in range(2))
    define(text, level)[1](*arrays, *found)
    pto.interpret(define(text))[1](*arrays, *right)
    for call, a, b in zip(calls, found, right, strict=True):
        if call.split("_")[0] not in ROUNDED:
            assert_same(a, b, f"{call} on {operands}, CPU against interpreter")
    return arrays, found


# --- functions with a formula -----------------------------------------------------------------------------------------

# Results that are only near the interpreter's, since they come from functions that are.
ROUNDED: Final = ("rsqrt", "rcbrt", "rhypot", "norm3d", "norm4d", "rnorm3d", "rnorm4d")


def wide(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: fn(*(x.astype(np.longdouble) for x in xs))


def integers(fn: Callable[..., int]) -> Callable[..., Array]:
    """A function of Python integers; the result wraps."""

    def apply(*xs: Array) -> Array:
        bits = xs[0].itemsize * 8
        values = [fn(*map(int, x)) & ((1 << bits) - 1) for x in zip(*xs, strict=True)]
        return np.array(values, f"u{bits // 8}").view(xs[0].dtype)

    return apply


def unsigned(x: Array) -> list[int]:
    values: list[int] = x.view(f"u{x.itemsize}").tolist()
    return values


def length(*xs: Array) -> Any:
    total = np.sqrt(sum(x * x for x in xs))
    return np.where(np.logical_or.reduce([np.isinf(x) for x in xs]), np.inf, total)


def low24(x: int) -> int:
    return (x & 0xFFFFFF) - ((x & 0x800000) << 1)


def permuted(x: int, y: int, s: int) -> int:
    data = (x & 0xFFFFFFFF).to_bytes(4, "little") + (y & 0xFFFFFFFF).to_bytes(4, "little")
    return int.from_bytes(bytes(data[s >> 4 * i & 7] for i in range(4)), "little")


def ieee_remainder(x: float, y: float) -> float:
    try:
        return math.remainder(x, y)
    except ValueError:
        return math.nan


def logb(x: Array) -> Array:
    usual = np.isfinite(x) & (x != 0)
    return np.where(usual, np.frexp(x)[1] - 1, np.where(x == 0, -np.inf, np.abs(x)))


# Name, operands, result, what is right, units in the last place.
FORMULAS: Final[tuple[tuple[str, str, str, Callable[..., Any], float], ...]] = (
    *(("isnan", c, "b", np.isnan, 0) for c in "fd"),
    *(("isinf", c, "b", np.isinf, 0) for c in "fd"),
    *((name, c, "b", np.isfinite, 0) for c in "fd" for name in ("finitef", "isfinited", "isfinite")),
    *(("signbit", c, "b", np.signbit, 0) for c in "fd"),
    *(("copysign", 2 * c, c, np.copysign, 0) for c in "fd"),
    *(("saturatef", c, c, lambda x: np.where(x > 0, np.fmin(x, 1), 0), 0) for c in "fd"),
    *(("fdim", 2 * c, c, lambda x, y: np.where(x <= y, 0, x - y), 0) for c in "fd"),
    *(("logb", c, c, logb, 0) for c in "fd"),
    *(("fmod", 2 * c, c, np.fmod, 0) for c in "fd"),
    *(("remainder", 2 * c, c, np.frompyfunc(ieee_remainder, 2, 1), 0) for c in "fd"),
    *((name, 2 * c, c, np.divide, 0) for c in "fd" for name in ("fdiv", "div_rn", "fast_dividef")),
    *(("add_rn", 2 * c, c, np.add, 0) for c in "fd"),
    *(("sub_rn", 2 * c, c, np.subtract, 0) for c in "fd"),
    *(("mul_rn", 2 * c, c, np.multiply, 0) for c in "fd"),
    *(("rcp_rn", c, c, lambda x: 1 / x, 0) for c in "fd"),
    ("rcp64h", "d", "d", lambda x: ((1 / x).view(np.int64) & -(1 << 32)).view(np.float64), 0),
    ("rsqrt_rn", "f", "f", wide(lambda x: 1 / np.sqrt(x)), 0.5001),
    *(("rcbrt", c, c, wide(lambda x: 1 / np.cbrt(x)), 2) for c in "fd"),
    *(("rhypot", 2 * c, c, wide(lambda *x: 1 / length(*x)), 2) for c in "fd"),
    *((f"norm{n}d", n * c, c, wide(length), 2) for c in "fd" for n in (3, 4)),
    *((f"rnorm{n}d", n * c, c, wide(lambda *x: 1 / length(*x)), 2) for c in "fd" for n in (3, 4)),
    *((name, 2 * c, c, fn, 0) for c in "fdil" for name, fn in (("max", np.fmax), ("min", np.fmin))),
    *(("clz", c, "i", lambda x: [8 * x.itemsize - n.bit_length() for n in unsigned(x)], 0) for c in "iulm"),
    *(("ffs", c, "i", lambda x: [(n & -n).bit_length() for n in unsigned(x)], 0) for c in "iulm"),
    *(("mulhi", 2 * c, c, integers(lambda x, y: x * y >> 32), 0) for c in "iu"),
    *(("mulhi", 2 * c, c, integers(lambda x, y: x * y >> 64), 0) for c in "lm"),
    ("mul24", "ii", "i", integers(lambda x, y: low24(x) * low24(y)), 0),
    ("mul24", "uu", "u", integers(lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF)), 0),
    *(("sad", f"{c}{c}u", c, integers(lambda x, y, z: abs(x - y) + z), 0) for c in "iu"),
    *(("hadd", 2 * c, c, integers(lambda x, y: (x + y) >> 1), 0) for c in "iulm"),
    *(("rhadd", 2 * c, c, integers(lambda x, y: (x + y + 1) >> 1), 0) for c in "iulm"),
    *(("byte_perm", 3 * c, c, integers(permuted), 0) for c in "iu"),
    *((name, c, "f", lambda x: x.view(np.float32), 0) for name, c in (("int_as_float", "i"), ("uint_as_float", "u"))),
    *((name, "f", "i", lambda x: x.view(np.int32), 0) for name in ("float_as_int", "float_as_uint")),
    ("longlong_as_double", "l", "d", lambda x: x.view(np.float64), 0),
    ("double_as_longlong", "d", "l", lambda x: x.view(np.int64), 0),
    ("double2loint", "d", "i", lambda x: x.view(np.int64).astype(np.int32), 0),
    ("double2hiint", "d", "i", lambda x: (x.view(np.int64) >> 32).astype(np.int32), 0),
    ("hiloint2double", "ii", "d", lambda h, lo: (h.astype(np.int64) << 32 | lo.view(np.uint32)).view(np.float64), 0),
)


@pytest.mark.parametrize("entry", FORMULAS, ids=lambda e: f"{e[0]}-{e[1]}")
def test_formulas(entry: tuple[str, str, str, Callable[..., Any], float]) -> None:
    name, operands, result, fn, ulp = entry
    arrays, (found,) = run([name], operands, result)
    with np.errstate(all="ignore"):
        right = np.asarray(fn(*arrays))
        if ulp:
            errors = ulp_errors(found, right.astype(np.float64), pto.float64 if result == "d" else pto.float32)
            worst = [a[errors.argmax()] for a in arrays]
            assert errors.max() <= ulp + (result == "d"), f"{name} is {errors.max()} units off at {worst}"
            return
        assert_same(found, right.astype(found.dtype), name, zeros=name not in ("max", "min"))


# --- every name -------------------------------------------------------------------------------------------------------

# Names with operands of other kinds than floats, and those that are refused.
OPERANDS: Final = {
    **dict.fromkeys(("popc", "clz", "ffs", "brev"), "i"), "byte_perm": "iii", "sad": "iiu",
    **dict.fromkeys(("mulhi", "umulhi", "mul24", "hadd", "rhadd"), "ii"), "hiloint2double": "ii",
    **dict.fromkeys(("int_as_float", "uint_as_float"), "i"), "longlong_as_double": "l",
    **dict.fromkeys(("double_as_longlong", "double2loint", "double2hiint", "rcp64h"), "d"),
    **dict.fromkeys(("ldexp", "scalbn"), "fi"), "jn": "if", "yn": "if",
}  # fmt: skip
INTEGERS: Final = {"int2": "i", "uint2": "u", "ll2": "l", "ull2": "m", "double2": "d"}
REFUSED: Final = ("jn", "yn")


def operands(name: str) -> str:
    """Codes of dtypes that a function takes."""
    if name in OPERANDS:
        return OPERANDS[name]
    function = getattr(libdevice, name)
    codes = [code for start, code in INTEGERS.items() if name.startswith(start)]
    arity = sum(p.default is p.empty for p in inspect.signature(function).parameters.values())
    return codes[0] if codes else "f" * arity


def test_names_of_triton_are_there() -> None:
    assert len("".join(TRITON).split()) > 190
    assert set("".join(TRITON).split()) <= set(libdevice.__all__) <= set(vars(libdevice))


def called(names: Sequence[str]) -> list[Any]:
    """What a kernel gives that calls functions with the same operands, an output for each."""
    codes, inputs = operands(names[0]), [f"x{i}" for i in range(len(operands(names[0])))]
    lines = [f"def kernel({', '.join([*inputs, *(f'y{i}' for i in range(len(names)))])}):"]
    for i, name in enumerate(names):
        last = "[0]" if name == "sincos" else ""
        tiles = ", ".join(f"{x}[:]" for x in inputs)
        lines.append(f"    y{i}[:] = pto.language.libdevice.{name}({tiles}){last}.to(pto.float32)")
    results = [np.full(64, 99, np.float32) for _ in names]
    define("\n".join([*lines, ""]))[1](*(numbers(c, 1)[:64] for c in codes), *results)
    return results


def chunks() -> Iterator[list[str]]:
    """Names that work, by their operands, some in a kernel."""
    names = sorted((name for name in libdevice.__all__ if name not in REFUSED), key=operands)
    for _, group in itertools.groupby(names, operands):
        same = list(group)
        yield from (same[at : at + 8] for at in range(0, len(same), 8))


@pytest.mark.parametrize("names", [*chunks()], ids=lambda names: f"{names[0]}..{names[-1]}")
def test_every_name_works(names: list[str]) -> None:
    for name, out in zip(names, called(names), strict=True):
        assert np.any(out != 99), name
        assert getattr(libdevice, name).__doc__, name


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_work_says_why(name: str) -> None:
    assert name in libdevice.__all__ and getattr(libdevice, name).__doc__
    with pytest.raises(Diagnostic, match=r"write the recurrence from"):
        called([name])


def test_numbers_of_python_are_operands() -> None:
    """Constants have no dtype of their own, and keep their digits beside float64."""

    @pto.jit
    def kernel(x, y):
        f = pto.language.libdevice
        t = x[:]
        y[0, :] = f.copysign(t, -1.0) + f.div_rd(1.0, t) * f.add_ru(t, 0.1)
        y[1, :] = f.remainder(7.5, t) + f.fmod(t, 2) + f.hypot(t, 0.1)
        y[2, :] = f.pow(t, 3) + f.ldexp(t, 4) + f.rhypot(t, 1.0) + f.pow(0.1, t)

    x, y = np.linspace(0.5, 5, 64), np.zeros((3, 64))
    kernel[1](x, y)
    right = [
        -x + 1 / x * (x + 0.1),
        [math.remainder(7.5, v) for v in x] + np.fmod(x, 2) + np.hypot(x, 0.1),
        x**3 + 16 * x + 1 / np.hypot(x, 1) + 0.1**x,
    ]
    np.testing.assert_allclose(y, right, rtol=1e-14)


def test_powers_by_the_operator() -> None:
    @pto.jit
    def kernel(x, n, y, m):
        t, i = x[:], n[:]
        y[0, :] = t**2 + t**3 + t**-0.5
        y[1, :] = 2**t + t**i + t**t
        m[:] = i**2 + i**3 + 3**i + pto.pow(3, 2)

    x, n = np.linspace(0.1, 4, 64), np.arange(64, dtype=np.int32) % 8
    y, m = np.zeros((2, 64)), np.zeros(64, np.int32)
    kernel[1](x, n, y, m)
    np.testing.assert_allclose(y, [x**2 + x**3 + x**-0.5, 2**x + x**n + x**x], rtol=1e-14)
    np.testing.assert_array_equal(m, n**2 + n**3 + 3**n + 9)
