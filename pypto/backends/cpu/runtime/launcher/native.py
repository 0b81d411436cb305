"""The native launcher: its code, the tables that it reads, and the functions that Python calls."""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.backends.base import PAGE
from pypto.backends.cpu.backend import POLLED_ABOVE, SERIAL_BELOW, programs_per_ticket
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.launcher.direct import Argument, direct_recipe
from pypto.backends.cpu.runtime.launcher.recipe import Recipe, Unfit, recipe
from pypto.backends.cpu.runtime.launcher.replay import Replay, ReplayedLaunch
from pypto.backends.llvm.compiled import source_module
from pypto.errors import CompilerBug

PARAMETERS: Final = 96
_ENTRIES: Final = 256  # versions per kernel
GRIDS: Final = 8  # twice the grids that a kernel remembers
PLACES: Final = 4  # pieces of scratch memory
_LONG: Final = 20_000  # nanoseconds of work for which the interpreter's lock is released
# Words of the tables: what all kernels share, a kernel's own, and the head of an entry.
SHARED: Final = ("threads", "none", "type_int", "type_float", "type_bool", "type_tuple", "type_function", "mode",
    "plain", "again", "launch", "ignored", "stopped", "meant", "scratch")  # fmt: skip
KERNEL: Final = ("shared", "arity", "names", "defaults", "python", "before", "after", "entries", "table", "grids",
    "turn")  # fmt: skip
ENTRY: Final = ("body", "scratch", "cost", "threads", "asks", "unbounded", "pool", "least", "group", "program",
    "steps")  # fmt: skip
# Offsets of fields in objects of Python and numpy.
_OBJECT: Final = MappingProxyType({"type": 8, "size": 16, "list_items": 24, "tuple_items": tuple.__basicsize__,
    "bytes_content": bytes.__basicsize__ - 1})  # fmt: skip
_ARRAY: Final = MappingProxyType({"data": 16, "axes": 24, "sizes": 32, "strides": 40, "dtype": 56, "flags": 64})
_O, _NOARGS, _FASTCALL, _KEYWORDS = 0x8, 0x4, 0x80, 0x2
_FUNCTIONS: Final = MappingProxyType({"subscript": _O, "launch": _FASTCALL | _KEYWORDS, "prepared": _NOARGS,
    "direct": _FASTCALL, "replay": _FASTCALL})  # fmt: skip
_HELPERS: Final = ("offer", "resolve")
MEANT: Final = (KeyError, AttributeError, TypeError)  # what a grid function raises that takes its argument wrongly
Stored = Callable[[str, Callable[[], bytes]], bytes]  # gives code by its name, and makes it where it is missing


class Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p))  # fmt: skip


def launcher_text() -> str:
    """The launcher's LLVM IR for this interpreter."""
    rows = {"object": _OBJECT, "array": _ARRAY}
    places = {f"{kind}_{name}": at for kind, row in rows.items() for name, at in row.items()}
    work = {"serial_below": int(SERIAL_BELOW), "long_above": _LONG, "polled_above": int(POLLED_ABOVE)}
    return source_module(Path(__file__).with_name("launcher.c"), **places, **work)


def is_supported() -> bool:
    """Whether objects have the layout that the launcher reads, in an interpreter with a global lock."""
    build = (sys.implementation.name, ctypes.sizeof(ctypes.c_void_p), sys.byteorder)
    special = sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount")
    plain = build == ("cpython", 8, "little") and not special
    return plain and objects_as_expected() and all(map(array_as_expected, probes()))


def probes() -> list[Any]:
    """Arrays on which the layout is tested."""
    x = np.zeros((3, 4, 5), np.float32)
    frozen = x[::2, :, 1]
    frozen.flags.writeable = False
    return [x, frozen, x.T.astype(np.int8), np.zeros((), np.float64), x.view(type("Sub", (np.ndarray,), {}))]


def objects_as_expected() -> bool:
    """Whether Python's objects have their fields at the known offsets."""
    pair = (object(), 5)
    letters = b"abcdefgh"
    rows = [*pair]
    types = all(word(id(x), _OBJECT["type"]) == id(type(x)) for x in (pair, 5, 1.5, True, None, np.zeros(1)))
    sizes = [word(id(x), _OBJECT["size"]) for x in (pair, rows, letters)] == [2, 2, 8]
    places = id(pair) + _OBJECT["tuple_items"], word(id(rows), _OBJECT["list_items"])
    items = all([word(at, 8 * n) for n in (0, 1)] == [*map(id, pair)] for at in places)
    content = word(id(letters), _OBJECT["bytes_content"]) == int.from_bytes(letters, "little")
    return types and sizes and items and content


