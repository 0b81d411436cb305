"""Small powers are products and roots: as exact as a power need be, and numpy's where numbers are special."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.graph import trace


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("power", [-2, -1.5, -1, -0.5, 0.5, 1.5, 3, 4])
def test_small_powers(power: float, dtype: Any) -> None:
    numbers = np.finfo(dtype)
    rng = np.random.default_rng(0)
    exponents = rng.uniform(np.log2(float(numbers.tiny)), np.log2(float(numbers.max)), 20_000)
    special = [0, -0.0, np.inf, np.nan, 1, -1, -3, numbers.tiny, numbers.max, numbers.smallest_subnormal]
    special += [] if power == 0.5 else [-np.inf]  # numpy takes the root of it
    x = np.concatenate([2.0**exponents, np.array(special, np.float64)]).astype(dtype)
    found = pto.fuse(lambda x: x**power)(x)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), np.longdouble(power))
        wanted = exact.astype(dtype)
        finite = np.isfinite(wanted)
        ulps = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(wanted[finite]))
    assert ulps.max() < 2.5
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    assert "pow" not in [node.op for node in trace(lambda x: x**power, x).graph.live()]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("base", [-1, -2, -3])
def test_powers_of_negative_numbers(base: int, dtype: Any) -> None:
    """A number below zero is the whole base: `-2 ** x` would be that of 2 with a minus before it."""
    x = np.arange(6).astype(dtype)
    for function in (lambda x: base**x, lambda x: np.power(base, x), lambda x: -(base**x) - base, lambda x: (-x) ** 2):
        np.testing.assert_array_equal(pto.fuse(function)(x), function(x))


NEGATIVES = {
    "a number first": lambda x: (-7 // x, -7 % x, -7 - x, -7 * x, -7 + -x, -7 / x, -x > -7),
    "a number last": lambda x: (x // -7, x % -7, x - -7, x * -7, -x + -7, x / -7, -x < -7),
    "bits": lambda x: (-7 << x, -7 >> x, -7 & x, -7 | -x, -7 ^ ~x, ~x >> 1, ~(-x) & -7),
    "minus of minus": lambda x: (-np.negative(-x), -(x // -3), (-x) // 3, -(x**2), (-x) ** 3, -abs(-x), ~-x, -~x),
}


@pytest.mark.parametrize("name", NEGATIVES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64])
def test_operators_of_negative_numbers(name: str, dtype: Any) -> None:
    x = np.arange(1, 6).astype(dtype)
    for found, wanted in zip(pto.fuse(NEGATIVES[name])(x), NEGATIVES[name](x), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
