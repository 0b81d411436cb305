"""DLPack for arrays of a device: a capsule that others read them through, without a copy."""

from __future__ import annotations

import ctypes
from types import MappingProxyType
from typing import Any, Final

CPU_DEVICE: Final = (1, 0)  # kDLCPU, and its number
EXTENSION: Final = 12  # kDLExtDev, which torch takes for the device of its extension, as torch_npu is one
_KINDS: Final = MappingProxyType({"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6})
_NAME: Final = b"dltensor"  # of a capsule that nobody has taken over
_API: Final = ctypes.pythonapi
_TAKE: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_IncRef", _API))
_GIVE: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", _API))
_IS: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _API))
_AT: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _API))
_NEW: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _API))  # fmt: skip


class Managed(ctypes.Structure):
    """DLPack's DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32), ("axes", ctypes.c_int32),
        ("kind", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p), ("release", ctypes.c_void_p),
    )  # fmt: skip


def release(address: int) -> None:
    """What the one who took a tensor over calls in the end: it gives back all that was kept for it."""
    _GIVE(Managed.from_address(address).context)


def drop(capsule: int) -> None:
    """The end of a capsule, which is its tensor's too if nobody has taken that over."""
    if _IS(capsule, _NAME):
        release(_AT(capsule, _NAME))


_CALLBACK: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_RELEASE: Final = _CALLBACK(release)
_DROP: Final = _CALLBACK(drop)


def capsule(array: Any, device: tuple[int, int]) -> Any:
    """A capsule for an array of a device, which lives as long as whoever takes it over.

    Parameters
    ----------
    array : DeviceArray
        Its memory is shared, not copied.
    device : (int, int)
        DLPack's type of the device, and its number.
    """
    axes = len(array.shape)
    shape, steps = (ctypes.c_int64 * axes)(*array.shape), (ctypes.c_int64 * axes)(*array.steps)
    kind = "bfloat" if array.elem.mnemonic == "bf16" else "bool" if array.elem.is_bool else array.elem.kind
    managed = Managed(array.address, *device, axes, _KINDS[kind], 8 * array.elem.itemsize, 1, ctypes.addressof(shape),
        ctypes.addressof(steps), 0, None, ctypes.cast(_RELEASE, ctypes.c_void_p))  # fmt: skip
    references = [array, shape, steps, managed]
    managed.context = id(references)
    _TAKE(id(references))
    return _NEW(ctypes.addressof(managed), _NAME, ctypes.cast(_DROP, ctypes.c_void_p))