def array_as_expected(array: Any) -> bool:
    """Whether a numpy array has its fields at the known offsets."""
    at = {name: word(id(array), offset) for name, offset in _ARRAY.items()}
    axes, flags = at["axes"] & 0xFFFFFFFF, at["flags"] & 0xFFFFFFFF
    sizes, strides = ([word(at[name], 8 * n) for n in range(axes)] for name in ("sizes", "strides"))
    fields = (at["data"], tuple(sizes), tuple(strides), at["dtype"], bool(flags & 0x400))
    return fields == (array.ctypes.data, array.shape, array.strides, id(array.dtype), array.flags.writeable)


def word(address: int, offset: int) -> int:
    """The 64-bit word at an address."""
    return ctypes.c_int64.from_address(address + offset).value


class Launcher:
    """The launcher's code, and what all kernels share: a table of words that the session owns."""

    def __init__(
        self, engine: Engine, stored: Stored, shared: Any, ignored: tuple[str, ...], stopped: Callable[..., Any]
    ) -> None:
        name = f"launcher {sys.implementation.cache_tag} {platform.machine()}"
        code = stored(name, lambda: engine.compile(launcher_text()))
        self.loaded = engine.load(code, *_FUNCTIONS, *_HELPERS)
        self.methods = {name: Method(name.encode(), self.loaded.addresses[n], flags, None)
            for n, (name, flags) in enumerate(_FUNCTIONS.items())}  # fmt: skip
        self.new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )
        signature = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        helpers = dict(zip(_HELPERS, self.loaded.addresses[len(_FUNCTIONS) :], strict=True))
        self.offer = partial(signature(helpers["offer"]), ctypes.addressof(shared))
        words = ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p
        self.resolve = ctypes.PYFUNCTYPE(ctypes.c_int64, *words)(helpers["resolve"])
        self.memory: dict[int, Any] = {}
        self.stopped = stopped
        self.shared = shared
        self.ignored = ignored
        self.call_again = lambda grid: lambda _: grid
        objects = {"none": None, "type_int": int, "type_float": float, "type_bool": bool,
            "type_tuple": tuple, "type_function": FunctionType, "again": self.call_again, "ignored": ignored,
            "stopped": stopped, "meant": MEANT}  # fmt: skip
        for name, value in objects.items():
            shared[SHARED.index(name)] = id(value)
        shared[SHARED.index("launch")] = ctypes.addressof(self.methods["launch"])

    def table(self, kernel: Any, python: Callable[..., Any], mode: Any, plain: Any) -> Table | None:
        """The table of a kernel; None if it has a variable number of parameters, or too many."""
        simple = kernel.signature.positional < 0 and 0 < len(kernel.signature.names) <= PARAMETERS
        return Table(self, kernel, python, mode, plain) if simple else None

    def direct(self, kernel: Any, names: Sequence[str], python: Callable[..., Any], mode: Any, plain: Any) -> Any:
        """The table of a kernel's direct launches, which take the parameters in `names`; None if these are too many."""
        return DirectTable(self, kernel, python, mode, plain, names) if 0 < len(names) <= PARAMETERS else None

    def replay(
        self, rows: Iterable[tuple[Any, ...]], like: Sequence[Any], arrays: int, pairs: Sequence[Sequence[int]],
        is_distinct: bool,
    ) -> Replay | None:  # fmt: skip
        """Return a `Replay` of launches that are made again and again, or None where native code does not know one."""
        with suppress(LookupError):
            return Replay(self, [ReplayedLaunch(*row) for row in rows], like, arrays, pairs, is_distinct)
        return None

    def provide(self, size: int) -> None:
        """Give the launcher scratch memory for one more launch."""
        memory = np.empty(size + PAGE, np.uint8)
        place = self.offer(memory.ctypes.data + -memory.ctypes.data % PAGE, size)
        if place >= 0:
            self.memory[place] = memory

    def function(self, name: str, *bound: Any) -> Any:
        """One of the launcher's functions, bound to a tuple."""
        return self.new(ctypes.addressof(self.methods[name]), bound, None)


