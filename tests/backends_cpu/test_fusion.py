"""Statements share loops only where that is right: kernels that were once fused too far."""

from __future__ import annotations

import numpy as np

import pypto as pto


@pto.jit
def rows_then_all(x, near, far, twice, M: pto.constexpr, N: pto.constexpr):
    """The greatest of all comes after two statements that share the loop over the rows."""
    t = x[:M, :N]
    shifted = pto.argmax(t, axis=1, keep_dims=True) + (t + t)
    near[:M, :N] = t + pto.max(t, axis=None)
    far[:M, :N] = shifted
    twice[:M, :N] = pto.exp(shifted)


def test_a_reduction_over_shared_loops_has_a_nest_of_its_own() -> None:
    x = np.random.default_rng(1).standard_normal((6, 20)).astype(np.float32)
    near, far, twice = (np.empty_like(x) for _ in range(3))
    rows_then_all[1,](x, near, far, twice, M=6, N=20)
    expected = x.argmax(1, keepdims=True).astype(np.float32) + (x + x)
    np.testing.assert_array_equal(near, x + x.max())
    np.testing.assert_array_equal(far, expected)
    np.testing.assert_allclose(twice, np.exp(expected), rtol=3e-7)


@pto.jit
def exchanged(x, N: pto.constexpr):
    """In place, with the lanes where they were."""
    x[:N, :N, :] = pto.permute(x[:N, :N, :], (1, 0, 2)) + 1


@pto.jit
def exchanged_after(x, out, N: pto.constexpr):
    """What has just been written is read in another order."""
    x[:N, :N, :] = x[:N, :N, :] * 2
    out[:N, :N, :] = pto.permute(x[:N, :N, :], (1, 0, 2))


def test_elements_that_change_places() -> None:
    x = np.arange(5 * 5 * 24, dtype=np.float32).reshape(5, 5, 24)
    before, out = x.copy(), np.empty_like(x)
    exchanged[1,](x, N=5)
    np.testing.assert_array_equal(x, before.transpose(1, 0, 2) + 1)
    before = x.copy()
    exchanged_after[1,](x, out, N=5)
    np.testing.assert_array_equal(x, before * 2)
    np.testing.assert_array_equal(out, before.transpose(1, 0, 2) * 2)


@pto.jit
def picked_by_what_was_stored(x, near, far, M: pto.constexpr, N: pto.constexpr):
    """The second load's pointers come from a load that comes after a store."""
    i, j = pto.arange(0, M)[:, None], pto.arange(0, N)[None, :]
    pto.store(near + i * N + j, pto.load(x + i * N + j) + 1)
    rows = pto.load(near + i * N + j) % M
    pto.store(far + i * N + j, pto.load(x + rows * N + j))


def test_pointers_from_memory_that_was_just_written() -> None:
    x = np.random.default_rng(3).integers(0, 50, (4, 32)).astype(np.int32)
    near, far = np.zeros_like(x), np.zeros_like(x)
    picked_by_what_was_stored[1,](x, near, far, M=4, N=32)
    np.testing.assert_array_equal(near, x + 1)
    np.testing.assert_array_equal(far, x[(x + 1) % 4, np.arange(32)])
