"""The ACL runtime through ctypes: whichever library is found, a toolkit's own or that of the simulated device.

ctypes and no extension module of C++: a launch on a device costs microseconds in the driver, beside which a foreign
call is little, and the package needs no compiler where a real toolkit is installed.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors import PyptoError
from pypto.errors.device import NoToolkit

Array = np.ndarray[Any, Any]

_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2
_HUGE_FIRST: Final = 0
_MOST_QUEUED: Final = 512
_REPEATED: Final = 100002  # aclInit, called before by another part of the process
_POINTER, _SIZE, _INT, _UINT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_uint32

# What the loader is told that a binary is for: kinds of cores.
MAGIC: Final = MappingProxyType({"vector": 0x41415246, "cube": 0x41494343, "mix": 0x43554245})
_MAGIC_OPTION: Final = 2

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
        "aclrtGetDeviceCount": (_POINTER,),
        "aclrtBinaryLoadFromData": (_POINTER, _SIZE, _POINTER, _POINTER),
        "aclrtBinaryUnLoad": (_POINTER,),
        "aclrtBinaryGetFunction": (_POINTER, ctypes.c_char_p, _POINTER),
        "aclrtLaunchKernelWithHostArgs": (_POINTER, _UINT, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _SIZE),
    }
)


class AclError(PyptoError, RuntimeError):
    """The runtime library refused a call, or a kernel stopped at a fault; `code` is the library's own number.

    `queued` are the kernels one of which stopped, and `words` what the library says.
    """

    queued: tuple[Function, ...] = ()

    def __init__(self, code: int, function: str, message: str) -> None:
        self.code, self.words = code, message or f"{function} failed with {code}"
        super().__init__(f"{function} failed with {code}: {message}" if message else f"{function} failed with {code}")


class LoadOption(ctypes.Structure):
    """ACL's aclrtBinaryLoadOption."""

    _fields_ = (("type", ctypes.c_int32), ("value", ctypes.c_uint32 * 4))


class LoadOptions(ctypes.Structure):
    """ACL's aclrtBinaryLoadOptions."""

    _fields_ = (("options", ctypes.POINTER(LoadOption)), ("count", ctypes.c_size_t))


@functools.cache
def bound(path: Path) -> Any:
    """The library with the types of its functions; once for each path, since a process has one of it.

    Raises
    ------
    NoToolkit
        When it is older than the functions that are needed.
    """
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    missing = [name for name in _FUNCTIONS if not hasattr(library, name)]
    if missing:
        raise NoToolkit(name="the device", problem=f"{path} is of an older one and lacks {', '.join(missing)}")
    for name, parameters in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = parameters, ctypes.c_int
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    library.aclrtGetSocName.restype = ctypes.c_char_p
    if hasattr(library, "ascsim_remarks"):
        library.ascsim_remarks.restype = ctypes.c_char_p
    return library


@functools.cache
def opened(library: Path, number: int = 0, shares_streams: bool = False) -> Device:
    """A device, of which a process has one object: a reset concerns all of the process."""
    return Device(library, number, shares_streams=shares_streams)


