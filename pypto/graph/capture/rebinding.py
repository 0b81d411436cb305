"""Function rebinding: a trace runs copies of functions whose globals and closures hold tensors for arrays.

Ambient values differ from call to call: clocks, random numbers and the environment. Tracing would freeze such a value
at the first call. So random numbers and times are refused, and variables of the environment are guards.
"""

from __future__ import annotations

import dis
import io
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.errors.graph import NotTraced, OutsideWritten
from pypto.graph.capture import guards
from pypto.graph.capture.guards import is_library
from pypto.graph.capture.proxies import TypeSeen
from pypto.graph.ir.node import here
from pypto.loc import Caller, Loc

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads

_MODULES: Final = frozenset(("time", "random", "_random", "secrets", "uuid", "datetime"))
_NAMES: Final = frozenset(
    (
        "time", "random", "secrets", "uuid", "datetime", "date", "environ", "getenv", "urandom", "default_rng",
        "SystemRandom", "Generator", "RandomState", "SeedSequence", "PCG64", "perf_counter", "monotonic", "now",
        "today", "get", "open", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_text", "read_bytes",
    )
)  # fmt: skip
_CLOCKS: Final = frozenset(
    (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime",
        "clock_gettime", "clock_gettime_ns", "now", "utcnow", "today", "urandom", "getrandom",
    )
)  # fmt: skip
_WAY: Final = "pass it as an argument: `f(x, …)`"


def suspicious(code: CodeType, namespace: dict[str, Any]) -> bool:
    """Whether a function may read a time, a random number or the environment, so that its calls must be watched."""
    if not _NAMES.isdisjoint(names_of(code)):
        return True
    values = (namespace.get(name) for name in globals_of(code))
    return any(getattr(x, "__module__", None) in _MODULES or x is os.environ for x in values)


class Ambient:
    """Watches the calls of a traced function, from the first call that may read an ambient value."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.is_on = False
        self.thread = 0
        self.outer: Any = None
        self.getitem = type(os.environ).__getitem__.__code__

    def begin(self) -> None:
        if not self.is_on:
            self.is_on, self.thread, self.outer = True, threading.get_ident(), sys.getprofile()
            sys.setprofile(self.event)

    def end(self) -> None:
        if self.is_on and self.thread == threading.get_ident():
            sys.setprofile(self.outer)
        self.is_on = False

    def event(self, frame: FrameType, event: str, function: Any) -> None:
        """Handle a profiling event of a call."""
        if self.outer is not None:
            self.outer(frame, event, function)
        if event == "call" and frame.f_code is self.getitem and frame.f_locals.get("self") is os.environ:
            self.variable(frame.f_locals["key"])
        elif event == "c_call" and ((is_refused(function) and is_of_user(frame)) or reads_file(function, frame)):
            name = f"{getattr(function, '__module__', None) or 'random'}.{function.__name__}"
            owner = getattr(function, "__self__", None)
            if isinstance(owner, ContextVar):
                name = f"{owner.name}.get()"
            elif isinstance(owner, type):
                name = f"{owner.__name__}.{function.__name__}"
            raise NotTraced(
                here().loc(), what=f"`{name}`", problem="its value would be that of the first call in every call",
                way=_WAY,
            )  # fmt: skip

    def variable(self, key: Any) -> None:
        """Record a variable of the environment as a guard."""
        if isinstance(key, str):
            value = os.environ._data.get(os.environ.encodekey(key))  # type: ignore[attr-defined]
            text = None if value is None else os.environ.decodevalue(value)
            self.reads.meet(
                ("environ", key), f"os.environ[{key!r}]", lambda values, roots: os.environ.get(key), text, raw=True
            )


def is_refused(function: Any) -> bool:
    """Whether a C function returns another value in every call."""
    name, module, owner = function.__name__, getattr(function, "__module__", None), getattr(function, "__self__", None)
    if isinstance(owner, random.Random):
        return bool(name in ("random", "getrandbits"))
    if isinstance(owner, ContextVar):
        return bool(name == "get")
    if isinstance(owner, type):
        return owner.__module__ == "datetime" and name in _CLOCKS
    return name in _CLOCKS and module in ("time", "posix", "nt")


def reads_file(function: Any, frame: FrameType) -> bool:
    """Whether the user's program opens or reads a file, directly or through numpy or a path."""
    is_opening = function is io.open or (function.__name__ == "fromfile" and function is np.fromfile)
    caller = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return is_opening and (caller in ("numpy", "pathlib") or is_of_user(frame))


