"""Metrics measure the error of quantisation: SQNR, relative error, cosine and rank correlation."""

from __future__ import annotations

import math

import numpy as np

from pypto.quant.arrays import Array


def sqnr(exact: Array, quantized: Array) -> float:
    """Signal-to-quantisation-noise ratio in decibels: ``10 log10(sum x² / sum (x - q)²)``.

    Parameters
    ----------
    exact, quantized : ndarray of one shape

    Returns
    -------
    float
        The ratio: infinite if both are equal, minus infinity if only `exact` is all 0.

    Examples
    --------
    >>> round(sqnr(np.array([3.0, 4.0]), np.array([3.0, 4.5])), 6)
    20.0
    """
    x = np.asarray(exact, np.float64)
    noise = float(np.square(x - np.asarray(quantized, np.float64)).sum())
    signal = float(np.square(x).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def row_sqnr(exact: Array, quantized: Array) -> float:
    """SQNR in which all rows have equal weight: it is the mean of the rows' relative squared errors in decibels.

    Rows of zeros do not count.
    """
    x = np.asarray(exact, np.float64)
    size = np.square(x).sum(axis=1)
    noise = np.square(x - np.asarray(quantized, np.float64)).sum(axis=1)[size > 0] / size[size > 0]
    return -10 * math.log10(noise.mean()) if noise.any() else math.inf


def relative_error(exact: Array, quantized: Array) -> float:
    """``||x - q|| / ||x||`` in the Frobenius norm; 0 if both are equal, infinite if only `exact` is all 0."""
    return float(10 ** (-sqnr(exact, quantized) / 20))


def cosine(a: Array, b: Array) -> Array:
    """Cosines between the rows of two matrices: 1 between two rows of zeros, 0 if one of them is zeros."""
    x = np.asarray(a, np.float64)
    y = np.asarray(b, np.float64)
    norms = np.sqrt(np.square(x).sum(-1) * np.square(y).sum(-1))
    same = ~x.any(-1) & ~y.any(-1)
    return np.where(norms > 0, (x * y).sum(-1) / np.where(norms > 0, norms, 1), same.astype(np.float64))


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's rank correlation of two arrays of one shape; equal numbers share their mean rank.

    Examples
    --------
    >>> rank_correlation(np.array([1, 2, 3]), np.array([10, 30, 20]))
    0.5
    """
    x = ranks(a)
    y = ranks(b)
    x -= x.mean()
    y -= y.mean()
    norm = math.sqrt(float((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / norm if norm else math.nan


def ranks(numbers: Array) -> Array:
    """Ranks from 0, in float64; equal numbers share their mean rank."""
    _, inverse, counts = np.unique(np.asarray(numbers).ravel(), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]
