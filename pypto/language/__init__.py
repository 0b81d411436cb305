"""The names that kernels are written with."""

from types import MappingProxyType
from typing import Final

from pypto.ir.types import (
    bfloat16,
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
)
from pypto.language import ops, std
from pypto.language.ops import *  # noqa: F403
from pypto.language.std import *  # noqa: F403
from pypto.ops.public import constexpr, dynamic, static

METHODS: Final = MappingProxyType({name: getattr(std, name) for name in std.__all__})

__all__ = [  # noqa: PLE0604
    "bfloat16",
    "constexpr",
    "dynamic",
    "float16",
    "float32",
    "float64",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "static",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    *ops.__all__,
    *std.__all__,
]
