"""Transposed convolutions, as one convolution for each phase of the result, so that kernels gather and never scatter.

With a stride of 2, even and odd elements of the result are two phases. Each is a convolution with every second tap.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.arrays.convolution import channels_last, finished, summed
from pypto.arrays.operations import operation, product
from pypto.arrays.windows import Windows, is_channels_last, numbers, refused

Array = Any


@operation
def conv_transpose(  # noqa: PLR0913, PLR0917  # the arguments that torch and Keras have
    x: Array, weight: Array, bias: Array = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, data_format: str = "channels_first",
) -> Array:  # fmt: skip
    """Convolve images with the transpose of a convolution, which makes them larger by the stride.

    Each of the ``stride`` phases of the result, along every dimension, is a convolution of its own with a part of the
    taps. So the kernels gather, and no zeros are put between the elements of the images.

    Parameters
    ----------
    x : array of shape (images, channels, *dimensions)
        With one to three dimensions; or (images, *dimensions, channels) if channels are last.
    weight : array of shape (channels, filters / groups, *sizes)
        Or (*sizes, filters / groups, channels) if channels are last.
    bias : array of shape (filters,), optional
    stride, dilation : int or tuple of int
        Steps of the convolution whose transpose this is.
    padding : int or tuple of int
        Elements that are cut off at both ends of each dimension.
    output_padding : int or tuple of int
        Elements that are added behind each dimension, fewer than the stride.
    groups : int
    data_format : "channels_first" or "channels_last"
        Or their letters, such as "NCHW".

    References
    ----------
    .. [1] V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285, 2016.

    Examples
    --------
    >>> conv_transpose(np.float32([[[1, 2]]]), np.float32([[[1, 10]]]), stride=2).tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """
    what, rank = "conv_transpose", x.ndim - 2
    is_last = is_channels_last(data_format, rank, what)
    if not is_last:
        x, weight = channels_last(x), weight.transpose(*range(2, rank + 2), 1, 0)
    if weight.ndim != rank + 2 or weight.shape[-1] != x.shape[-1] or x.shape[-1] % groups:
        problem = f"filters for {weight.shape[-1]} channels in {groups} groups do not fit {x.shape[-1]} channels"
        raise refused(what, problem)
    filters = transposed_filters(weight, groups)
    steps = [numbers(value, rank, what) for value in (stride, padding, output_padding, dilation)]
    dimensions = [Dimension(*row) for row in zip(x.shape[1:-1], weight.shape[:-2], *steps, strict=True)]
    if any(d.stride < 1 or d.dilation < 1 or not 0 <= d.added < d.stride or d.result < 1 for d in dimensions):
        raise refused(what, f"stride {stride}, padding {padding}, output_padding {output_padding} leave no result")
    if groups == 1 and all(d.is_plain for d in dimensions):
        result = of_blocks(x, weight)
    else:
        result = of_phases(x, filters, dimensions, groups)
    return finished(result, x, weight, bias, is_last)


def transposed_filters(weight: Array, groups: int) -> Array:
    """Return filters in the order of a convolution: sizes, channels of a group, filters of all groups."""
    *sizes, filters, channels = weight.shape
    rank = len(sizes)
    split = weight.reshape(*sizes, filters, groups, channels // groups)
    return split.transpose(*range(rank), rank + 2, rank + 1, rank).reshape(*sizes, channels // groups, -1)


@dataclass(frozen=True, slots=True)
class Dimension:
    """The geometry of a transposed convolution along one dimension: its length, taps and steps."""

    length: int
    size: int
    stride: int
    padding: int
    added: int
    dilation: int

    @property
    def result(self) -> int:
        """Return the number of elements of the result."""
        span = self.dilation * (self.size - 1) + 1
        return (self.length - 1) * self.stride - 2 * self.padding + span + self.added

    @property
    def is_plain(self) -> bool:
        """Whether the result consists of blocks side by side, one for each element."""
        return self.size == self.stride and self.padding == self.added == 0 and self.dilation == 1

    def phase(self, number: int) -> tuple[slice, int, int, int]:
        """Return the taps of a phase from the last to the first, their count and dilation, and where the first reads.

        Tap `k` of element ``stride * j + number`` reads element ``j + (number + padding - dilation * k) / stride``.
        """
        shift = number + self.padding
        taps = [k for k in range(self.size) if (shift - self.dilation * k) % self.stride == 0]
        if not taps:
            return slice(0, 0), 0, 1, 0
        step = self.stride // math.gcd(self.stride, self.dilation)
        backwards = slice(taps[-1], taps[0] - 1 if taps[0] else None, -step)
        gap = self.dilation // math.gcd(self.stride, self.dilation)
        return backwards, len(taps), gap, (shift - self.dilation * taps[-1]) // self.stride


def of_blocks(x: Array, weight: Array) -> Array:
    """Multiply each element by all taps, and put the results side by side: one product."""
    *sizes, filters, channels = weight.shape
    rank = len(sizes)
    each = product(x, weight.reshape(-1, channels).T).reshape(*x.shape[:-1], *sizes, filters)
    order = [0, *itertools.chain(*((1 + d, 1 + rank + d) for d in range(rank))), 2 * rank + 1]
    shape = (n * k for n, k in zip(x.shape[1:-1], sizes, strict=True))
    return each.transpose(order).reshape(x.shape[0], *shape, filters)


def of_phases(x: Array, weight: Array, dimensions: list[Dimension], groups: int) -> Array:
    """Convolve images for each phase, and interleave the results."""
    rank, filters = len(dimensions), weight.shape[-1]
    counts, strides = tuple(-(-d.result // d.stride) for d in dimensions), [d.stride for d in dimensions]
    parts: list[Array] = []
    for place in itertools.product(*map(range, strides)):
        phases = [d.phase(number) for d, number in zip(dimensions, place, strict=True)]
        taps, sizes, gaps, firsts = (tuple(values) for values in zip(*phases, strict=True))
        before, ones = tuple(-first for first in firsts), (1,) * rank
        if 0 in sizes:
            parts.append(None)
            continue
        windows = Windows(tuple(range(1, rank + 1)), sizes, ones, gaps, before, before, counts)
        parts.append(summed(x, weight[taps], windows, groups))
    some = next(part for part in parts if part is not None)
    if len(parts) > 1:
        stacked = np.stack([np.zeros_like(some) if part is None else part for part in parts], axis=rank + 1)
        split = stacked.reshape(x.shape[0], *counts, *strides, filters)
        order = [0, *itertools.chain(*((1 + d, 1 + rank + d) for d in range(rank))), 2 * rank + 1]
        shape = (n * s for n, s in zip(counts, strides, strict=True))
        some = split.transpose(order).reshape(x.shape[0], *shape, filters)
    return some[(slice(None), *(slice(0, d.result) for d in dimensions))]
