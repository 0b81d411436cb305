"""Casts to and from floats of 8 bits, other roundings, saturation and bits: exact, and alike on CPU and interpreter."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.errors.language import OpTypeError
from pypto.ir.types import DTYPES, FLOAT8, DType, bfloat16, float16, float32, float64, from_numpy
from pypto.ops.casts import convert
from tests.conformance.sources import define

Array = np.ndarray[Any, Any]
OTHERS = [*DTYPES, *FLOAT8]
FLOATS = [float16, bfloat16, float32, float64]
NARROW = [*FLOAT8, float16, bfloat16]
BLOCK = 1000


@pto.jit
def cast(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(y + i, pto.load(x + i, mask=i < n).to(y.dtype), mask=i < n)


@pto.jit
def cut(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    v = pto.load(x + i, mask=i < n)
    pto.store(y + i, v.to(y.dtype, fp_downcast_rounding="rtz"), mask=i < n)


@pto.jit
def saturate(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    v = pto.load(x + i, mask=i < n)
    pto.store(y + i, pto.cast(v, y.dtype, saturate=True), mask=i < n)


@pto.jit
def copy(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(y + i, pto.load(x + i, mask=i < n), mask=i < n)


@pto.jit
def through_b15(x, code, value, doubled, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    v = pto.load(x + i, mask=i < n).to(pto.float8e4b15)
    pto.store(code + i, v.to(pto.uint8, bitcast=True), mask=i < n)
    pto.store(value + i, v.to(pto.float32), mask=i < n)
    pto.store(doubled + i, v + pto.full((BLOCK,), 0.5, pto.float8e4b15), mask=i < n)


def run(kernel: Any, x: Array, dtype: DType) -> Array:
    y = np.zeros(len(x), dtype.numpy)
    kernel[-(-len(x) // BLOCK)](x, y, len(x), BLOCK)
    return y


def codes(dtype: DType) -> Array:
    """Every number of a float type of at most 16 bits."""
    return np.arange(2**dtype.bits, dtype=f"u{dtype.itemsize}").view(dtype.numpy)


def wide(a: Array) -> Array:
    with np.errstate(all="ignore"):
        return a.astype(np.float64) if a.dtype.kind not in "iub" else a


def assert_alike(a: Array, b: Array) -> None:
    """Bit by bit, but that a NaN is any NaN."""
    kind = f"u{a.dtype.itemsize}"
    nan = np.isnan(wide(a)) & np.isnan(wide(b)) if a.dtype.kind not in "iub" else False
    differ = (a.view(kind) != b.view(kind)) & ~np.asarray(nan)
    assert not differ.any(), (np.flatnonzero(differ)[:5], a[differ][:5], b[differ][:5])


def grid(dtype: DType) -> Array:
    """The finite magnitudes of a float type of at most 16 bits."""
    sizes = np.abs(wide(codes(dtype)))
    return np.unique(sizes[np.isfinite(sizes)])


def samples(source: DType, target: DType) -> Array:
    """Numbers of all sizes, and those halfway between two of the target and the least bit beside that."""
    rng, steps = np.random.default_rng(3), grid(target) if target.bits < 32 else np.array([1.0, 2.0])
    steps = steps[:: max(1, len(steps) // 2000)]
    half = ((steps[1:] + steps[:-1]) / 2).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = half.astype(source.numpy)
        beside = [np.nextafter(middle, source.numpy.type(end)) for end in (np.inf, 0.0)]
        sizes = np.exp2(rng.uniform(-30, 20, 3000)).astype(source.numpy)
        ends = np.array([0.0, np.inf, np.nan, 1e-40, 1e-320, 3e4, 7e4, 1e38, 1e300, steps[-1]]).astype(source.numpy)
        positive = np.concatenate([middle, *beside, sizes, ends])
        return np.concatenate([positive, -positive])


def nearest_codes(x: Array, dtype: DType) -> Array:
    """What casting must give, found by comparing with every number of the type; ties go to the even code."""
    numbers, size = grid(dtype), np.abs(wide(x))
    step = numbers[-1] - numbers[-2]
    numbers = np.append(numbers, numbers[-1] + step)  # where rounding goes out of range
    above = np.clip(np.searchsorted(numbers, size), 1, len(numbers) - 1)
    low, high = size - numbers[above - 1], numbers[above] - size
    code = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    code = np.where(size == 0, 0, code)
    infinite = {"f8e5m2": 0x7C, "f16": 0x7C00, "bf16": 0x7F80}.get(dtype.mnemonic)
    fnuz = dtype.mnemonic.endswith("fnuz")
    over = code >= len(numbers) - 1
    top = infinite if infinite is not None else 0x80 if fnuz else 0x7F
    sign = np.where(np.signbit(wide(x)) & ~(fnuz & ((code == 0) | over)), 1 << (dtype.bits - 1), 0)
    found = np.where(over, top, code) | sign
    return found.astype(f"u{dtype.itemsize}").view(dtype.numpy)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("target", OTHERS, ids=str)
@pytest.mark.parametrize("source", FLOAT8, ids=str)
def test_from_float8(source: DType, target: DType) -> None:
    """All 256 codes, on the CPU as in the interpreter."""
    found = run(cast, codes(source), target)
    assert_alike(found, run(pto.interpret(cast), codes(source), target))
    if target.is_float and target.bits > 8:
        np.testing.assert_array_equal(wide(found), wide(codes(source)))


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("target", FLOAT8, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_to_float8(source: DType, target: DType) -> None:
    if source.is_float:
        x = codes(source) if source.bits == 16 else samples(source, target)
    elif source.is_bool:
        x = np.array([False, True])
    else:
        low, high = source.integer_range
        x = np.array([*range(max(low, -70_000), min(high, 70_000)), low, high], source.numpy)
    found = run(cast, x, target)
    with np.errstate(all="ignore"):
        assert_alike(found, convert(x, target))
    if source.is_float:
        finite = ~np.isnan(wide(x))
        assert_alike(found[finite], nearest_codes(x[finite], target))


def test_rounding_is_done_once() -> None:
    """Beside the middle of two numbers by less than float32 can tell."""
    middle = 1.0 + 2.0**-4
    x = np.array([middle + 2.0**-40, middle - 2.0**-40, middle])
    for kernel in (cast, pto.interpret(cast)):
        assert wide(run(kernel, x, pto.float8e4nv)).tolist() == [1.125, 1.0, 1.0]
        y = 1.0 + 2.0**-8 + np.array([2.0**-40, -(2.0**-40), 0.0])
        assert wide(run(kernel, y, pto.bfloat16)).tolist() == [1.0 + 2.0**-7, 1.0, 1.0]


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_copies_keep_every_bit(dtype: DType) -> None:
    for kernel in (copy, pto.interpret(copy)):
        assert run(kernel, codes(dtype), dtype).tobytes() == codes(dtype).tobytes()


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("target", [*NARROW, float32], ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_rounding_towards_zero(source: DType, target: DType) -> None:
    if target.bits >= source.bits:
        pytest.skip("no narrower type")
    x = samples(source, target)
    found = run(cut, x, target)
    assert_alike(found, run(pto.interpret(cut), x, target))
    if target.bits == 32:
        assert np.all(np.abs(wide(found)) <= np.abs(wide(x)) + 0.0, where=~np.isnan(wide(x)))
        return
    finite = np.isfinite(wide(x))
    numbers = grid(target)
    wanted = numbers[np.searchsorted(numbers, np.abs(wide(x[finite])), side="right") - 1]
    np.testing.assert_array_equal(wide(found[finite]), np.copysign(wanted, wide(x[finite])))


@pytest.mark.parametrize("target", NARROW, ids=str)
@pytest.mark.parametrize("source", [float32, float64], ids=str)
def test_saturation(source: DType, target: DType) -> None:
    x = samples(source, target)
    found = run(saturate, x, target)
    assert_alike(found, run(pto.interpret(saturate), x, target))
    assert np.array_equal(np.isnan(wide(found)), np.isnan(wide(x)))
    assert np.nanmax(np.abs(wide(found))) == grid(target)[-1]
    inside = np.abs(wide(x)) <= grid(target)[-1]
    assert_alike(found[inside], run(cast, x[inside], target))


def test_what_is_too_large() -> None:
    """Infinite where the type has infinities, else NaN."""
    x = np.array([464.0, 465.0, 1e5, -1e5, np.inf], np.float32)
    wanted = {"f8e4m3fn": [448, np.nan, np.nan, np.nan, np.nan], "f8e5m2": [448, 448, np.inf, -np.inf, np.inf],
              "f8e4m3fnuz": [np.nan] * 5, "f8e5m2fnuz": [448, 448, np.nan, np.nan, np.nan]}  # fmt: skip
    for dtype in FLOAT8:
        np.testing.assert_array_equal(wide(run(cast, x, dtype)), wanted[dtype.mnemonic])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_float8e4b15(dtype: Any) -> None:
    """A storage type that numpy has not got: float16 without its first exponent bit and its last digits."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-2, 2, 900), np.exp2(rng.uniform(-25, 3, 900)), [0.0, -0.0, 1.75, 1.8, 2.0]])
    x = x.astype(dtype)
    half = (np.arange(256) & 0x80) << 8 | (np.arange(256) & 0x7F) << 7
    numbers = half.astype(np.uint16).view(np.float16).astype(np.float32)
    for kernel in (through_b15, pto.interpret(through_b15)):
        code, value, doubled = np.zeros(len(x), np.uint8), np.zeros(len(x), np.float32), np.zeros(len(x), np.float16)
        kernel[-(-len(x) // BLOCK)](x, code, value, doubled, len(x), BLOCK)
        np.testing.assert_array_equal(value, numbers[code])
        np.testing.assert_array_equal(doubled, (numbers[code] + np.float32(0.5)).astype(np.float16))
        limited = np.clip(x.astype(np.float64), -1.75, 1.75)
        gaps = np.abs(limited[:, None] - numbers[None, :].astype(np.float64))
        assert np.array_equal(np.abs(limited - value), gaps[:, [*range(127), *range(128, 255)]].min(axis=1))


ARITHMETIC = """
def kernel(x, y, out, less, total):
    a, b = x[:], y[:]
    assert (a + b).dtype == {added} and (a / b).dtype == pto.float32 and (a * 2).dtype == a.dtype
    out[:] = a + b
    less[:] = a < b
    total[0] = pto.sum(a)
"""


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("other", FLOAT8, ids=str)
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_arithmetic(dtype: DType, other: DType) -> None:
    """In float32, rounded to the type after each op; of two such types in float16. Sums are float32."""
    rng, added = np.random.default_rng(1), dtype if dtype == other else float16
    x, y = rng.uniform(-9, 9, 67).astype(dtype.numpy), rng.uniform(-9, 9, 67).astype(other.numpy)
    kernel = define(ARITHMETIC.format(added=repr(added)))
    for how in (kernel, pto.interpret(kernel)):
        out, less, total = np.zeros(67, added.numpy), np.zeros(67, bool), np.zeros(1, np.float32)
        how[1](x, y, out, less, total)
        assert_alike(out, (wide(x) + wide(y)).astype(np.float32).astype(added.numpy))
        np.testing.assert_array_equal(less, wide(x) < wide(y))
        np.testing.assert_allclose(total, wide(x).sum(), rtol=1e-6, atol=1e-6)


def test_with_other_types() -> None:
    kernel = define("""
def kernel(x):
    a, i = x[:], pto.arange(0, 4)
    assert (a + i).dtype == pto.float32 and (a + (i < 2)).dtype == a.dtype
    assert (a + a.to(pto.bfloat16)).dtype == pto.bfloat16 and (a + a.to(pto.float16)).dtype == pto.float16
    b = a.to(pto.float8e4b15)
    assert (b + b).dtype == pto.float16 and pto.where(i < 2, b, b).dtype == pto.float16
""")
    kernel[1](np.zeros(4, ml_dtypes.float8_e5m2))
    assert from_numpy(ml_dtypes.float8_e5m2) is pto.float8e5


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("x.to(pto.float16, fp_downcast_rounding='up')", "fp_downcast_rounding is 'rtne'"),
        ("x.to(pto.float64, fp_downcast_rounding='rtz')", "is for casts to a narrower float"),
        ("x.to(pto.int16, bitcast=True)", "their sizes differ"),
        ("x.to(pto.void)", "cannot cast"),
        ("x.to(pto.pointer_type(pto.int8))", "pointers are cast to pointers and 64-bit integers"),
    ],
)
def test_refused(expression: str, message: str) -> None:
    kernel = define(f"\ndef kernel(p):\n    x = p[:]\n    y = {expression}\n")
    with pytest.raises(OpTypeError, match=message):
        kernel[1](np.zeros(4, np.float32))


def test_bits() -> None:
    kernel = define("\ndef kernel(x, y):\n    y[:] = x[:].to(pto.int32, bitcast=True)\n")
    x = np.array([1.0, -0.0, np.inf, 1e-40], np.float32)
    for how in (kernel, pto.interpret(kernel)):
        y = np.zeros(4, np.int32)
        how[1](x, y)
        np.testing.assert_array_equal(y, x.view(np.int32))


def test_bfloat16_of_all_exponents(level: str) -> None:
    """Subnormal numbers beside others, in registers whose other numbers are normal, infinite, or none."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 40_000, np.uint64).astype(np.uint32)
    bits[::7] &= np.uint32(0x807FFFFF)  # subnormal
    bits[1000:9000] = np.where(bits[1000:9000] & 0x7F800000, bits[1000:9000], 0x3F800000)  # stretches without any
    x = bits.view(np.float32)
    y = np.zeros(len(x), ml_dtypes.bfloat16)
    pto.jit(level=level)(cast.function)[-(-len(x) // 4096),](x, y, len(x), 4096)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    same = y.view(np.uint16) == expected.view(np.uint16)
    assert (same | (np.isnan(x) & np.isnan(y.astype(np.float32)))).all()
