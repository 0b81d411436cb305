"""The recorder of reads: it notes each value that a traced function reads from outside as a row (`guards`).

The function sees a substitute of each value: a tensor for an array, a copy with tensors for a container, a copy with
recorded globals for a function. Objects stay themselves; their classes report reads (`attributes`).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import IOBase
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, Final, Protocol

from pypto.errors.graph import NotTraced, OutsideWritten
from pypto.graph.capture import guards, rebinding
from pypto.graph.capture.attributes import READS, Watched, unwatch, watch
from pypto.graph.capture.guards import (
    CapturedInput,
    Check,
    Get,
    Path,
    Read,
    ReadProgram,
    anything,
    array_equal,
    array_like,
    container_like,
    equal,
    equal_set,
    identical,
    objection,
    of_type,
    one_of,
    same_memory,
)  # fmt: skip
from pypto.graph.capture.parts import GETTERS, TEXTS, foreign_array
from pypto.graph.capture.proxies import ModuleView, contents, copied, items_of
from pypto.graph.capture.rebinding import Generators
from pypto.graph.capture.scalars import Scalar
from pypto.graph.exchange.call import OF_NUMPY, Call
from pypto.graph.exchange.libraries import library_name
from pypto.graph.ir.node import here

_REMEMBERED: Final = type(functools.lru_cache(len))


class InputGraph(Protocol):
    """The protocol of a graph during a trace: arrays that the function reads become its inputs."""

    def argument(self, name: str, array: Any, place: Any = None, shape: tuple[int, ...] | None = None) -> Any:
        """Return the tensor of an array that becomes an input."""

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a numpy ufunc on tensors of the graph and run-time scalars."""

    def substitute(self, value: Any) -> Any:
        """Return what a traced function sees for a module of arrays or a function of it, or None for the value."""


