"""Numbers of the scalar unit are what their types say: they wrap, and floats of 8 bits are no bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from tests.sim.device import needs_compiler

pytestmark = needs_compiler


@pto.jit
def mixed(words, out):
    a, b = pto.load(words), pto.load(words + 1)
    for _ in pto.static_range(5):
        a, b = pto.umulhi(a, 0xD2511F53) ^ b, (a ^ b * 0xCD9E8D57) * 0xD2511F53
    pto.store(out, a)
    pto.store(out + 1, b)
    pto.store(out + 2, (a * 0xFFFFFFFF).to(pto.uint64) + b)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_products_with_large_constants_wrap(dtype: Any) -> None:
    words = np.array([0x243F6A88, 0x85A308D3], np.uint32).astype(dtype)
    expected, found = np.zeros((2, 3), np.uint64)
    mixed[1](words, expected)
    with pto.device("ascend-sim"):
        mixed[1](words, found)
    np.testing.assert_array_equal(found, expected)


@pto.jit
def cast_to(x, out):
    out[:] = pto.cast(x[:], out.dtype)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("size", [1, 3, 5, 8, 64])
@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn"])
def test_floats_of_8_bits_are_never_taken_for_bytes(size: int, name: str) -> None:
    """Also where a tile becomes single numbers, which the scalar unit holds."""
    x = np.linspace(-7, 7, size).astype(np.float32)
    small, back = np.zeros(size, getattr(ml_dtypes, name)), np.zeros_like(x)
    with pto.device("ascend-sim"):
        cast_to[1](x, small)
        cast_to[1](small, back)
    np.testing.assert_array_equal(small.view(np.uint8), x.astype(small.dtype).view(np.uint8))
    np.testing.assert_array_equal(back, small.astype(np.float32))
