"""Sliding windows on traced arrays: each element of a window is a slice of the array, and the slices are concatenated.

A product of windows with weights reads the slices, so that a convolution by windows stores no windows.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import here
from pypto.graph.tracing.movement import reshape, stack
from pypto.graph.tracing.tensor import Tensor

_NAME: Final = "`np.lib.stride_tricks.sliding_window_view`"
_MOST: Final = 256  # elements of a window


def sliding_window_view(x: Tensor, window_shape: Any, axis: Any = None, *, subok: bool = False) -> Tensor:
    """Return the windows of an array; the dimensions of a window follow those of its start."""
    window = tuple(np.atleast_1d(window_shape).tolist())
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    axes = tuple(a % x.ndim for a in axes)
    if len(window) != len(axes):
        problem = f"a window of {len(window)} dimensions for {len(axes)} axes"
        raise WrongShapes(here().loc(), what=_NAME, problem=problem)
    sizes = list(x.node.shape)
    if not all(map(is_fixed, sizes)) or math.prod(window) > _MOST:
        way = "write it as a sum over slices"
        raise NotTraced(
            here().loc(), what=_NAME, problem=f"it is offered for fixed sizes and {_MOST} elements", way=way
        )
    for a, n in zip(axes, window, strict=True):
        sizes[a] -= n - 1
    if min(window, default=1) < 1 or min(sizes, default=1) < 1:
        raise WrongShapes(here().loc(), what=_NAME, problem=f"an array of shape {x.shape} has no windows of {window}")
    taps = [slices(sizes, axes, starts) for starts in itertools.product(*map(range, window))]
    return reshape(stack([x[at] for at in taps], axis=-1), (*sizes, *window))


def slices(sizes: list[int], axes: tuple[int, ...], starts: tuple[int, ...]) -> tuple[slice, ...]:
    """Return a slice with one element of each window."""
    first = [0] * len(sizes)
    for a, n in zip(axes, starts, strict=True):
        first[a] += n
    return tuple(slice(n, n + size) for n, size in zip(first, sizes, strict=True))
