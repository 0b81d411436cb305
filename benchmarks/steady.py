"""Memory that stays mapped: otherwise every large temporary is paid for in page faults, by those who allocate."""

from __future__ import annotations

import os
import platform
import sys
from typing import Final

VARIABLE: Final = "GLIBC_TUNABLES"
TUNABLES: Final = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=99999999999"


def is_steady() -> bool:
    """Whether this process was started with memory kept mapped."""
    return os.environ.get(VARIABLE) == TUNABLES


def become_steady() -> None:
    """Start this command over with memory kept mapped; returns if it is, or if the C library is not glibc."""
    if is_steady() or platform.libc_ver()[0] != "glibc":
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, VARIABLE: TUNABLES})


def plain_environment(**changes: str) -> dict[str, str]:
    """The environment of an ordinary process, for those that measure one."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE} | changes
