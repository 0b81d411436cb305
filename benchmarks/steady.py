"""Settings of the process in which everybody is measured.

Memory stays mapped: otherwise every large temporary is paid for in page faults, by those who allocate. Threads of
OpenBLAS rest half a millisecond after a product, and not after a tenth of a second in which they take a core from
whoever is measured next (2^28 cycles of the clock; its variable is the exponent). Calls that follow each other find
them awake either way.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VARIABLE: Final = "GLIBC_TUNABLES"
TUNABLES: Final = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=99999999999"
STEADY: Final = MappingProxyType({VARIABLE: TUNABLES, "OPENBLAS_THREAD_TIMEOUT": "20"})


def is_steady() -> bool:
    """Whether this process was started with these settings."""
    return os.environ.get(VARIABLE) == TUNABLES


def become_steady(more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Start this command over with these settings and more; returns if it was.

    Where the C library is not glibc, memory cannot be kept mapped, and the command starts over for the others alone.
    """
    steady = {} if is_steady() or platform.libc_ver()[0] != "glibc" else STEADY
    settings = {**steady, **more}
    if all(os.environ.get(name) == value for name, value in settings.items()):
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **settings})


def plain_environment(**changes: str) -> dict[str, str]:
    """The environment of an ordinary process, which keeps bytecode of what it imports, for those that measure one."""
    unusual = (*STEADY, "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in unusual} | changes
