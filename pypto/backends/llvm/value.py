"""SSA values by name, and the LLVM types that hold elements in registers and in memory."""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass, replace

from pypto.ir.types import DType, PtrType, int16, int32, int64

HALF = DType("half", "bits", 16, "half")  # LLVM's `half`, for the conversions of F16C
_REGISTER = {"i1": "i1", "f32": "float", "f64": "double", "half": "half"}
_MEMORY = {"i1": "i8", "f32": "float", "f64": "double"}


@dataclass(frozen=True, slots=True)
class VectorValue:
    """An SSA value: `width` lanes, or a scalar when `width` is 1.

    Narrow floats are held as float32 that is rounded to them; a pointer is an int64 address.
    """

    text: str  # its name, or a constant
    dtype: DType
    width: int
    hoist_depth: int  # the frame from which on it is known

    @property
    def type(self) -> str:
        """The LLVM type."""
        return llvm_type(self.dtype, self.width)

    @property
    def typed(self) -> str:
        """Type and name, as an operand."""
        return f"{self.type} {self.text}"

    def as_dtype(self, dtype: DType) -> VectorValue:
        """Return this register under another dtype with the same LLVM type."""
        return replace(self, dtype=dtype)


def signed(dtype: DType) -> DType:
    """The signed integer of a float's size; an integer itself."""
    return {16: int16, 32: int32, 64: int64}[dtype.bits] if dtype.is_float else dtype


def element_type(dtype: DType) -> str:
    """LLVM type of one element in a register."""
    return _REGISTER.get(dtype.mnemonic) or ("float" if dtype.is_narrow else f"i{dtype.bits}")


def memory_type(dtype: DType | PtrType) -> str:
    """LLVM type of one element in memory."""
    if isinstance(dtype, PtrType):
        return "i64"
    return _MEMORY.get(dtype.mnemonic) or f"i{dtype.bits}"


def vector(text: str, width: int) -> str:
    """The LLVM type of `width` elements."""
    return text if width == 1 else f"<{width} x {text}>"


@functools.cache
def llvm_type(dtype: DType, width: int) -> str:
    """The LLVM type of lanes in a register."""
    return vector(element_type(dtype), width)


def intrinsic_suffix(dtype: DType, width: int) -> str:
    """A type in the name of an LLVM intrinsic."""
    element = {"float": "f32", "double": "f64"}.get(element_type(dtype), element_type(dtype))
    return element if width == 1 else f"v{width}{element}"


def number(value: float | int | bool, dtype: DType) -> str:
    """A constant of the register type."""
    if not dtype.is_float:
        if dtype.is_bool:
            return "true" if value else "false"
        bits = int(value) & ((1 << dtype.bits) - 1)
        return str(bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits)
    x = float(value)
    if dtype.bits < 64 and not math.isnan(x):
        x = _rounded(x, dtype)
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


def _rounded(x: float, dtype: DType) -> float:
    import numpy as np

    with np.errstate(all="ignore"):
        return float(np.array(x).astype(dtype.numpy))
