"""Functions of real numbers on lanes lie within the error that their rows state.

float64 is judged in `numpy.longdouble`, where that has more digits; float32 in float64 by numpy, and on many more
numbers in `test_math_sweeps` by the float64 rule, which has been judged here.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.ir.types import DType, TileType, float32, float64
from pypto.ops.mathematics import ROWS
from pypto.ops.row import OpRow
from pypto.ops.rules import tile
from pypto.ops.table import TABLE
from tests.conftest import ALL_LEVELS
from tests.ops.samples import enough

Array = np.ndarray[Any, Any]
BLOCK = 4096
OLD = "x86-64-v2" if "x86-64-v2" in ALL_LEVELS else ""
EXTENDED = np.finfo(np.longdouble).nmant > 52
# fma is tried with all ops; in its reference, longdouble is of no use.
FUNCTIONS = [(row, d) for row in ROWS for d in (float32, float64) if d.mnemonic in row.ulp and row.name != "fma"]
# Where a result may be near 0 while its parts are not, digits are lost: errors are those of a result of this size.
SCALE = {"lgamma": 1.0}


def named(name: str) -> Any:
    """The function that kernels call by this name."""
    return getattr(pto, name, None) or getattr(pto.language.libdevice, name)


@functools.cache
def kernel(name: str, arity: int, level: str) -> Any:
    """The function on blocks of arrays."""
    f = named(name)

    def one(x, out):
        at = pto.program_id(0) * BLOCK
        out[at : at + BLOCK] = f(x[at : at + BLOCK])

    def two(x, y, out):
        at = pto.program_id(0) * BLOCK
        out[at : at + BLOCK] = f(x[at : at + BLOCK], y[at : at + BLOCK])

    def three(x, y, z, out):
        at = pto.program_id(0) * BLOCK
        out[at : at + BLOCK] = f(x[at : at + BLOCK], y[at : at + BLOCK], z[at : at + BLOCK])

    return pto.jit(level=level)((one, two, three)[arity - 1])


def run(name: str, *arrays: Any, level: str = "", dtype: Any = None) -> Array:
    xs = [np.atleast_1d(a) for a in arrays]
    out = np.zeros(len(xs[0]), dtype or xs[0].dtype)
    kernel(name, len(xs), level)[-(-len(out) // BLOCK),](*xs, out)
    return out


# --- accuracy ---------------------------------------------------------------------------------------------------------


def sizes(dtype: DType) -> list[float]:
    info = np.finfo(dtype.numpy)
    near_one = [1 - float(info.eps) / 2, 1.0, 1 + float(info.eps)]
    least = [0.0, float(info.smallest_subnormal), float(info.tiny)]
    return [*least, 0.5, *near_one, 1.5, 2.0, 2.5, 3.0, 710.0, 1e6, 2.0**31, 2.0**53, float(info.max), np.inf]


def numbers(row: OpRow, dtype: DType, count: int) -> list[Array]:
    """Special values (pairs of them), the domain, and all sizes down to the least."""
    arity, info = len(row.params), np.finfo(dtype.numpy)
    rng = np.random.default_rng(zlib.crc32(f"{row.name} {dtype}".encode()))
    special = np.array([*sizes(dtype), *(-s for s in sizes(dtype)), np.nan])
    grid = np.array(np.meshgrid(*[special] * min(arity, 2))).reshape(min(arity, 2), -1)

    def draw() -> Array:
        inside = rng.uniform(*row.domain, count // 2)
        wide = np.exp2(rng.uniform(info.minexp - info.nmant, info.maxexp - 0.01, count // 4))
        near = np.exp2(rng.uniform(-30, 12, count // 4))
        least = np.exp2(rng.uniform(info.minexp - info.nmant, info.minexp + 2, count // 8))
        both = (a * rng.choice([-1.0, 1.0], len(a)) for a in (wide, near, least))
        return rng.permutation(np.concatenate([inside, *both]))

    columns = [rng.permutation(grid[i % 2]) if i > 1 else grid[i] for i in range(arity)]
    return [np.concatenate([column, draw()]).astype(dtype.numpy) for column in columns]


def reference(row: OpRow, arrays: list[Array]) -> Array:
    """What the row means, in the widest float; a few numbers at a time, since some functions are integrals."""
    parts = [meaning(row, [a[i : i + BLOCK] for a in arrays]) for i in range(0, len(arrays[0]), BLOCK)]
    return np.concatenate(parts).astype(np.longdouble)


def meaning(row: OpRow, arrays: list[Array]) -> Array:
    assert row.reference is not None
    exact = np.asarray(row.reference(None, *arrays)).astype(np.longdouble)
    if row.name != "pow":
        return exact
    # The row means float64's power, since longdouble's is wrong for infinities in some C libraries.
    with np.errstate(all="ignore"):
        wide = np.power(*(a.astype(np.longdouble) for a in arrays))
    return np.where(np.isfinite(arrays[0]) & np.isfinite(arrays[1]), wide, exact)


def ulp_errors(found: Array, right: Array, scale: float = 0.0) -> Array:
    """Distances in units in the last place of results, or of `scale` where that is greater."""
    info, big = np.finfo(found.dtype), np.longdouble
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(right), big(scale))
        exponent = np.clip(np.frexp(size)[1] - 1, info.minexp, info.maxexp - 1)
        errors = np.abs(found.astype(big) - right) / np.ldexp(big(1), exponent) / big(info.eps)
        rounded = np.isinf(found) & (np.abs(right) > big(info.max)) & (np.signbit(found) == np.signbit(right))
    same = (found == right) | (np.isnan(found) & np.isnan(right)) | rounded
    return np.where(same, 0, np.where(np.isnan(errors), np.inf, errors)).astype(np.float64)


@functools.cache
def sample(name: str, dtype: DType) -> tuple[list[Array], Array]:
    """Operands and what is right for them."""
    arrays = numbers(TABLE[name], dtype, enough(name, dtype, 16_000))
    return arrays, reference(TABLE[name], arrays)


@pytest.mark.parametrize("level", ALL_LEVELS, indirect=True)
@pytest.mark.parametrize(("row", "dtype"), FUNCTIONS, ids=lambda x: x.name)
def test_errors_are_those_that_the_row_states(row: OpRow, dtype: DType, level: str) -> None:
    if dtype is float64 and not EXTENDED:
        pytest.skip("numpy.longdouble has no more digits than float64 here")
    arrays, right = sample(row.name, dtype)
    errors = ulp_errors(found := run(row.name, *arrays, level=level), right, SCALE.get(row.name, 0.0))
    worst = errors.argmax()
    shown, most = ", ".join(repr(a[worst]) for a in arrays), row.ulp[dtype.mnemonic]
    assert errors.max() <= most, f"{row.name}({shown}) = {found[worst]!r}, off by {errors.max():.3f} ulp"


def test_bounds_are_two_ulp_in_float32_and_those_of_libm_in_float64() -> None:
    """glibc states at most 1 ulp in float64 for these (its manual, "Errors in Math Functions", on x86-64)."""
    by_libm = "acos asin atan atan2 cos cospi erf exp exp2 expm1 hypot log log1p pow rsqrt sin sinpi tan"
    assert all(TABLE[name].ulp["f64"] <= 1.0 for name in by_libm.split())
    assert all(row.ulp["f32"] <= 2.0 for row, _ in FUNCTIONS)


# --- special values and exact functions -------------------------------------------------------------------------------

EXACT = [row for row in ROWS if not row.ulp and row.dtypes == "float"]
WITH_ZEROS = (
    *("sin", "tan", "sinpi", "asin", "atan", "atan2", "sinh", "tanh", "asinh", "atanh"),
    *("expm1", "log1p", "cbrt", "erf", "pow"),
)


def operands_of(row: OpRow, dtype: DType) -> list[TileType]:
    return [TileType((BLOCK,), dtype)] * sum(p.is_operand for p in row.params)


def assert_equal(found: Array, right: Array, what: str) -> None:
    """Equal, NaN with NaN, and zeros with their signs."""
    np.testing.assert_array_equal(found, right, err_msg=what)
    if found.dtype.kind == "f":
        zero = right == 0
        signs = np.signbit(found[zero]), np.signbit(right[zero])
        np.testing.assert_array_equal(*signs, err_msg=f"signs of zeros: {what}")


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("row", EXACT, ids=lambda row: row.name)
def test_exact_functions_are_exact_on_old_machines(row: OpRow, dtype: DType) -> None:
    types = operands_of(row, dtype)
    (result,) = (tile(t) for t in row.infer(types, {}))
    arrays = numbers(row, dtype, 8000)[: len(types)]
    op: Any = type("op", (), {"attrs": {}})
    with np.errstate(all="ignore"):
        right = np.asarray(row.reference(op, *arrays)).astype(result.dtype.numpy)  # type: ignore[misc]
    assert_equal(run(row.name, *arrays, level=OLD, dtype=right.dtype), right, row.name)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", WITH_ZEROS)
def test_zeros_keep_their_signs(name: str, dtype: DType) -> None:
    row = TABLE[name]
    arrays = numbers(row, dtype, 0)
    with np.errstate(all="ignore"):
        right = reference(row, arrays).astype(dtype.numpy)
    zero = right == 0
    assert zero.any()
    np.testing.assert_array_equal(np.signbit(run(name, *arrays)[zero]), np.signbit(right[zero]))


def test_arguments_next_to_multiples_of_half_pi() -> None:
    """Of all float64, the first lies nearest to one (Muller, "Elementary Functions"); the others are floats near π."""
    x = np.array([6381956970095103.0 * 2.0**797, 3.141592653589793, 1e22, 2.0**1023])
    cosines = [-4.6871659242546277e-19, -1.0, 0.5232147853951389, -0.826369834614148]
    np.testing.assert_allclose(run("cos", x), cosines, rtol=3e-16)
    np.testing.assert_allclose(run("sin", x[1:3]), [1.2246467991473532e-16, -0.8522008497671888], rtol=3e-16)


@pytest.mark.parametrize("size", [1, 2, 3, 16, 100])
@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_far_out(dtype: Any, name: str, size: int) -> None:
    """Scalars and a few lanes are scaled in another way than whole registers."""
    f = named(name)

    @pto.jit
    def kernel(x, out):
        out[:size] = f(x[:size])

    most = float(np.finfo(dtype).max)
    for x in (1.1e3, 1e7, 16777217.0, 1e9, 1e20, most / 3, most, np.inf):
        up, down = np.zeros((2, size), dtype)
        kernel[1,](np.full(size, x, dtype), up)
        kernel[1,](np.full(size, -x, dtype), down)
        assert np.isposinf(up).all(), f"{name}({x}) is {up}"
        assert_equal(down, np.zeros(size, dtype), f"{name}(-{x})")
    kernel[1,](np.full(size, np.nan, dtype), up)
    assert np.isnan(up).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ldexp_rounds_once(dtype: Any) -> None:
    rng, info = np.random.default_rng(3), np.finfo(dtype)
    n = rng.integers(-2200, 2200, 20_000).astype(np.int32)
    aim = rng.integers(info.minexp - info.nmant - 3, info.maxexp + 2, len(n))
    with np.errstate(all="ignore"):
        x = np.ldexp(rng.uniform(-2, 2, len(n)), aim - n).astype(dtype)
        x[-5:] = [0, -0.0, np.inf, -np.inf, np.nan]
        right = np.ldexp(x, n)
    for level in ("", OLD):
        assert_equal(run("ldexp", x, n, level=level), right, "ldexp")
    x, m = np.array([1.5, -1.5, info.max, info.smallest_subnormal], dtype), np.array([1, -1, -1, 1], np.int64) << 40
    assert_equal(run("ldexp", x, m), np.array([np.inf, -0.0, 0.0, np.inf], dtype), "ldexp by far")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_to_an_integer_power(dtype: Any) -> None:
    x = np.array([-1.0, -1.0, 0.5, -3.0, 2.0, 0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1 + 2.0**-20], dtype)
    n = np.array([2**24 + 1, 2**24, -3, 5, -20, 0, -3, 2**31 - 1, -2, 3, 0, 2**24 + 1], np.int32)
    with np.errstate(all="ignore"):
        right = np.power(x.astype(np.float64), n)
    assert ulp_errors(run("pow", x, n), right.astype(np.longdouble)).max() <= 1.0
    assert_equal(np.signbit(run("pow", x, n)), np.signbit(right), "signs")


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, np.int64])
def test_integers_to_integer_powers_wrap(dtype: Any) -> None:
    rng, info = np.random.default_rng(4), np.iinfo(dtype)
    any_size = rng.integers(info.min, info.max, 600, dtype)
    x = np.concatenate([rng.integers(max(info.min, -5), 6, 500), any_size[:500]]).astype(dtype)
    n = np.concatenate([rng.integers(max(info.min, -4), 40, 900), any_size[500:]]).astype(dtype)

    def power(a: int, b: int) -> int:
        exact = pow(a, b, 2**64) if b >= 0 else a ** (b % 2) if abs(a) == 1 else 0
        return exact % 2**info.bits

    right = np.array([power(int(a), int(b)) for a, b in zip(x, n, strict=True)], f"u{info.bits // 8}").view(dtype)
    for level in ("", OLD):
        assert_equal(run("pow", x, n, level=level), right, "pow")


@pytest.mark.parametrize("name", ["popc", "brev", "umulhi"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_bits_on_old_machines(name: str, dtype: Any) -> None:
    rng, info = np.random.default_rng(5), np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 504, dtype, endpoint=True) >> rng.integers(0, info.bits, 504, dtype)
    x[:4] = [0, 1, info.max, info.min]
    arrays = [x, x[::-1].copy()] if "mul" in name else [x]
    right = np.asarray(TABLE[name].reference(None, *arrays))  # type: ignore[misc]
    right = right.astype(np.int32) if name == "popc" else right
    assert_equal(run(name, *arrays, level=OLD, dtype=right.dtype), right, name)


def test_upper_halves_of_products() -> None:
    a, b = 0x123456789ABCDEF0, 0xFEDCBA9876543210
    assert run("umulhi", np.array([a], np.uint64), np.array([b], np.uint64))[0] == a * b >> 64
    assert run("umulhi", np.array([-1], np.int32), np.array([-1], np.int32))[0] == -2


@pytest.mark.parametrize("name", ["exp", "log", "pow", "sin", "cbrt", "erfc", "atan2", "lgamma"])
def test_contraction_costs_little(name: str) -> None:
    """With `fast_math`, products and sums may be fused where rules count on their rounding."""
    f, row = named(name), TABLE[name]
    arrays = [np.abs(a) for a in numbers(row, float64, 4000)]
    out = np.zeros_like(arrays[0])

    @pto.jit(fast_math=True)
    def one(x, out):
        out[:] = f(x[:])

    @pto.jit(fast_math=True)
    def two(x, y, out):
        out[:] = f(x[:], y[:])

    (one, two)[len(arrays) - 1][1,](*arrays, out)
    assert ulp_errors(out, reference(row, arrays), 1.0 if EXTENDED else 8.0).max() <= 4.0


@pytest.mark.parametrize("level", ALL_LEVELS, indirect=True)
def test_large_arguments_in_every_kind_of_loop(level: str) -> None:
    """Large arguments are reduced in a branch, which has to fit into reductions, scans, products and loops."""

    @pto.jit(level=level)
    def kernel(x, w, out, product, total, n):
        out[0, :] = pto.sum(pto.sin(x[:, :]), 0)
        out[1, :] = pto.cumsum(pto.tan(x[0, :]), 0)
        out[2, :] = pto.max(pto.cos(x[:, :]), 0)
        product[:, :] = pto.dot(pto.sin(x[:, :]), pto.cos(w[:, :]))
        offs, state = pto.arange(0, 37), pto.zeros((37,), x.dtype)
        for i in range(n):
            if pto.sin(i * 1e7) > 0:
                state += pto.sin(x[3, :] * i) * pto.cos(x[2, :] * i)
        out[3, :] = state
        out[4, :] = pto.where(offs < 11, pto.sin(x[4, :]), pto.cos(x[4, :] * 1e6))
        pto.atomic_add(total + offs, pto.sin(x[5, :]), mask=offs < 30)

    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(17, 37)) * 10.0 ** rng.integers(0, 9, (17, 37)), rng.normal(size=(37, 37))
    found, right = ([np.zeros((5, 37)), np.zeros((17, 37)), np.zeros(37)] for _ in range(2))
    kernel[1](x, w, *found, 13)
    pto.interpret(kernel)[1](x, w, *right, 13)
    for a, b in zip(found, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
