"""Foreign function interface to the ACL runtime, of a CANN toolkit or of the simulated device.

The calls go through ctypes and not through an extension module of C++: a launch costs microseconds in the driver, so
the foreign call is a small part of it, and the package needs no compiler where a toolkit is installed.

A call is legal in the order that the library documents: aclInit, then aclrtSetDevice in each thread, then the rest.
`Device` keeps that order. The simulated library refuses what the real one refuses.
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

# The magic number of a binary, by the kind of cores that it is for.
MAGIC: Final = MappingProxyType({"vector": 0x41415246, "cube": 0x41494343, "mix": 0x43554245})
_MAGIC_OPTION: Final = 2  # legal for binaries from memory alone
# Attributes that aclrtGetDeviceInfo knows.
CUBE_CORES: Final = 102
VECTOR_CORES: Final = 201
L2_BYTES: Final = 302

# Functions of the runtime library and the types of their parameters; each returns an error code.
_FUNCTIONS: Final = MappingProxyType(
    {
        "aclInit": (ctypes.c_char_p,),
        "aclFinalize": (),
        "aclrtSetDevice": (_INT,),
        "aclrtGetDevice": (_POINTER,),
        "aclrtResetDeviceForce": (_INT,),
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
        "aclrtGetDeviceInfo": (_UINT, _INT, _POINTER),
        "aclrtGetHardwareSyncAddr": (_POINTER,),
        "aclrtBinaryLoadFromData": (_POINTER, _SIZE, _POINTER, _POINTER),
        "aclrtBinaryUnLoad": (_POINTER,),
        "aclrtBinaryGetFunction": (_POINTER, ctypes.c_char_p, _POINTER),
        "aclrtLaunchKernelWithHostArgs": (_POINTER, _UINT, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _SIZE),
    }
)


class AclError(PyptoError, RuntimeError):
    """An error code of the runtime library: it refused a call, or a kernel stopped at a fault.

    Attributes
    ----------
    code : int
        The library's number.
    words : str
        The library's message.
    queued : tuple of Function
        Kernels that were queued. One of them stopped.
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
    """Load the library and declare the types of its functions, once for each path.

    Raises
    ------
    NoToolkit
        When the library is older than a function that is needed.
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
        library.ascsim_discard.argtypes = (_POINTER, _SIZE, _POINTER)
    return library


def opened(library: Path, number: int = 0, shares_streams: bool = False) -> Device:
    """Return the device. A process has one object for each device, since a reset concerns the whole process."""
    return _opened(library, number, shares_streams)


@functools.cache
def _opened(library: Path, number: int, shares_streams: bool) -> Device:
    return Device(library, number, shares_streams=shares_streams)


@dataclass(eq=False)
class Device:
    """A device with one stream. Error codes become exceptions. The first call that needs the device opens it.

    Memory and binaries are freed when their objects are no longer referenced. `close` and a kernel's fault free all of
    them. The next call opens the device again and begins a new `epoch`: objects of an older epoch are lost.

    Examples
    --------
    >>> from pypto.runtime.acl import opened
    >>> device = opened(path_of_libascendcl)  # doctest: +SKIP
    >>> device.attribute(VECTOR_CORES)  # doctest: +SKIP
    48
    """

    library: Path
    number: int = 0
    epoch: int = 0
    is_open: bool = False
    shares_streams: bool = False  # launch on torch_npu's current stream, in order with torch's operators
    used: set[int] = field(default_factory=set)  # streams with queued work
    stream: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    queued: list[Function] = field(default_factory=list)  # kernels that may still run
    remarks: list[tuple[str, tuple[Function, ...]]] = field(default_factory=list)  # of a simulated device, on kernels
    freed: list[tuple[str, Any]] = field(default_factory=list)  # handles to free after the queued kernels
    workspaces: dict[int, list[Memory]] = field(default_factory=dict)  # by stream, each one larger than those before
    lock: threading.RLock = field(default_factory=threading.RLock)
    entered: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.functions = bound(self.library)

    def check(self, code: int, function: str) -> None:
        if code:
            words = self.functions.aclGetRecentErrMsg() or b""
            raise AclError(code, function, words.decode("utf-8", "replace").strip())

    def enter(self) -> None:
        """Set the device for this thread, and open it when it is closed. A thread has one device at a time, which
        other devices set, too."""
        if self.is_open and getattr(self.entered, "epoch", -1) == self.epoch and self.of_thread() == self.number:
            return
        if not self.is_open:
            code = self.functions.aclInit(None)
            self.check(0 if code == _REPEATED else code, "aclInit")
        self.check(self.functions.aclrtSetDevice(self.number), "aclrtSetDevice")
        self.entered.epoch = self.epoch
        if not self.is_open:
            self.check(self.functions.aclrtCreateStream(ctypes.byref(self.stream)), "aclrtCreateStream")
            self.is_open = True

    def of_thread(self) -> int:
        """Return the number of the device that this thread works on; -1 if there is none."""
        number = ctypes.c_int32(-1)
        return -1 if self.functions.aclrtGetDevice(ctypes.byref(number)) else number.value

    def call(self, name: str, *arguments: Any) -> None:
        with self.lock:
            self.enter()
            self.check(getattr(self.functions, name)(*arguments), name)

    def attribute(self, number: int) -> int:
        """Ask the device for an attribute: `CUBE_CORES`, `VECTOR_CORES` or `L2_BYTES`."""
        value = ctypes.c_int64()
        self.call("aclrtGetDeviceInfo", self.number, number, ctypes.byref(value))
        return value.value

    def sync_address(self) -> int:
        """Return the address of the flags between cores, which mixed kernels in the older form take as an argument."""
        address = ctypes.c_void_p()
        self.call("aclrtGetHardwareSyncAddr", ctypes.byref(address))
        return address.value or 0

    def soc_name(self) -> str:
        """Return the library's name of the chip."""
        with self.lock:
            self.enter()
            return (self.functions.aclrtGetSocName() or b"").decode()

    def empty(self, size: int) -> Memory:
        """Allocate device memory. Its content is undefined."""
        address = ctypes.c_void_p()
        self.call("aclrtMalloc", ctypes.byref(address), max(1, size), _HUGE_FIRST)
        return Memory(self, address.value or 0, size, self.epoch)

    def copied(self, array: Array) -> Memory:
        """Allocate device memory and copy a contiguous array to it."""
        memory = self.empty(array.nbytes)
        memory.write(array.ctypes.data, array.nbytes)
        return memory

    def workspace(self, size: int) -> int:
        """Return the address of memory for the next kernel on the current stream. Kernels of a stream run one after the
        other and share it. Where it was too small for one, the former one stays: a captured graph may use it."""
        with self.lock:
            self.enter()
            stream = self.current_stream()
            memories = self.workspaces.setdefault(stream, [])
            if not memories or memories[-1].size < size:
                memories.append(self.empty(max(size, 2 * memories[-1].size if memories else 0)))
            if hasattr(self.functions, "ascsim_discard"):  # a simulated device, which finds what no kernel writes
                self.call("ascsim_discard", memories[-1].address, memories[-1].size, stream)
            return memories[-1].address

    def load(self, binary: bytes, kind: str = "") -> Binary:
        """Load a binary from memory.

        Parameters
        ----------
        binary : bytes
            What a compiler made.
        kind : str
            The cores that it is for: ``vector``, ``cube`` or ``mix``. Empty, the library guesses.
        """
        handle = ctypes.c_void_p()
        option = LoadOption(_MAGIC_OPTION, (MAGIC.get(kind, 0), 0, 0, 0))
        options = LoadOptions(ctypes.pointer(option), 1) if kind else None
        address = ctypes.addressof(options) if options else None
        self.call("aclrtBinaryLoadFromData", binary, len(binary), address, ctypes.byref(handle))
        return Binary(self, handle, self.epoch)

    def launch(self, function: Function, blocks: int, arguments: bytes) -> None:
        """Queue a kernel. The launch is asynchronous: a fault of the kernel is raised by `synchronize`."""
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
        """Return the stream of launches: torch's current stream where torch_npu uses this device."""
        if self.shares_streams and "torch_npu" in sys.modules:
            return int(sys.modules["torch"].npu.current_stream(self.number).npu_stream)
        return self.stream.value or 0

    def synchronize(self) -> None:
        """Wait until all queued kernels have ended.

        Raises
        ------
        AclError
            When a kernel stopped at a fault. The device has been reset, and its memory is lost.
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
        """Take the remarks of a simulated device on kernels that ran."""
        remarks = getattr(self.functions, "ascsim_remarks", None)
        return (remarks() or b"").decode().splitlines() if remarks else []

    def give_back(self, freed: list[tuple[str, Any]]) -> None:
        for name, handle in freed:
            self.call(name, handle)

    def close(self) -> None:
        """Reset the device: free memory, binaries and the stream. Whoever else has set it must set it anew: a reset
        that counts who has would not end a fault."""
        with self.lock:
            if self.is_open:
                self.is_open, self.epoch = False, self.epoch + 1
                self.queued, self.freed, self.used, self.workspaces = [], [], set(), {}
                self.functions.aclrtResetDeviceForce(self.number)

    def release(self, epoch: int, name: str, handle: Any) -> None:
        """Free a handle after the queued kernels, which may use it. It runs between any two steps of a thread, so the
        thread goes on with the device that it had."""
        with self.lock:
            if not self.is_open or epoch != self.epoch:
                return
            self.freed.append((name, handle))
            if self.queued:
                return
            freed, self.freed, before = self.freed, [], self.of_thread()
            self.give_back(freed)
            if before not in (-1, self.number):
                self.check(self.functions.aclrtSetDevice(before), "aclrtSetDevice")


@dataclass(eq=False)
class Memory:
    """Device memory. It is freed when this object is no longer referenced."""

    device: Device
    address: int
    size: int
    epoch: int

    def __post_init__(self) -> None:
        self.free = weakref.finalize(self, self.device.release, self.epoch, "aclrtFree", self.address)
        self.free.atexit = False

    @property
    def is_lost(self) -> bool:
        """Whether the device was reset after the allocation."""
        return self.epoch != self.device.epoch

    def write(self, source: int, size: int, offset: int = 0) -> None:
        """Copy bytes from a host address to this memory at `offset`."""
        if size:
            self.device.call("aclrtMemcpy", self.address + offset, self.size - offset, source, size, _HOST_TO_DEVICE)

    def read(self, into: Array, offset: int = 0) -> None:
        """Copy to a contiguous host array, without a wait for queued kernels."""
        if into.nbytes:
            at = self.address + offset
            self.device.call("aclrtMemcpy", into.ctypes.data, into.nbytes, at, into.nbytes, _DEVICE_TO_HOST)


@dataclass(eq=False)
class Binary:
    """A loaded kernel binary. It is unloaded when this object and its functions are no longer referenced."""

    device: Device
    handle: ctypes.c_void_p
    epoch: int

    def __post_init__(self) -> None:
        self.unload = weakref.finalize(self, self.device.release, self.epoch, "aclrtBinaryUnLoad", self.handle)
        self.unload.atexit = False

    def function(self, name: str, owner: Any = None) -> Function:
        """Find a kernel by its name."""
        handle = ctypes.c_void_p()
        self.device.call("aclrtBinaryGetFunction", self.handle, name.encode(), ctypes.byref(handle))
        return Function(self, handle, name, owner)


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel of a loaded binary. `owner` is what a backend keeps of the kernel."""

    binary: Binary
    handle: ctypes.c_void_p
    name: str
    owner: Any = None
