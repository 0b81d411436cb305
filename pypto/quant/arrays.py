"""Converts torch tensors to numpy arrays, so that the rest of the package computes with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.errors.quant import NotFinite, WrongCalibration

Array = Any


def is_tensor(value: Any) -> bool:
    """Says whether a value is a torch tensor; torch is imported only if it is one."""
    return hasattr(value, "untyped_storage") and hasattr(value, "numpy")


def as_array(value: Any) -> Any:
    """Returns a numpy array of an array or a tensor; bfloat16 becomes float32, which represents all its numbers."""
    if not is_tensor(value):
        return np.asarray(value)
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).contiguous().numpy()


def check_finite(layer: str, what: str, numbers: Array) -> None:
    """Refuses NaN and infinity, and names the first position."""
    finite = np.isfinite(numbers)
    if not finite.all():
        place = np.unravel_index(int(np.argmin(finite)), finite.shape)
        raise NotFinite(layer=layer, what=what, place=f" at {[int(i) for i in place]}")


def check_columns(layer: str, inputs: Array, columns: int) -> None:
    """Refuses inputs whose last dimension is not that of the weight."""
    shape = tuple(np.shape(inputs))
    if not shape or shape[-1] != columns:
        what = f"layer {layer}: inputs have the shape {shape}, and its weight has {columns} columns"
        raise WrongCalibration(what=what, way=f"give inputs of the shape (…, {columns})")
