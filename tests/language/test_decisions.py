"""The table of decided semantics, row by row: numbers. Each test is named after its row; more cases stand elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.engines import F32, I32, Engine, run


@pto.jit
def promoted(a, b, out):
    t = a[:] + b[:]
    pto.static_assert(t.dtype == out.dtype)
    out[:] = t


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [("int8", "int32", "int32"), ("uint8", "int8", "uint8"), ("int64", "float16", "float16"),
     ("uint32", "int32", "uint32"), ("float16", "bfloat16", "float16"), ("bfloat16", "float32", "float32"),
     ("int64", "float32", "float32")],
)  # fmt: skip
def test_promotion(on: Engine, a: str, b: str, result: str) -> None:
    """Kind, then width, then fp16 over bf16, then unsigned over signed."""
    x, y = np.array([1, 2, 3], getattr(pto, a).numpy), np.array([4, 5, 6], getattr(pto, b).numpy)
    assert run(on, promoted, x, y, dtype=getattr(pto, result).numpy).tolist() == [5, 7, 9]


@pto.jit
def weak(a, out):
    t = a[:] * 2 + 1
    pto.static_assert(t.dtype == a.dtype)
    out[:] = t


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "float64"])
def test_promotion_of_python_numbers(on: Engine, dtype: str) -> None:
    x = np.array([1, 2, 3], getattr(pto, dtype).numpy)
    assert run(on, weak, x, dtype=x.dtype).tolist() == [3, 5, 7]


@pto.jit
def divided(a, b, out):
    t = a[:] / b[:]
    pto.static_assert(t.dtype == pto.float32)
    out[:] = t


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "uint8"])
def test_division_gives_float32(on: Engine, dtype: str) -> None:
    """Of two 16-bit floats, and of two integers."""
    x, y = np.array([1, 7, 9], getattr(pto, dtype).numpy), np.array([3, 2, 4], getattr(pto, dtype).numpy)
    np.testing.assert_array_equal(run(on, divided, x, y), x.astype(F32) / y.astype(F32))


CONSTANTS = (-7 // 2, -7 % 2)


@pto.jit
def floor_division(a, b, quotient, rest):
    quotient[:], rest[:] = a[:] // b[:], a[:] % b[:]
    pto.static_assert(CONSTANTS == (-7 // 2, -7 % 2))


def test_floor_division_and_remainder(on: Engine) -> None:
    """Towards zero, with the sign of the dividend; Python's own rule between constants."""
    quotient, rest = np.zeros(4, I32), np.zeros(4, I32)
    on(floor_division)[1](np.array([-7, 7, -7, 7], I32), np.array([2, -2, -2, 2], I32), quotient, rest)
    assert (quotient.tolist(), rest.tolist()) == ([-3, -3, 3, 3], [-1, 1, -1, 1])


def test_mixed_signs_are_an_error(on: Engine) -> None:
    """In all three divisions, whichever operand is the unsigned one."""
    signed, unsigned = np.ones(4, I32), np.ones(4, np.uint32)
    for symbol, kernel, outputs in (("//", floor_division, 2), ("%", remainder, 1), ("/", divided, 1)):
        for operands in ((signed, unsigned), (unsigned, signed)):
            with pytest.raises(pto.errors.Diagnostic, match=f"Cannot use `{symbol}` with .* different signedness"):
                on(kernel)[1](*operands, *[np.ones(4, I32)] * outputs)


@pto.jit
def remainder(a, b, out):
    out[:] = a[:] % b[:]


def test_remainder_of_floats_is_fmod(on: Engine) -> None:
    x, y = np.array([-7.5, 7.5, 5.25, -1], F32), np.array([2, -2, 0.5, 3], F32)
    np.testing.assert_array_equal(run(on, remainder, x, y), np.fmod(x, y))


@pto.jit
def shifted(a, out):
    out[:] = a[:] >> 1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_shifts(on: Engine, dtype: Any) -> None:
    """Arithmetic for signed numbers, logical for unsigned ones."""
    x = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 5], dtype)
    np.testing.assert_array_equal(run(on, shifted, x, dtype=dtype), x >> 1)


@pto.jit
def shifted_by(a, b, out):
    out[:] = a[:] >> b[:]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("a", "b"), [("int", "uint"), ("uint", "int")])
def test_shifts_of_mixed_signedness(on: Engine, a: str, b: str, wide: bool) -> None:
    """The left operand's sign decides, though both are promoted to one type; an amount out of range shifts all out."""
    for bits in (8, 16, 32, 64):
        left, right = np.dtype(f"{a}{bits}"), np.dtype(f"{b}{min(64, bits * (1 + wide))}")
        x = np.array([np.iinfo(left).max, np.iinfo(left).min, 7, 0, 1] * 2, left)
        amounts = np.array([1] * 5 + [-1 if b == "int" else 200] * 5).astype(right)
        expected = np.where(np.arange(10) < 5, x >> 1, -(x < 0).astype(left))
        np.testing.assert_array_equal(run(on, shifted_by, x, amounts, dtype=left), expected)


@pto.jit
def squared(a, out):
    out[:] = a[:] * a[:]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64])
