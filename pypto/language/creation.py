"""Tiles from nothing, written in the language itself."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import DType
from pypto.language import ops

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = ["full_like", "ones", "ones_like", "zeros", "zeros_like"]


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


def full_like(input: Tile, value: Any, dtype: Any = None, shape: Any = None) -> Tile:
    """A tile with the shape and dtype of another one, where these are not given, and one value in every element."""
    return ops.full(input.shape if shape is None else shape, value, input.dtype if dtype is None else dtype)


def zeros_like(input: Tile, dtype: Any = None) -> Tile:
    """A tile of zeros with the shape and dtype of another one."""
    return full_like(input, 0, dtype)


def ones_like(input: Tile, dtype: Any = None) -> Tile:
    """A tile of ones with the shape and dtype of another one."""
    return full_like(input, 1, dtype)
