"""The only place that knows all parts: source to Tile IR to an executable, through the disk cache."""

from __future__ import annotations

import ctypes
import functools
import gc
import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto.backends.base import Artifact, timed
from pypto.errors.launch import BusyWaiting
from pypto.frontend import ArgSpec, Built, Facts, KernelSource, build
from pypto.ir.core import Function
from pypto.ir.printer import print_function
from pypto.language import METHODS
from pypto.opening import Devices
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.options import KernelOptions, Settings
from pypto.passes import optimize, prepare
from pypto.passes.memory_effects import written_names
from pypto.passes.waiting import waiting_loops
from pypto.runtime.launch import Scratch, stopped
from pypto.runtime.owners import OwnerStore
from pypto.runtime.signature import IGNORED
from pypto.runtime.slow import Alarm, alarm, watched

_FORMAT = "1"  # of the artifact's bytes
BEHIND_IR = ("backends", "ir", "ops", "passes")  # rooms whose sources decide what a kernel's IR becomes


@dataclass
class Session:
    """What a process shares: settings, the disk cache, backends by target, scratch memory."""

    settings: Settings
    backends: dict[tuple[str, bool], Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    scratch: Scratch = field(default_factory=Scratch)
    owners: OwnerStore = field(default_factory=OwnerStore)
    told: dict[Any, Any] = field(default_factory=dict)  # warnings that were given; `warnings` keeps it
    alarm: Alarm = alarm  # for compilations that take long
    shared: Any = field(default_factory=ctypes.c_int64.__mul__(64))  # what native launches look at; see `launcher`

    @functools.cached_property
    def cache(self) -> Any:
        from pypto.runtime.cache import Cache

        folder = Path(self.settings.cache_dir) if self.settings.cache_dir else None
        return Cache(folder, self.settings.cache)  # type: ignore[arg-type]  # options hold the mode to its choices

    @functools.cached_property
    def most_threads(self) -> int:
        """Threads that the pool has."""
        from pypto.backends.cpu.runtime.pool import default_threads

        return self.settings.num_threads or default_threads()

    @property
    def threads(self) -> int:
        """Threads of a launch; setting them to 0 is all that there are."""
        return int(self.shared[0]) or self.most_threads

    @threads.setter
    def threads(self, count: int) -> None:
        self.shared[0] = min(count, self.most_threads) if count > 0 else self.most_threads

    @functools.cached_property
    def launcher(self) -> Any:
        """Makes launches in native code; None where only Python does."""
        from pypto.backends.cpu.runtime.launcher.native import make_launcher

        self.threads = self.threads
        engine, stored = self.backend(KernelOptions()).engine, functools.partial(self.stored, "")
        is_wanted = self.settings.launcher == "native" and self.devices.default is None
        return make_launcher(engine, stored, self.shared, IGNORED, stopped) if is_wanted else None

    def scratch_address(self, size: int) -> int:
        """Scratch memory for a launch in this thread."""
        if size > self.scratch.bytes and self.launcher:
            self.launcher.provide(size)
        return self.scratch.at_least(size)

    def backend(self, options: KernelOptions) -> Any:
        level = options.level or self.settings.level
        with self.lock:
            if (level, options.fast_math) not in self.backends:
                from pypto.backends.cpu.backend import CpuBackend
                from pypto.backends.cpu.target import host_target

                self.backends[level, options.fast_math] = CpuBackend(
                    host_target(level, options.fast_math), self.most_threads, functools.partial(self.stored, level)
                )
            return self.backends[level, options.fast_math]

    @functools.cached_property
    def devices(self) -> Devices:
        return Devices(self.settings)

    def stored(self, level: str, name: str, make: Callable[[], bytes]) -> bytes:
        """Code of ours that is no kernel, kept on disk like one."""
        return self.through_cache(lambda: (("part", name), *self.backend(KernelOptions(level=level)).key_parts()), make)

    def through_cache(self, parts: Callable[[], tuple[tuple[str, str], ...]], make: Callable[[], bytes]) -> bytes:
        data: bytes = make() if self.settings.cache == "off" else self.cache.get_or_make(self.key(parts()), make)
        return data

    def key(self, parts: tuple[tuple[str, str], ...]) -> Any:
        """The key of what these parts, and the compiler itself, make."""
        from pypto.runtime.cache import CacheKey

        return CacheKey((("format", _FORMAT), ("compiler", compiler_hash()), *parts))


@functools.lru_cache(maxsize=1)
def session() -> Session:
    """The process's session, made from the environment when it is first needed."""
    return Session(Settings.from_env())


@functools.lru_cache(maxsize=1)
def compiler_hash() -> str:
    """Hash over all sources behind the IR's text, which is in the key: an edited compiler never meets older code."""
    digest, package = hashlib.sha256(), os.path.dirname(__file__)
    folders = [found for room in BEHIND_IR for found in os.walk(os.path.join(package, room))]
    for folder, _, names in (*sorted(folders), (package, [], ["compile.py"])):
        for path in (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".ll", ".h"))):
            with open(path, "rb") as file:
                text = file.read()
            digest.update(f"{os.path.relpath(path, package)}\0{len(text)}\0".encode())
            digest.update(text)
    return digest.hexdigest()


