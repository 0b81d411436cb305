"""Small powers are products and roots: as exact as a power need be, and numpy's where numbers are special."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NegativePower
from pypto.graph import trace


@pytest.mark.covering(quick=1, slow=2)
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


@pytest.mark.covering(quick=1, slow=2)
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


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("name", NEGATIVES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64])
def test_operators_of_negative_numbers(name: str, dtype: Any) -> None:
    x = np.arange(1, 6).astype(dtype)
    for found, wanted in zip(pto.fuse(NEGATIVES[name])(x), NEGATIVES[name](x), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_negative_exponents_of_integers(dtype: Any) -> None:
    """They are refused where numpy refuses them: a number while a function is traced, an array when its plan runs."""
    x = np.arange(1, 7).astype(dtype).reshape(2, 3)
    with pytest.raises(NegativePower, match=r"the exponent is -1"):
        pto.fuse(lambda x: x**-1)(x)
    for function in (lambda x, k: x**k, lambda x, k: 2 ** (k[0] * 1), lambda x, k: np.power(x, k - 2) + x):
        fused = pto.fuse(function)
        for k in (x, x - 2, x):
            try:
                wanted = function(x, k)
            except ValueError:
                with pytest.raises(NegativePower, match="an exponent in an array is below 0") as caught:
                    fused(x, k)
                assert "test_powers.py" in str(caught.value)
                continue
            np.testing.assert_array_equal(fused(x, k), wanted)


def test_exponents_that_cannot_be_negative_are_not_checked() -> None:
    x, k = np.arange(5), np.arange(5, dtype=np.uint8)
    for function in (lambda x, k: x ** np.maximum(x, 0), lambda x, k: k**k, lambda x, k: x**3 + x ** (x > 2)):
        assert not any(node.op == "call" for node in trace(function, x, k).graph.live())
        np.testing.assert_array_equal(pto.fuse(function)(x, k), function(x, k))


def test_an_exponent_that_is_one_number_may_be_an_array() -> None:
    """Its shape takes part in the result, whether the number is given or follows from types."""
    a = np.arange(6, dtype=np.uint16).reshape(2, 3)
    functions: list[Any] = [
        lambda a: (-1) ** ((a >= -2) % 4),
        lambda a: a[0, 1] ** np.full_like(a, 3),
        lambda a: a[:1] ** np.full_like(a, 2),
    ]
    for function in functions:
        found, wanted = pto.fuse(function)(a), function(a)
        assert (type(found), found.dtype) == (type(wanted), wanted.dtype)
        np.testing.assert_array_equal(found, wanted)
