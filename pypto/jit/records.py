"""Records of what the front end reads beside a kernel's arguments: functions, and values of globals and closures."""

from __future__ import annotations

import builtins
import hashlib
import linecache
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from pypto import language
from pypto.frontend.source import REWRITTEN, is_library
from pypto.frontend.spec import Capture, Owner
from pypto.ir.types import DType, PtrType
from pypto.ops.public import constexpr
from pypto.ops.target import TargetName

_PLAIN: Final = (type(None), bool, int, str, bytes)
_COMPUTED: Final = ("math", "_operator", "builtins")  # modules of functions that the front end calls on constants
Place = list[Any]  # kind of the owner, number of the function or module, number of the cell


class Unrecorded(Exception):
    """What it names cannot be recorded, or is no longer as it was."""


class Records:
    """Walks values in the order in which the front end reads them.

    Parameters
    ----------
    names : frozenset of str, optional
        Names that the code of any function mentions. Of a module, those that are modules are recorded; without names,
        modules cannot be.

    Attributes
    ----------
    functions, modules : list
        What was walked so far: variables of these can be read.
    names : set of str
        Names that the functions mention.
    captures : list
        Records of outside variables: name, place, and value.
    """

    def __init__(self, names: frozenset[str] | None = None) -> None:
        self.mentioned = names
        self.fresh = True
        self.functions: list[FunctionType] = []
        self.modules: list[ModuleType] = []
        self.names: set[str] = set()
        self.captures: list[Any] = []

    # --- places -----------------------------------------------------------------------------------------------------

    def capture(self, capture: Capture) -> None:
        """Record an outside variable."""
        self.captures.append([capture.name, self.place(capture), self.value(capture.value)])

    def place(self, capture: Capture) -> Place:
        """By which of the functions and modules the variable is reached."""
        read: Any = capture.read
        owner = getattr(read.func, "__self__", None)
        for n, function in enumerate(self.functions):
            if function.__globals__ is owner:
                return ["globals", n, 0]
            for m, cell in enumerate(function.__closure__ or ()):
                if owner is None and cell is read.args[0]:
                    return ["cell", n, m]
        for n, module in enumerate(self.modules):
            if vars(module) is owner:
                return ["module", n, 0]
        raise Unrecorded(capture.name)

    def owner(self, place: Place) -> Owner:
        """What holds the variables of a place."""
        kind, n, m = place
        if kind == "module":
            return vars(self.modules[n])
        function = self.functions[n]
        cells: tuple[CellType, ...] = function.__closure__ or ()
        return function.__globals__ if kind == "globals" else cells[m]

    # --- functions --------------------------------------------------------------------------------------------------

    def function(self, function: Any) -> str:
        """A hash over the file of a function, its code, its defaults, and which of its names are globals.

        Raises
        ------
        Unrecorded
            When it is read from elsewhere, or holds something that cannot be recorded.
        """
        if type(function) is not FunctionType or REWRITTEN in vars(function):
            raise Unrecorded(function)
        code, file, variables = function.__code__, function.__code__.co_filename, function.__globals__
        if self.fresh:
            linecache.checkcache(file)
        lines = linecache.getlines(file, variables)
        if not lines:
            raise Unrecorded(file)
        names = {name for inner in codes(code) for name in inner.co_names}
        self.names |= names
        self.functions.append(function)
        named = sorted((function.__kwdefaults__ or {}).items())
        defaults = [self.value(x) for x in (*(function.__defaults__ or ()), *named)]
        parts = (file, "".join(lines), code_record(code), defaults, sorted(names & variables.keys()))
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()

    # --- values -----------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> str:
        """A text that differs for values which kernels could tell apart.

        Raises
        ------
        Unrecorded
            For values of which this cannot be known.
        """
        kind = type(value)
        if kind in _PLAIN or kind is float:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, DType | PtrType | TargetName):
            return f"type {value}"
        if kind is constexpr:
            return f"constexpr {self.value(value.value)}"
        if kind is tuple:
            return f"({', '.join(map(self.value, value))})"
        if isinstance(value, np.generic):
            return f"{value.dtype!r} {value.tobytes().hex()}"
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return f"dtype {np.dtype(value)!r}"
        if kind is ModuleType:
            return self.module(value)
        return self.named(value)

    def module(self, module: ModuleType) -> str:
        """A module, with what is a module in it among the names that are mentioned."""
        name, variables = module.__name__, vars(module)
        package = name.partition(".")[0]
        is_known = sys.modules.get(name) is module and "__getattr__" not in variables
        if package == "pypto":
            is_known = name in ("pypto", "pypto.language")
        if self.mentioned is None or not is_known or package == "triton":
            raise Unrecorded(name)
        if package == "pypto":
            return f"module {name}"
        if module in self.modules:
            return f"module {name} again"
        self.modules.append(module)
        inner = sorted(n for n in self.mentioned & variables.keys() if isinstance(variables[n], ModuleType))
        return f"module {name} ({', '.join(f'{n}: {self.module(variables[n])}' for n in inner)})"

    def named(self, value: Any) -> str:
        """What is known by its name, a function, or a kernel."""
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and getattr(language, name, None) is value:
            self.names.add(name)
            return f"language {name}"
        if isinstance(name, str) and vars(builtins).get(name) is value:
            return f"builtin {name}"
        module = getattr(value, "__module__", None)
        is_computed = isinstance(value, BuiltinFunctionType) and module in _COMPUTED
        if is_computed and getattr(sys.modules[str(module)], str(name), None) is value:
            return f"builtin {module}.{name}"
        if isinstance(value, FunctionType):
            if is_library(module or ""):
                raise Unrecorded(value)
            return f"function {self.function(value)}"
        inner = getattr(value, "function", None)
        if hasattr(type(value), "through_python") and inner is not None:
            return f"kernel {value.kind.__module__}.{value.kind.__qualname__} {self.function(inner)}"
        raise Unrecorded(value)


def codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def code_record(code: CodeType) -> Any:
    """What Python made of a function: its text may have been edited since."""
    constants = [code_record(c) if isinstance(c, CodeType) else plain_constant(c) for c in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, code.co_firstlineno, code.co_code.hex(), names, constants


def plain_constant(value: Any) -> str:
    """A constant of code; sets are in order."""
    inner = sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
    return f"{type(value).__name__} {inner}"
