"""Matrix products: every type, stacks and vectors, accumulators and result types; microscaling formats."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.errors.frontend import AssertionFailed
from pypto.errors.language import OpTypeError
from pypto.ir.types import FLOAT8, DType, bfloat16, float16, float32, float64, int8, int16, int32, uint8
from tests.conformance.sources import define

Array = np.ndarray[Any, Any]
SIZES = ((), 1, 1, 1), ((), 1, 17, 1), ((), 5, 1, 9), ((), 33, 70, 17), ((3,), 5, 9, 7), ((2,), 17, 33, 40)
PAIRS = [(d, d) for d in (*FLOAT8, float16, bfloat16, float32, float64, int8, uint8, int16, int32)]
MIXED = [(FLOAT8[0], FLOAT8[1]), (FLOAT8[3], FLOAT8[0])]


@pto.jit
def product(x, y, z, c, WITH: pto.constexpr, OUT: pto.constexpr):
    acc = c[...] if WITH else None
    z[...] = pto.dot(x[...], y[...], acc, input_precision="tf32x3", out_dtype=OUT)


@pto.jit
def vectors(x, y, z, u, v):
    a, b = x[:, :], y[:]
    z[:] = pto.dot(a, b)
    u[:] = pto.dot(b, a, z[:])
    v[0] = pto.dot(b, b)


@pto.jit
def scaled_product(a, sa, b, sb, c, out, FORMS: pto.constexpr, PACKED: pto.constexpr):
    x = None if sa is None else sa[:, :]
    y = None if sb is None else sb[:, :]
    left, right = FORMS
    out[:, :] = pto.dot_scaled(a[:, :], x, left, b[:, :], y, right, c[:, :], lhs_k_pack=PACKED, rhs_k_pack=PACKED)


def both(kernel: Any) -> tuple[Any, Any]:
    return kernel, pto.interpret(kernel)


def operand(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype.is_int:
        low, high = dtype.integer_range
        return rng.integers(low, high, shape, dtype.numpy, endpoint=True)
    return rng.uniform(-2, 2, shape).astype(dtype.numpy)


def exact(x: Array, y: Array) -> Array:
    kind = np.int64 if x.dtype.kind in "iu" else np.float64
    return np.asarray(np.matmul(x.astype(kind), y.astype(kind)))


def bound(x: Array, y: Array, result: DType) -> Array:
    """What adding up and the last rounding may be off by."""
    sizes = exact(np.abs(x.astype(np.float64)), np.abs(y.astype(np.float64))) + 1
    digits = {"f16": 10, "bf16": 7, "f32": 21, "f64": 50}[result.mnemonic]
    return np.asarray(sizes * x.shape[-1] ** (result.bits > 16) * 2.0**-digits)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("a", "b"), PAIRS + MIXED, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_types_and_sizes(size: Any, a: DType, b: DType) -> None:
    batch, m, k, n = size
    rng = np.random.default_rng(m * k * n)
    x, y = operand(rng, a, (*batch, m, k)), operand(rng, b, (*batch, k, n))
    result = int32 if a.is_int else float64 if a == float64 else float32
    for kernel, accumulates in itertools.product(both(product), (False, True)):
        c, z = operand(rng, result, (*batch, m, n)), np.zeros((*batch, m, n), result.numpy)
        kernel[1](x, y, z, c, accumulates, None)
        wanted = exact(x, y) + (c.astype(exact(x, y).dtype) if accumulates else 0)
        if a.is_int:
            np.testing.assert_array_equal(z, wanted.astype(np.int32))
        else:
            assert np.all(np.abs(z - wanted) <= bound(x, y, result))


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("out", [float16, bfloat16, float32, float64], ids=str)
@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, FLOAT8[1]], ids=str)
def test_result_types(dtype: DType, out: DType) -> None:
    """float16 results add up in float32 all the same: 2048 ones are more than float16 could count."""
    x, y = np.ones((3, 4096), dtype.numpy), np.ones((4096, 5), dtype.numpy)
    c = np.full((3, 5), 2, out.numpy)
    for kernel in both(product):
        z = np.zeros((3, 5), out.numpy)
        kernel[1](x, y, z, c, True, out)
        assert (z.astype(np.float64) == np.float64(np.array(4098).astype(out.numpy))).all()


def test_an_accumulator_gives_its_type() -> None:
    kernel = define("""
def kernel(x, acc):
    r = pto.dot(x[:, :], x[:, :], acc[:, :])
    assert r.dtype == pto.float16 and pto.dot(x[:, :], x[:, :]).dtype == pto.float32
    acc[:, :] = pto.dot(x[:, :], x[:, :], r, allow_tf32=True)
