"""Arguments of a launch: what an array is, wherever it comes from, and which type a number has."""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np

from pypto.errors import PyptoWarning
from pypto.errors.launch import ReadOnlyArgument, RecordedArgument, RepeatedArgument, TooLarge, UnsupportedArgument
from pypto.ir import types
from pypto.ir.types import ArrayType, DType, Elem, PtrType, from_numpy
from pypto.ops.build import weak_dtype
from pypto.runtime.tensors import is_autograds, is_recorded, is_tensor, npu_of, why_not

# Scales and packed pairs of microscaling formats are bytes to a kernel; see `dot_scaled`.
_BYTES: Final = ("float8_e8m0fnu", "float4_e2m1fn_x2")
_TORCH: Final = MappingProxyType(
    {f"torch.{d.public}": d for d in (*types.DTYPES, *types.FLOAT8)}
    | {"torch.bool": types.int1, **{f"torch.{name}": types.uint8 for name in _BYTES}}
)
_PACKED: Final = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
Refuse = Callable[[str, str], NoReturn]
_ENDLESS = 2**47  # elements of a pointer whose extent nobody tells
_TYPES = "use one of the types of the language guide"


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array in memory. Strides are in elements. `device` is where it is, or the name of that; empty, the host."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    writable: bool
    owner: Any
    device: Any = ""

    @property
    def reach(self) -> tuple[int, int]:
        """First byte and byte after the last, from the address; the same where there are no elements."""
        if 0 in self.shape:
            return 0, 0
        ends = [(n - 1) * s * self.dtype.itemsize for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + self.dtype.itemsize

    @property
    def repeated(self) -> int | None:
        """An axis along which all elements are one in memory, as `expand` and `np.broadcast_to` make it; else None.

        This is what torch looks at before it writes to a tensor: strides that overlap in other ways are allowed.
        """
        axes = range(len(self.shape)) if 0 in self.strides and 0 not in self.shape else ()
        return next((n for n in axes if self.strides[n] == 0 and self.shape[n] > 1), None)


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
        traced: Any = None if type(value) is np.ndarray else getattr(type(value), "traced_info", None)
        return numpy_info(value, refuse) if traced is None else traced(value)
    if hasattr(type(value), "as_array_info"):
        given: ArrayInfo = value.as_array_info()
        return given
    if is_tensor(type(value)):
        return torch_info(value, refuse)
    if isinstance(value, np.generic) or not (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
        return pointer_info(value, refuse) if hasattr(value, "data_ptr") and hasattr(value, "dtype") else None
    try:
        view: Any = np.asarray(value) if hasattr(value, "__array_interface__") else np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        refuse(f"a {type(value).__name__} that gives no array: {error}", "pass a numpy array or a CPU tensor")
    return numpy_info(view, refuse)


def numpy_info(value: np.ndarray[Any, Any], refuse: Refuse) -> ArrayInfo:
    masked = sys.modules.get("numpy.ma")  # to look for it in numpy would load it
    if masked and isinstance(value, masked.MaskedArray):
        refuse("a masked array", "pass `.filled(value)` of it, or its data and mask")
    dtype = from_numpy(value.dtype) or (types.uint8 if value.dtype.name in _BYTES else None)
    if dtype is None:
        native = str(value.dtype.newbyteorder("="))
        way = small_way(value.dtype.name) if value.dtype.isnative else f"convert it first: `.astype({native!r})`"
        refuse(f"an array of {value.dtype if value.dtype.isnative else native + ' with its bytes swapped'}", way)
    if any(s % dtype.itemsize for s in value.strides):
        refuse(f"an array whose strides {value.strides} are no multiples of its itemsize", "pass a copy of it")
    strides = tuple(s // dtype.itemsize for s in value.strides)
    return ArrayInfo(value.ctypes.data, value.shape, strides, dtype, value.flags.writeable, value)


def small_way(name: str) -> str:
    """What to pass in place of an array of this type."""
    if name not in _PACKED:
        return _TYPES
    dtype = "np.float32" if "float" in name else "np.uint8" if name.startswith("u") else "np.int8"
    return f"pass `.astype({dtype})` of it, or pack several into a uint8 and take them apart in the kernel"


def torch_info(value: Any, refuse: Refuse) -> ArrayInfo:
    if (reason := why_not(value)) is not None:
        refuse(*reason)
    dtype = _TORCH.get(str(value.dtype))
    if dtype is None:
        refuse(f"a tensor of {value.dtype}", small_way(str(value.dtype).removeprefix("torch.")))
    shape, strides, writable = tuple(value.shape), tuple(value.stride()), not is_recorded(value)
    return ArrayInfo(value.data_ptr(), shape, strides, dtype, writable, value, npu_of(value))


def pointer_info(value: Any, refuse: Refuse) -> ArrayInfo:
    """An object that tells no more than an address and a dtype: a line of elements without end."""
    dtype = dtype_of(value.dtype)
    if dtype is None:
        refuse(f"a pointer to {value.dtype}", _TYPES)
    address, shape, strides = value.data_ptr(), getattr(value, "shape", None), getattr(value, "stride", None)
    if shape is None or not callable(strides):
        return ArrayInfo(address, (_ENDLESS if address else 0,), (1,), dtype, True, value, npu_of(value))
    sizes = tuple(int(n) if address else 0 for n in shape)  # what is not there overlaps nothing
    return ArrayInfo(address, sizes, tuple(map(int, strides())), dtype, True, value, npu_of(value))


def dtype_of(given: Any) -> DType | None:
    """A dtype of ours, of numpy or of torch."""
    if isinstance(given, DType) or type(given).__name__ == "dtype":  # torch's own; the text of a tensor takes long
        return given if isinstance(given, DType) else _TORCH.get(str(given))
    is_numpy = isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic))
    return from_numpy(np.dtype(given)) if is_numpy else None


def check_writable(kernel: str, written: Iterable[str], infos: Mapping[str, Any], lenient: bool = False) -> None:
    """Refuse a launch that writes to what must not be written. A `lenient` kernel may write to what autograd records.

    Raises
    ------
    ReadOnlyArgument, RecordedArgument, RepeatedArgument
        For the first such array.
    """
    for arg in sorted(arg for arg in written if isinstance(infos[arg], ArrayInfo)):
        info = infos[arg]
        if not info.writable and is_autograds(info.owner):
            refuse_recorded(kernel, arg, lenient)
        elif not info.writable:
            raise ReadOnlyArgument(kernel=kernel, arg=arg)
        if (axis := info.repeated) is not None:
            raise RepeatedArgument(kernel=kernel, arg=arg, axis=axis, size=info.shape[axis])


def refuse_recorded(kernel: str, arg: str, lenient: bool) -> None:
    """Refuse a write to a tensor that autograd records; of Triton's kernels, which may do that, it is a warning.

    Raises
    ------
    RecordedArgument
        Unless `lenient`.
    """
    error = RecordedArgument(kernel=kernel, arg=arg)
    if not lenient:
        raise error
    warnings.warn(str(error), PyptoWarning, stacklevel=2)


@dataclass(frozen=True, slots=True)
class StandIn:
    """An array that is not there, to compile for."""

    dtype: DType

    def data_ptr(self) -> int:
        return 0


def stand_in(x: Any) -> Any:
    """A stand-in where a dtype is given for an array."""
    return StandIn(dtype) if (dtype := dtype_of(x)) else x


def array_type(info: ArrayInfo, stated: Elem | None, kernel: str, arg: str) -> ArrayType:
    """The type of an array argument, which an annotation may make `const`."""
    if isinstance(stated, DType) and not info.shape:
        got, way = f"an array of {info.dtype}, annotated {stated}", "pass the number in it: `.item()`"
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=got, way=way)
    pointer = stated if isinstance(stated, PtrType) else PtrType(types.void)
    if pointer.pointee not in (types.void, info.dtype):
        way = "pass an array of that type, or cast the pointer in the kernel: `x.to(pto.pointer_type(...))`"
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"an array of {info.dtype}, annotated {stated}", way=way)
    return ArrayType(info.dtype, len(info.shape), pointer.const)


