"""Attribute instrumentation: during a trace, the user's classes report which attributes the function reads and writes.

A class gets methods that call the recorder of the current context, if there is one, so that objects behave as usual in
other threads. The last trace that needs them removes them.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Final

from pypto.graph.capture.guards import is_class

_LEFT: Final = frozenset(
    (
        "__init__", "__new__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__del__", "__repr__",
        "__str__", "__reduce__", "__reduce_ex__", "__init_subclass__", "__class_getitem__", "__set_name__",
        "__getstate__", "__setstate__", "__post_init__",
    )
)  # fmt: skip
_NONE: Final = object()
READS: Final[ContextVar[Any]] = ContextVar("reads", default=None)  # the recorder of this context, if any


def as_seen(function: Any) -> Any:
    """Return the copy of a function that the current trace uses, or the function itself outside of a trace."""
    reads = READS.get()
    return function if reads is None else reads.functions.of(function)


def part_as_seen(owner: Any, name: str) -> Any:
    """Return what the current trace uses of a function that another one holds, such as a fused one."""
    reads = READS.get()
    function = getattr(owner, name)
    place = None if reads is None else reads.known.get(id(owner))
    return as_seen(function) if place is None else reads.child(place, "attr", name, function)


class Instrumented:
    """The instrumented classes, each with its original methods."""

    def __init__(self) -> None:
        self.counts = Counter[type]()
        self.originals: dict[type, dict[str, Any]] = {}
        self.lock = threading.Lock()

    def begin(self, kind: type) -> bool:
        """Instrument a class, and tell whether that is possible; each `begin` needs an `end`."""
        with self.lock:
            if not self.counts[kind] and not self.put_on(kind):
                del self.counts[kind]
                return False
            self.counts[kind] += 1
            return True

    def put_on(self, kind: type) -> bool:
        wrappers = methods_of(kind)
        originals = {name: kind.__dict__.get(name, _NONE) for name in wrappers}
        try:
            for name, method in wrappers.items():
                type.__setattr__(kind, name, method)
        except TypeError:  # a class of another language
            return False
        self.originals[kind] = originals
        return True

    def end(self, kind: type) -> None:
        with self.lock:
            self.counts[kind] -= 1
            if self.counts[kind]:
                return
            del self.counts[kind]
            for name, original in self.originals.pop(kind).items():
                if original is _NONE:
                    type.__delattr__(kind, name)
                else:
                    type.__setattr__(kind, name, original)


INSTRUMENTED: Final = Instrumented()


Watched = dict[type, bool]  # the classes of one trace; whether each could be instrumented


def watch(kind: type, watched: Watched) -> bool:
    """Instrument a class for its instances, and tell whether that is possible."""
    if kind not in watched:
        bases = [c for c in kind.__mro__[1:] if is_class(c)]
        watched[kind] = INSTRUMENTED.begin(kind)
        for base in bases:
            watch(base, watched)
    return watched[kind]


def unwatch(watched: Watched) -> None:
    """Give the classes of a trace their own methods back, unless another trace needs the instrumented ones."""
    for kind, is_on in watched.items():
        if is_on:
            INSTRUMENTED.end(kind)
    watched.clear()


def inherited(kind: type, name: str) -> Any:
    """Return the original method of a class."""
    for base in kind.__mro__:
        method = base.__dict__.get(name)
        if method is not None:
            original = getattr(method, "instead_of", method)
            if original is not None:
                return original
    raise AttributeError(name)


def methods_of(kind: type) -> dict[str, Any]:
    """Return the instrumented methods of a class."""
    wrappers: dict[str, Any] = {
        "__getattribute__": reading_method(kind), "__setattr__": setting_method(kind),
        "__delattr__": deleting_method(kind), "__init__": making_method(kind),
    }  # fmt: skip
    for name, method in wrappers.items():
        method.instead_of = kind.__dict__.get(name)
    for name, method in kind.__dict__.items():
        if isinstance(method, FunctionType) and name not in _LEFT:
            wrappers[name] = rebinding(method)
    return wrappers


def reading_method(kind: type) -> Callable[..., Any]:
    def __getattribute__(self: Any, name: str) -> Any:
        reads, plain = READS.get(), inherited(kind, "__getattribute__")
        return plain(self, name) if reads is None else reads.attribute(self, name, functools.partial(plain, self, name))

    return __getattribute__


def setting_method(kind: type) -> Callable[..., Any]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        reads, plain = READS.get(), inherited(kind, "__setattr__")
        if reads is None or is_set_by_code(type(self), name):
            plain(self, name, value)
        else:
            reads.assigned(self, name, value, functools.partial(plain, self, name, value))

    return __setattr__


def deleting_method(kind: type) -> Callable[..., Any]:
    def __delattr__(self: Any, name: str) -> None:
        reads, plain = READS.get(), inherited(kind, "__delattr__")
        if reads is None:
            plain(self, name)
        else:
            reads.assigned(self, name, None, functools.partial(plain, self, name))

    return __delattr__


def making_method(kind: type) -> Callable[..., Any]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        reads, plain = READS.get(), inherited(kind, "__init__")
        if reads is not None and id(self) not in reads.known:
            reads.fresh[id(self)] = self
        if plain is object.__init__:
            args, kwargs = (), {}
        as_seen(plain)(self, *args, **kwargs)

    return __init__


def is_set_by_code(kind: type, name: str) -> bool:
    """Whether setting an attribute runs a function of the user."""
    owned = next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__), None)
    return isinstance(owned, property)


def rebinding(method: FunctionType) -> Callable[..., Any]:
    """Return a method whose globals a trace records."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_seen(method)(*args, **kwargs)

    call.instead_of = method  # type: ignore[attr-defined]
    return call
