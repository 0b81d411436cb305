"""The only place that knows all parts: source to Tile IR to an executable, through the disk cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pypto.backends import registry
from pypto.backends.base import Artifact, Backend, timed
from pypto.errors import Diagnostic
from pypto.errors.launch import BusyWaiting, WrongPass
from pypto.frontend import ArgSpec, Built, Facts, KernelSource
from pypto.ir.core import Attr, Function
from pypto.ir.printer import print_function
from pypto.language import METHODS, WITH_GRADIENTS
from pypto.opening import Devices
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.options import KernelOptions, Settings, suggestion
from pypto.passes import optimize
from pypto.passes.manager import DISABLE, Pass, is_observed, run_unverified
from pypto.runtime.collection import without_collection
from pypto.runtime.disk_cache.cache import Cache, CacheKey
from pypto.runtime.disk_cache.sources import SOURCES, package_files
from pypto.runtime.launch import Scratch, stopped
from pypto.runtime.owners import OwnerStore
from pypto.runtime.signature import IGNORED
from pypto.runtime.slow import Alarm, alarm, watched

_FORMAT = "1"  # of the artifact's bytes
BEHIND_IR = ("ir", "ops", "passes")  # rooms whose sources decide, beside the backend's, what a kernel's IR becomes


@dataclass
class Session:
    """What a process shares: settings, the disk cache, backends by target, scratch memory."""

    settings: Settings
    backends: dict[tuple[str, bool], Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    scratch: Scratch = field(default_factory=Scratch)
    owners: OwnerStore = field(default_factory=OwnerStore)
    warned: dict[Any, Any] = field(default_factory=dict)  # warnings that were given; `warnings` keeps it
    # hashes of compilers by their files, and the folder of the backend among these
    compilers: dict[tuple[str, str], str] = field(default_factory=dict)
    alarm: Alarm = alarm  # for compilations that take long
    shared: Any = field(default_factory=ctypes.c_int64.__mul__(64))  # what native launches look at; see `launcher`

    @functools.cached_property
    def cache(self) -> Cache:
        folder = Path(self.settings.cache_dir) if self.settings.cache_dir else None
        return Cache(folder, self.settings.cache)  # type: ignore[arg-type]  # options hold the mode to its choices

    @functools.cached_property
    def most_threads(self) -> int:
        """Threads that the pool has."""
        return self.settings.num_threads or registry.host().default_threads()

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
        self.threads = self.threads
        is_wanted = self.settings.launcher == "native" and self.devices.default is None
        backend = self.backend(KernelOptions())
        return registry.host().launcher(backend, self.shared, IGNORED, stopped) if is_wanted else None

    def scratch_address(self, size: int) -> int:
        """Scratch memory for a launch in this thread."""
        if size > self.scratch.bytes and self.launcher:
            self.launcher.provide(size)
        return self.scratch.at_least(size)

    def backend(self, options: KernelOptions) -> Any:
        """The backend of launches for which no device is named."""
        level = options.level or self.settings.level
        with self.lock:
            if (level, options.fast_math) not in self.backends:
                self.backends[level, options.fast_math] = registry.host().backend(
                    level, options.fast_math, self.most_threads, functools.partial(self.stored, level), self.remember
                )
            return self.backends[level, options.fast_math]

    @functools.cached_property
    def devices(self) -> Devices:
        return Devices(self.settings)

    def stored(self, level: str, name: str, make: Callable[[], bytes]) -> bytes:
        """Code of ours that is no kernel, kept on disk like one."""
        backend = self.backend(KernelOptions(level=level))
        return self.through_cache(backend, lambda: (("part", name), *backend.key_parts()), make)

    def through_cache(
        self, backend: Backend, parts: Callable[[], tuple[tuple[str, str], ...]], make: Callable[[], bytes]
    ) -> bytes:
        return make() if self.settings.cache == "off" else self.cache.get_or_make(self.key(backend, parts()), make)

    def remember(self, parts: tuple[tuple[str, str], ...], make: Callable[[], bytes]) -> bytes:
        """What these parts stand for, kept on disk."""
        key = CacheKey((("format", _FORMAT), *parts))
        return make() if self.settings.cache == "off" else self.cache.get_or_make(key, make)

    def key(self, backend: Backend, parts: tuple[tuple[str, str], ...]) -> CacheKey:
        """The key of what these parts, the compiler and the backend's sources make."""
        place = backend.sources()
        files = package_files(str(place)), place.name  # the files of the package are those of several backends
        if files not in self.compilers:
            hashed = functools.partial(compiler_hash, backend)
            parts_of_files = (("sources", files[0]), ("backend", files[1]))
            digest = self.remember(parts_of_files, lambda: hashed().encode()).decode() if files[0] else hashed()
            self.compilers[files] = digest
        return CacheKey((("format", _FORMAT), ("compiler", self.compilers[files]), *parts))


