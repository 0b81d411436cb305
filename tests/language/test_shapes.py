"""Functions that change shapes and the order of elements, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.running import NUMBERS, both, sample


@pto.jit
def pairs(x, y, joined, first, woven, rows, columns):
    a, b = x[:, :], y[:, :]
    joined[:, :, :] = pto.join(a, b)
    left, right = pto.join(a, b).split()
    pto.device_assert(left == a)
    first[:, :] = pto.where(right == b, left, 0)
    woven[:, :] = pto.interleave(a, b)
    rows[:, :] = pto.cat(a, b)
    columns[:, :] = pto.cat(a, b[:, 2:5], can_reorder=True, dim=-1)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(4, 8), (3, 21)])
def test_pairs(dtype: Any, shape: tuple[int, int], level: str) -> None:
    x, y = sample(dtype, shape, 1), sample(dtype, shape, 2)
    joined = np.stack([x, y], -1)
    wanted = [joined, x, joined.reshape(shape[0], -1), np.concatenate([x, y]), np.concatenate([x, y[:, 2:5]], 1)]
    found = both(pairs, x, y, *map(np.zeros_like, wanted), outputs=5, level=level)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pto.jit
def forms(x, grown, flipped, up, turned, flat, same):
    t = x[:, :, :]
    grown[:, :, :, :, :] = pto.expand_dims(t, (0, -1))
    flipped[:, :, :] = pto.flip(t) + t.flip(1)
    up[:, :, :] = pto.flip(t, dim=0)
    turned[:, :, :] = t.permute(2, 0, 1) + pto.trans(t, (2, 0, 1)) + t.trans(2, 0, 1)
    flat[:] = pto.ravel(t, can_reorder=True) + t.view(-1) + pto.view(t, (-1,)) + t.reshape(-1, can_reorder=True)
    u = pto.unsqueeze(t, 0)
    pto.static_assert(u.shape == (1, *t.shape) and u.squeeze(0).shape == t.shape)
    pto.static_assert(pto.squeeze(u[:, :1]).shape == t.shape[1:])
    same[:, :, :] = u.squeeze() + pto.squeeze(u, (0,)) + pto.ones_like(t) + pto.full_like(t, 2) + pto.zeros_like(t)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, np.float16])
def test_forms(dtype: Any, level: str) -> None:
    x = sample(dtype, (2, 5, 7))
    with np.errstate(over="ignore"):
        three, four = x + x + x, (x + x + x + x).ravel()
        wanted = [
            x[None, ..., None],
            x[:, :, ::-1] + x[:, ::-1],
            x[::-1],
            three.transpose(2, 0, 1),
            four,
            x + x + 1 + 2,
        ]
    found = both(forms, x, *(np.zeros_like(w, dtype) for w in wanted), outputs=6, level=level)
    for a, b in zip(found[:4], wanted[:4], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(found[4:], wanted[4:], strict=True):
        np.testing.assert_allclose(a.astype(float), b.astype(dtype).astype(float), rtol=2e-3, atol=2e-3)


@pto.jit
def spread(x, y, a, b):
    p, q = pto.broadcast(x[:, :], y[:])
    a[:, :] = p
    b[:, :] = q
    pto.static_assert(pto.broadcast(x[0, 0], y[:])[0].shape == y[:].shape)


def test_broadcast(level: str) -> None:
    x, y = sample(np.float32, (5, 1)), sample(np.float32, (19,))
    a, b = both(spread, x, y, np.zeros((5, 19), np.float32), np.zeros((5, 19), np.float32), outputs=2, level=level)
    np.testing.assert_array_equal(a, np.broadcast_to(x, (5, 19)))
    np.testing.assert_array_equal(b, np.broadcast_to(y, (5, 19)))


@pto.jit
def made(out):
    pto.static_assert(pto.arange(5).shape == (5,) and pto.arange(3, 10).dtype == pto.int32)
    pto.static_assert(pto.zeros((3, 5), pto.int8).dtype == pto.int8 and pto.ones([4], pto.float64).shape == (4,))
    out[:] = (
        pto.arange(3, 13)
        + pto.full((10,), 2, pto.int32)
        + pto.ones((10,), pto.int32)
        + pto.full((10,), out[0], pto.int32)
    )


def test_creation(level: str) -> None:
    (out,) = both(made, np.full(10, 7, np.int32), outputs=1, level=level)
    np.testing.assert_array_equal(out, np.arange(3, 13) + 2 + 1 + 7)
