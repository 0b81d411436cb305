"""The ACL runtime through ctypes: whichever library is found, a toolkit's own or that of the simulated device.

ctypes and no extension module of C++: a launch on a device costs microseconds in the driver, beside which a foreign
call is little, and the package needs no compiler where a real toolkit is installed.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors import PyptoError

Array = np.ndarray[Any, Any]

_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2
_HUGE_FIRST: Final = 0
_POINTER, _SIZE, _INT, _UINT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_uint32

# Functions of the runtime library and their parameters; all of them give an error code.
_FUNCTIONS: Final = MappingProxyType(
    {
        "aclInit": (ctypes.c_char_p,),
        "aclFinalize": (),
        "aclrtSetDevice": (_INT,),
        "aclrtResetDevice": (_INT,),
        "aclrtCreateStream": (_POINTER,),
        "aclrtDestroyStream": (_POINTER,),
        "aclrtSynchronizeStream": (_POINTER,),
        "aclrtMalloc": (_POINTER, _SIZE, _INT),
        "aclrtFree": (_POINTER,),
        "aclrtMemcpy": (_POINTER, _SIZE, _POINTER, _SIZE, _INT),
        "aclrtMemset": (_POINTER, _SIZE, _INT, _SIZE),
        "aclrtCreateEventWithFlag": (_POINTER, _UINT),
        "aclrtDestroyEvent": (_POINTER,),
        "aclrtRecordEvent": (_POINTER, _POINTER),
        "aclrtEventElapsedTime": (_POINTER, _POINTER, _POINTER),
        "aclrtBinaryLoadFromData": (_POINTER, _SIZE, _POINTER, _POINTER),
        "aclrtBinaryUnLoad": (_POINTER,),
        "aclrtBinaryGetFunction": (_POINTER, ctypes.c_char_p, _POINTER),
        "aclrtLaunchKernelWithHostArgs": (_POINTER, _UINT, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _SIZE),
    }
)


class AclError(PyptoError, RuntimeError):
    """The runtime library refused a call, or a kernel stopped at a fault; `code` is the library's own number."""

    def __init__(self, code: int, function: str, message: str) -> None:
        self.code = code
        super().__init__(f"{function} failed with {code}: {message}" if message else f"{function} failed with {code}")


@functools.cache
def bound(path: Path) -> Any:
    """The library with the types of its functions; once for each path, since a process has one of it."""
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for name, parameters in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = parameters, ctypes.c_int
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return library


@dataclass
class Device:
    """A device in use: its stream, and calls whose errors are exceptions.

    Memory and binaries are given back when the objects that stand for them are no longer used, and all of it with
    `close`.
    """

    library: Path
    number: int = 0
    stream: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    is_open: bool = True
    queued: list[Function] = field(default_factory=list)  # what the device may still run

    def __post_init__(self) -> None:
        self.functions = bound(self.library)
        code = self.functions.aclInit(None)
        if code not in (0, 100002):  # another part of the process may have initialised it
            self.check(code, "aclInit")
        self.call("aclrtSetDevice", self.number)
        self.call("aclrtCreateStream", ctypes.byref(self.stream))

    def check(self, code: int, function: str) -> None:
        if code:
            words = self.functions.aclGetRecentErrMsg() or b""
            raise AclError(code, function, words.decode("utf-8", "replace").strip())

    def call(self, name: str, *arguments: Any) -> None:
        self.check(getattr(self.functions, name)(*arguments), name)

    def empty(self, size: int) -> Memory:
        """Fresh device memory of so many bytes."""
        address = ctypes.c_void_p()
        self.call("aclrtMalloc", ctypes.byref(address), max(1, size), _HUGE_FIRST)
        return Memory(self, address.value or 0, size)

    def copied(self, array: Array) -> Memory:
        """Device memory with the bytes of a contiguous array."""
        memory = self.empty(array.nbytes)
        if array.nbytes:
            self.call("aclrtMemcpy", memory.address, memory.size, array.ctypes.data, array.nbytes, _HOST_TO_DEVICE)
        return memory

    def load(self, binary: bytes) -> Binary:
        """A kernel binary, ready to give its functions."""
        handle = ctypes.c_void_p()
        self.call("aclrtBinaryLoadFromData", binary, len(binary), None, ctypes.byref(handle))
        return Binary(self, handle)

    def launch(self, function: Function, blocks: int, arguments: bytes) -> None:
        """Queue a kernel; its faults appear at `synchronize`."""
        self.queued.append(function)
        self.call(
            "aclrtLaunchKernelWithHostArgs",
            function.handle,
            blocks,
            self.stream,
            None,
            arguments,
            len(arguments),
            None,
            0,
        )

    def synchronize(self) -> None:
        """Wait for all that was queued.

        Raises
        ------
        AclError
            When a kernel stopped at a fault. The device is reset then, and its memory is gone.
        """
        try:
            self.call("aclrtSynchronizeStream", self.stream)
        except AclError:
            self.close()
            raise
        finally:
            self.queued.clear()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.functions.aclrtResetDevice(self.number)


def release(device: Device, name: str, handle: Any) -> None:
    if device.is_open:
        getattr(device.functions, name)(handle)


@dataclass
class Memory:
    """Memory of a device, freed when nothing refers to it any more."""

    device: Device
    address: int
    size: int

    def __post_init__(self) -> None:
        self.free: Callable[[], Any] = weakref.finalize(self, release, self.device, "aclrtFree", self.address)

    def read(self, into: Array) -> None:
        """Copy to a contiguous array of the host. Queued kernels are not waited for."""
        if into.nbytes:
            self.device.call("aclrtMemcpy", into.ctypes.data, into.nbytes, self.address, into.nbytes, _DEVICE_TO_HOST)


@dataclass
class Binary:
    """A loaded kernel binary."""

    device: Device
    handle: ctypes.c_void_p

    def __post_init__(self) -> None:
        self.unload: Callable[[], Any] = weakref.finalize(self, release, self.device, "aclrtBinaryUnLoad", self.handle)

    def function(self, name: str) -> Function:
        found = ctypes.c_void_p()
        self.device.call("aclrtBinaryGetFunction", self.handle, name.encode(), ctypes.byref(found))
        return Function(self, found)


@dataclass(frozen=True)
class Function:
    """A kernel of a binary, which stays loaded as long as this object lives."""

    binary: Binary
    handle: ctypes.c_void_p
