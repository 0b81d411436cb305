"""Pooling: maxima and means of the windows of images, which a kernel reads where they lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.arrays.operations import operation, rounded_once
from pypto.arrays.windows import Windows, numbers, refused, spatial_axes
from pypto.graph.ir.types import is_floating

Array = Any
_MOST_TAPS = 32  # of a window; larger ones are reduced along one dimension after the other


@operation
def max_pool(
    x: Array, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    data_format: str = "channels_first",
) -> Array:  # fmt: skip
    """Return the greatest element of each window; NaN if one of them is.

    Parameters
    ----------
    x : array of shape (images, channels, *dimensions)
        With one to three dimensions; or (images, *dimensions, channels) if channels are last.
    size : int or tuple of int
        Elements of a window, for each dimension.
    stride : int or tuple of int, optional
        From window to window; the default is their size.
    padding : int, tuple of int, tuple of (int, int), "valid" or "same"
        Elements beside the images, which are less than all others.
    dilation : int or tuple of int
        Step from element to element of a window.
    ceil_mode : bool
        Whether a last window may reach beyond the padding.
    data_format : "channels_first" or "channels_last"
        Or their letters, such as "NCHW".

    References
    ----------
    .. [1] V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285, 2016.

    Examples
    --------
    >>> max_pool(np.float32([[[1, 3, 2, 4]]]), 2).tolist()
    [[[3.0, 4.0]]]
    """
    axes = spatial_axes(x, data_format, "max_pool")
    sizes = numbers(size, len(axes), "max_pool")
    steps = (sizes if stride is None else stride, padding, dilation)
    windows = Windows.of("max_pool", x.shape, axes, sizes, *steps, ceil_mode=ceil_mode)
    return pooled(x, windows, np.maximum, least(x.dtype))


def least(dtype: Any) -> float | int:
    """Return the least number of a type."""
    return -math.inf if is_floating(dtype) else int(np.iinfo(dtype).min)


@operation
@rounded_once
def avg_pool(
    x: Array, size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    data_format: str = "channels_first",
) -> Array:  # fmt: skip
    """Return the mean of each window; see `max_pool`.

    Parameters
    ----------
    count_include_pad : bool
        Whether the zeros of the padding count as elements.

    Examples
    --------
    >>> avg_pool(np.float32([[[1, 3, 2, 4]]]), 2).tolist()
    [[[2.0, 3.0]]]
    """
    axes = spatial_axes(x, data_format, "avg_pool")
    sizes = numbers(size, len(axes), "avg_pool")
    steps = (sizes if stride is None else stride, padding)
    windows = Windows.of("avg_pool", x.shape, axes, sizes, *steps, ceil_mode=ceil_mode)
    total, counts = pooled(x, windows, np.add, 0), windows.lengths(x.shape, count_include_pad)
    if all(len(set(line)) == 1 for line in counts):
        return total / math.prod(line[0] for line in counts)
    for axis, line in zip(axes, counts, strict=True):
        total = total / along(np.asarray(line, x.dtype), axis, x.ndim)
    return total


def along(line: Array, axis: int, rank: int) -> Array:
    """Return a vector as an array that broadcasts along one axis."""
    return line.reshape(tuple(len(line) if d == axis else 1 for d in range(rank)))


def pooled(x: Array, windows: Windows, combine: Callable[[Array, Array], Array], fill: float) -> Array:
    """Combine the taps of windows, of large windows along one dimension after the other."""
    if math.prod(windows.sizes) <= _MOST_TAPS or len(windows.axes) == 1:
        return combined(windows.taps(x, fill), combine)
    for each in windows.by_axis():
        x = combined(each.taps(x, fill), combine)
    return x


def combined(taps: Sequence[Array], combine: Callable[[Array, Array], Array]) -> Array:
    """Combine arrays in pairs, then pairs of pairs, so that few wait for others."""
    while len(taps) > 1:
        remainder = taps[len(taps) // 2 * 2 :]
        taps = [*(combine(*pair) for pair in zip(taps[::2], taps[1::2], strict=False)), *remainder]
    return taps[0]


@operation
def adaptive_max_pool(x: Array, output_size: Any, data_format: str = "channels_first") -> Array:
    """Return the maxima of windows that are as many as asked for; see `adaptive_avg_pool`.

    Examples
    --------
    >>> adaptive_max_pool(np.float32([[[1, 3, 2, 4, 0]]]), 2).tolist()
    [[[3.0, 4.0]]]
    """
    for axis, count in adapted(x, output_size, data_format, "adaptive_max_pool"):
        cut, counts = cut_along(x, axis, count)
        if counts is not None:
            cut = np.where(inside(counts, axis, cut.ndim), cut, np.asarray(least(x.dtype), x.dtype))
        x = cut.max(axis=axis + 1)
    return x


@operation
@rounded_once
def adaptive_avg_pool(x: Array, output_size: Any, data_format: str = "channels_first") -> Array:
    """Return the means of windows that are as many as asked for.

    Along a dimension of `n` elements, window `i` of `m` is from ``floor(i * n / m)`` to ``ceil((i + 1) * n / m)``.

    Parameters
    ----------
    x : array of shape (images, channels, *dimensions)
        Or (images, *dimensions, channels) if channels are last.
    output_size : int or tuple of int or None
        Windows along each dimension; None keeps the dimension.
    data_format : "channels_first" or "channels_last"
        Or their letters, such as "NCHW".

    Examples
    --------
    >>> adaptive_avg_pool(np.float32([[[1, 3, 2, 4]]]), 1).tolist()
    [[[2.5]]]
    """
    for axis, count in adapted(x, output_size, data_format, "adaptive_avg_pool"):
        cut, counts = cut_along(x, axis, count)
        if counts is None:
            x = cut.mean(axis=axis + 1)
            continue
        inside_only = np.where(inside(counts, axis, cut.ndim), cut, np.zeros((), x.dtype))
        x = inside_only.sum(axis=axis + 1) / along(np.asarray(counts, x.dtype), axis, x.ndim)
    return x


def adapted(x: Array, output_size: Any, data_format: str, what: str) -> list[tuple[int, int]]:
    """Return the axes along which windows are reduced, with the number of windows."""
    axes = spatial_axes(x, data_format, what)
    given = (output_size,) * len(axes) if isinstance(output_size, int) else tuple(output_size)
    if len(given) != len(axes) or any(n is not None and n < 1 for n in given):
        raise refused(what, f"output_size {output_size} has not one number for each of {len(axes)} dimensions")
    return [(a, n) for a, n in zip(axes, given, strict=True) if n is not None and n != x.shape[a]]


def cut_along(x: Array, axis: int, count: int) -> tuple[Array, list[int] | None]:
    """Return windows along one more dimension behind an axis, and their lengths if these differ from its size."""
    length = x.shape[axis]
    if length % count == 0:
        return x.reshape(*x.shape[:axis], count, length // count, *x.shape[axis + 1 :]), None
    starts = [n * length // count for n in range(count)]
    ends = [-(-(n + 1) * length // count) for n in range(count)]
    most = max(b - a for a, b in zip(starts, ends, strict=True))
    places = [[min(a + n, length - 1) for n in range(most)] for a in starts]
    return np.take(x, np.asarray(places), axis=axis), [b - a for a, b in zip(starts, ends, strict=True)]


def inside(counts: list[int], axis: int, rank: int) -> Any:
    """Return which elements of windows of several lengths belong to them, as an array that broadcasts."""
    rows = np.asarray([[n < count for n in range(max(counts))] for count in counts])
    return rows.reshape((1,) * axis + (len(counts), max(counts)) + (1,) * (rank - axis - 2))
