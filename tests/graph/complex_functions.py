"""Functions on complex arrays, by how a fused function computes them: in kernels, or by steps of numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Function = Callable[..., Any]


def assigned_parts(z: Any, x: Any) -> Any:
    w = z.copy()
    w.real = x
    w.imag *= 2
    w.real[0] = 7
    w.imag[x > 0] = 0
    return w


def assigned(z: Any, x: Any) -> Any:
    w = np.zeros((6, 8), dtype=z.dtype)
    w[1:] = z[1:]
    w[0] = 1j
    w[2, 3] += 2 - 1j
    w[x > 1] = 3j
    return w


def selected(z: Any, x: Any) -> Any:
    w = z.copy()
    w[x > 0] = w[x > 0] ** 2 + 1
    return w, z[x > 0].sum(), z[x > 0].mean()


def iterated(z: Any, x: Any) -> Any:
    c, count = z, np.zeros(z.shape, int)
    for _ in range(5):
        z = z * z + c
        count += np.abs(z) < 2
    return count


# of a complex array z, a real array x, and a complex matrix w
IN_KERNELS: Final[dict[str, Function]] = {
    "add": lambda z, x, w: z + z.T.reshape(6, 8),
    "subtract": lambda z, x, w: z - 2j,
    "multiply": lambda z, x, w: z * z[0],
    "divide": lambda z, x, w: (z / (z + 1), z / 3, 2 / z, z / x),
    "reciprocal": lambda z, x, w: np.reciprocal(z),
    "negative": lambda z, x, w: -z,
    "with a real array": lambda z, x, w: (z * x, x - z, z + x.astype(np.float32)),
    "with integers": lambda z, x, w: (z * np.arange(8), z + np.int32(3), z * True),
    "absolute": lambda z, x, w: np.abs(z),
    "angle": lambda z, x, w: (np.angle(z), np.angle(z, deg=True)),
    "conjugate": lambda z, x, w: (np.conj(z), z.conj(), z.conjugate()),
    "parts": lambda z, x, w: (z.real + z.imag, np.real(z) * 2, np.imag(z) * 2),
    "exp": lambda z, x, w: np.exp(z),
    "log": lambda z, x, w: (np.log(z), np.log2(z), np.log10(z), np.log1p(z), np.expm1(z)),
    "sqrt": lambda z, x, w: np.sqrt(z),
    "sin": lambda z, x, w: (np.sin(z), np.cos(z), np.sinh(z), np.cosh(z)),
    "power": lambda z, x, w: (z**2, z**3, z**5, z**-2, z**0.5, np.power(z, 4)),
    "square": lambda z, x, w: np.square(z),
    "equal": lambda z, x, w: (z == z[0], z != z[0], z == 1),
    "order": lambda z, x, w: (z < z[0], z >= z[0], np.maximum(z, z[0]), np.fmin(z, 0)),
    "tests": lambda z, x, w: (np.isnan(z), np.isfinite(z), np.isinf(z), np.isreal(z), np.iscomplex(z)),
    "logic": lambda z, x, w: (np.logical_and(z, x), ~np.logical_not(z), np.any(z), z.all(axis=0)),
    "rint": lambda z, x, w: np.rint(z * 3),
    "sum": lambda z, x, w: (z.sum(), np.sum(z, axis=1), z.sum(axis=0, keepdims=True), np.add.reduce(z)),
    "mean": lambda z, x, w: (z.mean(), np.mean(z, axis=(0, 1)), z.mean(0)),
    "spread": lambda z, x, w: (z.var(), z.std(axis=0), np.var(z, ddof=1)),
    "cumsum": lambda z, x, w: (np.cumsum(z, axis=1), z.cumsum()),
    "norm": lambda z, x, w: (np.linalg.norm(z), np.linalg.norm(z, axis=1)),
    "matmul": lambda z, x, w: (z @ w, z[0] @ w, x @ w, z @ x.T),
    "dot": lambda z, x, w: (np.dot(z, w), np.vdot(z[0], z[1]), np.inner(z, z), np.outer(z[0], z[1])),
    "einsum": lambda z, x, w: (np.einsum("ij,jk->ik", z, w), np.einsum("ij,ij->i", z, z.conj()), np.einsum("ii->", w)),
    "tensordot": lambda z, x, w: np.tensordot(z, w, 1),
    "trace": lambda z, x, w: (np.trace(w), w.trace()),
    "kron": lambda z, x, w: np.kron(w[:2, :2], z[:2]),
    "where": lambda z, x, w: (np.where(x > 0, z, 0), np.where(x > 0, 1j, x), np.where(np.isfinite(z), z, 1 + 1j)),
    "masks": lambda z, x, w: selected(z, x),
    "indices": lambda z, x, w: (z[np.array([1, 0])], z[:, np.array([2, 5, 2])], np.take(z, [3, 1], axis=1)),
    "slices": lambda z, x, w: (z[1:3] * 2, z[::2, ::-1] + 1, z[..., None] + 1, z.reshape(-1)[3:9] * 1j),
    "assigned": lambda z, x, w: assigned(z, x),
    "assigned parts": lambda z, x, w: assigned_parts(z, x),
    "casts": lambda z, x, w: (z.astype(np.complex64), x.astype(complex), x.astype(np.complex64) * 2),
    "filled": lambda z, x, w: (np.zeros_like(z) + x, np.full_like(z, 2j), np.ones(3, complex) * z[0, 0]),
    "counted": lambda z, x, w: (np.linspace(0, 1j, 8) * z, np.arange(8, dtype=complex) + z),
    "joined": lambda z, x, w: (np.concatenate([z, x]), np.stack([z, z * 2]).sum(0), np.tile(z, (2, 1)) + 1),
    "made": lambda z, x, w: np.array([1j, 2.0]) + np.array([z[0, 0], 3]),
    "moved": lambda z, x, w: (np.roll(z, 1, axis=1) + z, np.flip(z, 0) * 1, np.swapaxes(z, 0, 1) + 1),
    "triangles": lambda z, x, w: (np.tril(w) + 1, np.triu(w, 1) + 1, np.diag(w), np.diff(z)),
    "repeated": lambda z, x, w: (np.repeat(z, 2, axis=1) + 1, np.pad(z, 1) + 1),
    "shifted": lambda z, x, w: np.fft.fftshift(z) + 1,
    "compared": lambda z, x, w: (np.allclose(z, z + 1e-7), np.isclose(z, 1), np.array_equal(z, z)),
    "nan_to_num": lambda z, x, w: np.nan_to_num(z),
    "iterated": lambda z, x, w: iterated(z, x),
    "copies": lambda z, x, w: (z.copy(), z.T.copy(), z.T.reshape(-1), z.T.ravel() + 1, z.flatten()),
    "views": lambda z, x, w: (z, z.T, (z + 1).T, (z + 1)[::2], z.real, (z * 2).imag),
}  # fmt: skip
BY_NUMPY: Final[dict[str, Function]] = {
    "arcsin": lambda z, x, w: (np.arcsin(z), np.arctan(z), np.arccosh(z)),
    "tan": lambda z, x, w: (np.tan(z), np.tanh(z)),
    "powers of arrays": lambda z, x, w: (z**x, z ** (1 + 1j), x ** z),
    "prod": lambda z, x, w: (z.prod(), np.cumprod(z, axis=1)),
    "sign": lambda z, x, w: np.sign(z),
    "sort": lambda z, x, w: (np.sort(z), np.argsort(z), z.max(), np.argmax(z)),
    "linear algebra": lambda z, x, w: (np.linalg.inv(w), np.linalg.solve(w, z.T), np.linalg.det(w)),
    "einsum of three": lambda z, x, w: np.einsum("ij,jk,kl->il", z, w, w),
    "written by indices": lambda z, x, w: written(z),
}  # fmt: skip


def written(z: Any) -> Any:
    w = z.copy()
    w[np.array([0, 2])] *= 1j
    np.add.at(w, (np.array([1, 1]), np.array([0, 0])), 1j)
    return w
