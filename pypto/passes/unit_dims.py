"""Reshapes that only add or drop dimensions of size 1: each other dimension has its counterpart."""

from __future__ import annotations

from pypto.ir.core import Op


def is_unit_reshape(op: Op) -> bool:
    """True when only dimensions of size 1 come or go."""
    return [n for n in op.operands[0].shape if n > 1] == [n for n in op.results[0].shape if n > 1]


def matching_dim(shape: tuple[int, ...], other: tuple[int, ...], d: int | None) -> int | None:
    """The dimension of `shape` that is dimension `d` of `other`, where only dimensions of size 1 come or go."""
    if d is None or other[d] == 1:
        return None
    return [i for i, n in enumerate(shape) if n > 1][[i for i, n in enumerate(other) if n > 1].index(d)]
