"""How an array of a traced function lies in memory: numpy's own rule for what is a view and what is a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pypto.graph.meaning import moved

Strides = tuple[int, ...] | None


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array in C order, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(1, n)
    return tuple(reversed(strides))


def strides_of(op: str, shape: tuple[int, ...], strides: Strides, attrs: Mapping[str, Any]) -> Strides:
    """Strides of a view, in elements; None where there is no view, or nobody knows."""
    if strides is None:
        return None
    if op == "reshape" and strides == contiguous(shape):
        return contiguous(attrs["shape"])
    memory = as_strided(np.empty(1, np.uint8), shape, strides)  # none of its elements is read
    if op == "reshape":
        try:
            view: Any = np.reshape(memory, attrs["shape"], copy=False)
        except ValueError:
            return None
    else:
        view = moved(op, memory, attrs)
    found: tuple[int, ...] = view.strides
    return found


def in_c_order(shape: tuple[int, ...], strides: Strides) -> bool:
    """Whether the elements lie in memory in the order of their indices; then so do those of a ufunc's result."""
    if strides is None:
        return False
    steps = [abs(s) for n, s in zip(shape, strides, strict=True) if n != 1 and s]
    return steps == sorted(steps, reverse=True)
