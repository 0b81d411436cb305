"""Types of Tile IR: element types, pointers, tiles of any rank (a scalar is a tile of rank 0) and arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type.

    Examples
    --------
    >>> str(float32), float32.bits, float32.is_float
    ('f32', 32, True)
    """

    name: str
    kind: str  # "bool", "int", "uint" or "float"
    bits: int
    public: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"pto.{self.public}"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers; a bool is no integer."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; a bool takes one."""
        return max(1, self.bits // 8)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype that arrays of this element type have."""
        if self.name in _ML_DTYPES:
            import ml_dtypes

            dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[self.name]))
            return dtype
        return np.dtype("bool" if self.is_bool else self.public)

    @property
    def integer_range(self) -> tuple[int, int]:
        """Least and greatest value of an integer or bool type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}

int1 = DType("i1", "bool", 1, "int1")
int8 = DType("i8", "int", 8, "int8")
int16 = DType("i16", "int", 16, "int16")
int32 = DType("i32", "int", 32, "int32")
int64 = DType("i64", "int", 64, "int64")
uint8 = DType("u8", "uint", 8, "uint8")
uint16 = DType("u16", "uint", 16, "uint16")
uint32 = DType("u32", "uint", 32, "uint32")
uint64 = DType("u64", "uint", 64, "uint64")
float16 = DType("f16", "float", 16, "float16")
bfloat16 = DType("bf16", "float", 16, "bfloat16")
float32 = DType("f32", "float", 32, "float32")
float64 = DType("f64", "float", 64, "float64")

DTYPES = (int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
DTYPE_BY_NAME = {d.name: d for d in DTYPES}


@dataclass(frozen=True)
class PtrType:
    """Address of an element. It is an element type: a tile may hold pointers."""

    pointee: DType
    const: bool = False

    def __str__(self) -> str:
        return f"ptr<{'const ' if self.const else ''}{self.pointee}>"


Elem = DType | PtrType


@dataclass(frozen=True)
class TileType:
    """A tile: any number of dimensions, any sizes. `shape == ()` is a scalar.

    Examples
    --------
    >>> str(TileType((128, 64), float32)), str(TileType((), int32))
    ('tile<128x64xf32>', 'i32')
    """

    shape: tuple[int, ...]
    elem: Elem

    def __str__(self) -> str:
        if not self.shape:
            return str(self.elem)
        return f"tile<{'x'.join(map(str, self.shape))}x{self.elem}>"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type, where it is no pointer."""
        if isinstance(self.elem, PtrType):
            raise TypeError(f"{self} holds pointers")
        return self.elem

    @property
    def is_ptr(self) -> bool:
        return isinstance(self.elem, PtrType)

    def with_elem(self, elem: Elem) -> TileType:
        return TileType(self.shape, elem)

    def with_shape(self, shape: tuple[int, ...]) -> TileType:
        return TileType(tuple(shape), self.elem)


@dataclass(frozen=True)
class ArrayType:
    """An array argument: a base pointer with a shape and strides known at launch."""

    elem: DType
    ndim: int

    def __str__(self) -> str:
        return f"array<{self.elem}, {self.ndim}>"


Type = TileType | ArrayType


def scalar(elem: Elem) -> TileType:
    return TileType((), elem)


def from_numpy(dtype: Any) -> DType | None:
    """The element type of a numpy dtype, or None when there is no such element type."""
    dt = np.dtype(dtype)
    if not dt.isnative:
        return None
    name = "int1" if dt == np.bool_ else dt.name
    return next((d for d in DTYPES if d.public == name), None)
