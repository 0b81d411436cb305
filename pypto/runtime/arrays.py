"""Arguments of a launch: what an array is, wherever it comes from, and which type a number has."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.errors.launch import TooLarge, UnsupportedArgument
from pypto.ir.types import DTYPES, DType, float32, from_numpy, int1, int32, int64, uint64

_TORCH = {f"torch.{d.public}": d for d in DTYPES} | {"torch.bool": int1}


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array in memory. Strides are in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    writable: bool
    owner: Any

    @property
    def reach(self) -> tuple[int, int]:
        """First byte and byte after the last, from the address."""
        return reach(self.shape, self.strides, self.dtype.itemsize)


def reach(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    if 0 in shape:
        return 0, 0
    ends = [(n - 1) * s * itemsize for n, s in zip(shape, strides, strict=True)]
    return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + itemsize


def array_info(value: Any, kernel: str, arg: str) -> ArrayInfo | None:
    """The array behind an argument, or None when it is none.

    Raises
    ------
    UnsupportedArgument
        When it is an array that kernels cannot work on: another byte order, objects, another device.
    """
    if isinstance(value, np.ndarray):
        return numpy_info(value, kernel, arg)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
        return torch_info(value, kernel, arg)
    if isinstance(value, np.generic) or not (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
        return None
    try:
        view = np.asarray(value) if hasattr(value, "__array_interface__") else np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"a {type(value).__name__} that gives no array: {error}",
                                  way="pass a numpy array or a CPU tensor") from None
    return numpy_info(view, kernel, arg)


def numpy_info(value: np.ndarray[Any, Any], kernel: str, arg: str) -> ArrayInfo:
    if isinstance(value, np.ma.MaskedArray):
        raise UnsupportedArgument(kernel=kernel, arg=arg, got="a masked array", way="pass `.filled(value)` of it, or its data and mask")
    dtype = from_numpy(value.dtype)
    if dtype is None:
        native = value.dtype.newbyteorder("=")
        way = f"convert it first: `.astype({str(native)!r})`" if not value.dtype.isnative else "use one of the types of the language guide"
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"an array of {value.dtype.str!r} ({value.dtype})", way=way)
    if any(s % dtype.itemsize for s in value.strides):
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"an array whose strides {value.strides} are no multiples of its itemsize",
                                  way="pass a copy of it")
    strides = tuple(s // dtype.itemsize for s in value.strides)
    return ArrayInfo(value.ctypes.data, value.shape, strides, dtype, value.flags.writeable, value)


def torch_info(value: Any, kernel: str, arg: str) -> ArrayInfo:
    if value.device.type != "cpu":
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"a tensor on {value.device}", way="move it first: `.cpu()`")
    dtype = _TORCH.get(str(value.dtype))
    if dtype is None or value.layout != sys.modules["torch"].strided:
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"a {value.layout} tensor of {value.dtype}",
                                  way="use a strided tensor of one of the types of the language guide")
    return ArrayInfo(value.data_ptr(), tuple(value.shape), tuple(value.stride()), dtype, True, value)


def scalar_dtype(value: Any, kernel: str, arg: str) -> DType | None:
    """The type of a number argument: that of a numpy scalar, else the smallest of int32, int64, uint64; float32; bool."""
    if isinstance(value, np.generic):
        return from_numpy(value.dtype)
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for dtype in (int32, int64, uint64):
            low, high = dtype.integer_range
            if low <= value <= high:
                return dtype
        raise TooLarge(kernel=kernel, arg=arg, value=value)
    return float32 if isinstance(value, float) else None


def scalar_bits(value: Any, dtype: DType) -> int:
    """A number as the 64 bits of an argument slot."""
    raw = np.array(value).astype(dtype.numpy).tobytes()
    return int.from_bytes(raw, "little", signed=dtype.kind == "int")


def data_offset() -> int:
    """Where an ndarray object keeps its data pointer, checked on real arrays; 0 when it cannot be told."""
    probes = [np.empty(3), np.empty((2, 5), np.int8)[:, 1:]]
    for offset in (16, 24, 32):
        if all(ctypes.c_void_p.from_address(id(p) + offset).value == p.ctypes.data for p in probes):
            return offset
    return 0
