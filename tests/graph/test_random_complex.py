"""Random graphs on complex arrays: what a trace records, and what its kernels compute, is as in numpy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.graph import trace
from pypto.graph.ir.reference import evaluate

SHAPES: Final = ((4, 6), (6,), (4, 1), (1, 6), (2, 4, 6))


def of_part(x: Any, y: Any) -> Any:
    v = x + 0j
    v.imag[..., :1] *= 2
    v.real = 0.5
    return v


def under_mask(x: Any, y: Any) -> Any:
    v = x + 0j
    m = v.real > 0
    v[m] = v[m] * 2 - 1j
    return v


OPERATIONS: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    lambda x, y: x + y, lambda x, y: x - y * (1 - 2j), lambda x, y: x * y * 0.3, lambda x, y: x / (np.abs(y) + 1),
    lambda x, y: x / (2.5 + 0.5j), lambda x, y: np.conj(x), lambda x, y: np.abs(x), lambda x, y: x.real - 1,
    lambda x, y: np.imag(x) * 2, lambda x, y: np.exp(x * 0.1j), lambda x, y: np.sqrt(x * (1 + 0.1j) + 10),
    lambda x, y: np.sin(x * 0.1) + np.cos(y * 0.1j), lambda x, y: x.sum(axis=-1, keepdims=True) * 0.1,
    lambda x, y: x.mean(axis=0), lambda x, y: np.where(x.real > 0, x, y), lambda x, y: x[..., ::-1] + 1,
    lambda x, y: x.T if x.ndim < 3 else x[0], lambda x, y: x.reshape(-1)[:6],
    lambda x, y: np.concatenate([x, x * 1j], axis=-1)[..., : x.shape[-1]],
    lambda x, y: x[..., np.array([0] * x.shape[-1])], of_part, under_mask,
    lambda x, y: (x @ np.swapaxes(x, -1, -2).conj()) * 0.1 if x.ndim > 1 else x * np.vdot(x, x) * 0.1,
    lambda x, y: np.einsum("...i,...i->...", x, x)[..., None] * 0.1, lambda x, y: np.cumsum(x, axis=-1) * 0.2,
    lambda x, y: np.roll(x, 1, axis=-1), lambda x, y: x**2 * 0.2, lambda x, y: np.angle(x + 2),
    lambda x, y: np.log(x + (9 + 3j)), lambda x, y: np.fft.fft(x) * 0.1,
)  # fmt: skip
Numbers = list[Any]


def drawn(seed: int) -> tuple[Callable[..., Any], Numbers] | None:
    """Return a random function with its arguments, or None where numpy refuses it."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = rng.choice([np.complex64, np.complex128])
    shapes = [rng.choice(SHAPES) for _ in range(rng.randint(1, 3))]
    args: Numbers = [(numbers.standard_normal(s) + 1j * numbers.standard_normal(s)).astype(dtype) for s in shapes]
    if len(args) > 1 and rng.random() < 0.5:
        args[-1] = args[-1].real.copy()
    steps = [(rng.choice(OPERATIONS), rng.random(), rng.random()) for _ in range(rng.randint(2, 9))]

    def function(*given: Any) -> Any:
        values = list(given)
        for operation, a, b in steps:
            values.append(operation(values[int(a * len(values))], values[int(b * len(values))]))
        return values[-1], values[len(values) // 2], values[-1].sum()

    try:
        with np.errstate(all="ignore"):
            results = function(*args)
    except (ValueError, TypeError, IndexError, AttributeError):
        return None
    return (function, args) if all(np.ndim(x) for x in results[:2]) else None


def check(got: Any, expected: Any) -> None:
    for a, b in zip(map(np.asarray, got), map(np.asarray, expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        present = np.isfinite(b)
        rtol = 2e-3 if b.dtype in (np.complex64, np.float32) else 1e-10
        most = np.abs(b[present]).max(initial=1)
        np.testing.assert_allclose(a[present], b[present], rtol=rtol, atol=rtol * most)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_trace_means_what_numpy_computes(first: int) -> None:
    for function, args in filter(None, map(drawn, range(first, first + 20))):
        traced = trace(function, *(x.copy() for x in args))
        values = evaluate(traced.graph, traced.arrays)
        with np.errstate(all="ignore"):
            check([values[slot.number] for slot in traced.result], function(*args))


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_kernels_compute_what_numpy_does(seed: int) -> None:
    case = next(filter(None, map(drawn, range(100 * seed, 100 * seed + 20))))
    function, args = case
    with np.errstate(all="ignore"):
        check(pto.fuse(function)(*args), function(*args))
