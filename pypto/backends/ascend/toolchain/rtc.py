"""Run-time compilation (aclrtc): a library of newer toolkits compiles in this process, without files or programs."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.ascend.toolchain.toolchain import FLAGS, refusal

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int
_FUNCTIONS: Final = MappingProxyType(
    {
        "aclrtcCreateProg": (_POINTER, ctypes.c_char_p, ctypes.c_char_p, _INT, _POINTER, _POINTER),
        "aclrtcCompileProg": (_POINTER, _INT, _POINTER),
        "aclrtcGetCompileLogSize": (_POINTER, _POINTER),
        "aclrtcGetCompileLog": (_POINTER, _POINTER),
        "aclrtcGetBinDataSize": (_POINTER, _POINTER),
        "aclrtcGetBinData": (_POINTER, _POINTER),
        "aclrtcDestroyProg": (_POINTER,),
    }
)


@functools.cache
def bound(path: Path) -> Any:
    """Load the library and declare the types of its functions."""
    library = ctypes.CDLL(str(path))
    for name, parameters in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = parameters, _INT
    return library


def compile_in_process(path: Path, text: str, kernel: str, arch: str, file: str) -> bytes:
    """Compile a kernel to a binary.

    Raises
    ------
    NotCompiled
        When the compiler finds an error.
    """
    library = bound(path)
    with program(library, text, kernel, file) as made:
        flags = (f"--npu-arch={arch}", *FLAGS)
        options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        if code := library.aclrtcCompileProg(made, len(options), options):
            words = fetched(library, "CompileLog", made).rstrip(b"\0").decode("utf-8", "replace").strip()
            raise refusal("aclrtc", kernel, text, words or f"error {code}", file)
        return fetched(library, "BinData", made)


@contextmanager
def program(library: Any, text: str, kernel: str, file: str) -> Iterator[ctypes.c_void_p]:
    """Create a program of the library, and destroy it after use."""
    made = ctypes.c_void_p()
    if code := library.aclrtcCreateProg(ctypes.byref(made), text.encode(), kernel.encode(), 0, None, None):
        raise refusal("aclrtc", kernel, text, f"error {code} when it was given the text", file)
    try:
        yield made
    finally:
        library.aclrtcDestroyProg(ctypes.byref(made))


def fetched(library: Any, what: str, made: ctypes.c_void_p) -> bytes:
    """Copy bytes that the library keeps of a program: its log, or its binary."""
    size = ctypes.c_size_t()
    if getattr(library, f"aclrtcGet{what}Size")(made, ctypes.byref(size)) or not size.value:
        return b""
    data = ctypes.create_string_buffer(size.value)
    code = getattr(library, f"aclrtcGet{what}")(made, data)
    return b"" if code else data.raw
