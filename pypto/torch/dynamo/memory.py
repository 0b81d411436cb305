"""Tensors of torch as numpy arrays, and arrays as tensors, in the memory that they have."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pypto.graph.exchange.tensors import numpy_types, numpy_view, tensor_over, torch_type

torch: Any = importlib.import_module("torch")
Array = np.ndarray[Any, Any]


def as_array(tensor: Any) -> Array:
    """Return a tensor's memory as an array."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return numpy_view(tensor, numpy_types()[tensor.dtype])


def as_tensor(array: Array) -> Any:
    """Return an array's memory as a tensor; torch has no negative steps."""
    if any(step < 0 for step in array.strides):
        array = array.copy()
    return tensor_over(array, torch_type(array.dtype))