""")
    for how in both(kernel):
        x, acc = np.eye(4, dtype=np.float16), np.ones((4, 4), np.float16)
        how[1](x, acc)
        np.testing.assert_array_equal(acc, 1 + 2 * np.eye(4))


def test_vectors() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.random((9, 9), np.float32), rng.random(9, np.float32)
    for kernel in both(vectors):
        z, u, v = np.zeros(9, np.float32), np.zeros(9, np.float32), np.zeros(1, np.float32)
        kernel[1](x, y, z, u, v)
        np.testing.assert_allclose(z, x @ y, rtol=1e-5)
        np.testing.assert_allclose(u, y @ x + z, rtol=1e-5)
        np.testing.assert_allclose(v[0], y @ y, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("pto.dot(a, a, input_precision='fp8')", "input_precision is one of ieee, tf32"),
        ("pto.dot(a, a, input_precision='ieee', allow_tf32=True)", "give one of them"),
        ("pto.dot(a, a.to(pto.float64))", "two operands of one number type"),
        ("pto.dot(a < 0, a < 0)", "two operands of one number type"),
        ("pto.dot(a, a[:, :2], a)", "the accumulator is"),
        ("pto.dot(a, a[:2, :])", r"takes \(M, K\) and \(K, N\)"),
    ],
)
def test_refused(call: str, message: str) -> None:
    kernel = define(f"\ndef kernel(x):\n    a = x[:, :]\n    {call}\n")
    with pytest.raises(OpTypeError, match=message):
        kernel[1](np.zeros((4, 4), np.float32))


# --- microscaling formats ---------------------------------------------------------------------------------------------

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NUMPY = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}
M, K, N = 6, 128, 10


def encoded(rng: np.random.Generator, form: str, shape: tuple[int, int], axis: int, raw: bool) -> tuple[Array, Array]:
    """An operand as it is passed, and its numbers."""
    if form == "e2m1":
        codes = rng.integers(0, 16, shape).astype(np.uint8)
        low, high = (np.take(codes, range(start, shape[axis], 2), axis) for start in (0, 1))
        return low | high << 4, E2M1[codes]
    values = rng.uniform(-4, 4, shape).astype(NUMPY[form])
    return values.view(np.uint8) if raw and values.itemsize == 1 else values, values.astype(np.float64)


def powers(codes: Array) -> Array:
    return np.exp2(codes.astype(np.float64) - 127)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("right", ["e2m1", "e5m2", "fp16"])
@pytest.mark.parametrize("left", ["e2m1", "e4m3", "bf16"])
def test_microscaling_formats(left: str, right: str, packed: bool) -> None:
    rng = np.random.default_rng(len(left + right))
    a, x = encoded(rng, left, (M, K), 1 if packed else 0, packed)
    b, y = encoded(rng, right, (K, N), 0 if packed else 1, packed)
    sa, sb = (rng.integers(120, 134, (rows, K // 32)).astype(np.uint8) for rows in (M, N))
    c = rng.random((M, N), np.float32)
    for kernel, scales in itertools.product(both(scaled_product), ((sa, sb), (None, sb), (sa, None))):
        p, q = (1 if s is None else np.repeat(powers(s), 32, 1) for s in scales)
        wide, high = x * p, y * np.transpose(q)
        out = np.zeros((M, N), np.float32)
        kernel[1](a, scales[0], b, scales[1], c, out, (left, right), packed)
        assert np.all(np.abs(out - (wide @ high + c)) <= 1e-5 * (np.abs(wide) @ np.abs(high) + 1))


def test_scales() -> None:
    """The ends of the exponents, and groups of 16 with scales that are floats of 8 bits."""
    ones, zero = np.ones((4, 32), ml_dtypes.bfloat16), np.zeros((4, 4), np.float32)
    sa, sb = np.array([[0], [1], [254], [255]], np.uint8), np.full((4, 1), 127, np.uint8)
    for kernel in both(scaled_product):
        out = np.zeros((4, 4), np.float32)
        kernel[1](ones, sa, np.ones((32, 4), ml_dtypes.bfloat16), sb, zero, out, ("bf16", "bf16"), True)
        np.testing.assert_array_equal(out[:3, 0], [2.0**-122, 2.0**-121, np.inf])
        assert np.isnan(out[3]).all()
        small = np.array([[0.5, 2.0]] * 4).astype(ml_dtypes.float8_e4m3fn)
        kernel[1](ones, small, np.ones((32, 4), ml_dtypes.bfloat16), None, zero, out, ("bf16", "bf16"), True)
        assert (out == 16 * 2.5).all()


def test_unknown_format() -> None:
    a, c = np.zeros((4, 32), np.float32), np.zeros((4, 4), np.float32)
    with pytest.raises(AssertionFailed, match="formats are"):
        scaled_product[1](a, None, a.T.copy(), None, c, c.copy(), ("e3m2", "bf16"), True)
