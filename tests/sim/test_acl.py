"""Wrong calls of the runtime library give the documented numbers, and say what is wrong."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pypto.runtime.acl import LoadOption, LoadOptions, opened
from tests.sim.device import built, compiled, needs_compiler, vector_kernel

pytestmark = needs_compiler
BAD, UNKNOWN, NO_DEVICE, NO_HANDLE, NO_MEMORY = 100000, 107000, 107001, 107017, 207001
BYTES: Final = 4096
NOWHERE: Final = ctypes.c_void_p(64)
INTO, OUT_OF = 1, 2  # the device


class Acl:
    """The library after aclInit and aclrtSetDevice, with some memory and a kernel."""

    def __init__(self) -> None:
        opened(built() / "lib64" / "libascendcl.so").close()
        self.functions = opened(built() / "lib64" / "libascendcl.so").functions
        self.functions.aclInit(None)
        self.functions.aclrtSetDevice(0)
        self.here = ctypes.create_string_buffer(BYTES)
        self.memory, self.binary, self.kernel = (ctypes.c_void_p() for _ in range(3))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.functions, name)

    def filled(self) -> Acl:
        assert self.aclrtMalloc(ctypes.byref(self.memory), BYTES, 0) == 0
        return self

    def loaded(self) -> Acl:
        code = compiled(vector_kernel(""))
        assert self.aclrtBinaryLoadFromData(code, len(code), None, ctypes.byref(self.binary)) == 0
        assert self.aclrtBinaryGetFunction(self.binary, b"k", ctypes.byref(self.kernel)) == 0
        return self

    def launch(self, blocks: int, arguments: bytes) -> int:
        stream = ctypes.c_void_p()
        return int(self.aclrtLaunchKernelWithHostArgs(
            self.kernel, blocks, stream, None, arguments, len(arguments), None, 0))  # fmt: skip

    def load(self, *options: tuple[int, int], none: bool = False, size: int | None = None, file: bytes = b"") -> int:
        """Load the kernel's binary with options, each a type and its value; `none` in place of the pointer to them."""
        code = compiled(vector_kernel(""))
        array = (LoadOption * max(1, len(options)))(*((kind, (value, 0, 0, 0)) for kind, value in options))
        wanted = LoadOptions(None if none else array, len(options))
        if file:
            return int(self.aclrtBinaryLoadFromFile(file, ctypes.byref(wanted), ctypes.byref(self.binary)))
        size = len(code) if size is None else size
        return int(self.aclrtBinaryLoadFromData(code, size, ctypes.byref(wanted), ctypes.byref(self.binary)))

    def configured(self, *attributes: tuple[int, int], none: bool = False) -> int:
        """Launch with attributes, each an id and its value."""
        array = (LoadOption * max(1, len(attributes)))(*((kind, (value, 0, 0, 0)) for kind, value in attributes))
        config = LoadOptions(None if none else array, len(attributes))
        return int(self.aclrtLaunchKernelWithHostArgs(
            self.kernel, 1, None, ctypes.byref(config), bytes(24), 24, None, 0))  # fmt: skip

    def placed(self, places: Any, count: int) -> int:
        """Launch with place holders among the arguments."""
        return int(self.aclrtLaunchKernelWithHostArgs(self.kernel, 1, None, None, bytes(24), 24, places, count))

    def event(self, flag: int = 8) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        assert self.aclrtCreateEventWithFlag(ctypes.byref(made), flag) == 0
        return made

    def elapsed(self) -> int:
        """Record two events and ask for the time between them."""
        first, last, passed = self.event(), self.event(), ctypes.c_float(-1)
        assert self.aclrtRecordEvent(first, None) == 0
        assert self.aclrtRecordEvent(last, None) == 0
        assert self.aclrtSynchronizeStream(None) == 0
        code = int(self.aclrtEventElapsedTime(ctypes.byref(passed), first, last))
        assert passed.value >= 0
        return code or int(self.aclrtDestroyEvent(first)) or int(self.aclrtDestroyEvent(last))

    def copy(self, to: Any, most: int, of: Any, count: int, kind: int) -> int:
        return int(self.aclrtMemcpy(to, most, of, count, kind))


@pytest.fixture
def acl() -> Iterator[Acl]:
    made = Acl()
    yield made
    made.aclrtResetDevice(0)


