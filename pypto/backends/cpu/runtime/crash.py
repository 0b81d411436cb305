"""The crash handler: when a kernel ends the process, it writes which kernel, and how to find the fault.

An unchecked kernel that leaves its arrays may touch unmapped memory, and then the system ends the process. A signal
handler in native code writes the line and calls the handler before it, such as Python's `faulthandler`. Launches pay
nothing: the handler finds the kernel by the address of the instruction. A store outside of an array that hits mapped
memory ends the process later, elsewhere: then the line names the kernel that was compiled last.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.cpu.runtime.elf import symbol_range
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.llvm.compiled import source_module

# Offsets in a signal's context: of the program counter, and of a register; whether that points to the return address.
_SIGNAL_CONTEXTS: Final = MappingProxyType({"x86_64": (168, 160, 1), "aarch64": (440, 424, 0)})
_ROW_WORDS: Final = 6  # first and last address, address and bytes of the line, and of the line for faults elsewhere
_INITIAL_ROWS: Final = 256  # of a table, before it grows


def crash_object(engine: Engine) -> bytes:
    """Object code of the handler, for the disk cache."""
    counter, link, is_stacked = _SIGNAL_CONTEXTS[platform.machine()]
    given = {"crash_counter": counter, "crash_link": link, "crash_is_stacked": is_stacked}
    return engine.compile(source_module(Path(__file__).with_suffix(".c"), **given))


class CrashHandler:
    """The table of loaded kernels that the handler searches. The handler is installed with the first table."""

    def __init__(self, engine: Engine, code: bytes) -> None:
        loaded = engine.load(code, "crash_install", "crash_table")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded.keep))  # a handler stays until the process ends
        self.publish = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(loaded.addresses[1])
        self.count = 0
        self.lock = threading.Lock()
        self.words = allocate_table(_INITIAL_ROWS)
        ctypes.CFUNCTYPE(None)(loaded.addresses[0])()

    def add(self, name: str, address: int, code: bytes, place: str = "") -> None:
        """Add a loaded kernel: the address of its symbol, the object that it was loaded from, and where its text is."""
        before, size = symbol_range(code, name)
        kernel, way = f"`{name}` ({place})" if place else f"`{name}`", "run with PYPTO_CHECKED=1 to see where\n"
        fault = f"kernel {kernel} touched memory that is in none of its arrays, and ends this process"
        later = "this process ends by a fault outside of kernels, perhaps since a kernel stored outside of its arrays"
        suspicion = f"pypto: {later}; the latest compiled is {kernel}; {way}" if place else ""
        with self.lock:
            if _ROW_WORDS * (self.count + 1) > len(self.words):
                larger = allocate_table(2 * self.count)
                larger[: len(self.words)] = self.words[:]
                self.words = larger
            texts = (word for t in (f"pypto: {fault}; {way}", suspicion) for word in immortal_text(t))
            row = address - before, address - before + size, *texts
            for n, word in enumerate(row, _ROW_WORDS * self.count):
                self.words[n] = word
            self.count += 1
            self.publish(ctypes.addressof(self.words), self.count)


def allocate_table(rows: int) -> Any:
    """Memory for rows, which is never freed: the handler may read it at any time."""
    words = (ctypes.c_int64 * (_ROW_WORDS * rows))()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))
    return words


def immortal_text(text: str) -> tuple[int, int]:
    """Address and bytes of a text in memory that is never freed."""
    encoded = text.encode()
    buffer = ctypes.create_string_buffer(encoded)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(buffer))
    return ctypes.addressof(buffer), len(encoded)