@functools.lru_cache(maxsize=1)
def session() -> Session:
    """The process's session, made from the environment when it is first needed."""
    return Session(Settings.from_env())


def compiler_hash(backend: Backend) -> str:
    """Hash over all sources behind the IR's text, which is in the key: an edited compiler never meets older code."""
    return hash_of_sources(backend.sources())


@functools.lru_cache(maxsize=16)
def hash_of_sources(backend: Path) -> str:
    """Hash over the sources that all backends share, and over the folder or file of one backend."""
    digest, package = hashlib.sha256(), Path(__file__).parent
    shared = (package / "compile.py", *(package / "backends").glob("*.py"), *(package / room for room in BEHIND_IR))
    for root, places in ((package, shared), (backend.parent, (backend,))):
        for path in sorted(chain.from_iterable(map(source_files, places))):
            text = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(text)}\0".encode())
            digest.update(text)
    return digest.hexdigest()


def source_files(folder: Path) -> Iterator[Path]:
    """The sources in a folder, or the one file."""
    if folder.is_file():
        yield folder
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if name.endswith(SOURCES))


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

    @property
    def advice(self) -> tuple[Diagnostic, ...]:
        """What its backend has to say of it."""
        return self.backend.advice(self.artifact) if self.artifact is not None else ()

    def run(self, args: int, programs: int, threads: int) -> None:
        assert self.artifact is not None
        self.backend.run(self.executable, args, programs, self.artifact.cost, threads)


@without_collection()
def to_ir(
    source: KernelSource, specs: Mapping[str, ArgSpec], facts: Facts, options: KernelOptions, timings: dict[str, float]
) -> Built:
    """Tile IR of a kernel."""
    from pypto.frontend.build import build

    with timed(timings, "frontend"):
        substitutes = WITH_GRADIENTS if options.differentiable else {}
        return build(source, specs, facts, METHODS, options.max_ops, substitutes)


def prepared(function: Function, timings: dict[str, float]) -> Function:
    """Tile IR that is ready for an interpreter or backend, verified."""
    from pypto.passes.preparing import PREPARE

    with timed(timings, "prepare"):
        prepared_function = run_unverified(function, PREPARE)
    return verified(prepared_function, timings)


def verified(function: Function, timings: dict[str, float]) -> Function:
    with timed(timings, "verify"):
        verify(function, TABLE)
    return function


@without_collection()
def compile_program(
    built: Built, noalias: bool, options: KernelOptions, timings: dict[str, float], backend: Backend
) -> Program:
    """A backend's code of a kernel, from the disk cache when it is there: then this IR was verified before."""
    from pypto.passes.analysis.memory_effects import written_names

    shared = session()
    function = unfinished(built, noalias, options, timings)
    tell_of_waiting(built.function)
    program = Program(built, function, written_names(function), timings, backend)
    make = functools.partial(machine_code, function, backend, timings)
    before = sum(timings.values())
    with timed(timings, "cache"), watched(function.name, built.unrolled, shared.alarm):
        parts = functools.partial(key_parts, function, options, backend)
        data = make() if is_observed() else shared.through_cache(backend, parts, make)
    timings["cache"] -= sum(timings.values()) - timings["cache"] - before
    with timed(timings, "load"):
        program.artifact = Artifact.from_bytes(data)
        program.executable = backend.load(program.artifact)
    return program