class Table:
    """A kernel's table: its parameters, and the compiled versions with their guards."""

    def __init__(
        self, launcher: Launcher, kernel: Any, python: Callable[..., Any], mode: Any, plain: Any,
        names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        names, defaults = names or kernel.signature.names, kernel.signature.defaults
        self.launcher = launcher
        self.kernel = kernel
        self.signature = kernel.signature
        self.names = (ctypes.c_int64 * (PARAMETERS + 1))(*map(id, names))
        self.defaults = (ctypes.c_int64 * PARAMETERS)(*(id(defaults[n]) if n in defaults else 0 for n in names))
        self.entries = (ctypes.c_int64 * _ENTRIES)()
        self.versions: dict[int, Any] = {}  # by the addresses of their entries
        self.grids: list[Any] = [object()] * GRIDS
        hooks = kernel.pre_run_hooks, kernel.post_run_hooks
        self.keep: list[Any] = [mode, plain, python, *hooks]
        parts = {"shared": ctypes.addressof(launcher.shared), "arity": len(names), "python": id(python),
            "names": ctypes.addressof(self.names), "defaults": ctypes.addressof(self.defaults), "before": id(hooks[0]),
            "after": id(hooks[1]), "table": ctypes.addressof(self.entries), "grids": id(self.grids)}  # fmt: skip
        self.words = (ctypes.c_int64 * len(KERNEL))(*(parts.get(name, 0) for name in KERNEL))
        launcher.shared[SHARED.index("mode")] = id(mode)
        launcher.shared[SHARED.index("plain")] = id(plain)
        self.address = ctypes.addressof(self.words).to_bytes(8, "little")
        self.subscript = launcher.function("subscript", self.address, self)

    def straight(self, kind: type) -> type:
        """The class of one kernel, whose `kernel[grid]` is native code without a Python function before it.

        Its objects claim to be of `kind` itself: torch.compile, which asks for the class, then finds Python functions.
        """
        attributes = {"__doc__": kind.__doc__, "__module__": kind.__module__, "__class__": property(lambda _: kind)}
        return type(kind.__name__, (kind,), {**attributes, "__getitem__": self.subscript})

    def prepared(self, grid: Any, values: tuple[Any, ...]) -> Any:
        """A function without arguments that launches with these."""
        return self.launcher.function("prepared", self.address, self, grid, values)

    def teach(self, version: Any, infos: Mapping[str, Any], values: Sequence[Any], overlapping: bool) -> None:
        """Record a version for arguments like these, if native code can guard it."""
        with suppress(Unfit):
            self.record(version, recipe(version, infos, values, self.signature, overlapping))

    def record(self, version: Any, steps: Recipe) -> None:
        """Add an entry, while there is room."""
        count = KERNEL.index("entries")
        if self.words[count] < _ENTRIES:
            block = self.entry(version.program, steps)
            self.keep += [block, version, steps.keep]
            self.entries[self.words[count]] = ctypes.addressof(block)
            self.versions[ctypes.addressof(block)] = version
            self.words[count] += 1

    def entry(self, program: Any, steps: Recipe) -> Any:
        """The words of a version."""
        cost = ctypes.c_int64.from_buffer(ctypes.c_double(program.artifact.cost)).value
        pool = program.backend.record
        counter = self.kernel.threads_by
        head = {"body": program.executable.address, "scratch": program.artifact.pages, "cost": cost,
            "threads": self.kernel.options.num_threads, "asks": counter.address if counter else 0,
            "unbounded": not program.artifact.bounded,
            "pool": ctypes.addressof(pool), "least": programs_per_ticket(program.artifact.cost),
            "group": program.artifact.locality.encoded, "program": id(program)}  # fmt: skip
        self.keep.append(pool)
        words = [*(head[name] for name in ENTRY[:-1]), *steps.words()]
        return (ctypes.c_int64 * len(words))(*words)


class DirectTable(Table):
    """The table of a kernel's direct launches."""

    @property
    def launch(self) -> Any:
        """The function that makes them."""
        return self.launcher.function("direct", self.address, self)

    def teach_direct(self, version: Any, given: Mapping[str, Argument], grid: Sequence[int], overlapping: bool) -> None:
        """Record a version and a grid for arguments like these, if native code can guard them."""
        with suppress(Unfit):
            self.record(version, direct_recipe(version, given, grid, overlapping))


def make_launcher(
    engine: Engine, stored: Stored, shared: Any, ignored: tuple[str, ...], stopped: Callable[..., Any]
) -> Launcher | None:
    """The launcher, or None on interpreters and machines that it does not know.

    It ignores the named arguments in `ignored`. `stopped` is called with the program and the exception that ended a
    launch.
    """
    try:
        return Launcher(engine, stored, shared, ignored, stopped) if is_supported() else None
    except CompilerBug:  # of the launcher, not of anybody's kernel: Python launches as well
        return None
