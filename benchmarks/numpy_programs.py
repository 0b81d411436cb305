"""Numerical programs as people write them in numpy: what `pto.fuse` is measured with, traced unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Array = Any


def heat_2d(u: Array) -> Array:
    """Two explicit steps of the heat equation on a square."""
    for _ in range(2):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        new = u.copy()
        new[1:-1, 1:-1] = inner + 0.1 * (around - 4 * inner)
        u = new
    return u


def heat_3d(u: Array) -> Array:
    """An explicit step of the heat equation in a cube."""
    c = u[1:-1, 1:-1, 1:-1]
    around = (
        u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    )  # fmt: skip
    return c + 0.1 * (around - 6 * c)


def n_body(position: Array, mass: Array) -> Array:
    """Accelerations of bodies that attract each other."""
    d = position[None, :, :] - position[:, None, :]
    inverse = ((d * d).sum(axis=-1) + 1e-3) ** -1.5
    return (d * (mass[None, :] * inverse)[:, :, None]).sum(axis=1)


def k_means(x: Array, centers: Array) -> Array:
    """One step of Lloyd's algorithm."""
    d = ((x * x).sum(1)[:, None] - 2 * x @ centers.T) + (centers * centers).sum(1)[None, :]
    nearest = d.argmin(axis=1)
    member = (nearest[:, None] == np.arange(centers.shape[0])[None, :]).astype(x.dtype)
    return (member.T @ x) / np.maximum(member.sum(axis=0), 1)[:, None]


def mandelbrot(re: Array, im: Array) -> Array:
    """How soon points leave the disc of radius 2."""
    x, y = re * 0, im * 0
    count = re * 0
    for _ in range(12):
        x, y = x * x - y * y + re, 2 * x * y + im
        count = count + (x * x + y * y < 4)
        x, y = np.clip(x, -3, 3), np.clip(y, -3, 3)
    return count


def correlation(x: Array) -> Array:
    """The matrix of correlations of columns."""
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return z.T @ z / x.shape[0]


def gram_schmidt(a: Array) -> Array:
    """Orthonormal columns."""
    q = a.copy()
    for j in range(a.shape[1]):
        v = q[:, j].copy()
        if j:
            v -= q[:, :j] @ (q[:, :j].T @ v)
        q[:, j] = v / np.sqrt((v * v).sum())
    return q


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def mlp(x: Array, layers: Any) -> Array:
    """Three layers with a ReLU, and a softmax at the end."""
    for weight, bias in layers:
        x = np.maximum(x @ weight + bias, 0)
    return softmax(x)


def windows(x: Array, size: int) -> Array:
    """Patches of a batch of images (n, h, w, c), one after the other."""
    h, w = x.shape[1] - size + 1, x.shape[2] - size + 1
    return np.concatenate([x[:, i : i + h, j : j + w] for i in range(size) for j in range(size)], axis=-1)


def convolution(x: Array, weight: Array, bias: Array) -> Array:
    patches = windows(x, math.isqrt(weight.shape[0] // x.shape[-1]))
    return patches @ weight + bias


def pooled(x: Array) -> Array:
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def lenet(x: Array, p: Any) -> Array:
    """LeNet's forward pass on a batch of 28 by 28 images."""
    x = np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))
    x = pooled(np.maximum(convolution(x, p["c1"], p["b1"]), 0))
    x = pooled(np.maximum(convolution(x, p["c2"], p["b2"]), 0))
    x = x.reshape(x.shape[0], -1)
    x = np.maximum(x @ p["f1"] + p["d1"], 0)
    x = np.maximum(x @ p["f2"] + p["d2"], 0)
    return softmax(x @ p["f3"] + p["d3"])


def resnet_block(x: Array, p: Any) -> Array:
    """Two convolutions with scales and shifts, and what came in added."""

    def padded(y: Array) -> Array:
        return np.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)))

    y = np.maximum(convolution(padded(x), p["w1"], 0) * p["s1"] + p["t1"], 0)
    y = convolution(padded(y), p["w2"], 0) * p["s2"] + p["t2"]
    return np.maximum(y + x, 0)


