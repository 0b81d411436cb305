"""Kernels from source text: the function of a kernel is built from the compiled code, and nothing is executed."""

from __future__ import annotations

import linecache
from functools import lru_cache
from hashlib import sha256
from types import CodeType, FunctionType, MappingProxyType
from typing import Final

import pypto.language
from pypto.blocking import AUTO, Blocking
from pypto.jit import Kernel, jit
from pypto.language import libdevice, ordering

MODULES: Final = MappingProxyType({"libdevice": libdevice, "ordering": ordering})  # of the language, by their names


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
    function = FunctionType(code, {"__name__": f"generated.{name}", "pto": pypto.language, **MODULES}, name)
    return jit(do_not_specialize=sized, blocking=blocking)(function)