def is_of_user(frame: FrameType) -> bool:
    """Whether a call comes from the user's program, directly or through the time and random modules."""
    name = str(frame.f_globals.get("__name__", ""))
    return name in _MODULES or not is_library(name)


class Generators:
    """Random generators from outside of a function, from which the function may not draw."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any, str]] = []

    def watch(self, text: str, value: Any) -> None:
        if state_of(value) is not None:
            self.seen.append((text, value, str(state_of(value))))

    def check(self, loc: Loc | None) -> None:
        """Refuse the trace if the function drew from a generator.

        Raises
        ------
        NotTraced
        """
        for text, value, before in self.seen:
            if str(state_of(value)) != before:
                raise NotTraced(
                    loc, what=f"`{text}`", problem="its numbers would be those of the first call in every call",
                    way="draw them outside of the function, and pass them as an argument",
                )  # fmt: skip


def state_of(value: Any) -> Any:
    """Return the state of a random generator, or None for any other value."""
    numbers = sys.modules.get("numpy.random")
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else value.getstate()
    if numbers is not None and isinstance(value, numbers.Generator | numbers.RandomState | numbers.BitGenerator):
        bit_generator = value if isinstance(value, numbers.BitGenerator) else value._bit_generator
        state: Any = bit_generator.state
        return {k: v.tobytes() if hasattr(v, "tobytes") else v for k, v in flat(state)}
    return None


def flat(state: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten nested dicts to their items."""
    leaves: list[tuple[str, Any]] = []
    for key, value in state.items():
        leaves += flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return leaves


@lru_cache(maxsize=1024)
def globals_of(code: CodeType) -> tuple[str, ...]:
    """Return the globals that a function and its nested functions read.

    Examples
    --------
    >>> globals_of((lambda x: [x.shape[0] * scale for _ in range(n)]).__code__)
    ('range', 'n', 'scale')
    """
    names = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for part in code.co_consts:
        if isinstance(part, CodeType):
            names += globals_of(part)
    return tuple(dict.fromkeys(names))


