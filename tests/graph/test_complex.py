"""Complex arrays in fused functions: pairs of floats in kernels, steps of numpy, and `np.fft`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.graph.plan.plan_text import parse_plan, plan_text
from tests.graph.complex_functions import BY_NUMPY, IN_KERNELS

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((6, 8)) + 1j * RNG.standard_normal((6, 8))
Y = RNG.standard_normal((6, 8))
LINE = RNG.random(64).astype(np.float32)
C64 = Z.astype(np.complex64)


def stored(y: Any) -> Any:
    w = np.zeros((6, 8), complex)
    w[1:] = y[1:]
    w[0] = 1j
    w[2, 3] += 2 - 1j
    return w


def argument_in_place(z: Any) -> Any:
    z[1] *= 2
    z[:, 0] = 0
    return z.copy()


def picked_in_place(z: Any) -> Any:
    w = z.copy()
    w += 1
    w[w.real > 0] = 0
    w[np.array([0, 1])] *= 1j
    return w


def iterated(x: Any) -> Any:
    c = x[:, None] * 1j + x[None, :]
    z, count = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(5):
        z = z * z + c
        count += np.abs(z) < 2
    return count


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "a number": (lambda z: z + 1, Z),
    "a complex number": (lambda y: y * 1j, Y),
    "with real arrays": (lambda z, y: (np.abs(z) * y).sum(), Z, Y),
    "fft": (np.fft.fft, Y),
    "rfft and back": (lambda x: np.fft.irfft(np.fft.rfft(x) * 2), LINE),
    "fft of two axes": (lambda y: np.abs(np.fft.fftshift(np.fft.fft2(y))), Y),
    "parts": (lambda z: (z.real**2 + z.imag, (z * z.conj()).real, np.angle(z), np.real(z)), Z),
    "reductions": (lambda z: (z.sum(), z.mean(axis=0), z.prod(axis=1), np.add.reduce(z, axis=1)), Z),
    "spread": (lambda z: (z - z.mean()).std(), Z),
    "running sums": (lambda z: np.cumsum(z, axis=0), Z),
    "products": (lambda z: (z @ z.T, np.einsum("ij,kj->ik", z, z.conj()), np.outer(z[0], z[1])), Z),
    "functions": (lambda y: np.exp(1j * y), Y),
    "powers": (lambda z: z**2 + z**0.5 - z / 3, Z),
    "views": (lambda z: (z.T, z[1:3], z[::2, ::-1] + 1, z.reshape(-1)[3:5] * 2), Z),
    "stored": (stored, Y),
    "an argument in place": (argument_in_place, Z),
    "elements in place": (picked_in_place, Z),
    "choices": (lambda z, y: np.where(y > 0, z, 0), Z, Y),
    "joined": (lambda z, y: (np.concatenate([z, y]), np.stack([z, z * 2]).sum(0)), Z, Y),
    "narrow": (lambda c: (np.abs(c * 2 + 1), c.sum()), C64),
    "casts": (lambda y, z: (y.astype(complex), z.astype(np.complex64)), Y, Z),
    "linear algebra": (lambda z: (np.linalg.inv(z[:6, :6]), np.linalg.norm(z)), Z),
    "itself": (lambda z: z, Z),
    "an element": (lambda z: z[0, 0], Z),
    "comparisons": (lambda z: (z == z[0]).all() | ~np.isfinite(z).all(), Z),
    "a question": (lambda z: z * 2 if np.iscomplexobj(z) else z * 0, Z),
    "rolled": (lambda z: np.roll(z, 1, axis=1) + z, Z),
    "made": (lambda y: np.array([1j, y[0, 0]]) + np.full(2, 1 + 2j), Y),
    "constants": (lambda y: np.exp(2j * np.pi * np.arange(8) / 8) * y, Y),
    "an argument": (lambda z, k: z * k, Z, 2 - 1j),
    "out": (lambda z: np.multiply(z, 2, out=np.empty((6, 8), complex)), Z),
    "iterated": (iterated, LINE[:7]),
    "copies of views": (lambda z: ((z + 1).T.reshape(-1), (z + 1).T.flatten(), np.tile(z, (2, 1)), z.T.ravel() * 2), Z),
    "results that are views": (lambda z: ((z + 1).T, (z + 1)[::2], np.flip(z + 1, 0), np.diagonal(z + 1)), Z),
    "repeated": (lambda z: (np.repeat(z, 2, axis=1), np.append(z, z), np.pad(z, 1), np.tril(z[:6, :6])), Z),
}


def fresh(args: tuple[Any, ...]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
        return
    assert type(got) is type(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_arrays_are_as_in_numpy(name: str) -> None:
    function, *args = FUNCTIONS[name]
    fused = pto.fuse(function)
    for _ in range(2):
        mine, numpys = fresh(tuple(args)), fresh(tuple(args))
        same(fused(*mine), function(*numpys))
        same(tuple(mine), tuple(numpys))


def arguments(dtype: Any) -> list[Any]:
    """Return a complex array, a real one of its shape, and a complex matrix."""
    rng = np.random.default_rng(1)
    real = np.zeros(0, dtype).real.dtype
    z, w = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for shape in ((6, 8), (8, 8)))
    return [z.astype(dtype), rng.standard_normal((6, 8)).astype(real), w.astype(dtype)]


def equal(got: Any, expected: Any, rtol: float) -> None:
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            equal(a, b, rtol)
        return
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)


BOTH = ("divide", "matmul", "sum", "where", "assigned parts", "casts", "counted", "slices", "with integers")


@pytest.mark.parametrize(("name", "dtype"), [(x, complex) for x in IN_KERNELS] + [(x, np.complex64) for x in BOTH])
def test_these_functions_run_in_kernels(name: str, dtype: Any) -> None:
    function, given = IN_KERNELS[name], arguments(dtype)
    fused = pto.fuse(function)
    expected = function(*fresh(tuple(given)))
    equal(fused(*fresh(tuple(given))), expected, 3e-5 if dtype == np.complex64 else 1e-13)
    assert "run by numpy" not in pt.explain(fused, *given)


@pytest.mark.parametrize("name", BY_NUMPY)
def test_these_functions_are_steps_of_numpy(name: str) -> None:
    function, given = BY_NUMPY[name], arguments(np.complex128)
    fused = pto.fuse(function)
    expected = function(*fresh(tuple(given)))
    equal(fused(*fresh(tuple(given))), expected, 1e-13)
    assert "run by numpy" in pt.explain(fused, *given)


ENDS = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)
SPECIAL: dict[str, Any] = {
    "functions": (lambda z: (np.sqrt(z), np.log(z), np.abs(z), np.conj(z), z * z, 1 / z)),
    "exponentials": (lambda z: (np.exp(z), np.expm1(z), np.log1p(z))),
    "powers": (lambda z: (z**3, z**5, z**-2)),
    "pairs": (lambda z: (z[:, None] * z, z[:, None] / z, np.maximum(z[:, None], z), np.fmin(z[:, None], z))),
    "comparisons": (lambda z: (z[:, None] == z, z[:, None] < z, z[:, None] >= z, np.isnan(z), np.isfinite(z))),
}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", SPECIAL)
def test_infinities_and_nan_are_numpys(name: str, dtype: Any) -> None:
    z = np.zeros(len(ENDS) ** 2, dtype)
    z.real, z.imag = np.repeat(ENDS, len(ENDS)), np.tile(ENDS, len(ENDS))
    with np.errstate(all="ignore"):
        expected = SPECIAL[name](z)
    rtol = 1e-6 if dtype == np.complex64 else 1e-14
    for got, wanted in zip(pto.fuse(SPECIAL[name])(z), expected, strict=True):
        for part in ("real", "imag"):
            np.testing.assert_allclose(getattr(got, part), getattr(wanted, part), rtol=rtol)


NEAR: dict[str, tuple[Any, float]] = {  # most units in the last place of the absolute value
    "multiply": (lambda z, w: z * w, 1.5), "divide": (lambda z, w: z / w, 2.5), "abs": (lambda z, w: np.abs(z), 1.0),
    "sqrt": (lambda z, w: np.sqrt(z), 2.0), "exp": (lambda z, w: np.exp(z), 2.0), "log": (lambda z, w: np.log(z), 3.0),
    "sin": (lambda z, w: np.sin(z), 2.5), "cosh": (lambda z, w: np.cosh(z), 2.5),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_errors_are_a_few_units_in_the_last_place(name: str) -> None:
    function, most = NEAR[name]
    rng = np.random.default_rng(2)
    sizes = np.exp(rng.uniform(-20, 3, (4, 20_000))) * rng.choice((-1, 1), (4, 20_000))
    z, w = ((a + 1j * b).astype(np.complex64) for a, b in (sizes[:2], sizes[2:]))
    z[:5000] /= np.abs(z[:5000])  # the logarithm near 0
    exact = function(z.astype(complex), w.astype(complex))
    got = pto.fuse(function)(z, w)
    assert np.max(np.abs(got - exact) / np.abs(exact)) <= most * np.finfo(np.float32).eps


def test_an_update_of_a_part_is_seen_in_the_whole() -> None:
    def f(z: Any) -> Any:
        real = z.real
        real *= 2
        z.imag[1:] = 0
        return z + 1

    mine, numpys = Z.copy(), Z.copy()
    np.testing.assert_array_equal(pto.fuse(f)(mine), f(numpys))
    np.testing.assert_array_equal(mine, numpys)


def test_a_plan_with_complex_arrays_round_trips() -> None:
    plan = pto.fuse(lambda z: (z.conj() * 2).T + 1j).plan(Z)
    assert plan_text(parse_plan(plan_text(plan))) == plan_text(plan)


def test_the_plan_counts_what_numpy_computes() -> None:
    text = pt.explain(pto.fuse(lambda y: np.abs(np.fft.rfft(y * 2, 11)) + 1), Y)
    assert "1 run by numpy" in text
    assert "np.fft.rfft, run by numpy" in text.replace(" fft.rfft", " np.fft.rfft")


def test_a_comparison_with_numpy_takes_complex_results() -> None:
    pto.verify(pto.fuse(lambda z: np.exp(z) * 2), Z)
