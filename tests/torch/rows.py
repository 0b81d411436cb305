"""Samples of the library's rows as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pypto.library import Operator
from pypto.runtime.arrays import dtype_of


def tensor_of(x: Any) -> Any:
    """Returns a tensor with the elements of an array; numbers stay as they are."""
    if not isinstance(x, np.ndarray):
        return x
    dtype, array = dtype_of(x.dtype), np.array(x, order="K")
    if array.dtype == np.bool_:
        return torch.from_numpy(array)
    words = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
    return torch.from_numpy(words).view(getattr(torch, dtype.public)) if dtype else torch.from_numpy(words)


def sample(row: Operator) -> dict[str, Any]:
    """Returns arguments of the small size, by name."""
    return {name: tensor_of(x) for name, x in row.sample(np.random.default_rng(0)).items()}


def recorded_sample(row: Operator) -> dict[str, Any]:
    """Returns arguments of the small size, of which autograd records all that have a gradient."""
    values = sample(row)
    for name, x in values.items():
        if row.gradient is not None and isinstance(x, torch.Tensor) and name not in row.effects:
            x.requires_grad_(x.is_floating_point() and x.element_size() > 1)
    return values


def positional(row: Operator, values: dict[str, Any]) -> tuple[Any, ...]:
    """Returns all arguments by position."""
    every = row.arguments(values)
    return tuple(every[name] for name in row.signature.names)


def results(row: Operator, computed: Any, values: dict[str, Any]) -> list[Any]:
    """Returns the results and effects of a call."""
    given = computed if isinstance(computed, tuple) else () if computed is None else (computed,)
    return [*given, *(values[name] for name in row.effects)]
