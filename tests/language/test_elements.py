"""Functions of single elements on tiles, clamping, prints and labels."""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from pypto.errors.frontend import UnknownSyntax
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from tests.frontend.evaluate import built
from tests.language.running import both, sample


@pto.jit
def piecewise(x, alpha):
    if x > 0:
        return x
    elif x < -1 and alpha > 0:
        y = x * 2
    else:
        y = alpha * (pto.exp(x) - 1) if x > -0.5 else 0.25
    return y


@pto.jit
def order(a, b):
    return (a, b) if a < b else (b, a)


@pto.jit
def crossed(a0, a1, b0, b1):
    return a0 + b1, a1 + b0


@pto.jit
def table(x, i, n):
    """The element at i, where there is one."""
    value = -1.0
    if i >= 0 and i < n:
        value = pto.load(x + i)
    return value


@pto.jit
def mapped(x, y, index, n, out):
    t, u = x[:, :], y[:, :]
    out[0, :, :] = pto.map_elementwise(piecewise, t, 0.5)
    a, b = pto.map_elementwise(order, t, u[0])
    out[1, :, :], out[2, :, :] = a, b
    out[3, :, :] = pto.map_elementwise(crossed, t, u, pack=2)
    out[4, :, :] = pto.map_elementwise(table, x, index[:, :], n)


def test_map_elementwise(level: str) -> None:
    x, y = sample(np.float32, (5, 18), 1) * 2, sample(np.float32, (5, 18), 2)
    index = np.random.default_rng(0).integers(-50, 150, x.shape).astype(np.int32)
    out = np.zeros((5, *x.shape), np.float32)
    curve, low, high, cross, looked = both(mapped, x, y, index, x.size, out, outputs=1, level=level)[0]
    shallow = np.where(x > -0.5, 0.5 * (np.exp(np.minimum(x, 0)) - 1), 0.25)
    np.testing.assert_allclose(curve, np.where(x > 0, x, np.where(x < -1, x * 2, shallow)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(low, np.minimum(x, y[0]))
    np.testing.assert_array_equal(high, np.maximum(x, y[0]))
    wanted = np.empty_like(x)
    wanted[:, ::2], wanted[:, 1::2] = x[:, ::2] + y[:, 1::2], x[:, 1::2] + y[:, ::2]
    np.testing.assert_array_equal(cross, wanted)
    inside = (index >= 0) & (index < x.size)
    np.testing.assert_array_equal(looked, np.where(inside, x.ravel()[np.where(inside, index, 0)], -1))


def test_effects_in_functions_of_elements_are_refused() -> None:
    def kernel(x):
        pto.map_elementwise(lambda v: pto.store(x, v), x[0:4])

    with pytest.raises(UnknownSyntax, match="`store` in a function of single elements"):
        built(kernel, x=np.zeros(4, np.float32))


@pto.jit
def limited(x, plain, strict):
    t = x[:]
    plain[:] = pto.clamp(t, -1.0, 2.0)
    strict[:] = t.clamp(-1.0, 2.0, propagate_nan=True)


def test_clamp(level: str) -> None:
    x = np.array([-3, -1, 0.5, 2, 7, np.nan, np.inf, -np.inf], np.float32)
    plain, strict = both(limited, x, np.zeros_like(x), np.zeros_like(x), outputs=2, level=level)
    np.testing.assert_array_equal(strict, np.clip(x, -1, 2))
    np.testing.assert_array_equal(plain, np.where(np.isnan(x), -1, np.clip(x, -1, 2)))


@pto.jit
def truths(x, y, both_true, some_true):
    both_true[:] = pto.logical_and(x[:], y[:])
    some_true[:] = x[:].logical_or(y[:])


def test_logic_of_numbers(level: str) -> None:
    x, y = np.array([0, 1, -2, 0], np.int32), np.array([0.0, np.nan, 0.0, 3.0], np.float32)
    a, b = both(truths, x, y, np.zeros(4, bool), np.zeros(4, bool), outputs=2, level=level)
    np.testing.assert_array_equal(a, np.logical_and(x, y))
    np.testing.assert_array_equal(b, np.logical_or(x, y))


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(x, n):
        pto.static_print("built", n, sep="/", end="!\n")
        pto.device_print("x =", x[:], n, hex=True)
        print("n", n)

    pto.interpret(pto.jit(kernel))[1](np.array([-1, 255], np.int16), 17)
    assert capsys.readouterr().out.splitlines() == [
        "built/i32!", "program (0, 0, 0): x = [0xffff 0xff] 0x11", "program (0, 0, 0): n 17",
    ]  # fmt: skip


def test_labels_are_seen_in_the_ir() -> None:
    def kernel(x, n):
        t = x[0:4]
        with pto.label("outer"):
            t = t + 1
            with pto.label("inner"), pto.label("most"):
                t = pto.sigmoid(t)
                if n > 100:
                    return
        x[0:4] = t

    x = np.zeros(4, np.float32)
    function = built(kernel, x=x, n=1).function
    labels = {op.name: op.loc.label for op in function.walk()}
    assert (labels["tile_load"], labels["sigmoid"], labels["gt"], labels["tile_store"]) == (
        "", "outer/inner/most", "outer/inner/most", "")  # fmt: skip
    text = print_function(function, locations=True)
    assert 'loc(label "outer" ' in text and print_function(parse_function(text), locations=True) == text
    pto.jit(kernel)[1](x, 1)
    np.testing.assert_allclose(x, 1 / (1 + np.exp(-1)), rtol=1e-6)
