"""Complex arrays in fused functions, which numpy computes with between kernels, and `np.fft`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import SharedMemory

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


def test_the_plan_counts_what_numpy_computes() -> None:
    text = pt.explain(pto.fuse(lambda y: np.abs(np.fft.rfft(y * 2)) + 1), Y)
    assert "2 run by numpy" in text
    assert "np.fft.rfft, run by numpy" in text.replace(" fft.rfft", " np.fft.rfft")


def test_an_update_of_a_part_is_refused() -> None:
    def f(z: Any) -> Any:
        z.real[...] = 0
        return z

    with pytest.raises(SharedMemory):
        pto.fuse(f)(Z.copy())


def test_a_comparison_with_numpy_takes_complex_results() -> None:
    pto.verify(pto.fuse(lambda z: np.exp(z) * 2), Z)