def scalar_dtype(value: Any, kernel: str, arg: str, stated: Elem | None = None) -> DType | None:
    """The type of a number argument, or None for what is no number: the stated one, or the one that it has itself."""
    inferred = own_dtype(value, kernel, arg)
    if inferred is None or not isinstance(stated, DType) or stated.kind == "bits":
        return inferred
    if inferred.is_float and not stated.is_float:
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"{value!r}, annotated {stated}", way="pass an integer")
    return stated


def own_dtype(value: Any, kernel: str, arg: str) -> DType | None:
    """That of a numpy scalar, else the least of int32, int64, uint64; float32; bool."""
    if isinstance(value, np.generic):
        return from_numpy(value.dtype)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TooLarge(kernel=kernel, arg=arg, value=value)
    return weak_dtype(value) if isinstance(value, int | float) else None


def scalar_bits(value: Any, dtype: DType) -> int:
    """A number as the 64 bits of an argument slot."""
    raw = np.array(value).astype(dtype.numpy).tobytes()
    return int.from_bytes(raw, "little", signed=dtype.kind == "int")


def data_offset() -> int:
    """Where an ndarray object keeps its data pointer: behind the head of every object. 0 if it is not there."""
    probe, offset = np.empty(3), object.__basicsize__
    return offset if ctypes.c_void_p.from_address(id(probe) + offset).value == probe.ctypes.data else 0
