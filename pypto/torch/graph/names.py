"""Names of kernels in graphs: a name means the same kernel in every process, or is refused.

A graph outlives the process that traced it: `torch.export.save` writes it, and caches keep its compiled code.
So a launch names its kernel by module, qualified name, and a hash over its source, its options, and the values that it
captures. A kernel without such a name, because it captures an object without a name, is known only to its process.
"""

from __future__ import annotations

import builtins
import hashlib
import linecache
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, NoReturn

import numpy as np

from pypto import language
from pypto.errors.launch import UnknownLaunch
from pypto.frontend import REWRITTEN, KernelSource
from pypto.ir.types import DType, PtrType
from pypto.ops.public import constexpr

PROCESS: Final = "process-"  # prefix of hashes that hold in one process only
_PLAIN: Final = (type(None), bool, int, float, str, bytes)
_COMPUTED: Final = ("math", "_operator", "builtins")  # modules of functions that the front end calls on constants


class Unnamed(Exception):
    """Raised for a value that no name identifies in another process."""


def name_of(kernel: Any, captures: Iterable[Any]) -> str:
    """Returns the name of a kernel that was built with some captured values.

    Raises
    ------
    Unnamed
        When it reads an object that has no name, or was generated.
    """
    read = [(capture.name, record(capture.value)) for capture in captures]
    if REWRITTEN in vars(kernel.function):
        raise Unnamed(kernel)
    parts = text_of(kernel.kernel_source), kernel.kind.__qualname__, repr(kernel.options), sorted(kernel.opaque), read
    return f"{place_of(kernel)}:{hashlib.sha256(repr(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def place_of(kernel: Any) -> str:
    """Returns the module and the qualified name of a kernel."""
    return f"{module_of(kernel.function.__module__)}:{kernel.function.__qualname__}"


def module_of(name: str) -> str:
    """Returns the name by which others import a module, also of a module run by `python -m`."""
    spec = getattr(sys.modules.get(name), "__spec__", None) if name == "__main__" else None
    return str(spec.name) if spec is not None else name


def text_of(source: KernelSource) -> str:
    """Returns the source lines of a function."""
    lines = range(source.node.lineno, (source.node.end_lineno or source.node.lineno) + 1)
    return "".join(linecache.getline(source.file, n) for n in lines)


def record(value: Any) -> str:
    """Returns a text that is the same in every process and differs for values that kernels could distinguish.

    Raises
    ------
    Unnamed
        For values of which this cannot be known.
    """
    kind = type(value)
    if kind in _PLAIN:
        return f"{kind.__name__} {value!r}"
    if isinstance(value, DType | PtrType):
        return f"type {value}"
    if kind is constexpr:
        return f"constexpr {record(value.value)}"
    if kind is tuple:
        return f"({', '.join(map(record, value))})"
    if isinstance(value, np.generic):
        return f"{value.dtype!r} {value.tobytes().hex()}"
    if kind is ModuleType:
        return f"module {value.__name__}"
    return named(value)


def named(value: Any) -> str:
    """What is known by its name, a function, or a kernel."""
    name, module = getattr(value, "__name__", None), getattr(value, "__module__", None)
    if isinstance(name, str) and getattr(language, name, None) is value:
        return f"language {name}"
    if isinstance(name, str) and vars(builtins).get(name) is value:
        return f"builtin {name}"
    if isinstance(value, BuiltinFunctionType) and module in _COMPUTED:
        return f"builtin {module}.{name}"
    function = value.function if is_kernel(value) else value
    if isinstance(function, FunctionType):
        return f"function {module}.{function.__qualname__} {text_of(KernelSource.of(function))}"
    raise Unnamed(value)


def is_kernel(value: Any) -> bool:
    return hasattr(type(value), "through_python")


def kernels_named(name: str) -> list[Any]:
    """Returns this process's kernels that a name may mean; their hashes are still to be compared.

    Modules are looked up and never imported: a graph from a file runs no code that its reader did not ask for.

    Raises
    ------
    UnknownLaunch
        When there is none.
    """
    module, qualified, digest = name.split(":")
    if digest.startswith(PROCESS) or "<locals>" in qualified:
        refuse(name, "which no other process can find", "define it at the top level of a module")
    owner: Any = sys.modules["__main__"] if module == module_of("__main__") else sys.modules.get(module)
    if owner is None:
        refuse(name, "which is not imported here", f"write `import {module}` before the graph runs")
    for part in qualified.split(".")[:-1]:
        owner = getattr(owner, part, None)
    kernels = [x for x in map(unwrapped, getattr(owner, "__dict__", {}).values()) if is_kernel(x)]
    matches = [kernel for kernel in kernels if kernel.function.__qualname__ == qualified]
    if not matches:
        refuse(name, "which has no kernel of that name", "run the graph with the module that it was traced with")
    return matches


def unwrapped(value: Any) -> Any:
    """Returns the kernel below wrappers that choose its constants."""
    while not is_kernel(value) and hasattr(type(value), "run") and hasattr(value, "arg_names"):
        value = value.fn
    return value


def refuse(name: str, problem: str, way: str) -> NoReturn:
    module, kernel, _ = name.split(":")
    raise UnknownLaunch(kernel=kernel, module=module, problem=problem, way=way)
