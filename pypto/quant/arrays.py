"""`as_array` turns tensors of torch into numpy arrays, so that the rest of the package computes with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

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
