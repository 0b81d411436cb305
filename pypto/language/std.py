"""Functions that are written in the language itself. Those on plain numbers work outside of kernels, too."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import DType
from pypto.language import ops
from pypto.ops.public import constexpr

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = [
    "cdiv",
    "clamp",
    "device_assert",
    "expand_dims",
    "full_like",
    "next_power_of_2",
    "ones",
    "ravel",
    "sigmoid",
    "softmax",
    "static_assert",
    "swizzle2d",
    "trans",
    "zeros",
    "zeros_like",
]


def zeros(shape: Any, dtype: DType) -> Tile:
    """A tile of zeros.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
    """
    return ops.full(shape, 0, dtype)


def ones(shape: Any, dtype: DType) -> Tile:
    """A tile of ones."""
    return ops.full(shape, 1, dtype)


def full_like(x: Tile, value: Any) -> Tile:
    """A tile with the shape and dtype of x and one value in every element."""
    return ops.full(x.shape, value, x.dtype)


def zeros_like(x: Tile) -> Tile:
    """A tile of zeros with the shape and dtype of x."""
    return ops.full(x.shape, 0, x.dtype)


def cdiv(x: Any, y: Any) -> Any:
    """x / y rounded up, for integers that are not negative.

    Examples
    --------
    >>> cdiv(10, 4)
    3
    """
    return (x + y - 1) // y


def next_power_of_2(n: int) -> int:
    """The least power of two that is not less than n.

    Examples
    --------
    >>> next_power_of_2(100)
    128
    """
    return 1 if n <= 1 else 2 * next_power_of_2((n + 1) // 2)


def static_assert(condition: constexpr, message: Any = "") -> None:
    """An assertion about constants, at compile time."""
    assert condition, message


def device_assert(condition: Any, message: Any = "", mask: Any = None) -> None:
    """Like `assert`, for the elements where the mask holds."""
    assert condition if mask is None else condition | (mask == 0), message


def clamp(x: Tile, min: Any, max: Any) -> Tile:
    """x limited to the range from min to max."""
    return ops.minimum(ops.maximum(x, min), max)


def sigmoid(x: Tile) -> Tile:
    """1 / (1 + exp(-x)), elementwise, for floats."""
    return 1 / (1 + ops.exp(-x))


def softmax(x: Tile, axis: Any = -1) -> Tile:
    """Exponentials of x along an axis, divided by their sum."""
    e = ops.exp(x - ops.max(x, axis, True))
    return e / ops.sum(e, axis, True)


def ravel(x: Tile) -> Tile:
    """x with one dimension."""
    return ops.reshape(x, (-1,))


def trans(x: Tile, *dims: int) -> Tile:
    """x with its dimensions in another order; by default the last two change places."""
    return ops.permute(x, dims) if dims else ops.permute(x)


def expand_dims(x: Tile, axis: int) -> Tile:
    """x with a dimension of size 1 at the given axis."""
    at = axis if axis >= 0 else axis + len(x.shape) + 1
    return ops.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Indices of a (size_i, size_j) grid in column-major groups of size_g rows, so that neighbours share operands."""
    ij = i * size_j + j
    group = ij // (size_g * size_j)
    rest = ij % (size_g * size_j)
    first = group * size_g
    rows = ops.minimum(size_i - first, size_g)
    return first + rest % rows, rest // rows
