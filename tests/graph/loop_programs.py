"""Functions with loops over elements and slices, as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def factored(a: Array) -> None:
    """Cholesky factorization of the lower triangle, in place."""
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, a.shape[0]):
        for j in range(i):
            a[i, j] = (a[i, j] - np.dot(a[i, :j], a[j, :j])) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])


def relaxed(a: Array, sweeps: int) -> Array:
    """Gauss-Seidel sweeps: each element sees the new values of those before it."""
    for _ in range(sweeps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5
    return a


def diffused(a: Array, steps: int) -> Array:
    """Steps of a stencil between two arrays."""
    b = a.copy()
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a[1:-1, 1:-1] = 0.25 * (b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:])
    return b


def averaged(x: Array, weight: float) -> Array:
    """An exponentially weighted moving average."""
    result = np.zeros(x.shape[0], x.dtype)
    result[0] = x[0]
    for n in range(1, len(x)):
        result[n] = weight * x[n] + (1 - weight) * result[n - 1]
    return result


def distance(a: Array, b: Array) -> Array:
    """The edit distance of two sequences, as a table."""
    table = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(len(a) + 1):
        table[i, 0] = i
    for j in range(len(b) + 1):
        table[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
    return table


def dithered(image: Array) -> Array:
    """Error diffusion: an element is rounded, and its error goes to its neighbours."""
    rows, columns = image.shape
    for y in range(rows):
        for x in range(columns):
            old = image[y, x]
            new = 1.0 if old > 0.5 else 0.0
            image[y, x] = new
            error = old - new
            if x + 1 < columns:
                image[y, x + 1] += error * 7 / 16
            if y + 1 < rows:
                if x > 0:
                    image[y + 1, x - 1] += error * 3 / 16
                image[y + 1, x] += error * 5 / 16
                if x + 1 < columns:
                    image[y + 1, x + 1] += error / 16
    return image


def backwards(l: Array, b: Array) -> Array:  # noqa: E741
    """A triangular system, from its last row to its first."""
    x = np.zeros_like(b)
    for i in range(b.shape[0] - 1, -1, -1):
        x[i] = (b[i] - l[i, i + 1 :] @ x[i + 1 :]) / l[i, i]
    return x


def recursed(r: Array) -> Array:
    """Levinson's recursion, with numbers and reversed parts of an array as its state."""
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def strength(price: Array, window: int) -> Array:
    """The relative strength index."""
    result = np.zeros_like(price)
    up = down = 0.0
    for n in range(1, len(price)):
        change = price[n] - price[n - 1]
        gain, loss = (change, 0.0) if change > 0 else (0.0, -change)
        up = (up * (window - 1) + gain) / window
        down = (down * (window - 1) + loss) / window
        result[n] = 100.0 - 100.0 / (1.0 + up / down) if down > 0 else 100.0
    return result


def checked_sum(data: Array) -> Any:
    """A checksum, with branches on bits."""
    crc = 0xFFFF
    for byte in data:
        low = 0xFF & byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x8408 if (crc & 1) ^ (low & 1) else crc >> 1
            low >>= 1
    return crc


def left_early(x: Array, limit: float) -> tuple[Any, Any]:
    """A sum that skips elements, and ends at a limit."""
    total = 0.0
    last = 0
    for n in range(len(x)):
        if x[n] < 0:
            continue
        total += x[n]
        last = n
        if total > limit:
            break
    return total, last


def converged(x: Array) -> Array:
    """Newton's method until the change is small."""
    y = np.ones_like(x)
    change = 1.0
    while change > 1e-9:
        old = y.copy()
        y[:] = 0.5 * (y + x / y)
        change = np.max(np.abs(y - old))
    return y


def orthogonal(a: Array) -> tuple[Array, Array]:
    """The modified Gram-Schmidt process."""
    q = np.zeros_like(a)
    r = np.zeros((a.shape[1], a.shape[1]), dtype=a.dtype)
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k]))
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


def shortest(path: Array) -> Array:
    """All shortest paths."""
    for k in range(path.shape[0]):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))
    return path


def symmetric(n: int) -> Array:
    x = np.random.default_rng(3).random((n, n))
    return x @ x.T + n * np.eye(n)


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(shape)


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    factored: (symmetric(40),),
    relaxed: (drawn(20, 23), 9),
    diffused: (drawn(30, 150), 21),
    averaged: (drawn(500), 0.3),
    distance: (np.arange(40) % 7, np.arange(35) % 5),
    dithered: (drawn(17, 19),),
    backwards: (symmetric(50), drawn(50)),
    recursed: (drawn(60) / 60,),
    strength: (drawn(300).cumsum() + drawn(300, seed=1), 14),
    checked_sum: (np.arange(64, dtype=np.uint8),),
    left_early: (drawn(300) - 0.2, 50.0),
    converged: (drawn(200) + 0.1,),
    orthogonal: (drawn(30, 20),),
    shortest: (drawn(20, 20),),
}