def load_without_room(acl: Acl) -> int:
    """Files, that of a binary too, may have no byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        return int(acl.aclrtBinaryLoadFromData(b"x", 1, None, ctypes.byref(acl.binary)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def load_library(acl: Acl) -> int:
    """What is a library, but of no kernels."""
    data = (built() / "lib64" / "libascendcl.so").read_bytes()
    return int(acl.aclrtBinaryLoadFromData(data, len(data), None, ctypes.byref(acl.binary)))


Call = Callable[[Acl], int]
Row = tuple[Call, int, str]
LAZY, MAGIC, CPU = 1, 2, 3
VECTOR, CUBE = 0x41415246, 0x41494343

DEVICES: Final[dict[str, Row]] = {
    "aclInit a second time": (lambda x: x.aclInit(None), 100002, "called twice"),
    "another device": (lambda x: x.aclrtSetDevice(2), NO_DEVICE, "two simulated devices"),
    "a reset of another device": (lambda x: x.aclrtResetDevice(2), NO_DEVICE, "two simulated devices"),
    "the current device for nobody": (lambda x: x.aclrtGetDevice(None), BAD, "deviceId is a null"),
    "a count for nobody": (lambda x: x.aclrtGetDeviceCount(None), BAD, "count is a null"),
    "an attribute for nobody": (lambda x: x.aclrtGetDeviceInfo(0, 102, None), BAD, "value is a null"),
    "an attribute of another device": (
        lambda x: x.aclrtGetDeviceInfo(2, 102, ctypes.byref(ctypes.c_int64())), UNKNOWN, "two simulated devices"),
    "an attribute that there is not": (
        lambda x: x.aclrtGetDeviceInfo(0, 7, ctypes.byref(ctypes.c_int64())), UNKNOWN, "not know this attribute"),
    "the address of flags for nobody": (lambda x: x.aclrtGetHardwareSyncAddr(None), BAD, "addr is a null"),
}  # fmt: skip
STREAMS: Final[dict[str, Row]] = {
    "a stream for nobody": (lambda x: x.aclrtCreateStream(None), BAD, "stream is a null"),
    "the end of no stream": (lambda x: x.aclrtDestroyStream(None), BAD, "stream is a null"),
    "a stream that there is not": (lambda x: x.aclrtDestroyStream(NOWHERE), NO_HANDLE, "no such stream"),
    "a wait for no stream": (lambda x: x.aclrtSynchronizeStream(NOWHERE), NO_HANDLE, "no such stream"),
    "a wait of no time": (lambda x: x.aclrtSynchronizeStreamWithTimeout(None, 0), UNKNOWN, "a timeout is"),
    "a wait of less than no time": (lambda x: x.aclrtSynchronizeStreamWithTimeout(None, -2), UNKNOWN, "a timeout is"),
    "an event for nobody": (lambda x: x.aclrtCreateEventWithFlag(None, 8), BAD, "event is a null"),
    "an event without flags": (
        lambda x: x.aclrtCreateEventWithFlag(ctypes.byref(x.memory), 0), UNKNOWN, "no such flags"),
    "flags that there are not": (
        lambda x: x.aclrtCreateEventWithFlag(ctypes.byref(x.memory), 64), UNKNOWN, "no such flags"),
    "flags that do not go together": (
        lambda x: x.aclrtCreateEventWithFlag(ctypes.byref(x.memory), 24), UNKNOWN, "stands alone"),
    "the end of no event": (lambda x: x.aclrtDestroyEvent(None), BAD, "event is a null"),
    "an event that there is not": (lambda x: x.aclrtDestroyEvent(NOWHERE), NO_HANDLE, "no such event"),
    "no event recorded": (lambda x: x.aclrtRecordEvent(None, None), BAD, "event is a null"),
    "an event on a stream that there is not": (
        lambda x: x.aclrtRecordEvent(x.event(), NOWHERE), NO_HANDLE, "no such stream"),
    "a stream that waits for no event": (lambda x: x.aclrtStreamWaitEvent(None, None), BAD, "event is a null"),
    "a wait for no event": (lambda x: x.aclrtSynchronizeEvent(None), BAD, "event is a null"),
    "time for nobody": (lambda x: x.aclrtEventElapsedTime(None, x.event(), x.event()), BAD, "ms is a null"),
    "time from no event": (
        lambda x: x.aclrtEventElapsedTime(ctypes.byref(ctypes.c_float()), None, x.event()), BAD, "event is a null"),
    "time from an event that was not recorded": (
        lambda x: x.aclrtEventElapsedTime(ctypes.byref(ctypes.c_float()), x.event(), x.event()), 507000, "not rec"),
}  # fmt: skip
MEMORY: Final[dict[str, Row]] = {
    "memory for nobody": (lambda x: x.aclrtMalloc(None, 8, 0), BAD, "devPtr is a null"),
    "memory of no bytes": (lambda x: x.aclrtMalloc(ctypes.byref(x.memory), 0, 0), BAD, "no bytes"),
    "memory past the end of addresses": (
        lambda x: x.aclrtMalloc(ctypes.byref(x.memory), (1 << 64) - 1, 0), BAD, "no address"),
    "more memory than there is": (
        lambda x: x.aclrtMalloc(ctypes.byref(x.memory), 1 << 60, 0), NO_MEMORY, "no memory left"),
    "no memory freed": (lambda x: x.aclrtFree(None), BAD, "devPtr is a null"),
    "memory that was not allocated": (lambda x: x.aclrtFree(NOWHERE), UNKNOWN, "not allocated, or freed"),
    "memory that was freed": (
        lambda x: x.filled().aclrtFree(x.memory) or x.aclrtFree(x.memory), UNKNOWN, "not allocated, or freed"),
    "memory of the host for nobody": (lambda x: x.aclrtMallocHost(None, 8), BAD, "hostPtr is a null"),
    "no memory of the host": (lambda x: x.aclrtMallocHost(ctypes.byref(x.memory), 0), BAD, "no bytes"),
    "no memory of the host freed": (lambda x: x.aclrtFreeHost(None), BAD, "hostPtr is a null"),
    "a copy to no address": (lambda x: x.filled().copy(None, 8, x.here, 8, INTO), BAD, "dst is a null"),
    "a copy of no address": (lambda x: x.filled().copy(x.memory, 8, None, 8, INTO), BAD, "src is a null"),
    "a copy of a kind that there is not": (lambda x: x.filled().copy(x.memory, 8, x.here, 8, 9), BAD, "kind of copy"),
    "a copy of more bytes than the destination has": (
        lambda x: x.filled().copy(x.memory, 8, x.here, 9, INTO), UNKNOWN, "than the destination has"),
    "a copy to where nothing is": (lambda x: x.copy(NOWHERE, 8, x.here, 8, INTO), UNKNOWN, "range does not lie"),
    "a copy of where nothing is": (lambda x: x.copy(x.here, 8, NOWHERE, 8, OUT_OF), UNKNOWN, "range does not lie"),
    "a copy past the end": (
        lambda x: x.filled().copy(x.memory, BYTES + 1, x.here, BYTES + 1, INTO), UNKNOWN, "range does not lie"),
    "a copy whose kind has the host where the device is": (
        lambda x: x.filled().copy(x.memory, 8, x.here, 8, 0), UNKNOWN, "memory of the host"),
    "a copy on a stream that there is not": (
        lambda x: x.filled().aclrtMemcpyAsync(x.memory, 8, x.here, 8, INTO, NOWHERE), NO_HANDLE, "no such stream"),
    "bytes set at no address": (lambda x: x.aclrtMemset(None, 8, 0, 8), BAD, "devPtr is a null"),
    "bytes set past the end": (
        lambda x: x.filled().aclrtMemset(x.memory, BYTES + 1, 0, BYTES + 1), UNKNOWN, "range does not lie"),
    "more bytes set than there are": (
        lambda x: x.filled().aclrtMemset(x.memory, 8, 0, 9), UNKNOWN, "range does not lie"),
}  # fmt: skip
BINARIES: Final[dict[str, Row]] = {
    "no file": (lambda x: x.aclrtBinaryLoadFromFile(None, None, ctypes.byref(x.binary)), BAD, "binPath is a null"),
    "a file for nobody": (lambda x: x.aclrtBinaryLoadFromFile(b"/k", None, None), BAD, "binHandle is a null"),
    "a file that there is not": (
        lambda x: x.aclrtBinaryLoadFromFile(b"/nowhere/kernel.o", None, ctypes.byref(x.binary)), UNKNOWN, "no file"),
    "a file with a magic number": (
        lambda x: x.load((MAGIC, VECTOR), file=b"/proc/self/exe"), UNKNOWN, "no option of a binary from a file"),
    "no data": (lambda x: x.aclrtBinaryLoadFromData(None, 4, None, ctypes.byref(x.binary)), BAD, "data is a null"),
    "data for nobody": (lambda x: x.aclrtBinaryLoadFromData(b"none", 4, None, None), BAD, "binHandle is a null"),
    "data of no bytes": (lambda x: x.load(size=0), UNKNOWN, "no bytes"),
    "options that are not there": (lambda x: x.load(none=True), UNKNOWN, "options of a binary are a null"),
    "an option that there is not": (lambda x: x.load((9, 0)), UNKNOWN, "no such option"),
    "a magic number that there is not": (lambda x: x.load((MAGIC, 7)), UNKNOWN, "no such magic number"),
    "the magic number of other cores": (lambda x: x.load((MAGIC, CUBE)), UNKNOWN, "another kind of cores"),
    "laziness that there is not": (lambda x: x.load((LAZY, 2)), UNKNOWN, "lazy load is 0 or 1"),
    "a kernel of an AI CPU": (lambda x: x.load((CPU, 2)), UNKNOWN, "has no AI CPU"),
    "a binary that is none": (
        lambda x: x.aclrtBinaryLoadFromData(b"none", 4, None, ctypes.byref(x.binary)), UNKNOWN, "no kernel binary"),
    "a binary without kernels": (load_library, UNKNOWN, "no kernels in it"),
    "no room for a binary": (load_without_room, NO_MEMORY, "no memory for the binary"),
    "the end of no binary": (lambda x: x.aclrtBinaryUnLoad(None), BAD, "binHandle is a null"),
    "a binary that there is not": (lambda x: x.aclrtBinaryUnLoad(NOWHERE), NO_HANDLE, "no such binary"),
    "a kernel of no binary": (
        lambda x: x.aclrtBinaryGetFunction(None, b"k", ctypes.byref(x.kernel)), BAD, "binHandle is a null"),
    "a kernel of a binary that there is not": (
        lambda x: x.aclrtBinaryGetFunction(NOWHERE, b"k", ctypes.byref(x.kernel)), NO_HANDLE, "no such binary"),
    "a kernel without a name": (
        lambda x: x.loaded().aclrtBinaryGetFunction(x.binary, None, ctypes.byref(x.kernel)), BAD, "kernelName is a"),
    "a kernel for nobody": (
        lambda x: x.loaded().aclrtBinaryGetFunction(x.binary, b"k", None), BAD, "funcHandle is a null"),
    "a kernel that there is not": (
        lambda x: x.loaded().aclrtBinaryGetFunction(x.binary, b"j", ctypes.byref(x.kernel)), UNKNOWN, "no kernel j"),
}  # fmt: skip
LAUNCHES: Final[dict[str, Row]] = {
    "no kernel": (lambda x: x.launch(1, bytes(24)), BAD, "funcHandle is a null"),
    "no arguments": (
        lambda x: x.loaded().aclrtLaunchKernelWithHostArgs(x.kernel, 1, None, None, None, 24, None, 0), BAD, "host"),
    "a kernel that was unloaded": (
        lambda x: x.loaded().aclrtBinaryUnLoad(x.binary) or x.launch(1, bytes(24)), NO_HANDLE, "was unloaded"),
    "a launch on a stream that there is not": (
        lambda x: x.loaded().aclrtLaunchKernelWithHostArgs(x.kernel, 1, NOWHERE, None, bytes(24), 24, None, 0),
        NO_HANDLE, "no such stream"),
    "a launch of no blocks": (lambda x: x.loaded().launch(0, bytes(20)), UNKNOWN, "1 to 65535 blocks"),
    "a launch of too many blocks": (lambda x: x.loaded().launch(65536, bytes(20)), UNKNOWN, "1 to 65535 blocks"),
    "arguments that are missing": (lambda x: x.loaded().launch(1, bytes(8)), UNKNOWN, "bytes of arguments, not 8"),
    "arguments of no bytes": (lambda x: x.loaded().launch(1, b""), UNKNOWN, "bytes of arguments, not 0"),
    "attributes that are not there": (lambda x: x.loaded().configured(none=True), UNKNOWN, "attributes of a launch"),
    "a schedule that there is not": (lambda x: x.loaded().configured((1, 2)), UNKNOWN, "the schedule mode"),
    "prefetch that there is not": (lambda x: x.loaded().configured((5, 2)), UNKNOWN, "prefetch of a launch"),
    "a dump that there is not": (lambda x: x.loaded().configured((6, 2)), UNKNOWN, "data dump of a launch"),
    "two timeouts": (lambda x: x.loaded().configured((7, 1), (8, 1)), UNKNOWN, "one timeout"),
    "place holders that are not there": (lambda x: x.loaded().placed(None, 1), UNKNOWN, "place holders are a null"),
    "a place holder behind the arguments": (
        lambda x: x.loaded().placed((ctypes.c_uint32 * 2)(24, 0), 1), UNKNOWN, "behind the arguments"),
    "data of a place holder behind the arguments": (
        lambda x: x.loaded().placed((ctypes.c_uint32 * 2)(0, 24), 1), UNKNOWN, "behind the arguments"),
}  # fmt: skip
WRONG: Final = {**DEVICES, **STREAMS, **MEMORY, **BINARIES, **LAUNCHES}


STAGES: Final[dict[str, Row]] = {
    "before aclInit": (lambda x: x.aclFinalize() or x.aclrtSetDevice(0), 100001, "aclInit was not called"),
    "a stream before aclInit": (
        lambda x: x.aclFinalize() or x.aclrtCreateStream(ctypes.byref(ctypes.c_void_p())), 100001, "aclInit was not"),
    "aclFinalize a second time": (lambda x: x.aclFinalize() or x.aclFinalize(), 100037, "called without aclInit"),
    "before aclrtSetDevice": (
        lambda x: x.aclrtResetDevice(0) or x.aclrtMalloc(ctypes.byref(x.memory), 8, 0), 107002, "SetDevice was not"),
}  # fmt: skip


@pytest.mark.parametrize("call, code, words", [*WRONG.values(), *STAGES.values()], ids=[*WRONG, *STAGES])
def test_wrong_calls_and_calls_out_of_order_are_refused(call: Call, code: int, words: str, acl: Acl) -> None:
    assert call(acl) == code
    assert words in acl.aclGetRecentErrMsg().decode()


RIGHT: Final[dict[str, Call]] = {
    "a copy of no bytes": lambda x: x.copy(None, 0, None, 0, INTO),
    "no bytes set": lambda x: x.aclrtMemset(None, 0, 0, 0),
    "a copy whose kind is found out": lambda x: x.filled().copy(x.memory, 8, x.here, 8, 4),
    "no options": lambda x: x.load(),
    "the magic number of its cores, and lazily": lambda x: x.load((MAGIC, VECTOR), (LAZY, 1)),
    "a launch with a timeout": lambda x: x.loaded().configured((7, 1)),
    "a place holder": lambda x: x.loaded().placed((ctypes.c_uint32 * 2)(0, 16), 1),
    "an event that was waited for": lambda x: x.elapsed(),
}  # fmt: skip


@pytest.mark.parametrize("call", RIGHT.values(), ids=RIGHT)
def test_right_calls_are_taken(call: Call, acl: Acl) -> None:
    assert call(acl) == 0


def test_after_a_fault_only_a_reset_helps(acl: Acl) -> None:
    code = compiled(vector_kernel("WaitFlag<HardEvent::S_V>(0);"))
    acl.loaded()
    acl.aclrtBinaryLoadFromData(code, len(code), None, ctypes.byref(acl.binary))
    acl.aclrtBinaryGetFunction(acl.binary, b"k", ctypes.byref(acl.kernel))
    assert acl.launch(1, bytes(20)) == 0  # it is queued: what it does wrong is found later
    assert acl.aclrtSynchronizeStream(None) == 507035
    assert acl.aclrtMalloc(ctypes.byref(acl.memory), 8, 0) == 507035
    assert "aclrtResetDevice is needed" in acl.aclGetRecentErrMsg().decode()
    assert acl.aclrtResetDevice(0) == 0
    assert acl.aclrtSetDevice(0) == 0
    assert acl.aclrtMalloc(ctypes.byref(acl.memory), 8, 0) == 0


def test_binaries_come_from_files_too(acl: Acl, tmp_path: Path) -> None:
    file = tmp_path / "kernel.o"
    file.write_bytes(compiled(vector_kernel("")))
    assert acl.aclrtBinaryLoadFromFile(str(file).encode(), None, ctypes.byref(acl.binary)) == 0
    assert acl.aclrtBinaryUnLoad(acl.binary) == 0