@dataclass(eq=False)
class Device:
    """A device: its stream, and calls whose errors are exceptions. It is opened by the first call that needs it.

    Memory and binaries are given back when the objects that stand for them are no longer used, and all of it by `close`
    or a kernel's fault. The next call opens the device anew, in its next `epoch`.
    """

    library: Path
    number: int = 0
    epoch: int = 0
    is_open: bool = False
    shares_streams: bool = False  # with torch_npu, whose tensors kernels then work on in order
    used: set[int] = field(default_factory=set)  # streams with work on them
    stream: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    queued: list[Function] = field(default_factory=list)  # what the device may still run
    remarks: list[tuple[str, tuple[Function, ...]]] = field(default_factory=list)  # of a simulated device, on kernels
    freed: list[tuple[str, Any]] = field(default_factory=list)  # what is to be given back once it has
    lock: threading.RLock = field(default_factory=threading.RLock)
    entered: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.functions = bound(self.library)

    def check(self, code: int, function: str) -> None:
        if code:
            words = self.functions.aclGetRecentErrMsg() or b""
            raise AclError(code, function, words.decode("utf-8", "replace").strip())

    def enter(self) -> None:
        """Choose the device for this thread, and open it if need be."""
        if self.is_open and getattr(self.entered, "epoch", -1) == self.epoch:
            return
        if not self.is_open:
            code = self.functions.aclInit(None)
            self.check(0 if code == _REPEATED else code, "aclInit")
        self.check(self.functions.aclrtSetDevice(self.number), "aclrtSetDevice")
        self.entered.epoch = self.epoch
        if not self.is_open:
            self.check(self.functions.aclrtCreateStream(ctypes.byref(self.stream)), "aclrtCreateStream")
            self.is_open = True

    def call(self, name: str, *arguments: Any) -> None:
        with self.lock:
            self.enter()
            self.check(getattr(self.functions, name)(*arguments), name)

    def soc_name(self) -> str:
        """The chip, as the library calls it."""
        with self.lock:
            self.enter()
            return (self.functions.aclrtGetSocName() or b"").decode()

    def empty(self, size: int) -> Memory:
        """Fresh device memory of so many bytes."""
        address = ctypes.c_void_p()
        self.call("aclrtMalloc", ctypes.byref(address), max(1, size), _HUGE_FIRST)
        return Memory(self, address.value or 0, size, self.epoch)

    def copied(self, array: Array) -> Memory:
        """Device memory with the bytes of a contiguous array."""
        memory = self.empty(array.nbytes)
        memory.write(array.ctypes.data, array.nbytes)
        return memory

    def load(self, binary: bytes, kind: str = "") -> Binary:
        """A binary, ready to give its functions. `kind` says which cores it is for: vector, cube or mix."""
        handle, option = ctypes.c_void_p(), LoadOption(_MAGIC_OPTION, (MAGIC.get(kind, 0), 0, 0, 0))
        options = LoadOptions(ctypes.pointer(option), 1 if kind else 0)
        self.call("aclrtBinaryLoadFromData", binary, len(binary), ctypes.addressof(options), ctypes.byref(handle))
        return Binary(self, handle, self.epoch)

    def launch(self, function: Function, blocks: int, arguments: bytes) -> None:
        """Queue a kernel; its faults appear at `synchronize`."""
        if len(self.queued) >= _MOST_QUEUED:
            self.synchronize()
        with self.lock:
            self.enter()
            stream = self.current_stream()
            self.queued.append(function)
            self.used.add(stream)
            self.call("aclrtLaunchKernelWithHostArgs", function.handle, blocks, stream, None, arguments,
                len(arguments), None, 0)  # fmt: skip

    def current_stream(self) -> int:
        """The stream that launches go to: torch's own, where both work on this device."""
        if self.shares_streams and "torch_npu" in sys.modules:
            return int(sys.modules["torch"].npu.current_stream(self.number).npu_stream)
        return self.stream.value or 0

    def synchronize(self) -> None:
        """Wait for all that was queued.

        Raises
        ------
        AclError
            When a kernel stopped at a fault. The device is reset then, and its memory is gone.
        """
        with self.lock:
            queued, freed, used = tuple(self.queued), self.freed, sorted(self.used)
            self.queued, self.freed, self.used = [], [], set()
            try:
                for stream in used:
                    self.call("aclrtSynchronizeStream", stream)
            except AclError as error:
                error.queued = queued
                self.close()
                raise
            self.remarks += ((text, queued) for text in self.said())
            self.give_back(freed)

    def said(self) -> list[str]:
        """What a simulated device has to say of kernels that ran."""
        remarks = getattr(self.functions, "ascsim_remarks", None)
        return (remarks() or b"").decode().splitlines() if remarks else []

    def give_back(self, freed: list[tuple[str, Any]]) -> None:
        for name, handle in freed:
            self.call(name, handle)

    def close(self) -> None:
        """Give everything back: memory, binaries, the stream."""
        with self.lock:
            if self.is_open:
                self.is_open, self.epoch = False, self.epoch + 1
                self.queued, self.freed, self.used = [], [], set()
                self.functions.aclrtResetDevice(self.number)

    def release(self, epoch: int, name: str, handle: Any) -> None:
        """Give memory or a binary back, after the kernels that may use it."""
        with self.lock:
            if not self.is_open or epoch != self.epoch:
                return
            self.freed.append((name, handle))
            if not self.queued:
                freed, self.freed = self.freed, []
                self.give_back(freed)


@dataclass(eq=False)
class Memory:
    """Memory of a device, freed when nothing refers to it any more."""

    device: Device
    address: int
    size: int
    epoch: int

    def __post_init__(self) -> None:
        self.free = weakref.finalize(self, self.device.release, self.epoch, "aclrtFree", self.address)
        self.free.atexit = False

    @property
    def is_lost(self) -> bool:
        """Whether the device was reset since."""
        return self.epoch != self.device.epoch

    def write(self, source: int, size: int, offset: int = 0) -> None:
        """Copy bytes from an address of the host to `offset`."""
        if size:
            self.device.call("aclrtMemcpy", self.address + offset, self.size - offset, source, size, _HOST_TO_DEVICE)

    def read(self, into: Array, offset: int = 0) -> None:
        """Copy to a contiguous array of the host. Queued kernels are not waited for."""
        if into.nbytes:
            at = self.address + offset
            self.device.call("aclrtMemcpy", into.ctypes.data, into.nbytes, at, into.nbytes, _DEVICE_TO_HOST)


@dataclass(eq=False)
class Binary:
    """A loaded kernel binary."""

    device: Device
    handle: ctypes.c_void_p
    epoch: int

    def __post_init__(self) -> None:
        self.unload = weakref.finalize(self, self.device.release, self.epoch, "aclrtBinaryUnLoad", self.handle)
        self.unload.atexit = False

    def function(self, name: str, owner: Any = None) -> Function:
        found = ctypes.c_void_p()
        self.device.call("aclrtBinaryGetFunction", self.handle, name.encode(), ctypes.byref(found))
        return Function(self, found, name, owner)


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel of a binary, which stays loaded as long as this object lives. `owner` is whoever knows more of it."""

    binary: Binary
    handle: ctypes.c_void_p
    name: str
    owner: Any = None
