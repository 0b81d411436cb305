"""Products of products: the result of one is an operand of another, on the cube core of both chips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import AscendTarget, ascend_target
from tests.backends_ascend.simulated import run
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(28)
CHIPS = [ascend_target("ascend910b2"), ascend_target("ascend950")]


@pto.jit
def three_products(x, y, z, w, out):
    out[:, :] = pto.dot(pto.dot(pto.dot(x[:, :], y[:, :]), z[:, :]), w[:, :])


@pto.jit
def squared_product(x, y, z, w, out):
    p = pto.dot(x[:, :], y[:, :])
    out[:, :] = pto.dot(p, p)


@pto.jit
def low_rank_update(x, y, z, w, out):
    out[:, :] = pto.dot(x[:, :], y[:, :]) + pto.dot(pto.dot(x[:, :], z[:, :]), w[:, :])


@pto.jit
def gram_of_product(x, y, z, w, out):
    s = pto.dot(x[:, :], y[:, :])
    out[:, :] = pto.dot(s, pto.trans(s))


@pto.jit
def product_of_sum(x, y, z, w, out):
    acc = pto.zeros((32, 32), pto.float32)
    for k in range(0, x.shape[1], 16):
        acc = pto.dot(x[:, k : k + 16], y[k : k + 16, :], acc)
    out[:, :] = pto.dot(acc, z[:, :])


@pto.jit
def powers(x, y, z, w, out):
    s = pto.dot(x[:, :], y[:, :])
    for _ in range(3):
        s = pto.dot(s, w[:, :])
    out[:, :] = s


@pto.jit
def product_of_results(x, y, z, w, out):
    """Both operands are on their way to the cube core at once, under one name."""
    out[:, :] = pto.dot(pto.exp(x[:, :]), pto.exp(y[:, :]))


@pto.jit
def sum_of_turned_products(x, y, z, w, out):
    """What is added lies another way round in memory, and does not fit the buffers of the first product."""
    out[:, :] = pto.dot(x[:, :], y[:, :]) + pto.dot(pto.trans(z[:, :]), pto.trans(w[:, :]))


@pto.jit
def sums_of_turned_products_in_a_loop(x, y, z, w, out):
    acc = pto.zeros((32, 32), pto.float32)
    for k in range(0, x.shape[1], 16):
        acc = pto.dot(x[:, k : k + 16], y[k : k + 16, :], acc)
        acc = pto.dot(pto.trans(z[k : k + 16, :]), w[k : k + 16, :], acc)
    out[:, :] = acc


@pto.jit
def sum_that_is_used_twice(x, y, z, w, out):
    p = pto.dot(x[:, :], y[:, :])
    out[:, :] = pto.dot(p, pto.dot(z[:, :], w[:, :], p))


CHAINS: dict[Any, Callable[[Array, Array, Array, Array], Array]] = {
    three_products: lambda x, y, z, w: x @ y @ z @ w,
    squared_product: lambda x, y, z, w: x @ y @ x @ y,
    low_rank_update: lambda x, y, z, w: x @ y + x @ z @ w,
    gram_of_product: lambda x, y, z, w: (x @ y) @ (x @ y).T,
    product_of_sum: lambda x, y, z, w: x @ y @ z,
    powers: lambda x, y, z, w: x @ y @ w @ w @ w,
    sum_of_turned_products: lambda x, y, z, w: x @ y + z.T @ w.T,
    sums_of_turned_products_in_a_loop: lambda x, y, z, w: x @ y + z.T @ w,
    sum_that_is_used_twice: lambda x, y, z, w: x @ y @ (z @ w + x @ y),
    product_of_results: lambda x, y, z, w: np.exp(x) @ np.exp(y),
}


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("kernel", CHAINS, ids=lambda kernel: kernel.__name__)
def test_products_of_products(kernel: Any, chip: AscendTarget) -> None:
    inputs = {name: RNG.standard_normal((32, 32)).astype(np.float32) for name in "xyzw"}
    out = np.full((32, 32), 7, np.float32)
    run(kernel, (1,), lower_kernel, kind="mix", chip=chip, **inputs, out=out)
    wanted = CHAINS[kernel](*(x.astype(np.float64) for x in inputs.values()))
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_sums_of_products_of_two_dtypes(chip: AscendTarget) -> None:
    inputs = {name: RNG.standard_normal((32, 32)).astype(np.float16 if name in "xy" else np.float32) for name in "xyzw"}
    out = np.full((32, 32), 7, np.float32)
    run(sum_of_turned_products, (1,), lower_kernel, kind="mix", chip=chip, **inputs, out=out)
    x, y, z, w = (a.astype(np.float64) for a in inputs.values())
    np.testing.assert_allclose(out, x @ y + z.T @ w.T, rtol=1e-4, atol=1e-3)


def test_products_of_products_backwards() -> None:
    inputs = [RNG.standard_normal((32, 32)).astype(np.float32) for _ in range(4)]
    out, d_x, d_z = (np.zeros((32, 32), np.float32) for _ in range(3))
    d_out = RNG.standard_normal((32, 32)).astype(np.float32)
    backward = pto.adjoint(three_products, ("x", "z"))
    with pto.device("ascend-sim"):
        backward[1](*inputs, out, d_out=d_out, d_x=d_x, d_z=d_z)
    x, y, z, w = (a.astype(np.float64) for a in inputs)
    for found, wanted in ((d_x, d_out @ w.T @ z.T @ y.T), (d_z, (x @ y).T @ d_out @ w.T)):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
