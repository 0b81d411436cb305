"""Convolutions of images with filters, as products that read the images where they lie.

A convolution is the product of patches with filters, summed over channels and taps. A kernel adds up one product for
each tap, so patches are never stored. Bias, normalisation, activation and residual that follow are part of the kernel.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from pypto.arrays.operations import operation, product
from pypto.arrays.windows import Windows, is_channels_last, refused
from pypto.graph.ir.types import accumulator, is_floating
from pypto.graph.tracing.movement import unfold

Array = Any
_MOST_TAPS = 64  # of one product
_FEW_CHANNELS = 8  # of images whose rows of windows are multiplied, as products with so few are slow


@operation
def conv1d(
    x: Array, weight: Array, bias: Array = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, data_format: str = "NCW",
) -> Array:  # fmt: skip
    """Convolve sequences with filters; see `conv2d`.

    Examples
    --------
    >>> conv1d(np.float32([[[1, 2, 3]]]), np.float32([[[1, 1]]])).tolist()
    [[[3.0, 5.0]]]
    """
    return convolved("conv1d", 1, (x, weight, bias), (stride, padding, dilation), groups, data_format)


@operation
def conv2d(
    x: Array, weight: Array, bias: Array = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, data_format: str = "NCHW",
) -> Array:  # fmt: skip
    """Convolve images with filters, as neural networks do: a cross-correlation, summed over channels.

    One kernel reads the images in place, zeros beside them included, so no patches are stored. Operations that follow,
    such as batch normalisation, `relu` and a residual, become part of it. Sums of float16 and bfloat16 are float32;
    those of 8-bit integers are int32, which is the type of the result then.

    Parameters
    ----------
    x : array of shape (images, channels, rows, columns)
        Or (images, rows, columns, channels) if channels are last, which is the faster order.
    weight : array of shape (filters, channels / groups, rows, columns)
        Or (rows, columns, channels / groups, filters) if channels are last.
    bias : array of shape (filters,), optional
    stride, dilation : int or (int, int)
        Steps from window to window, and within a window.
    padding : int, (int, int), ((int, int), (int, int)), "valid" or "same"
        Zeros at both ends, for rows and columns, or for both ends of each. With "same", the result has one element for
        each `stride` elements.
    groups : int
        Channels and filters are in so many groups, which are convolved one by one.
    data_format : "NCHW" or "NHWC"
        Or "channels_first" and "channels_last".

    Returns
    -------
    array of shape (images, filters, rows, columns)
        Or with filters last if channels are.

    References
    ----------
    .. [1] V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285, 2016.
    .. [2] K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for document
       processing", IWFHR, 2006.

    Examples
    --------
    >>> conv2d(np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 2, 2), np.float32)).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    return convolved("conv2d", 2, (x, weight, bias), (stride, padding, dilation), groups, data_format)


@operation
def conv3d(
    x: Array, weight: Array, bias: Array = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, data_format: str = "NCDHW",
) -> Array:  # fmt: skip
    """Convolve volumes with filters; see `conv2d`.

    Examples
    --------
    >>> conv3d(np.ones((1, 1, 2, 2, 2), np.float32), np.ones((1, 1, 2, 2, 2), np.float32)).tolist()
    [[[[[8.0]]]]]
    """
    return convolved("conv3d", 3, (x, weight, bias), (stride, padding, dilation), groups, data_format)


def convolved(
    what: str, rank: int, arrays: tuple[Array, Array, Array], steps: tuple[Any, Any, Any], groups: int, data_format: str
) -> Array:
    """Convolve images of some rank in one of the two orders of dimensions; `steps` are stride, padding, dilation."""
    x, weight, bias = arrays
    if x.ndim != rank + 2 or weight.ndim != rank + 2:
        raise refused(what, f"images and filters have {rank + 2} dimensions, not {x.ndim} and {weight.ndim}")
    is_last = is_channels_last(data_format, rank, what)
    if not is_last:
        weight = weight.transpose(*range(2, rank + 2), 1, 0)
    channels, filters = weight.shape[-2], weight.shape[-1]
    given = x.shape[-1 if is_last else 1]
    if given != channels * groups or filters % groups:
        problem = f"{filters} filters of {channels} channels in {groups} groups do not fit {given} channels"
        raise refused(what, problem)
    by_itself = channels == 1 and groups == filters > 1
    x = x if is_last or by_itself else channels_last(x)
    axes = tuple(range(2, rank + 2) if by_itself and not is_last else range(1, rank + 1))
    windows = Windows.of(what, x.shape, axes, tuple(weight.shape[:rank]), *steps)
    if by_itself and not is_last:  # in the order of the images, where a channel's weight is one number
        result = one_by_one(x, weight.reshape(*weight.shape[:rank], groups, *(1,) * rank), windows)
        return finished(result, x, weight, None if bias is None else bias.reshape(-1, *(1,) * rank), True)
    return finished(summed(x, weight, windows, groups), x, weight, bias, is_last)


