"""Sorting, the greatest elements, and counting, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.running import FLOATS, NUMBERS, Array, both, sample


def unsigned(x: Array) -> Array:
    return x if x.dtype.kind in "iub" else x.view(f"u{x.itemsize}")


def special(dtype: Any, shape: tuple[int, ...]) -> Array:
    """Random numbers, some of them equal, with the values at which an order goes wrong."""
    x = sample(dtype, shape, sum(shape))
    x.ravel()[::3] = x.ravel()[0]
    if np.dtype(dtype).kind in "iub":
        return x
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.0, -np.nan, -0.0])[: x.size]
    x.ravel()[: len(values)] = values
    if dtype in FLOATS:  # a NaN with bits of its own
        unsigned(x).ravel()[-1] |= unsigned(np.array(np.nan, dtype)) | 1
    return x


def ranks(x: Array) -> Array:
    """float64 or integers in the order of sorting: -0.0 before 0.0."""
    if x.dtype.kind in "iub":
        return x
    wide = x.astype(np.float64)
    return np.where((wide == 0) & np.signbit(wide), -5e-324, wide)


def in_order(x: Array, descending: bool) -> Array:
    r = ranks(x)
    order = np.argsort((~r if r.dtype.kind in "iub" else -r) if descending else r, axis=-1, kind="stable")
    return np.take_along_axis(x, order, -1)


@pto.jit
def sorts(x, up, down, most):
    t = x[:, :]
    up[:, :] = pto.sort(t)
    down[:, :] = t.sort(dim=1, descending=True)
    most[:, :] = pto.topk(t, most.shape[1])


@pto.jit
def sorts_up(x, up):
    up[:, :] = pto.sort(x[:, :])


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("size", [8, 16, 32, 128, 1024, 2000, 5000])
def test_sort_of_any_length(dtype: Any, size: int, level: str) -> None:
    """Networks differ by the power of two above the length."""
    x = np.random.default_rng(size).integers(-size, size, (2, size)).astype(dtype)
    up = np.empty_like(x)
    pto.jit(level=level)(sorts_up.function)[(1,)](x, up)
    assert np.array_equal(up, np.sort(x, 1))


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5, 37), (2, 300)])
def test_sort(dtype: Any, shape: tuple[int, int], level: str) -> None:
    x = special(dtype, shape)
    up, down = in_order(x, False), in_order(x, True)
    wanted = [up, down, down[:, : min(9, shape[1])]]
    found = both_bits(sorts, x, wanted, level)
    for a, b in zip(found, wanted, strict=True):
        numbers = ~np.isnan(b.astype(np.float64))
        np.testing.assert_array_equal(a[numbers], b[numbers])
        if np.dtype(dtype).kind not in "iub":
            np.testing.assert_array_equal(np.signbit(a[numbers].astype(float)), np.signbit(b[numbers].astype(float)))
        assert np.isnan(a[~numbers].astype(float)).all(), "NaN is last"
    for a, row in zip(unsigned(found[0]), unsigned(x), strict=True):
        assert sorted(a.tolist()) == sorted(row.tolist()), "a permutation, of NaN as well"


def both_bits(kernel: Any, x: Array, wanted: list[Array], level: str) -> list[Array]:
    """As `both`, with the same bits."""
    made = []
    for run in (pto.jit(level=level)(kernel.function), pto.interpret(kernel)):
        outputs = [np.zeros_like(w) for w in wanted]
        run[1](x, *outputs)
        made.append(outputs)
    for found, right in zip(*made, strict=True):
        np.testing.assert_array_equal(unsigned(found), unsigned(right))
    return made[0]


@pto.jit
def places(x, rows, columns, last):
    t = x[:, :]
    rows[:, :] = pto.argsort(t)
    columns[:, :] = pto.argsort(t, 0)
    last[:, :] = t.argsort(dim=-1, descending=True)


@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
def test_argsort_is_stable(dtype: Any, level: str) -> None:
    x = special(dtype, (5, 37))
    r = x.astype(np.float64) if x.dtype.kind not in "iub" else x
    wanted = [np.argsort(r, 1, "stable"), np.argsort(r, 0, "stable")]
    wanted.append(np.argsort(-r if r.dtype.kind == "f" else ~r, 1, "stable"))
    found = both(places, x, *(np.zeros(x.shape, np.int32) for _ in wanted), outputs=3, level=level)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pto.jit
def greatest(x, out, K: pto.constexpr):
    out[:, :] = pto.topk(x[:, :], K)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
@pytest.mark.parametrize(
    ("size", "k"),
    [(1, 1), (17, 16), (65, 1), (129, 5), (256, 8), (333, 17), (400, 5), (1000, 64), (2048, 8), (4097, 3)],
)
def test_topk(dtype: Any, size: int, k: int, level: str) -> None:
    x = special(dtype, (3, size))
    (out,) = both_bits_of_topk(x, k, level)
    wanted = in_order(x, True)[:, :k]
    np.testing.assert_array_equal(out.astype(np.float64), wanted.astype(np.float64))


def both_bits_of_topk(x: Array, k: int, level: str) -> list[Array]:
    def bound(run: Any) -> Array:
        out = np.zeros((x.shape[0], k), x.dtype)
        run[1](x, out, K=k)
        return out

    a, b = bound(pto.jit(level=level)(greatest.function)), bound(pto.interpret(greatest))
    np.testing.assert_array_equal(unsigned(a), unsigned(b))
    return [a]


@pto.jit
def axes(x, first, middle, top, merged):
    t = x[:, :, :]
    first[:, :, :] = pto.sort(t, 0)
    middle[:, :, :] = pto.sort(t, dim=-2, descending=True)
    top[:, :, :] = pto.topk(t, 2, 1)
    merged[:, :, :] = pto.bitonic_merge(pto.sort(t), descending=True)


def test_other_dimensions(level: str) -> None:
    x = sample(np.float32, (3, 5, 7))
    down = -np.sort(-x, 1)
    wanted = [np.sort(x, 0), down, down[:, :2], -np.sort(-x, 2)]
    found = both(axes, x, *map(np.zeros_like, wanted), outputs=4, level=level)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pto.jit
def counts(x, mask, out, some):
    t = x[:, :]
    out[:] = pto.histogram(t, out.shape[0])
    some[:] = t.histogram(some.shape[0], mask=mask[:, :] != 0)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize("bins", [1, 10, 300])
def test_histogram(dtype: Any, bins: int, level: str) -> None:
    x = sample(dtype, (5, 333))
    x[:, ::2] = np.abs(x[:, ::2] // 2) % 12
    mask = np.random.default_rng(2).integers(0, 2, x.shape).astype(np.int8)
    outputs = np.zeros(bins, np.int32), np.zeros(bins, np.int32)
    out, some = both(counts, x, mask, *outputs, outputs=2, level=level)
    inside = (x >= 0) & (x < bins)
    np.testing.assert_array_equal(out, np.bincount(x[inside].astype(int), minlength=bins))
    np.testing.assert_array_equal(some, np.bincount(x[inside & (mask != 0)].astype(int), minlength=bins))