def test_integer_overflow_wraps(on: Engine, dtype: Any) -> None:
    x = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 3], dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(on, squared, x, dtype=dtype), x * x)


@pto.jit
def cast_to(a, out):
    out[:] = a[:].to(out.dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_casts_from_float_saturate(on: Engine, dtype: Any) -> None:
    info = np.iinfo(dtype)
    x = np.array([1e30, -1e30, np.nan, np.inf, -np.inf, 2.9, -0.5], F32)
    expected = [info.max, info.min, 0, info.max, info.min, 2, 0]
    assert run(on, cast_to, x, dtype=dtype).tolist() == expected


def test_casts_between_integers_wrap(on: Engine) -> None:
    assert run(on, cast_to, np.array([1000, -129], I32), dtype=np.int8).tolist() == [-24, 127]


def test_casts_of_floats_round_to_even(on: Engine) -> None:
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], F32)
    assert run(on, cast_to, x, dtype=pto.bfloat16.numpy).tolist() == [1, 1 + 2**-6, 1 + 2**-7]


@pto.jit
def extremes(a, b, most, least, places):
    x, y = a[:], b[:]
    most[:], least[:] = pto.maximum(x, y), pto.minimum(x, y)
    places[0], places[1] = pto.argmax(x, 0), pto.argmin(x, 0)


def test_extremes_ignore_nan(on: Engine) -> None:
    """Ties go to the lowest index."""
    x, y = np.array([np.nan, 3, 1, 3, 1], F32), np.array([2, np.nan, 1, 4, -1], F32)
    most, least, places = np.zeros(5, F32), np.zeros(5, F32), np.zeros(2, I32)
    on(extremes)[1](x, y, most, least, places)
    assert (most.tolist(), least.tolist(), places.tolist()) == ([2, 3, 1, 4, 1], [2, 3, 1, 3, -1], [1, 2])


@pto.jit
def summed(a, out):
    t = pto.sum(a[:])
    pto.static_assert(t.dtype == out.dtype)
    out[0] = t


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("int8", "int32"), ("int16", "int32"), ("uint8", "uint32"), ("int1", "int32"), ("float16", "float16"),
     ("bfloat16", "bfloat16"), ("int64", "int64")],
)  # fmt: skip
def test_sums_of_small_types(on: Engine, dtype: str, result: str) -> None:
    """In 32 bits; 16-bit floats add up in float32, so that small terms are not lost."""
    x = np.ones(4096 + 1, getattr(pto, dtype).numpy)
    found = run(on, summed, x, like=1, dtype=getattr(pto, result).numpy)
    assert found[0] == np.array(4097).astype(found.dtype)


@pto.jit
def product(a, b, out):
    t = pto.dot(a[:, :], b[:, :])
    pto.static_assert(t.dtype == out.dtype)
    out[:, :] = t


@pytest.mark.parametrize(("dtype", "result"), [("float64", "float64"), ("float32", "float32"), ("float16", "float32"),
                                               ("bfloat16", "float32"), ("int8", "int32")])  # fmt: skip
def test_accumulators_of_dot(on: Engine, dtype: str, result: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, s).astype(getattr(pto, dtype).numpy) for s in ((5, 300), (300, 7)))
    found = run(on, product, x, y, like=(5, 7), dtype=getattr(pto, result).numpy)
    np.testing.assert_array_equal(found.astype(int), x.astype(int) @ y.astype(int))


@pto.jit
def multiplied_and_added(a, b, c, out):
    out[:] = a[:] * b[:] + c[:]


@pto.jit(fast_math=True)
def contracted(a, b, c, out):
    out[:] = a[:] * b[:] + c[:]


def test_no_contraction(on: Engine) -> None:
    """A product is rounded before it is added, unless the kernel asks for fast mathematics."""
    rng = np.random.default_rng(1)
    x, y, z = rng.standard_normal((3, 1000), F32)
    np.testing.assert_array_equal(run(on, multiplied_and_added, x, y, z), x * y + z)
    assert np.abs(run(lambda k: k, contracted, x, y, z) - (x * y + z)).max() < 1e-6


@pto.jit
def narrowed(a, out):
    out[:] = pto.cast(a[:], out.dtype, fp_downcast_rounding="rtz")


def test_casts_towards_zero_on_request(on: Engine) -> None:
    x = np.array([1 + 2**-8 + 2**-9, -1 - 2**-8 - 2**-9, 3e38], F32)
    found = run(on, narrowed, x, dtype=pto.bfloat16.numpy).astype(F32)
    assert found[:2].tolist() == [1, -1] and found[2] <= x[2]


@pytest.mark.parametrize(("dtype", "values"), [("float8e5", [2, 57344, np.inf]), ("float8e4nv", [2, 448, np.nan])])
def test_casts_to_float8_follow_its_standard(on: Engine, dtype: str, values: list[float]) -> None:
    """Beyond the range, e5m2 goes to infinity; e4m3 has none and goes to NaN."""
    x = np.array([2.1, values[1], 1e6], F32)
    found = run(on, cast_to, x, dtype=getattr(pto, dtype).numpy).astype(F32)
    np.testing.assert_array_equal(found, np.array(values, F32))
