"""Pooling and interpolation of `pypto.arrays`: right beside loops over elements, and one kernel without windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(12)


def spans(length: int, size: int, step: int, before: int, after: int, dilation: int, ceil_mode: bool) -> list[range]:
    """The elements of each window along a dimension, those of the padding included."""
    room = length + before + after - dilation * (size - 1) - 1
    count = math.ceil(room / step) + 1 if ceil_mode else room // step + 1
    starts = [n * step - before for n in range(count)]
    if ceil_mode and starts[-1] >= length:
        starts.pop()
    return [range(a, a + dilation * (size - 1) + 1, dilation) for a in starts]


def reference(
    x: Array, size: Any, stride: Any, padding: Any, reduce: Callable[..., Any], dilation: int = 1, ceil: bool = False,
    include: bool = True,
) -> Array:  # fmt: skip
    """Windows of (images, channels, rows, columns), one after the other; a mean may count elements of the padding."""
    pair = [(v, v) if isinstance(v, int) else v for v in (size, size if stride is None else stride, padding)]
    rows_of = zip(x.shape[2:], *pair, strict=True)
    lines = [spans(n, width, step, edge, edge, dilation, ceil) for n, width, step, edge in rows_of]
    result = np.empty((*x.shape[:2], *map(len, lines)))
    for (i, rows), (j, columns) in itertools.product(*map(enumerate, lines)):
        inside = [[k for k in s if 0 <= k < n] for s, n in zip((rows, columns), x.shape[2:], strict=True)]
        ends = [min(s.stop, n + p) - s.start for s, n, p in zip((rows, columns), x.shape[2:], pair[2], strict=True)]
        count = math.prod(ends if include else map(len, inside))
        result[:, :, i, j] = reduce(x[:, :, inside[0]][:, :, :, inside[1]].reshape(*x.shape[:2], -1), count)
    return result


def greatest(parts: Array, count: int) -> Any:
    return parts.max(axis=-1, initial=-np.inf)


def mean(parts: Array, count: int) -> Any:
    return parts.sum(axis=-1) / count


WINDOWS: dict[str, tuple[Any, Any, Any, bool]] = {  # size, stride, padding, ceil_mode
    "side by side": (2, None, 0, False),
    "overlapping": (3, 2, 1, False),
    "one more": (3, 2, 1, True),
    "half a window more": (2, 2, 0, True),
    "two sizes": ((3, 2), (1, 3), 0, False),
    "gaps": ((5, 4), 6, (2, 1), True),
    "along one dimension after the other": (7, 3, 3, False),
}


def last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("name", WINDOWS)
def test_maxima_and_means_of_windows(name: str) -> None:
    size, stride, padding, ceil = WINDOWS[name]
    x = RNG.standard_normal((2, 5, 11, 14))
    x[0, 0, 3, 4], x[1, 1] = np.nan, -np.inf
    wanted = reference(x, size, stride, padding, greatest, ceil=ceil)
    np.testing.assert_array_equal(pt.max_pool(x, size, stride, padding, ceil_mode=ceil), wanted)
    found = pt.max_pool(last(x), size, stride, padding, ceil_mode=ceil, data_format="NHWC")
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1), wanted)
    for include in (True, False):
        wanted = reference(x, size, stride, padding, mean, ceil=ceil, include=include)
        np.testing.assert_allclose(pt.avg_pool(x, size, stride, padding, ceil, include), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", WINDOWS)
def test_pooling_is_one_kernel_without_windows(name: str) -> None:
    size, stride, padding, ceil = WINDOWS[name]
    x = RNG.standard_normal((2, 11, 14, 5), np.float32)
    given = {"size": size, "stride": stride, "padding": padding, "ceil_mode": ceil, "data_format": "NHWC"}
    fused = pto.fuse(lambda x: pt.relu(pt.max_pool(x * 2, **given)) + 1)
    wanted = np.maximum(pt.max_pool(x * 2, **given), 0) + 1
    np.testing.assert_array_equal(fused(x), wanted)
    fused = pto.fuse(lambda x: pt.relu(pt.max_pool(x, **given)) + 1)
    plan = fused.plan(x)
    is_separate = name == "along one dimension after the other"
    assert len(plan.steps) == 1 + is_separate
    assert plan.arena_bytes <= is_separate * x.nbytes
    with pto.interpreter():
        np.testing.assert_array_equal(pto.fuse(lambda x: pt.max_pool(x, **given))(x), pt.max_pool(x, **given))


def test_dilated_and_integer_windows() -> None:
    x = RNG.integers(-128, 128, (1, 3, 9, 8)).astype(np.int8)
    wanted = reference(x.astype(float), 3, 1, 1, greatest, dilation=2)
    found = pt.max_pool(x, 3, 1, 1, dilation=2)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_means_are_added_up_in_float32(dtype: Any) -> None:
    x = RNG.standard_normal((1, 3, 9, 8)).astype(dtype)
    for found, exact in (
        (pt.avg_pool(x, 3, 2, 1), pt.avg_pool(x.astype(np.float64), 3, 2, 1)),
        (pt.adaptive_avg_pool(x, (2, 3)), pt.adaptive_avg_pool(x.astype(np.float64), (2, 3))),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(dtype).astype(np.float64), atol=1e-2)


@pytest.mark.parametrize("size", [1, 3, (4, 7), (11, 3), (None, 2), (13, 20)])
def test_as_many_windows_as_asked_for(size: Any) -> None:
    x = RNG.standard_normal((2, 5, 11, 14))
    counts = [
        (n if m is None else m)
        for n, m in zip(x.shape[2:], (size,) * 2 if isinstance(size, int) else size, strict=True)
    ]
    cut = [
        [slice(i * n // m, -(-(i + 1) * n // m)) for i in range(m)] for n, m in zip(x.shape[2:], counts, strict=True)
    ]
    for function, reduce in ((pt.adaptive_avg_pool, np.mean), (pt.adaptive_max_pool, np.max)):
        wanted = np.stack([np.stack([reduce(x[:, :, i, j], axis=(2, 3)) for j in cut[1]], -1) for i in cut[0]], -2)
        np.testing.assert_allclose(function(x, size), wanted, rtol=1e-12)
        found = np.moveaxis(function(last(x), size, data_format="NHWC"), -1, 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


# --- interpolation ----------------------------------------------------------------------------------------------------


def resized(x: Array, axis: int, size: int, mode: str, align_corners: bool) -> Array:
    """One dimension of another size, element by element."""
    n, parts = x.shape[axis], []
    for i in range(size):
        place = i * (n - 1) / max(1, size - 1) if align_corners else (i + 0.5) * n / size - 0.5
        if mode == "nearest":
            sources = {i * n // size: 1.0}
        elif mode == "linear":
            place = min(max(place, 0), n - 1)
            first = math.floor(place)
            sources = {first: first + 1 - place, first + 1: place - first}
        else:
            sources = {math.floor(place) + k: keys(place - math.floor(place) - k) for k in range(-1, 3)}
        parts.append(sum(w * x.take([min(max(k, 0), n - 1)], axis) for k, w in sources.items()))
    return np.concatenate(parts, axis)


def keys(t: float) -> float:
    t, a = abs(t), -0.75
    return (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(14, 12), (5, 13), (1, 1), (7, 6)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "bicubic"])
def test_images_of_another_size(mode: str, size: tuple[int, int], align_corners: bool) -> None:
    x = RNG.standard_normal((2, 3, 7, 6))
    wanted = resized(resized(x, 2, size[0], mode, align_corners), 3, size[1], mode, align_corners)
    found = pt.interpolate(x, size, mode=mode, align_corners=align_corners)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    fused = pto.fuse(lambda x: pt.interpolate(x, size, None, mode, align_corners, "NHWC") + 1)
    np.testing.assert_allclose(np.moveaxis(fused(last(x)), -1, 1), wanted + 1, rtol=1e-11, atol=1e-12)
    plan = fused.plan(last(x))
    assert (len(plan.steps), plan.arena_bytes) == (1, 0)


def test_scales_and_sequences_and_volumes() -> None:
    x = RNG.standard_normal((2, 3, 7))
    np.testing.assert_array_equal(pt.interpolate(x, scale_factor=2), np.repeat(x, 2, axis=2))
    np.testing.assert_array_equal(pt.interpolate(x, scale_factor=0.5, mode="nearest-exact"), x[:, :, 1::2])
    volume = RNG.standard_normal((1, 2, 3, 4, 5))
    wanted = resized(resized(resized(volume, 2, 5, "linear", False), 3, 6, "linear", False), 4, 4, "linear", False)
    np.testing.assert_allclose(pt.interpolate(volume, (5, 6, 4), mode="trilinear"), wanted, rtol=1e-11, atol=1e-12)


def test_what_is_no_pooling_or_interpolation_is_refused() -> None:
    x = np.ones((1, 2, 5, 5), np.float32)
    wrong = pto.errors.graph.WrongShapes
    with pytest.raises(wrong, match="a window of 7 elements does not fit 5"):
        pt.max_pool(x, 7)
    with pytest.raises(wrong, match="images have 3 to 5 dimensions, not 2"):
        pt.avg_pool(x[0, 0], 2)
    with pytest.raises(wrong, match=r"output_size \(1, 2, 3\)"):
        pt.adaptive_avg_pool(x, (1, 2, 3))
    with pytest.raises(wrong, match="either `size` or `scale_factor`"):
        pt.interpolate(x)
    with pytest.raises(wrong, match="not 'lanczos'"):
        pt.interpolate(x, 3, mode="lanczos")


def test_short_slices_are_gathered_many_at_a_time_and_stay_within_their_array() -> None:
    table, places = RNG.standard_normal((100, 16), np.float32), RNG.integers(-100, 100, 500)
    fused = pto.fuse(lambda x, i: np.take(x, i, axis=0) * 2)
    np.testing.assert_array_equal(fused(table, places), table[places] * 2)
    (step,) = fused.plan(table, places).steps
    assert math.prod(step.grid) <= 8
    places[3], places[4] = 1 << 40, -(1 << 40)
    np.testing.assert_array_equal(fused(table, places)[3:5], 0)
