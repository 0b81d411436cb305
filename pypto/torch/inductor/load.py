"""Loads kernels from Inductor's text.

The text imports `triton` and parts of Inductor that are made for GPUs. Its own `__import__` gives it pypto's modules
instead: no module of the process is replaced, and an installed Triton is not used.
"""

from __future__ import annotations

import base64
import builtins
import functools
import hashlib
import importlib
import importlib.util
import linecache
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import pypto
from pypto.torch.inductor import heuristics
from pypto.torch.inductor.collected import COLLECTED
from pypto.torch.inductor.generated import Generated

_RUNTIME: Final = "torch._inductor.runtime"
# What the text of a kernel imports.
IMPORTS: Final = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
from torch._inductor.runtime.hints import AttrsDescriptorWrapper as AttrsDescriptor
"""
_async: Any = importlib.import_module("torch._inductor.async_compile")


class AsyncCompile(_async.AsyncCompile):  # type: ignore[misc]
    """The factory by which generated Python builds its kernels."""

    def triton(self, name: str, text: str, device_str: str = "cpu") -> Any:
        """Returns the kernel of a text, which its first launch compiles."""
        return kernel(name, text)


def linked(load: Callable[..., Any], packed: str) -> Callable[..., Any]:
    """Returns Inductor's loader of C++, which now also links an object, given as packed bytes."""
    code = zlib.decompress(base64.b85decode(packed))
    if not code:
        return load
    config: Any = importlib.import_module("torch._inductor.config")
    folder = importlib.import_module("torch._inductor.runtime.cache_dir_utils").cache_dir()
    path = f"{folder}/pypto-{hashlib.sha256(code).hexdigest()[:32]}.o"
    if not os.path.exists(path):
        importlib.import_module("torch._inductor.codecache").write_atomic(path, code, make_dirs=True)

    def loaded(*given: Any, extra_flags: Sequence[str] = (), **named: Any) -> Any:
        with config.patch(cpp_cache_precompile_headers=False):  # torch 2.12 gives the object to its preprocessor
            return load(*given, extra_flags=(*extra_flags, path), **named)

    return loaded


def kernel(name: str, text: str) -> Generated:
    """Returns the kernel of a text under its name, and adds it to those of the graph that is being compiled."""
    generated = unlisted(name, text)
    collected = COLLECTED.get()
    if collected is not None:
        collected.append(generated)
    return generated


def unlisted(name: str, text: str, **_: Any) -> Generated:
    """Returns the kernel of a text under its name, and records it nowhere."""
    generated: Generated = namespace(text)[name].named(name, text)
    return generated


def namespace(text: str) -> dict[str, Any]:
    """Returns the names that the text of a kernel defines."""
    path = f"<inductor {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return run(text, path, modules())


def run(text: str, path: str, served: Mapping[str, ModuleType]) -> dict[str, Any]:
    """Runs text with its own `__import__`, and returns the names that it defines.

    Types of elements print themselves as names of `pto`, also among the constants of a user's kernel.
    """
    server = functools.partial(serve, served)
    names: dict[str, Any] = {
        "__builtins__": {**vars(builtins), "__import__": server}, "__name__": "pypto.torch.inductor.generated",
        "__file__": path, "pto": pypto,
    }  # fmt: skip
    exec(compile(text, path, "exec"), names)
    return names


def serve(
    served: Mapping[str, ModuleType], name: str, scope: Any = None, local: Any = None, names: Any = (), level: int = 0
) -> Any:
    """Implements `__import__` for generated text: pypto's modules come first.

    Relative imports are those of Inductor's runtime.
    """
    full = f"{_RUNTIME}.{name}" if level else name
    if full not in served:
        return importlib.import_module(full) if level else builtins.__import__(name, scope, local, names)
    return served[full] if names else served[full.partition(".")[0]]


@functools.cache
def imported() -> Mapping[str, Any]:
    """Returns what `IMPORTS` imports, by name, for text that Inductor loads as a module."""
    names = run(IMPORTS, "<imports>", modules())
    return {name: value for name, value in names.items() if not name.startswith("__")}


@functools.cache
def modules() -> Mapping[str, ModuleType]:
    """Returns the modules that generated text imports, by name: Triton's, and Inductor's helpers that use it."""
    from pypto.compat.triton.tree import build

    served = build()
    for name in ("triton_compat", "triton_helpers"):
        module = ModuleType(f"{_RUNTIME}.{name}")
        vars(module).update(run(*source(f"{_RUNTIME}.{name}"), served))
        served[f"{_RUNTIME}.{name}"] = module
    runtime = ModuleType(_RUNTIME)
    vars(runtime).update(triton_helpers=module, triton_heuristics=heuristics)
    served[_RUNTIME] = runtime
    return served


def source(module: str) -> tuple[str, str]:
    """Returns the text of an installed module, and its file."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"{module} has no source")
    with open(spec.origin, encoding="utf-8") as file:
        return file.read(), spec.origin
