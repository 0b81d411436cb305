"""The type of an array in a Tensor graph, a shape and an element type, and its strides.

numpy's rule on strides decides which movement is a view and which a copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from pypto.graph.ir.dims import is_fixed, quotient
from pypto.ir.types import DType, float32, float64, from_numpy

Shape = tuple[int, ...]
COMPLEX: Final = (  # element types of pairs: kernels compute with the real and the imaginary parts
    DType("c64", "complex", 64, "complex64", "complex64"),
    DType("c128", "complex", 128, "complex128", "complex128"),
)
PARTS: Final = ("real", "imag")  # movements that show a part of a complex array


def element_type(dtype: Any) -> DType | None:
    """Return the element type of a numpy dtype, or None if graphs have no such type."""
    numpy_type = np.dtype(dtype)
    if numpy_type.kind == "c" and numpy_type.isnative:
        return next((d for d in COMPLEX if d.public == numpy_type.name), None)
    return from_numpy(numpy_type)


def part_type(dtype: DType) -> DType:
    """Return the element type of the real and the imaginary part of a complex type; another type is its own.

    Examples
    --------
    >>> print(part_type(COMPLEX[0]))
    f32
    """
    return {COMPLEX[0]: float32, COMPLEX[1]: float64}.get(dtype, dtype)


def pair_type(dtype: DType) -> DType | None:
    """Return the complex type whose parts have a type, or None."""
    return {float32: COMPLEX[0], float64: COMPLEX[1]}.get(dtype)


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
        """Return the type of a numpy array, or None if its element type is not supported."""
        dtype = element_type(array.dtype)
        return None if dtype is None else TensorType(tuple(array.shape), dtype)


@lru_cache(maxsize=4096)
def broadcast(*shapes: Shape) -> Shape:
    """The shape that arrays of some shapes broadcast to, as numpy has it."""
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*aligned, strict=True):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise TypeError(f"the shapes {' and '.join(map(str, shapes))} do not broadcast together")
        result.append(others.pop() if others else 1)
    return tuple(result)


@lru_cache(maxsize=64)
def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a float; numpy's `kind` does not tell for the types of `ml_dtypes`, such as bfloat16."""
    element = from_numpy(dtype)
    return dtype.kind == "f" if element is None else element.is_float


@lru_cache(maxsize=64)
def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which elements of a dtype are accumulated before the result is rounded once.

    Narrow floats accumulate in float32. Small integers accumulate in 32 bits, which gives the same number modulo any
    smaller power of two.

    Examples
    --------
    >>> accumulator(np.dtype(np.float16)), accumulator(np.dtype(np.uint8)), accumulator(np.dtype(np.int64))
    (dtype('float32'), dtype('uint32'), dtype('int64'))
    """
    if dtype.itemsize >= 4 or dtype.kind == "b":
        return dtype
    if is_floating(dtype):
        return np.dtype(np.float32)
    return np.dtype(np.uint32 if dtype.kind == "u" else np.int32)


Strides = tuple[int, ...] | None


@lru_cache(maxsize=4096)
def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array in C order, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if not is_fixed(n) else max(1, n)
    return tuple(reversed(strides))


def regrouped(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> Strides:
    """Return the strides after a reshape that regroups contiguous dimensions of equal product, or None."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    new = [n for n in wanted if n != 1]
    steps: list[int] = []
    while old and new:
        old_sizes, new_sizes = [old.pop(0)], [new.pop(0)]
        have, want = old_sizes[0][0], new_sizes[0]
        while have != want:
            if quotient(want, have) is not None and old:
                old_sizes.append(old.pop(0))
                have = have * old_sizes[-1][0]
            elif quotient(have, want) is not None and new:
                new_sizes.append(new.pop(0))
                want = want * new_sizes[-1]
            else:
                return None
        if any(a[1] != b[0] * b[1] for a, b in pairwise(old_sizes)):
            return None
        steps += (s * old_sizes[-1][1] for s in contiguous(tuple(new_sizes)))
    if old or new:
        return None
    remaining = iter(steps)
    return tuple(0 if n == 1 else next(remaining) for n in wanted)


@lru_cache(maxsize=4096)
def in_c_order(shape: tuple[int, ...], strides: Strides) -> bool:
    """Whether an array is in C order, so that the result of a ufunc on it is as well."""
    if strides is None:
        return False
    if not all(map(is_fixed, (*shape, *strides))):
        return strides == contiguous(shape)
    steps = [abs(s) for n, s in zip(shape, strides, strict=True) if n != 1 and s]
    return steps == sorted(steps, reverse=True)
