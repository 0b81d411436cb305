"""Element types under numpy's and Triton's names, and types of pointers."""

from __future__ import annotations

from pypto.ir import types
from pypto.ir.types import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8e4b15,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from pypto.language.aggregates import constexpr_function

__all__ = [
    "bfloat16",
    "dtype",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "pointer_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
]

dtype = DType
float8e4nv, float8e5, float8e4b8, float8e5b16 = float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz
pointer_type = constexpr_function(types.pointer_type)
