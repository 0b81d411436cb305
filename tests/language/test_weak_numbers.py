"""Python floats as arguments are weak, as literals are: they take the type of what they meet, and keep their digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compat.triton.kernels import jit as triton_jit
from tests.language.engines import F32, Engine

F64 = np.float64


@pto.jit
def moments(x, out, beta, scale):
    """What an optimiser does: numbers that are made of numbers."""
    out[:] = x[:] * (1 - beta) + scale / 3 * -beta


@pto.jit
def product(x, out, by):
    t = x[:] * by
    pto.static_assert(t.dtype == out.dtype)
    out[:] = t


@pto.jit
def stored(out, value):
    out[:] = value


@pto.jit
def converted(out, value):
    out[:] = value.to(pto.float64) + pto.full((2,), value, pto.float64) + helper(value, 0.0)


def helper(a, b):
    return pto.zeros((2,), pto.float64) + a + b


@pto.jit
def stated(x, out, by: pto.float32):
    out[:] = x[:] * by


@pto.jit
def in_a_tuple(x, out, pair):
    out[:] = x[:] * pair[0] + pair[1]


def test_beside_float64_a_number_keeps_its_digits(on: Engine) -> None:
    x, out = np.array([1.0, 3.0]), np.zeros(2)
    for beta in (0.1, 0.3):
        on(moments)[1](x, out, beta, 0.7)
        np.testing.assert_array_equal(out, x * (1 - beta) + 0.7 / 3 * -beta)
    on(converted)[1](out, 0.1)
    np.testing.assert_array_equal(out, 0.1 + 0.1 + 0.1)
    on(stored)[1](out, 0.1)
    assert out.tolist() == [0.1, 0.1]
    on(in_a_tuple)[1](x, out, (0.1, 0.2))
    np.testing.assert_array_equal(out, x * 0.1 + 0.2)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"),
     ("int8", "float32"), ("int64", "float32")],
)  # fmt: skip
def test_a_number_takes_the_type_of_what_it_meets(on: Engine, dtype: str, result: str) -> None:
    x, out = np.array([3, 5], getattr(pto, dtype).numpy), np.zeros(2, getattr(pto, result).numpy)
    on(product)[1](x, out, 0.1)
    np.testing.assert_array_equal(out, x.astype(out.dtype) * np.array(0.1, out.dtype))


def test_numbers_of_numpy_and_stated_types_are_none_of_these(on: Engine) -> None:
    x, out, narrow = np.array([3.0, 5.0]), np.zeros(2), F64(F32(0.1))
    on(product)[1](x, out, F32(0.1))
    np.testing.assert_array_equal(out, x * narrow)
    on(stated)[1](x, out, 0.1)
    np.testing.assert_array_equal(out, x * narrow)
    half = np.zeros(2, F32)
    on(product)[1](x.astype(np.float16), half, F32(0.1))
    np.testing.assert_array_equal(half, x.astype(F32) * F32(0.1))


def test_one_version_for_all_numbers_where_their_kind_does_not_matter() -> None:
    kernel = pto.jit(stored.function)
    for value in (0.1, 0.2, F32(0.1)):
        kernel[1](np.zeros(4, F32), value)
    assert len(kernel.specializations) == 1 and "Python" not in str(kernel.specializations[0])
    for value, versions in ((0.1, 2), (0.5, 2), (F32(0.1), 3), (0.2, 3)):
        out = np.zeros(4)
        kernel[1](out, value)
        assert out.tolist() == [F64(value)] * 4 and len(kernel.specializations) == versions


def test_triton_kernels_take_numbers_as_float32() -> None:
    kernel: Any = triton_jit(stores_like_triton)
    x, out = np.ones(4), np.zeros(4)
    kernel[(1,)](x, out, 0.1)
    assert out.tolist() == [F64(F32(0.1))] * 4


def stores_like_triton(x, out, by):
    offsets = pto.arange(0, 4)
    pto.store(out + offsets, pto.load(x + offsets) * by)


def test_the_same_on_warm_launches(on: Engine) -> None:
    kernel, x, out = on(product), np.array([3.0, 5.0]), np.zeros(2)
    for by in (0.1, 0.2, 0.30000000000000004, 1e300, 5e-324):
        kernel[1](x, out, by)
        np.testing.assert_array_equal(out, x * by)
