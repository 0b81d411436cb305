"""Function rebinding: a trace runs copies of functions whose globals and closures hold tensors for arrays."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from pypto.errors.graph import OutsideWritten
from pypto.graph.capture import kinds
from pypto.graph.capture.ambient import Ambient, suspicious
from pypto.graph.capture.code_names import globals_of, line_of, names_of
from pypto.graph.capture.stand_ins import TypeSeen
from pypto.loc import Loc

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads


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
        if not kinds.is_function(function) or id(function) in self.originals:
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
        copy = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells or None)
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
            namespace = self.globals[id(function.__globals__)] = (function.__globals__, dict(function.__globals__), {})
        return namespace[1]

    def fill_globals(self, function: FunctionType) -> None:
        """Fill the globals that a function reads with their substitutes."""
        plain, namespace, entered = self.globals[id(function.__globals__)]
        reads = self.reads
        for name in globals_of(function.__code__):
            if name == "type" and name not in plain:
                namespace[name] = TypeSeen
            if name in entered or name not in plain or name.startswith("__") or is_left(plain[name]):
                continue
            get = global_of(plain, name)
            entered[name] = None  # a function may name itself
            entered[name] = namespace[name] = reads.meet(("global", id(plain), name), name, get, plain[name])
            if kinds.is_class(plain[name]):
                self.read_class(function.__code__, ("global", id(plain), name))

    def read_class(self, code: CodeType, path: tuple[Any, ...]) -> None:
        """Record the attributes that a function names of a class used as a namespace."""
        place = self.reads.places[path]
        kind = self.reads.values[place]
        for name in names_of(code):
            owned = next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__ and kinds.is_class(c)), None)
            if owned is not None and not callable(owned) and not hasattr(owned, "__get__"):
                self.reads.child(place, "attr", name, owned, raw=True)

    def fill_cells(self, function: FunctionType, place: int, cells: tuple[CellType, ...]) -> None:
        for number, (name, cell) in enumerate(zip(function.__code__.co_freevars, cells, strict=True)):
            original = (function.__closure__ or ())[number]
            if cell is original:
                continue
            value = original.cell_contents
            if is_left(value):
                cell.cell_contents = value
                continue
            get = cell_of(place, number)
            cell.cell_contents = self.reads.meet(("cell", place, name), name, get, value)
            self.cells.append((function, name, cell, cell.cell_contents))

    def fill_defaults(self, function: FunctionType, place: int, copy: FunctionType) -> None:
        """Fill the defaults that are not plain values."""
        defaults = function.__defaults__ or ()
        if not all(map(kinds.is_plain, defaults)):
            copy.__defaults__ = self.reads.child(place, "attr", "__defaults__", defaults)
        named = function.__kwdefaults__ or {}
        if not all(map(kinds.is_plain, named.values())):
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
    return isinstance(value, ModuleType) and kinds.is_library(value.__name__)


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
