"""Kernels with products that read what they have written: cores have no order between them, so one kind does all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")


@pto.jit
def read_by_both(a, b, y, z):
    """No rows that two vector cores could share."""
    largest = pto.max(pto.dot(a[:, :], b[:, :]), axis=1)
    y[:] = largest
    z[:] = y[:] + 1.0


@pto.jit
def read_by_the_cube(a, b, y, z):
    y[:, :] = (pto.dot(a[:, :], b[:, :]) + 1.0).to(pto.float16)
    z[:, :] = pto.dot(y[:, :], b[:, :]) + 1.0


@pto.jit
def read_elsewhere(a, b, y, z):
    t = pto.dot(a[:, :], b[:, :]) + 1.0
    y[:, :] = t
    z[0:16, :] = y[1:17, :] + t[0:16, :]


@pto.jit
def added_to(a, b, y, z):
    """Every row is read by the core that writes it."""
    z[:, :] = z[:, :] + pto.dot(a[:, :], b[:, :]) * 2.0


CASES: dict[Any, tuple[tuple[int, ...], Any, str]] = {
    read_by_both: ((32,), np.float32, "vector"), read_by_the_cube: ((32, 32), np.float16, "mix"),
    read_elsewhere: ((32, 32), np.float32, "vector"), added_to: ((32, 32), np.float32, "mix"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("kernel", CASES, ids=lambda kernel: kernel.__name__)
def test_what_is_read_again(kernel: Any) -> None:
    shape, dtype, kind = CASES[kernel]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (32, 32)).astype(np.float16) for _ in range(2))
    given = [a, b, np.zeros(shape, dtype), np.ones(shape if shape == (32,) else (32, 32), np.float32)]
    wanted = [x.copy() for x in given]
    assert lower_kernel(function_of(kernel, kernel.signature.bind(tuple(given), {})), B2).kind == kind
    pto.interpret(kernel)[1](*wanted)
    with pto.device("ascend-sim"):
        kernel[1](*given)
    for x, y in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
