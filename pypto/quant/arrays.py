"""`as_array` turns tensors of torch into numpy arrays, so that the rest of the package computes with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.errors.quant import NotFinite, WrongCalibration

Array = Any


def is_tensor(value: Any) -> bool:
    """Whether a value is torch's; torch is loaded where one is."""
    return hasattr(value, "untyped_storage") and hasattr(value, "numpy")


def as_array(value: Any) -> Any:
    """An array of numpy, of an array or a tensor of torch; bfloat16 becomes float32, which holds all its numbers."""
    if not is_tensor(value):
        return np.asarray(value)
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).contiguous().numpy()


def check_finite(layer: str, what: str, numbers: Array) -> None:
    """Refuse NaN and infinity, with the place of the first."""
    finite = np.isfinite(numbers)
    if not finite.all():
        place = np.unravel_index(int(np.argmin(finite)), finite.shape)
        raise NotFinite(layer=layer, what=what, place=f" at {[int(i) for i in place]}")


def check_columns(layer: str, inputs: Array, columns: int) -> None:
    """Refuse inputs whose last dimension is not that of a weight."""
    shape = tuple(np.shape(inputs))
    if not shape or shape[-1] != columns:
        what = f"layer {layer}: inputs have the shape {shape}, and its weight has {columns} columns"
        raise WrongCalibration(what=what, way=f"give inputs of the shape (…, {columns})")
