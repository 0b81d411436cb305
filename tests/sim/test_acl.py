"""Wrong calls of the runtime library give the documented numbers, and say what is wrong."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pypto.runtime.acl import opened
from tests.sim.device import built, compiled, needs_compiler, vector_kernel

pytestmark = needs_compiler
BAD, UNKNOWN, NO_DEVICE, NO_MEMORY = 100000, 107000, 107001, 207001
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
WRONG: Final[dict[str, tuple[Call, int, str]]] = {
    "aclInit a second time": (lambda x: x.aclInit(None), 100002, "called twice"),
    "another device": (lambda x: x.aclrtSetDevice(1), NO_DEVICE, "one simulated device"),
    "a reset of another device": (lambda x: x.aclrtResetDevice(1), NO_DEVICE, "one simulated device"),
    "a stream that there is not": (lambda x: x.aclrtDestroyStream(NOWHERE), UNKNOWN, "no such stream"),
    "a binary that there is not": (lambda x: x.aclrtBinaryUnLoad(NOWHERE), UNKNOWN, "no such binary"),
    "memory of no bytes": (lambda x: x.aclrtMalloc(ctypes.byref(x.memory), 0, 0), BAD, "no bytes"),
    "more memory than there is": (
        lambda x: x.aclrtMalloc(ctypes.byref(x.memory), 1 << 60, 0), NO_MEMORY, "no memory left"),
    "memory that was not allocated": (lambda x: x.aclrtFree(NOWHERE), UNKNOWN, "not allocated, or freed"),
    "memory that was freed": (
        lambda x: x.filled().aclrtFree(x.memory) or x.aclrtFree(x.memory), UNKNOWN, "not allocated, or freed"),
    "a copy of more bytes than the destination has": (
        lambda x: x.filled().copy(x.memory, 8, x.here, 9, INTO), BAD, "than the destination has"),
    "a copy to where nothing is": (lambda x: x.copy(NOWHERE, 8, x.here, 8, INTO), UNKNOWN, "range does not lie"),
    "a copy of where nothing is": (lambda x: x.copy(x.here, 8, NOWHERE, 8, OUT_OF), UNKNOWN, "range does not lie"),
    "a copy past the end": (
        lambda x: x.filled().copy(x.memory, BYTES + 1, x.here, BYTES + 1, INTO), UNKNOWN, "range does not lie"),
    "bytes set past the end": (
        lambda x: x.filled().aclrtMemset(x.memory, BYTES + 1, 0, BYTES + 1), UNKNOWN, "range does not lie"),
    "a file that there is not": (
        lambda x: x.aclrtBinaryLoadFromFile(b"/nowhere/kernel.o", None, ctypes.byref(x.binary)), BAD, "no file"),
    "a binary that is none": (
        lambda x: x.aclrtBinaryLoadFromData(b"none", 4, None, ctypes.byref(x.binary)), UNKNOWN, "no kernel binary"),
    "a binary without kernels": (load_library, UNKNOWN, "no kernels in it"),
    "no room for a binary": (load_without_room, NO_MEMORY, "no memory for the binary"),
    "a kernel that there is not": (
        lambda x: x.loaded().aclrtBinaryGetFunction(x.binary, b"j", ctypes.byref(x.kernel)), UNKNOWN, "no kernel j"),
    "a launch of no blocks": (lambda x: x.loaded().launch(0, bytes(20)), UNKNOWN, "1 to 65535 blocks"),
    "a launch of too many blocks": (lambda x: x.loaded().launch(65536, bytes(20)), UNKNOWN, "1 to 65535 blocks"),
    "arguments that are missing": (lambda x: x.loaded().launch(1, bytes(8)), UNKNOWN, "bytes of arguments, not 8"),
    "what the device does not say": (
        lambda x: x.aclrtGetDeviceInfo(0, 7, ctypes.byref(ctypes.c_int64())), BAD, "does not know this attribute"),
}  # fmt: skip


STAGES: Final[dict[str, tuple[Call, int, str]]] = {
    "before aclInit": (lambda x: x.aclFinalize() or x.aclrtSetDevice(0), 100001, "aclInit was not called"),
    "a stream before aclInit": (
        lambda x: x.aclFinalize() or x.aclrtCreateStream(ctypes.byref(ctypes.c_void_p())), 100001, "aclInit was not"),
    "aclFinalize a second time": (lambda x: x.aclFinalize() or x.aclFinalize(), 100001, "aclInit was not called"),
    "before aclrtSetDevice": (
        lambda x: x.aclrtResetDevice(0) or x.aclrtMalloc(ctypes.byref(x.memory), 8, 0), 107002, "SetDevice was not"),
}  # fmt: skip


@pytest.mark.parametrize("call, code, words", [*WRONG.values(), *STAGES.values()], ids=[*WRONG, *STAGES])
def test_wrong_calls_and_calls_out_of_order_are_refused(call: Call, code: int, words: str, acl: Acl) -> None:
    assert call(acl) == code
    assert words in acl.aclGetRecentErrMsg().decode()


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
