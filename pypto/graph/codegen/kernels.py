"""The kernels of a plan: the front end parses generated source like a user's function."""

from __future__ import annotations

import linecache
from functools import lru_cache
from hashlib import sha256
from types import CodeType, FunctionType, MappingProxyType
from typing import Final

import pypto.language
from pypto.blocking import AUTO, Blocking
from pypto.graph.codegen.writer import KernelText
from pypto.jit import Kernel, jit
from pypto.language import libdevice, ordering

_MODULES: Final = MappingProxyType({"libdevice": libdevice, "ordering": ordering})  # of the language, by their names


def full_source(text: KernelText) -> str:
    """Return a kernel's source with its imports, as a complete file."""
    return f"{imports(text.source)}\n\n{text.source}"


def imports(source: str) -> str:
    """Return the imports that the source of kernels needs."""
    used = [name for name in _MODULES if f"{name}." in source]
    return "import pypto as pto\n" + (f"from pypto.language import {', '.join(used)}\n" if used else "")


@lru_cache(maxsize=1024)
def kernel_of(source: str, name: str, sized: tuple[str, ...] = (), blocking: Blocking = AUTO) -> Kernel:
    """Make the kernel of a source text without executing it: the function is built from the compiled code.

    `sized` and `blocking` are the `do_not_specialize` and `blocking` arguments of its decorator.

    Examples
    --------
    >>> kernel_of("import pypto as pto\\n\\n\\n@pto.jit\\ndef double(a, out):\\n    out[:] = a[:] * 2\\n", "double")
    <kernel double(a, out)>
    """
    file = f"<{name}, generated {sha256(source.encode()).hexdigest()[:8]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = compile(source, file, "exec", dont_inherit=True)
    code = next(x for x in module.co_consts if isinstance(x, CodeType) and x.co_name == name)
    function = FunctionType(code, {"__name__": f"generated.{name}", "pto": pypto.language, **_MODULES}, name)
    return jit(do_not_specialize=sized, blocking=blocking)(function)