def unfinished(built: Built, noalias: bool, options: KernelOptions, timings: dict[str, float]) -> Function:
    """Tile IR whose text is the key of a kernel's code."""
    from pypto.passes.preparing import PREPARE

    with timed(timings, "prepare"):
        function: Function = run_unverified(built.function, PREPARE)
    function.attrs |= attributes(noalias, options)
    return function


def machine_code(function: Function, backend: Backend, timings: dict[str, float]) -> bytes:
    """An artifact of Tile IR, as bytes."""
    verified(function, timings)
    with timed(timings, "optimize"):
        optimized = optimize(function)
    artifact: Artifact = backend.compile(optimized, timings)
    return artifact.to_bytes()


def attributes(noalias: bool, options: KernelOptions) -> dict[str, Attr]:
    """What a kernel's passes are told about its launches, and about its options."""
    from pypto.passes.program_order import AFFINITY

    modes: dict[str, Attr] = {name: True for name in ("profile", "checked") if getattr(options, name)}
    blocking: dict[str, Attr] = {"blocking": options.blocking.overrides} if options.blocking.overrides else {}
    disabled: dict[str, Attr] = {DISABLE: options.disable} if options.disable else {}
    affinity: dict[str, Attr] = {AFFINITY: options.affinity} if options.affinity else {}
    return {"noalias": noalias, **modes, **blocking, **disabled, **affinity}


def check_disabled(names: Sequence[str], rows: Mapping[str, Pass] | None = None, decorator: str = "pto.jit") -> None:
    """Refuse names of passes that are not in the rows, all backends' if left out, and of those that code needs.

    Raises
    ------
    WrongPass
        That says which, and what may be meant.
    """
    rows = known_passes() if rows is None else rows
    optional = sorted(name for name, row in rows.items() if row.optional)
    for name in names:
        if name not in rows:
            way = suggestion(str(name), optional, "did you mean `{}`? ") + f"there are {', '.join(optional)}"
            raise WrongPass(decorator=decorator, name=f"`{name}`", problem="the compiler has no such pass", way=way)
        if not rows[name].optional:
            way = f"leave it out; what may be switched off is {', '.join(optional)}"
            raise WrongPass(
                decorator=decorator, name=f"`{name}`", problem="code would not be right without it", way=way
            )


def known_passes() -> dict[str, Pass]:
    """The passes of all backends by name; of those with one name, an optional one."""
    from pypto.passes.optimizing import OPTIMIZE
    from pypto.passes.preparing import PREPARE

    rows = [*PREPARE, *OPTIMIZE, *(row for plugin in registry.plugins() for row in plugin.passes())]
    return {row.name: row for row in sorted(rows, key=lambda row: row.optional)}


def tell_of_waiting(function: Function) -> None:
    """Warn of loops in which a program waits for another one, once for each. Passes may drop such a loop."""
    from pypto.passes.analysis.waiting import waiting_loops

    for loop in waiting_loops(function):
        said = BusyWaiting(loop.loc, kernel=function.name)
        warnings.warn_explicit(said, BusyWaiting, loop.loc.file, loop.loc.line, registry=session().warned)


def key_parts(function: Function, options: KernelOptions, backend: Backend) -> tuple[tuple[str, str], ...]:
    """What the code of a prepared kernel depends on."""
    text = print_function(function, options.profile or options.checked or backend.keeps_places)
    return ("ir", text), ("options", repr(options)), *backend.key_parts()