@lru_cache(maxsize=1024)
def names_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of globals and attributes in a function and its nested functions."""
    inner = (names_of(part) for part in code.co_consts if isinstance(part, CodeType))
    return tuple(dict.fromkeys((*code.co_names, *(name for names in inner for name in names))))


@lru_cache(maxsize=1024)
def has_statements(code: CodeType) -> bool:
    """Whether a function has a loop or a branch, or names `np.ndarray`, for which the trace runs other code."""
    return "ndarray" in code.co_names or any("JUMP" in i.opname for i in dis.get_instructions(code))


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from codes_of(part)


def line_of(code: CodeType, op: str, name: str) -> Loc | None:
    """Return the location of an instruction on a name."""
    for each in codes_of(code):
        for instruction in dis.get_instructions(each):
            if instruction.opname == op and instruction.argval == name:
                return Caller(each, instruction.offset // 2, each.co_firstlineno).loc()
    return None


class Functions:
    """The function copies of one trace, by their originals."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.copies: dict[int, FunctionType] = {}
        self.originals: dict[int, Any] = {}  # kept, so that an `id` stays one function's
        self.globals: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
        self.cells: list[tuple[FunctionType, str, CellType, Any]] = []
        self.root: FunctionType | None = None
        self.ambient = Ambient(reads)

    def of(self, function: Any) -> Any:
        """Return the copy of a function for the trace; a function that the trace made keeps its cells."""
        if not guards.is_function(function) or id(function) in self.originals:
            return self.copies.get(id(function), function)
        return self.copy(function, None, function.__qualname__)

    def bound(self, value: Any) -> Any:
        """Return the copy of a class's method or function for the trace."""
        if type(value) is MethodType:
            return MethodType(self.of(getattr(value.__func__, "instead_of", value.__func__)), value.__self__)
        return self.of(getattr(value, "instead_of", value))

    def copy(self, function: FunctionType, place: int | None, text: str) -> FunctionType:
        """Copy a function that a row reads."""
        known = self.copies.get(id(function))
        if known is not None:
            return known
        namespace = self.namespace(function)
        closure = function.__closure__ or ()
        cells = tuple(CellType() if place is not None and is_full(cell) else cell for cell in closure)
        code = function.__code__
        if has_statements(code):
            from pypto.graph.capture.loop_statements import with_statements

            code = with_statements(function)
        copy = FunctionType(code, namespace, function.__name__, function.__defaults__, cells or None)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = function.__qualname__
        copy.__dict__.update(function.__dict__)
        self.copies[id(function)] = copy
        self.originals[id(function)], self.originals[id(copy)] = function, copy
        self.copies[id(copy)] = copy
        self.fill_globals(function)
        if place is not None:
            self.fill_cells(function, place, cells)
            self.fill_defaults(function, place, copy)
        if suspicious(function.__code__, function.__globals__):
            self.ambient.begin()
        return copy

    def namespace(self, function: FunctionType) -> dict[str, Any]:
        namespace = self.globals.get(id(function.__globals__))
        if namespace is None:
            copied = {**function.__globals__, "__builtins__": self.builtins_of(function)}
            namespace = self.globals[id(function.__globals__)] = (function.__globals__, copied, {})
        return namespace[1]

    def builtins_of(self, function: FunctionType) -> dict[str, Any]:
        """Return the builtins of a function, whose imports give the stand-in of numpy, too."""
        builtins: dict[str, Any] = vars(FunctionType)["__builtins__"].__get__(function)

        def imported(*args: Any, **kwargs: Any) -> Any:
            module = builtins["__import__"](*args, **kwargs)
            substitute = self.reads.graph.substitute(module)
            return module if substitute is None else substitute

        return {**builtins, "__import__": imported}

    def fill_globals(self, function: FunctionType) -> None:
        """Fill the globals that a function reads with their substitutes."""
        plain, namespace, entered = self.globals[id(function.__globals__)]
        reads = self.reads
        for name in globals_of(function.__code__):
            if name == "type" and name not in plain:
                namespace[name] = TypeSeen
            if name in entered or name not in plain or name.startswith("__"):
                continue
            substitute = reads.graph.substitute(plain[name])
            if substitute is not None:
                entered[name] = namespace[name] = substitute
            if substitute is not None or is_left(plain[name]):
                continue
            get = global_of(plain, name)
            entered[name] = None  # a function may name itself
            entered[name] = namespace[name] = reads.meet(("global", id(plain), name), name, get, plain[name])

    def names(self) -> list[str]:
        """Return the names of globals and attributes in all functions of the trace."""
        codes = (function.__code__ for function in self.originals.values())
        return sorted({name for code in codes for name in names_of(code)})

    def fill_cells(self, function: FunctionType, place: int, cells: tuple[CellType, ...]) -> None:
        for number, (name, cell) in enumerate(zip(function.__code__.co_freevars, cells, strict=True)):
            original = (function.__closure__ or ())[number]
            if cell is original:
                continue
            value = original.cell_contents
            substitute = self.reads.graph.substitute(value)
            if substitute is not None or is_left(value):
                cell.cell_contents = value if substitute is None else substitute
                continue
            get = cell_of(place, number)
            cell.cell_contents = self.reads.meet(("cell", place, name), name, get, value)
            self.cells.append((function, name, cell, cell.cell_contents))

    def fill_defaults(self, function: FunctionType, place: int, copy: FunctionType) -> None:
        """Fill the defaults that are not plain values."""
        defaults = function.__defaults__ or ()
        if not all(map(guards.is_plain, defaults)):
            copy.__defaults__ = self.reads.child(place, "attr", "__defaults__", defaults)
        named = function.__kwdefaults__ or {}
        if not all(map(guards.is_plain, named.values())):
            copy.__kwdefaults__ = self.reads.child(place, "attr", "__kwdefaults__", named)

    def check(self) -> None:
        """Refuse assignments to globals and to variables of outer functions.

        Raises
        ------
        OutsideWritten
            At the line of the assignment.
        """
        for function, name, cell, before in self.cells:
            if not is_full(cell) or cell.cell_contents is not before:
                raise OutsideWritten(line_of(function.__code__, "STORE_DEREF", name), what=f"`{name}`")
        for plain, namespace, entered in self.globals.values():
            before = {**plain, **entered}
            changed = [n for n, x in namespace.items() if x is not before.get(n) and n not in ("type", "__builtins__")]
            for function in self.originals.values():
                for name in changed:
                    loc = line_of(function.__code__, "STORE_GLOBAL", name)
                    if loc is not None:
                        raise OutsideWritten(loc, what=f"`{name}`")

    def line_of_root(self) -> Loc | None:
        return None if self.root is None else Loc.of_code(self.root.__code__)


def is_left(value: Any) -> bool:
    """Whether a value is a library module, which needs no guard."""
    return isinstance(value, ModuleType) and guards.is_library(value.__name__)


def is_full(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def global_of(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    return lambda values, roots: namespace[name]


def cell_of(parent: int, number: int) -> Callable[..., Any]:
    return lambda values, roots: values[parent].__closure__[number].cell_contents
