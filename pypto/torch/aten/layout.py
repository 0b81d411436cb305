"""Layouts of torch's tensors: the order of dimensions in memory, such as channels last."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.graph.tracing.tensor import Tensor

torch: Any = importlib.import_module("torch")


def memory_order(value: Any) -> tuple[int, ...] | None:
    """Return the dimensions of a dense tensor from the slowest to the fastest, or None for C order."""
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    steps = [int(s) if isinstance(s, int) else s.node.hint for s in value.stride()]
    sizes = [int(s) if isinstance(s, int) else s.node.hint for s in value.shape]
    order = sorted(range(len(steps)), key=lambda n: (-steps[n], -sizes[n]))
    expected = 1
    for n in reversed(order):
        if sizes[n] != 1 and steps[n] != expected:
            return None
        expected *= sizes[n]
    return None if order == sorted(order) else tuple(order)


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that puts dimensions back."""
    return tuple(int(n) for n in np.argsort(order))


def in_order(x: Tensor, order: tuple[int, ...]) -> Any:
    """Return an operand with its dimensions in the order of the result's memory."""
    if not x.ndim:
        return x
    return np.transpose(np.reshape(x, (*(1,) * (len(order) - x.ndim), *x.node.shape)), order)
