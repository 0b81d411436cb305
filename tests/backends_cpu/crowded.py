"""Loads code where there is room for a page here and there only: `python -m tests.backends_cpu.crowded`."""

from __future__ import annotations

import ctypes

import numpy as np

from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.pool import KERNEL
from pypto.backends.cpu.target import host_target

FAR = 8 << 30  # bytes between one hole and all others
PAGE = 4096
NUMBERS = [1.5, 2.5, 3.5, 4.5]
CONSTANTS = ", ".join(f"float {n}" for n in NUMBERS)
TEXT = f"""
define void @kernel(i64 %first, i64 %last, i64 %thread, ptr %args) {{
  %x = load <4 x float>, ptr %args, align 4
  %y = fadd <4 x float> %x, <{CONSTANTS}>
  store <4 x float> %y, ptr %args, align 4
  ret void
}}
"""


def main() -> None:
    engine = Engine(host_target())
    code = engine.compile(TEXT)
    kept = [engine.load(code, "kernel")]
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def taken(size: int) -> int:
        """Address space that nobody else gets: private, without a file, no memory behind it."""
        return int(libc.mmap(None, size, 0, 0x4022, -1, 0))

    below, pages = taken(FAR), [taken(PAGE)]
    while pages[-1] > below:  # every hole above
        pages.append(taken(PAGE))
    for page in pages[-5:-1]:
        libc.munmap(page, PAGE)  # the only room there: not for code and constants
        kept.append(engine.load(code, "kernel"))
        out = np.zeros(4, np.float32)
        KERNEL(kept[-1].address)(0, 1, 0, out.ctypes.data)
        assert out.tolist() == NUMBERS
    print(f"{len(kept)} loaded")


if __name__ == "__main__":
    main()