def normal_cdf(x: Array) -> Array:
    """Abramowitz and Stegun 26.2.17."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-0.5 * x * x) * 0.3989422804014327
    return np.where(x > 0, 1 - tail, tail)


def option_prices(price: Array, strike: Array, years: Array) -> Array:
    """Black and Scholes."""
    rate, sigma = 0.02, 0.3
    root = sigma * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.5 * sigma * sigma) * years) / root
    call = price * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d1 - root)
    return call, call - price + strike * np.exp(-rate * years)


def conjugate_gradient(u: Array, b: Array) -> Array:
    """Steps of a conjugate gradient solver for the five-point Laplacian."""

    def laplacian(v: Array) -> Array:
        p = np.pad(v, 1)
        return 4 * v - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    r = b - laplacian(u)
    d = r
    rr = (r * r).sum()
    for _ in range(4):
        q = laplacian(d)
        alpha = rr / (d * q).sum()
        u = u + alpha * d
        r = r - alpha * q
        new = (r * r).sum()
        d = r + (new / rr) * d
        rr = new
    return u


@dataclass(frozen=True)
class Program:
    """A program, and arguments for it by size: "small" for tests, "large" for times."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[bool], tuple[Any, ...]]


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def positive(n: int, low: float, high: float, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(low, high, n).astype(np.float32)


def bodies(n: int) -> tuple[Array, Array]:
    return normal(n, 3), positive(n, 1, 2, 1)


def points(n: int, k: int) -> tuple[Array, Array]:
    return normal(n, 32), normal(k, 32, seed=1)


def squares(n: int) -> tuple[Array, Array]:
    return normal(n, n), normal(n, n, seed=1)


def grid(n: int) -> tuple[Array, Array]:
    re, im = np.meshgrid(np.linspace(-2, 1, n, dtype=np.float32), np.linspace(-1.5, 1.5, n, dtype=np.float32))
    return np.ascontiguousarray(re), np.ascontiguousarray(im)


def dense(*sizes: int) -> Any:
    pairs = pairwise(sizes)
    return [(normal(a, b, seed=a) / np.float32(a**0.5), normal(b, seed=b)) for a, b in pairs]


def lenet_parameters() -> Any:
    shapes = {"c1": (25, 6), "b1": (6,), "c2": (150, 16), "b2": (16,), "f1": (400, 120), "d1": (120,)}
    shapes |= {"f2": (120, 84), "d2": (84,), "f3": (84, 10), "d3": (10,)}
    return {name: normal(*shape, seed=n) * np.float32(0.1) for n, (name, shape) in enumerate(shapes.items())}


def block_parameters(c: int) -> Any:
    shapes = {"w1": (9 * c, c), "w2": (9 * c, c), "s1": (c,), "t1": (c,), "s2": (c,), "t2": (c,)}
    return {name: normal(*shape, seed=n) * np.float32(0.1) for n, (name, shape) in enumerate(shapes.items())}


PROGRAMS: tuple[Program, ...] = (
    Program("heat equation, 2-D", heat_2d, lambda large: (normal(2048 if large else 20, 2048 if large else 24),)),
    Program("heat equation, 3-D", heat_3d, lambda large: (normal(*(3 * [192 if large else 12])),)),
    Program("N-body", n_body, lambda large: bodies(2000 if large else 30)),
    Program("k-means", k_means, lambda large: points(20000 if large else 60, 64 if large else 5)),
    Program("mandelbrot", mandelbrot, lambda large: grid(1000 if large else 17)),
    Program("correlation", correlation, lambda large: (normal(20000 if large else 50, 128 if large else 7),)),
    Program("Gram-Schmidt", gram_schmidt, lambda large: (normal(20000 if large else 40, 8 if large else 5),)),
    Program("softmax", softmax, lambda large: (normal(4096 if large else 9, 1000 if large else 33),)),
    Program("MLP", mlp, lambda large: (normal(2048 if large else 10, 256), dense(256, 512, 512, 128))),
    Program("LeNet", lenet, lambda large: (normal(128 if large else 3, 28, 28, 1), lenet_parameters())),
    Program("ResNet block", resnet_block, lambda large: (
        normal(8 if large else 2, 32 if large else 6, 32 if large else 6, 64 if large else 8),
        block_parameters(64 if large else 8))),
    Program("option prices", option_prices, lambda large: tuple(
        positive(1_000_000 if large else 100, a, b, n) for n, (a, b) in enumerate([(50, 150), (50, 150), (0.1, 2)]))),
    Program("conjugate gradient", conjugate_gradient, lambda large: squares(1024 if large else 14)),
)  # fmt: skip
