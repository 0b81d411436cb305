"""Powers of integers whose base is a constant: squares of it wrap around while the text is made, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_kernel
from tests.backends_ascend.simulated import run
from tests.sim.device import needs_compiler

pytestmark = needs_compiler


@pto.jit
def powers(x, twos, threes):
    a = x[:]
    twos[:] = 2**a
    threes[:] = (-3) ** a


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16])
def test_powers_of_a_constant(dtype: Any) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    x = np.array([0, 1, 2, 5, 31, bits - 2, bits - 1, bits, bits + 6, -1, -2, 3], dtype)
    twos, threes = np.full_like(x, 7), np.full_like(x, 7)
    run(powers, (1,), lower_kernel, x=x, twos=twos, threes=threes)
    low = -(1 << (bits - 1))
    wrapped = [[(b ** max(int(n), 0) - low) % (1 << bits) + low if n >= 0 else 0 for n in x] for b in (2, -3)]
    np.testing.assert_array_equal(twos, np.array(wrapped[0], dtype))
    np.testing.assert_array_equal(threes, np.array(wrapped[1], dtype))


def test_powers_of_a_constant_in_fused_functions() -> None:
    a = np.arange(12)
    with pto.device("ascend-sim"):
        found = pto.fuse(lambda a: 2**a)(a)
    np.testing.assert_array_equal(found, 2**a)
