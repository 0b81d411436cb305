"""The type of an array in a Tensor graph: a shape and an element type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.ir.types import DType, from_numpy


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of an array.

    Examples
    --------
    >>> from pypto.ir.types import float32
    >>> str(TensorType((2, 3), float32))
    'f32[2, 3]'
    """

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> TensorType | None:
        """The type of a numpy array, or None where there is no such element type."""
        dtype = from_numpy(array.dtype)
        return None if dtype is None else TensorType(tuple(array.shape), dtype)
