"""Arguments of a launch: what an array is, wherever it comes from, and which type a number has."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from pypto.errors.launch import TooLarge, UnsupportedArgument
from pypto.ir.types import DTYPES, DType, float32, from_numpy, int1, int32, int64, uint64

_TORCH = {f"torch.{d.public}": d for d in DTYPES} | {"torch.bool": int1}
Refuse = Callable[[str, str], NoReturn]
_TYPES = "use one of the types of the language guide"


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
        """First byte and byte after the last, from the address; the same where there are no elements."""
        if 0 in self.shape:
            return 0, 0
        ends = [(n - 1) * s * self.dtype.itemsize for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + self.dtype.itemsize


def is_tensor(kind: type) -> bool:
    """Whether a type is torch's, which is asked without loading it."""
    return kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "data_ptr")


def array_info(value: Any, kernel: str, arg: str) -> ArrayInfo | None:
    """The array behind an argument, or None when it is none.

    Raises
    ------
    UnsupportedArgument
        When it is an array that kernels cannot work on: another byte order, objects, another device.
    """

    def refuse(got: str, way: str) -> NoReturn:
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=got, way=way)

    if isinstance(value, np.ndarray):
        return numpy_info(value, refuse)
    if is_tensor(type(value)):
        return torch_info(value, refuse)
    if isinstance(value, np.generic) or not (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
        return None
    try:
        view: Any = np.asarray(value) if hasattr(value, "__array_interface__") else np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        refuse(f"a {type(value).__name__} that gives no array: {error}", "pass a numpy array or a CPU tensor")
    return numpy_info(view, refuse)


def numpy_info(value: np.ndarray[Any, Any], refuse: Refuse) -> ArrayInfo:
    masked = sys.modules.get("numpy.ma")  # to look for it in numpy would load it
    if masked and isinstance(value, masked.MaskedArray):
        refuse("a masked array", "pass `.filled(value)` of it, or its data and mask")
    dtype, native = from_numpy(value.dtype), str(value.dtype.newbyteorder("="))
    if dtype is None:
        way = _TYPES if value.dtype.isnative else f"convert it first: `.astype({native!r})`"
        refuse(f"an array of {value.dtype.str!r} ({value.dtype})", way)
    if any(s % dtype.itemsize for s in value.strides):
        refuse(f"an array whose strides {value.strides} are no multiples of its itemsize", "pass a copy of it")
    strides = tuple(s // dtype.itemsize for s in value.strides)
    return ArrayInfo(value.ctypes.data, value.shape, strides, dtype, value.flags.writeable, value)


def torch_info(value: Any, refuse: Refuse) -> ArrayInfo:
    if value.device.type != "cpu":
        refuse(f"a tensor on {value.device}", "move it first: `.cpu()`")
    dtype = _TORCH.get(str(value.dtype))
    if dtype is None or value.layout != sys.modules["torch"].strided:
        refuse(f"a {value.layout} tensor of {value.dtype}", f"{_TYPES}, in a strided tensor")
    return ArrayInfo(value.data_ptr(), tuple(value.shape), tuple(value.stride()), dtype, True, value)


def scalar_dtype(value: Any, kernel: str, arg: str) -> DType | None:
    """The type of a number argument: that of a numpy scalar, else the least of int32, int64, uint64; float32; bool."""
    if isinstance(value, np.generic):
        return from_numpy(value.dtype)
    if isinstance(value, bool):
        return int1
    if not isinstance(value, int):
        return float32 if isinstance(value, float) else None
    for dtype in (int32, int64, uint64):
        low, high = dtype.integer_range
        if low <= value <= high:
            return dtype
    raise TooLarge(kernel=kernel, arg=arg, value=value)


def scalar_bits(value: Any, dtype: DType) -> int:
    """A number as the 64 bits of an argument slot."""
    raw = np.array(value).astype(dtype.numpy).tobytes()
    return int.from_bytes(raw, "little", signed=dtype.kind == "int")


def data_offset() -> int:
    """Where an ndarray object keeps its data pointer: behind the head of every object. 0 if it is not there."""
    probe, offset = np.empty(3), object.__basicsize__
    return offset if ctypes.c_void_p.from_address(id(probe) + offset).value == probe.ctypes.data else 0
