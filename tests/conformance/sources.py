"""Kernels from generated text, which the front end finds through `linecache`."""

from __future__ import annotations

import functools
import hashlib
import linecache
from typing import Any

import pypto as pto


@functools.lru_cache(maxsize=64)  # a kernel keeps its IR and its code as long as it lives
def define(text: str, level: str = "", name: str = "kernel") -> Any:
    """The kernel of that name in a text; equal texts are one file."""
    file = f"<generated {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "generated_kernels", "pto": pto}
    exec(compile(text, file, "exec"), names)
    return pto.jit(level=level)(names[name])