def channels_last(x: Array) -> Array:
    """Return a view of images whose channels are the last dimension."""
    return x.transpose(0, *range(2, x.ndim), 1)


def finished(result: Array, x: Array, weight: Array, bias: Array, is_last: bool) -> Array:
    """Add a bias to sums, round them to the type of the result, and restore the order of dimensions."""
    result = result if bias is None else result + bias.astype(result.dtype)
    dtype = np.result_type(x.dtype, weight.dtype)
    result = result.astype(dtype) if is_floating(dtype) or dtype.itemsize > 4 else result
    return result if is_last else result.transpose(0, result.ndim - 1, *range(1, result.ndim - 1))


def summed(x: Array, weight: Array, windows: Windows, groups: int) -> Array:
    """Return the sums of a convolution whose channels are last, unrounded."""
    *_, channels, filters = weight.shape
    if channels == 1 and groups > 1:
        multiple = filters // groups
        x = x if multiple == 1 else np.broadcast_to(x[..., None], (*x.shape, multiple))
        result = one_by_one(x, weight.reshape(*weight.shape[:-2], *x.shape[len(weight.shape) - 1 :]), windows)
        return result.reshape(*result.shape[: len(windows.axes) + 1], filters)
    if groups > 1:
        return in_groups(x, weight, windows, groups)
    if is_cut_evenly(x, windows):
        return of_blocks(x, weight, windows)
    if channels <= _FEW_CHANNELS and windows.sizes[-1] > 1 and windows.dilations[-1] == 1:
        return of_rows(x, weight, windows)
    return of_taps(windows.taps(x), weight.reshape(-1, filters))


def of_rows(x: Array, weight: Array, windows: Windows) -> Array:
    """Multiply rows of windows, which lie in one piece if channels are last and few; a padded image is stored."""
    *sizes, channels, filters = weight.shape
    axis = windows.axes[-1]
    x = unfold(windows.padded(x).copy(), axis, sizes[-1])
    x = x.transpose(*range(axis + 1), axis + 2, axis + 1).reshape(*x.shape[: axis + 1], sizes[-1] * channels)
    rows = replace(windows, sizes=(*sizes[:-1], 1), before=(0,) * len(sizes))
    return of_taps(rows.taps(x), weight.reshape(-1, filters))


def of_taps(taps: list[Array], weight: Array) -> Array:
    """Multiply taps that are joined along channels by filters, whose rows are in the order of the taps."""
    channels, total = taps[0].shape[-1], None
    for first in range(0, len(taps), _MOST_TAPS):
        some = taps[first : first + _MOST_TAPS]
        joined = some[0] if len(some) == 1 else np.concatenate(some, axis=-1)
        rows = weight[..., first * channels : (first + len(some)) * channels, :]
        part = product(joined, rows)
        total = part if total is None else total + part
    return total


def is_cut_evenly(x: Array, windows: Windows) -> bool:
    """Whether windows lie side by side, as those of patch embeddings, so that they are a reshape of the images."""
    if windows.sizes != windows.strides or math.prod(windows.sizes) == 1 or any(windows.before):
        return False
    lengths = (n * c for n, c in zip(windows.sizes, windows.counts, strict=True))
    return set(windows.dilations) == {1} and all(x.shape[a] == n for a, n in zip(windows.axes, lengths, strict=True))


def of_blocks(x: Array, weight: Array, windows: Windows) -> Array:
    """Multiply windows that lie side by side by filters."""
    *sizes, channels, filters = weight.shape
    rank = len(sizes)
    cut = [x.shape[0], *itertools.chain(*zip(windows.counts, sizes, strict=True)), channels]
    order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1]
    blocks = x.reshape(cut).transpose(order).reshape(x.shape[0], *windows.counts, -1)
    return product(blocks, weight.reshape(-1, filters))


def one_by_one(x: Array, weight: Array, windows: Windows) -> Array:
    """Convolve each channel with its own filters: a depthwise convolution, as sums over taps."""
    dtype, total = accumulator(np.result_type(x.dtype, weight.dtype)), None
    for tap, place in zip(windows.taps(x), itertools.product(*map(range, windows.sizes)), strict=True):
        part = tap.astype(dtype) * weight[place].astype(dtype)
        total = part if total is None else total + part
    return total


def in_groups(x: Array, weight: Array, windows: Windows, groups: int) -> Array:
    """Convolve groups of channels: a stack of products, which stands in front of the columns."""
    *sizes, channels, filters = weight.shape
    rank, count = len(sizes), filters // groups
    x = x.reshape(*x.shape[:-1], groups, channels)
    x = x.transpose(*range(rank), rank + 1, rank, rank + 2)  # the last spatial dimension are the rows of products
    taps = math.prod(sizes)
    weight = weight.reshape(taps * channels, groups, count).transpose(1, 0, 2)
    moved = replace(windows, axes=(*windows.axes[:-1], windows.axes[-1] + 1))
    result = of_taps(moved.taps(x), weight)
    result = result.transpose(*range(rank), rank + 1, rank, rank + 2)
    return result.reshape(*result.shape[:-2], filters)