@dataclass
class Program:
    """A kernel that is ready to run: its Tile IR, and once compiled its executable."""

    built: Built
    function: Function
    written: frozenset[str]
    timings: dict[str, float]
    backend: Any = None
    artifact: Artifact | None = None
    executable: Any = None

    def run(self, args: int, programs: int, threads: int) -> None:
        assert self.artifact is not None
        self.backend.run(self.executable, args, programs, self.artifact.cost, threads)


@contextmanager
def without_collection() -> Iterator[None]:
    """IR is made of many objects that stay: walking them again and again takes longer than all passes together."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@without_collection()
def to_ir(
    source: KernelSource, specs: Mapping[str, ArgSpec], facts: Facts, options: KernelOptions, timings: dict[str, float]
) -> Built:
    """Tile IR of a kernel."""
    with timed(timings, "frontend"):
        return build(source, specs, facts, METHODS, options.max_ops)


def prepared(function: Function, timings: dict[str, float]) -> Function:
    """Tile IR that is ready for an interpreter or backend, verified."""
    with timed(timings, "prepare"):
        made = prepare(function)
    return verified(made, timings)


def verified(function: Function, timings: dict[str, float]) -> Function:
    with timed(timings, "verify"):
        verify(function, TABLE)
    return function


@without_collection()
def compile_program(
    built: Built, noalias: bool, options: KernelOptions, timings: dict[str, float], backend: Any
) -> Program:
    """A backend's code of a kernel, from the disk cache when it is there: then this IR was verified before."""
    shared = session()
    with timed(timings, "prepare"):
        function = prepare(built.function)
    tell_of_waiting(built.function)
    function.attrs["noalias"] = noalias
    function.attrs |= {name: True for name in ("profile", "checked") if getattr(options, name)}
    program = Program(built, function, written_names(function), timings, backend)

    def make() -> bytes:
        verified(function, timings)
        with timed(timings, "optimize"):
            optimized = optimize(function)
        artifact: Artifact = backend.compile(optimized, timings)
        return artifact.to_bytes()

    before = sum(timings.values())
    with timed(timings, "cache"), watched(function.name, built.unrolled, shared.alarm):
        data = shared.through_cache(functools.partial(key_parts, function, options, backend), make)
    timings["cache"] -= sum(timings.values()) - timings["cache"] - before
    with timed(timings, "load"):
        program.artifact = Artifact.from_bytes(data)
        program.executable = backend.load(program.artifact)
    return program


def tell_of_waiting(function: Function) -> None:
    """Warn of loops in which a program waits for another one, once for each. Passes may drop such a loop."""
    for loop in waiting_loops(function):
        said = BusyWaiting(loop.loc, kernel=function.name)
        warnings.warn_explicit(said, BusyWaiting, loop.loc.file, loop.loc.line, registry=session().told)


def key_parts(function: Function, options: KernelOptions, backend: Any) -> tuple[tuple[str, str], ...]:
    """What the code of a prepared kernel depends on."""
    text = print_function(function, options.profile or options.checked or backend.keeps_places)
    return ("ir", text), ("options", repr(options)), *backend.key_parts()