class Reads:
    """The reads of a function during its trace.

    Parameters
    ----------
    graph : InputGraph
    varying : collection of Path
        Numbers that are run-time scalars because they differ from call to call.
    call : Call
        The call whose arguments the function is traced for.
    """

    def __init__(self, graph: InputGraph, varying: Collection[Path] = (), call: Call = OF_NUMPY) -> None:
        self.graph = graph
        self.varying = varying
        self.call = call
        self.foreign: dict[int, Any] = {id(x): view for view in call.views for x in (call.originals[id(view)],)}
        self.rows: list[Read] = []
        self.values: list[Any] = []  # kept while the function is traced, so that an `id` stays one object's
        self.entered: list[Any] = []
        self.places: dict[Path, int] = {}
        self.known: dict[int, int] = {}  # rows of arrays, containers, functions and objects by `id`
        self.arguments: dict[int, int] = {}  # arrays among the arguments by `id`
        self.inputs: dict[int, CapturedInput] = {}  # what gives inputs of the graph, by the `id` of their array
        self.scalars: dict[Any, Any] = {}  # arrays that stand for run-time scalars, by row and type
        self.operands: dict[int, list[int]] = {}  # of computed rows
        self.pinned: set[Path] = set()
        self.copies: list[tuple[str, Any, list[Any]]] = []
        self.watched: Watched = {}
        self.fresh: dict[int, Any] = {}  # objects that the function itself makes
        self.generators = Generators()
        self.functions = rebinding.Functions(self)

    # --- rows ------------------------------------------------------------------------------------------------------

    def add(self, path: Path, text: str, get: Get, check: Check, value: Any, number: type | None = None) -> int:
        """Add a row, and return its current value."""
        place = self.places[path] = len(self.rows)
        self.rows.append(Read(path, text, get, check, number))
        self.values.append(value)
        self.entered.append(value)
        return place

    def root(self, function: Any) -> Any:
        """Return the traced function with recorded globals and closure."""
        if not guards.is_function(function):
            return self.meet(("function",), "self", lambda values, roots: roots.function, function)
        self.functions.root = function
        place = None
        if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
            get = lambda values, roots: roots.function  # noqa: E731
            place = self.keep(("function",), function.__name__, get, anything, function)
        return self.functions.copy(function, place, function.__name__)

    def argument(self, text: str, array: Any, shape: tuple[int, ...] | None = None) -> Any:
        """Return the tensor of an array among the arguments."""
        self.arguments.setdefault(id(array), len(self.arguments))
        return self.graph.argument(text, array, shape=shape)

    def other(self, number: int, text: str, value: Any) -> Any:
        """Return the substitute of an argument that is neither array nor container."""
        return self.meet(("other", number), text, lambda values, roots: roots.others[number], value)

    def meet(self, path: Path, text: str, get: Get, value: Any, raw: bool = False) -> Any:
        """Return the substitute that the function sees of a value; with `raw` it sees the value itself."""
        place = self.places.get(path)
        if place is not None:
            return self.entered[place]
        if getattr(type(value), "stands_in", False):
            return value.pin() if guards.is_scalar(value) and value.reads is not self else value
        value = self.foreign.get(id(value), value)
        if id(value) in self.arguments and guards.is_array(value):
            number = self.arguments[id(value)]
            place = self.add(path, text, lambda v, roots: get(v, roots) is roots.argument(number), equal(True), True)
            self.entered[place] = self.graph.argument(text, value)
            return self.entered[place]
        known = self.known.get(id(value))
        if known is not None and self.values[known] is value:
            place = self.add(path, text, get, one_of(known), value)
            self.entered[place] = self.functions.copies.get(id(value), self.entered[known])
            return self.entered[place]
        return self._meet(path, text, get, value, raw)

    def _meet(self, path: Path, text: str, get: Get, value: Any, raw: bool) -> Any:
        if self.call.name and library_name(value) == self.call.name:
            return foreign_array(self, path, text, get, value)
        refused = objection(value)
        if refused is not None:
            loc = self.functions.line_of_root()
            raise NotTraced(loc, what=f"`{text}`", problem=f"it is {refused[0]}", way=refused[1])
        if guards.is_number(value):
            return self._number(path, text, get, value, raw)
        if guards.is_plain(value) or type(value) is set:
            self.add(path, text, get, equal_set(value) if type(value) is set else equal(value), value)
            return value
        if guards.is_array(value):
            return self._array(path, text, get, value, raw)
        if guards.is_container(value):
            return self._container(path, text, get, value, raw)
        if isinstance(value, MethodType | functools.partial | _REMEMBERED):
            return self._callable(path, text, get, value)
        return self._followed(path, text, get, value)

    def _followed(self, path: Path, text: str, get: Get, value: Any) -> Any:
        """Return the substitute of a module, function or object, whose reads are recorded."""
        if guards.is_module(value):
            place = self.keep(path, text, get, anything, value)
            self.entered[place] = ModuleView(self, place, value)
        elif guards.is_function(value):
            place = self.keep(path, text, get, identical(value), value)
            self.entered[place] = self.functions.copy(value, place, text)
        elif guards.is_object(value):
            place = self._object(path, text, get, value)
        else:
            place = self._opaque(path, text, get, value)
        return self.entered[place]

    def _opaque(self, path: Path, text: str, get: Get, value: Any) -> int:
        """Guard an opaque value by its identity, or by its bytes.

        Raises
        ------
        NotTraced
            When the value is an iterator.
        """
        if isinstance(value, Iterator) and not isinstance(value, IOBase):
            raise NotTraced(
                self.functions.line_of_root(), what=f"`{text}`", way="pass what it gives as an argument",
                problem="it is an iterator, and what it gives now would be what it gives in every call",
            )  # fmt: skip
        memory = guards.bytes_of(value)
        check = identical(value) if memory is None else same_memory(type(value), memory)
        place = self.keep(path, text, get, check, value)
        self.generators.watch(text, value)
        if guards.is_class(value) and not issubclass(value, BaseException):
            watch(value, self.watched)  # the function makes instances of it
        if getattr(type(value), "is_fused", False):
            self.child(place, "attr", "function", value.function)
        return place

    def keep(self, path: Path, text: str, get: Get, check: Check, value: Any) -> int:
        """Add the row of a value that is known by its identity from now on."""
        place = self.add(path, text, get, check, value)
        self.known[id(value)] = place
        return place

    def child(self, parent: int, kind: str, name: Any, value: Any, raw: bool = False) -> Any:
        """Return the substitute of a value that is part of another row's value."""
        text = self.rows[parent].text
        get = GETTERS[kind](parent, name)
        return self.meet((kind, parent, name), TEXTS[kind].format(text, name), get, value, raw)

    # --- values of each kind ---------------------------------------------------------------------------------------

    def _number(self, path: Path, text: str, get: Get, value: Any, raw: bool) -> Any:
        absolute = self.absolute(path)
        if absolute in self.varying and not raw:
            place = self.add(path, text, get, of_type(type(value)), value)
            self.entered[place] = Scalar(self, place, value)
            return self.entered[place]
        self.add(path, text, get, equal(value), value, None if raw else type(value))
        return value

    def _array(self, path: Path, text: str, get: Get, value: Any, raw: bool) -> Any:
        place = self.keep(path, text, get, array_equal(value) if raw else array_like(value), value)
        self.inputs[id(value)] = CapturedInput(place)
        self.entered[place] = self.graph.argument(text, value)
        return self.entered[place]

    def _container(self, path: Path, text: str, get: Get, value: Any, raw: bool) -> Any:
        place = self.keep(path, text, get, container_like(value), value)
        kind = "attr" if type(value) is SimpleNamespace else "item"
        entered = {name: self.child(place, kind, name, x, raw) for name, x in items_of(value)}
        self.entered[place] = copy = copied(value, entered)
        self.stand_in(text, copy)
        return copy

    def stand_in(self, text: str, value: Any) -> None:
        """Record a copy of a container, which the function must leave unchanged."""
        self.fresh[id(value)] = value
        self.copies.append((text, value, contents(value)))

    def _callable(self, path: Path, text: str, get: Get, value: Any) -> Any:
        """Return the substitute of a bound method, a partial call, or a function with a result cache."""
        names: tuple[str, ...] = ("func", "args", "keywords")
        if type(value) is MethodType:
            names = ("__func__", "__self__")
        elif isinstance(value, _REMEMBERED):
            names = ("__wrapped__",)
        place = self.add(path, text, get, of_type(type(value)), value)
        parts = [self.child(place, "attr", name, getattr(value, name)) for name in names]
        if type(value) is MethodType:
            self.entered[place] = MethodType(*parts)
        elif len(parts) == 1:
            self.entered[place] = parts[0]
        else:
            self.entered[place] = functools.partial(parts[0], *parts[1], **parts[2])
        return self.entered[place]

    def _object(self, path: Path, text: str, get: Get, value: Any) -> int:
        place = self.keep(path, text, get, of_type(type(value)), value)
        if not watch(type(value), self.watched):
            for name, x in list(getattr(value, "__dict__", {}).items()):
                self.child(place, "attr", name, x, raw=True)
        return place

    # --- what objects tell -----------------------------------------------------------------------------------------

    def place_of(self, value: Any) -> int | None:
        """Return the row of an object, or None for an object that the function made."""
        known = self.known.get(id(value))
        if known is not None and self.values[known] is value:
            return known
        if self.fresh.get(id(value)) is value:
            return None
        reference: Callable[[], Any] = lambda: None  # noqa: E731
        with suppress(TypeError):
            reference = weakref.ref(value)
        text = f"a {type(value).__name__}"
        return self.keep(("weak", id(value)), text, lambda values, roots: reference(), of_type(type(value)), value)

    def attribute(self, value: Any, name: str, plain: Callable[[], Any]) -> Any:
        """Return the substitute of an attribute that the function reads."""
        if name.startswith("__") and name != "__dict__":
            return plain()
        owned = guards.owned_by(type(value), name)
        if isinstance(owned, property) and owned.fget is not None:
            return self.functions.of(owned.fget)(value)
        if isinstance(owned, functools.cached_property) and name not in object.__getattribute__(value, "__dict__"):
            return self.functions.of(owned.func)(value)
        current = plain()
        place = self.place_of(value)
        if isinstance(owned, FunctionType | staticmethod | classmethod) and not in_instance(value, name):
            if place is not None and ("method", place, name) not in self.places:
                self.add(("method", place, name), name, self._reader_of(place), has_method(name, owned), owned)
            return self.functions.bound(current)
        return current if place is None else self.child(place, "attr", name, current)

    def _reader_of(self, place: int) -> Get:
        return lambda values, roots: values[place]

    def assigned(self, value: Any, name: str, new: Any, plain: Callable[[], None]) -> None:
        """Handle an assignment to an attribute: it is legal on the function's objects, and for arrays updated in place.

        Raises
        ------
        OutsideWritten
            At the user's line.
        """
        place = self.place_of(value)
        if place is None:
            plain()
            return
        read = self.places.get(("attr", place, name))
        if read is None or self.entered[read] is not new:
            raise OutsideWritten(here().loc(), what=f"`{self.rows[place].text}.{name}`")

    def pin(self, place: int) -> None:
        """Pin the numbers from outside on which a value depends: the plan is valid for these numbers only."""
        seen, pending = {place}, [place]
        while pending:
            row = pending.pop()
            operands = self.operands.get(row)
            if operands is None:
                self.pinned.add(self.absolute(self.rows[row].path))
            pending += [x for x in operands or () if x not in seen]
            seen.update(operands or ())

    # --- the end ---------------------------------------------------------------------------------------------------

    def absolute(self, path: Path) -> Path:
        """Return a path without row numbers, which differ from trace to trace."""
        if path[0] in GETTERS:
            return (path[0], self.absolute(self.rows[path[1]].path), path[2])
        return path

    def check(self) -> None:
        """Refuse changes that the function made outside of itself.

        Raises
        ------
        OutsideWritten
        """
        for text, copy, before in self.copies:
            after = contents(copy)
            if len(after) != len(before) or any(a is not b for a, b in zip(after, before, strict=True)):
                raise OutsideWritten(self.functions.line_of_root(), what=f"`{text}`")
        self.functions.check()
        self.read_classes()
        self.generators.check(self.functions.line_of_root())

    def read_classes(self) -> None:
        """Record the attributes that functions name of classes, which may be namespaces."""
        names = self.functions.names()
        for place, value in list(enumerate(self.values)):
            if not guards.is_class(value):
                continue
            owned = ((name, guards.owned_by_user(value, name)) for name in names)
            for name, x in owned:
                if x is not None and not callable(x) and not hasattr(x, "__get__"):
                    self.child(place, "attr", name, x, raw=True)

    def outside(self, arrays: Iterable[Any]) -> ReadProgram:
        """Return the program of reads, which produces the graph's inputs for these arrays in later calls."""
        rows = [Read(self.absolute(r.path), r.text, r.get, r.check, r.number) for r in self.rows]
        return ReadProgram(rows, tuple(self.inputs[id(x)] for x in arrays), frozenset(self.pinned))


@contextmanager
def reading(reads: Reads) -> Iterator[None]:
    """Let classes and functions report reads to one trace, within a `with` block."""
    token = READS.set(reads)
    try:
        yield
    finally:
        READS.reset(token)
        reads.functions.ambient.end()
        if reads.watched:
            unwatch(reads.watched)


def in_instance(value: Any, name: str) -> bool:
    return name in getattr(value, "__dict__", ())


def has_method(name: str, owned: Any) -> Check:
    """Return a check that an object still has the method of its class."""

    def check(value: Any, values: list[Any]) -> bool:
        return guards.owned_by(type(value), name) is owned and not in_instance(value, name)

    return check
