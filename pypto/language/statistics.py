"""Mean, variance and the like along an axis, written in the language itself."""

from __future__ import annotations

from typing import Any

from pypto.language import ops
from pypto.language.reducing import as_float, in_type_of, max

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = ["logsumexp", "mean", "std", "var"]


def mean(input: Tile, axis: Any = None, keep_dims: bool = False) -> Tile:
    """Arithmetic mean of the elements along an axis.

    Parameters
    ----------
    input : tile
        Floats narrower than 32 bits and integers are added up in float32, integers of 64 bits in float64.
    axis : int, tuple of int, or None for all elements
    keep_dims : bool
        Leave the reduced dimensions in place with size 1.

    Returns
    -------
    tile
        Of the dtype of a float input; float32 for integers.

    Examples
    --------
        pto.mean(x, axis=0)
    """
    return in_type_of(_mean(as_float(input), axis, keep_dims), input)


def var(input: Tile, axis: Any = None, keep_dims: bool = False, correction: int = 0) -> Tile:
    """Variance of the elements along an axis: the mean of the squares of their distances from their mean.

    The mean is computed first, and the distances from it then, so that large means cost no accuracy.

    Parameters
    ----------
    input : tile
        Floats narrower than 32 bits and integers are computed in float32.
    axis : int, tuple of int, or None for all elements
    keep_dims : bool
        Leave the reduced dimensions in place with size 1.
    correction : int
        What is taken from the number of elements before the division: 0 as in `numpy.var`, 1 as in `torch.var`.

    Returns
    -------
    tile
        Of the dtype of a float input; float32 for integers. NaN where nothing is left to divide by.

    Examples
    --------
        pto.var(x, axis=0, correction=1)
    """
    return in_type_of(_var(as_float(input), axis, keep_dims, correction), input)


def std(input: Tile, axis: Any = None, keep_dims: bool = False, correction: int = 0) -> Tile:
    """Standard deviation of the elements along an axis: the square root of `var`.

    Gradient: 0 where all elements are equal.

    Parameters
    ----------
    input : tile
        Floats narrower than 32 bits and integers are computed in float32.
    axis : int, tuple of int, or None for all elements
    keep_dims : bool
        Leave the reduced dimensions in place with size 1.
    correction : int
        What is taken from the number of elements before the division: 0 as in `numpy.std`, 1 as in `torch.std`.

    Returns
    -------
    tile
        Of the dtype of a float input; float32 for integers.

    Examples
    --------
        pto.std(x, axis=0)
    """
    return in_type_of(_deviation(_var(as_float(input), axis, keep_dims, correction)), input)


def _deviation(variance: Tile) -> Tile:
    return ops.sqrt(variance)


def _deviation_with_gradient(variance: Tile) -> Tile:
    """The square root, with a finite gradient at 0: there the variance has none."""
    is_zero = variance == 0
    return ops.where(is_zero, variance, ops.sqrt(ops.where(is_zero, 1.0, variance)))


WITH_GRADIENTS = ((_deviation, _deviation_with_gradient),)


def _mean(x: Tile, axis: Any, keep_dims: bool) -> Tile:
    total = ops.sum(x, axis, keep_dims)
    return total / (x.size // total.size)


def _var(x: Tile, axis: Any, keep_dims: bool, correction: int) -> Tile:
    distance = x - _mean(x, axis, True)
    total = ops.sum(distance * distance, axis, keep_dims)
    return total / (x.size // total.size - correction)


def logsumexp(input: Tile, axis: Any = None, keep_dims: bool = False) -> Tile:
    """Logarithm of the sum of the exponentials along an axis, without overflow.

    Parameters
    ----------
    input : tile
        Floats narrower than 32 bits and integers are computed in float32.
    axis : int, tuple of int, or None for all elements
    keep_dims : bool
        Leave the reduced dimensions in place with size 1.

    Returns
    -------
    tile
        Of the dtype of a float input; float32 for integers.

    Examples
    --------
        pto.logsumexp(x, axis=0)
    """
    x = as_float(input)
    most = max(x, axis, keep_dims=True)
    finite = ops.where(ops.abs(most) < float("inf"), most, 0.0)
    total = ops.log(ops.sum(ops.exp(x - finite), axis, keep_dims))
    return in_type_of(total + ops.reshape(finite, total.shape), input)
