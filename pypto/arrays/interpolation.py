"""Interpolation: images of another size, whose elements are weighted sums of a few of the old ones.

Along each dimension, an element has one to four sources with weights that do not depend on the image. A kernel gathers
the sources of all dimensions at once, so nothing is stored between them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from pypto.arrays.operations import operation, rounded_once
from pypto.arrays.windows import is_channels_last, numbers, refused, spatial_axes

Array = Any
Taps = list[tuple[list[int], list[float] | None]]  # sources along a dimension with their weights; None is 1
_LINEAR = ("linear", "bilinear", "trilinear")
_CUBIC = -0.75  # the parameter of the kernel, that of torch


@operation
def interpolate(
    x: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False,
    data_format: str = "channels_first",
) -> Array:  # fmt: skip
    """Resize images, as `torch.nn.functional.interpolate` does.

    Parameters
    ----------
    x : array of shape (images, channels, *dimensions)
        With one to three dimensions; or (images, *dimensions, channels) if channels are last.
    size : int or tuple of int, optional
        Of the result, for each dimension.
    scale_factor : float or tuple of float, optional
        Sizes of the result over those of `x`, in place of `size`.
    mode : "nearest", "nearest-exact", "linear", "bilinear", "trilinear" or "bicubic"
        The three linear ones are one mode for any number of dimensions.
    align_corners : bool
        Whether the centres of the corner elements stay where they are, for the modes that compute sums.
    data_format : "channels_first" or "channels_last"
        Or their letters, such as "NCHW".

    References
    ----------
    .. [1] R. Keys, "Cubic convolution interpolation for digital image processing", IEEE Transactions on Acoustics,
       Speech, and Signal Processing 29, 1981.

    Examples
    --------
    >>> interpolate(np.float32([[[1, 2]]]), 4).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    >>> interpolate(np.float32([[[1, 2]]]), 3, mode="linear", align_corners=True).tolist()
    [[[1.0, 1.5, 2.0]]]
    """
    if (size is None) == (scale_factor is None):
        raise refused("interpolate", "give either `size` or `scale_factor`")
    if mode not in ("nearest", "nearest-exact", "bicubic", *_LINEAR):
        raise refused("interpolate", f"mode is 'nearest', 'nearest-exact', 'linear' or 'bicubic', not {mode!r}")
    axes = spatial_axes(x, data_format, "interpolate")
    lengths = [x.shape[a] for a in axes]
    if size is None:
        factors = (scale_factor,) * len(axes) if isinstance(scale_factor, int | float) else tuple(scale_factor)
        sizes = tuple(math.floor(n * f) for n, f in zip(lengths, factors, strict=True))
        scales = [1 / f for f in factors]
    else:
        sizes = numbers(size, len(axes), "interpolate")
        scales = [n / m for n, m in zip(lengths, sizes, strict=True)]
    if min(sizes) < 1:
        raise refused("interpolate", f"a result of size {sizes} has no elements")
    taps = [taps_of(mode, *row, align_corners) for row in zip(lengths, sizes, scales, strict=True)]
    return blended(x, taps, sizes, is_channels_last(data_format, len(axes), "interpolate"))


def taps_of(mode: str, length: int, size: int, scale: float, align_corners: bool) -> Taps:
    """Return the sources of the elements along one dimension, with their weights."""
    if mode == "nearest":
        return [([min(math.floor(n * scale), length - 1) for n in range(size)], None)]
    if mode == "nearest-exact":
        return [([min(math.floor((n + 0.5) * scale), length - 1) for n in range(size)], None)]
    if align_corners:
        places = [n * (length - 1) / (size - 1) if size > 1 else 0.0 for n in range(size)]
    else:
        places = [(n + 0.5) * scale - 0.5 for n in range(size)]
    if mode == "bicubic":
        return cubic_taps(places, length)
    places = [max(0.0, place) for place in places]
    firsts = [min(math.floor(place), length - 1) for place in places]
    rests = [place - first for place, first in zip(places, firsts, strict=True)]
    seconds = [min(first + 1, length - 1) for first in firsts]
    return [(firsts, [1 - weight for weight in rests]), (seconds, rests)]


def cubic_taps(places: list[float], length: int) -> Taps:
    """Return four sources around each place, weighted by a cubic convolution."""
    firsts = [math.floor(place) for place in places]
    taps: Taps = []
    for k in range(-1, 3):
        sources = [min(max(first + k, 0), length - 1) for first in firsts]
        distances = [abs(place - first - k) for place, first in zip(places, firsts, strict=True)]
        taps.append((sources, [cubic(t) for t in distances]))
    return taps


def cubic(t: float) -> float:
    """Return the weight of an element at a distance of less than 2."""
    if t <= 1:
        return ((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1
    return ((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC


@rounded_once
def blended(x: Array, taps: list[Taps], sizes: tuple[int, ...], is_last: bool) -> Array:
    """Gather and add up the sources, with all spatial dimensions as one, whose elements the indices name."""
    rank = len(sizes)
    at = 1 if is_last else 2
    lengths = x.shape[at : at + rank]
    flat = x.reshape(*x.shape[:at], math.prod(lengths), *x.shape[at + rank :])
    total = None
    for choice in itertools.product(*taps):
        places, weight = [0], None
        for (sources, _), length in zip(choice, lengths, strict=True):
            places = [place * length + source for place in places for source in sources]
        part = np.take(flat, np.asarray(places).reshape(sizes), axis=at)
        for axis, (_, weights) in enumerate(choice):
            if weights is not None:
                shape = [len(weights) if d == at + axis else 1 for d in range(part.ndim)]
                line = np.asarray(weights, x.dtype).reshape(shape)
                weight = line if weight is None else weight * line
        part = part if weight is None else part * weight
        total = part if total is None else total + part
    return total
