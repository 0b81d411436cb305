"""Functions that are written in the language itself. Those on plain numbers work outside of kernels, too."""

from __future__ import annotations

from typing import Any

from pypto.language import ops
from pypto.ops.public import constexpr

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = [
    "cdiv",
    "clamp",
    "device_assert",
    "logical_and",
    "logical_or",
    "next_power_of_2",
    "static_assert",
    "swizzle2d",
]


def cdiv(x: Any, div: Any) -> Any:
    """x / div rounded up, for integers that are not negative.

    Examples
    --------
    >>> cdiv(10, 4)
    3
    """
    return (x + div - 1) // div


def next_power_of_2(n: int) -> int:
    """The least power of two that is not less than n.

    Examples
    --------
    >>> next_power_of_2(100)
    128
    """
    return 1 if n <= 1 else 2 * next_power_of_2((n + 1) // 2)


def static_assert(cond: constexpr, msg: Any = "") -> None:
    """An assertion about constants, at compile time."""
    assert cond, msg


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Like `assert`, for the elements where the mask holds."""
    assert cond if mask is None else cond | (mask == 0), msg


def logical_and(input: Tile, other: Tile) -> Tile:
    """Whether both elements are not zero."""
    return (input != 0) & (other != 0)


def logical_or(input: Tile, other: Tile) -> Tile:
    """Whether one of two elements is not zero."""
    return (input != 0) | (other != 0)


def clamp(x: Tile, min: Any, max: Any, propagate_nan: Any = False) -> Tile:
    """x limited to the range from min to max; NaN becomes min unless it is to be propagated.

    Gradient: all of it for x at min and at max.
    """
    return ops.minimum(ops.maximum(x, min, propagate_nan), max, propagate_nan)


def _clamp_by_choice(x: Tile, min: Any, max: Any, propagate_nan: Any = False) -> Tile:
    """`clamp`, as choices: at min and at max x is chosen."""
    above = ops.where((x >= min) | (x != x), x, min) if propagate_nan else ops.where(x >= min, x, min)  # noqa: PLR0124
    return ops.where(above > max, max, above)


WITH_GRADIENTS = ((clamp, _clamp_by_choice),)


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Indices of a (size_i, size_j) grid in column-major groups of size_g rows, so that neighbours share operands."""
    ij = i * size_j + j
    group = ij // (size_g * size_j)
    remainder = ij % (size_g * size_j)
    first = group * size_g
    rows = ops.minimum(size_i - first, size_g)
    return first + remainder % rows, remainder // rows
