"""Forms of Tile IR that the CPU backend makes for itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.pipeline import legalize
from tests.backends_cpu.lowering import fixed_target, optimized
from tests.conformance.cases import Launch


@pto.jit
def summed(a, b, out, n):
    acc = pto.zeros((8, 8), pto.float32)
    for _ in range(n):
        acc += pto.dot(a[:, :], b[:, :])
    out[:, :] = acc


@pto.jit
def summed_outside(a, b, out, n):
    """The dot is computed once, the sum many times."""
    acc, product = pto.zeros((8, 8), pto.float32), pto.dot(a[:, :], b[:, :])
    for _ in range(n):
        acc += product
    out[:, :] = acc


@pto.jit
def read_twice(a, b, out, n):
    product = pto.dot(a[:, :], b[:, :])
    out[:, :] = (product + n) * product


@pytest.mark.parametrize(("kernel", "operands"), [(summed, 3), (summed_outside, 2), (read_twice, 2)])
def test_a_sum_with_a_product_accumulates(kernel: Any, operands: int) -> None:
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 8, 8)).astype(np.float32)
    out = np.zeros((8, 8), np.float32)
    arguments = {"a": a, "b": b, "out": out, "n": 3}
    function = legalize(optimized(Launch(kernel, 1, arguments, {})), fixed_target())
    (dot,) = [op for op in function.walk() if op.name == "dot"]
    assert len(dot.operands) == operands
    kernel[1](**arguments)
    np.testing.assert_array_equal(out, (a @ b + 3) * (a @ b) if kernel is read_twice else 3 * (a @ b))
