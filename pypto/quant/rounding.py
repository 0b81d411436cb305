"""Rounding maps numbers to integer or small-float codes on a grid of scales and zero points, and back."""

from __future__ import annotations

from typing import Final

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.quant.arrays import Array
from pypto.quant.floats import powers
from pypto.quant.schemes import TENSOR, Scheme

TINY: Final = float(np.finfo(np.float32).tiny)


def expand(per_group: Array, columns: int, scheme: Scheme) -> Array:
    """Repeats the values of groups for all their columns."""
    return np.repeat(per_group, scheme.group, axis=1)[:, :columns] if scheme.group else per_group


@BOUNDARY
def grid(low: Array, high: Array, scheme: Scheme) -> tuple[Array, Array | None]:
    """Computes scales, and zero points of an asymmetric scheme, from ranges of numbers.

    The range is widened to contain 0, so that padding zeros stay exact. A range of 0 has the scale 1, and no
    scale is below the least normal float32: scales are never 0, infinite or NaN.

    Parameters
    ----------
    low, high : ndarray
        The least and the largest number of each group.
    scheme : Scheme

    Returns
    -------
    scales : ndarray of float32
    zeros : ndarray of int8, or None

    Examples
    --------
    >>> grid(np.array([-1.0, 0.0]), np.array([2.0, 0.0]), Scheme())[0].tolist()
    [0.015748031437397003, 1.0]
    """
    least = np.minimum(np.asarray(low, np.float64), 0)
    most = np.maximum(np.asarray(high, np.float64), 0)
    if scheme.powers and scheme.format is not None:
        size = np.maximum(most, -least)
        return np.where(size > 0, powers(size, scheme.format), 1).astype(np.float32), None
    width = 2 * np.maximum(most, -least) if scheme.symmetric else most - least
    scales = np.where(width > 0, np.maximum(width / scheme.steps, TINY), 1).astype(np.float32)
    if scheme.symmetric:
        return scales, None
    zeros = np.rint(scheme.low - least / scales.astype(np.float64))
    return scales, np.clip(zeros, scheme.low, scheme.high).astype(np.int8)


@BOUNDARY
def ranges(numbers: Array, scheme: Scheme, percentile: float = 100) -> tuple[Array, Array]:
    """Returns the least and the largest number of each group, both of shape (outputs, groups).

    With `percentile` below 100, this percentage of each group's numbers remains; both ends are cut off equally.
    """
    if scheme.per == TENSOR:
        low, high = extremes(numbers.reshape(1, -1), percentile)
        return np.full((len(numbers), 1), low), np.full((len(numbers), 1), high)
    size = scheme.group or numbers.shape[1]
    parts = [extremes(numbers[:, k : k + size], percentile) for k in range(0, numbers.shape[1], max(size, 1))]
    parts = parts or [extremes(numbers, percentile)]
    return np.stack([p[0] for p in parts], 1), np.stack([p[1] for p in parts], 1)


def extremes(numbers: Array, percentile: float) -> tuple[Array, Array]:
    """Returns the least and the largest number of each row; 0 for empty rows."""
    if percentile >= 100 or not numbers.size:
        return numbers.min(axis=1, initial=0), numbers.max(axis=1, initial=0)
    low, high = np.quantile(numbers.astype(np.float64), [0.5 - percentile / 200, 0.5 + percentile / 200], axis=1)
    return low, high


@BOUNDARY
def quantize(numbers: Array, scales: Array, zeros: Array | None, scheme: Scheme) -> Array:
    """Quantises numbers: rounds to nearest, halves to even, and clips to the range of the scheme.

    Codes of small floats are their bit patterns, as int8.
    """
    columns = numbers.shape[1]
    t = np.asarray(numbers, np.float64) / expand(scales, columns, scheme)
    if scheme.format is not None:
        return scheme.format.codes(t)
    t = np.rint(t)
    if zeros is not None:
        t += expand(zeros, columns, scheme)
    return np.clip(t, scheme.low, scheme.high).astype(np.int8)


def dequantize(codes: Array, scales: Array, zeros: Array | None, scheme: Scheme) -> Array:
    """Converts codes to float32 numbers."""
    columns = codes.shape[1]
    t = codes.astype(np.float32) if scheme.format is None else scheme.format.numbers(codes)
    if zeros is not None:
        t = t - expand(zeros, columns, scheme)
    return (t * expand(scales, columns, scheme)).astype(np.float32, copy=False)
