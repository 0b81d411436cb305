"""Ambient values differ from call to call: clocks, random numbers and the environment.

Tracing would freeze such a value at the first call. So random numbers and times are refused, and variables of the
environment are guards.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from pypto.errors.graph import NotTraced
from pypto.graph.capture.code_names import globals_of, names_of
from pypto.graph.capture.kinds import is_library
from pypto.graph.ir.location import here
from pypto.loc import Loc

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads

_MODULES: Final = frozenset(("time", "random", "_random", "secrets", "uuid", "datetime"))
_NAMES: Final = frozenset(
    (
        "time", "random", "secrets", "uuid", "datetime", "date", "environ", "getenv", "urandom", "default_rng",
        "SystemRandom", "Generator", "RandomState", "SeedSequence", "PCG64", "perf_counter", "monotonic", "now",
        "today", "get",
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
        elif event == "c_call" and is_refused(function) and is_of_user(frame):
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
