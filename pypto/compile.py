"""The only place that knows all parts: source to Tile IR to an executable, through the disk cache."""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto.backends.base import Artifact
from pypto.frontend import ArgSpec, Built, Facts, KernelSource, build
from pypto.ir.core import Function, Op, Value
from pypto.ir.printer import print_function
from pypto.ir.types import TileType
from pypto.ir.verify import verify
from pypto.language import METHODS
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.options import KernelOptions, Settings
from pypto.passes import optimize, prepare
from pypto.runtime.launch import Scratch

_FORMAT = "1"  # of the artifact's bytes


@dataclass
class Session:
    """What a process shares: settings, the disk cache, backends by target, scratch memory."""

    settings: Settings
    backends: dict[tuple[str, bool], Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    scratch: Scratch = field(default_factory=Scratch)
    threads_set: int = 0

    @functools.cached_property
    def cache(self) -> Any:
        from pypto.runtime.cache import Cache

        folder = Path(self.settings.cache_dir) if self.settings.cache_dir else None
        return Cache(folder, self.settings.cache)  # type: ignore[arg-type]  # options hold the mode to its choices

    @functools.cached_property
    def most_threads(self) -> int:
        """Threads that the pool has."""
        from pypto.backends.cpu.pool import default_threads

        return self.settings.num_threads or default_threads()

    @property
    def threads(self) -> int:
        """Threads of a launch."""
        return min(self.threads_set, self.most_threads) if self.threads_set else self.most_threads

    def backend(self, options: KernelOptions) -> Any:
        level = options.level or self.settings.level
        with self.lock:
            if (level, options.fast_math) not in self.backends:
                from pypto.backends.cpu.backend import CpuBackend
                from pypto.backends.cpu.target import host_target

                self.backends[level, options.fast_math] = CpuBackend(
                    host_target(level, options.fast_math), self.most_threads, functools.partial(self.stored, level))
            return self.backends[level, options.fast_math]

    def stored(self, level: str, name: str, make: Callable[[], bytes]) -> bytes:
        """Code of ours that is no kernel, kept on disk like one."""
        backend = self.backend(KernelOptions(level=level))
        return self.through_cache((("part", name), *backend.key_parts()), make)

    def through_cache(self, parts: tuple[tuple[str, str], ...], make: Callable[[], bytes]) -> bytes:
        if self.settings.cache == "off":
            return make()
        from pypto.runtime.cache import CacheKey

        data: bytes = self.cache.get_or_make(CacheKey((("format", _FORMAT), ("compiler", compiler_hash()), *parts)),
            make)
        return data


@functools.lru_cache(maxsize=1)
def session() -> Session:
    """The process's session, made from the environment when it is first needed."""
    return Session(Settings.from_env())


@functools.lru_cache(maxsize=1)
def compiler_hash() -> str:
    """Hash over all sources of the package: an edited compiler never meets code of an older one."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.ll"))):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(text)}\0".encode())
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


def to_ir(source: KernelSource, specs: Mapping[str, ArgSpec], facts: Facts, timings: dict[str, float]) -> Built:
    """Tile IR of a kernel, verified."""
    start = time.perf_counter()
    built = build(source, specs, facts, METHODS)
    timings["frontend"] = time.perf_counter() - start
    start = time.perf_counter()
    verify(built.function, TABLE)
    timings["verify"] = time.perf_counter() - start
    return built


def prepared(function: Function, timings: dict[str, float]) -> Function:
    start = time.perf_counter()
    function = prepare(function)
    timings["prepare"] = time.perf_counter() - start
    return function


def compile_program(built: Built, noalias: bool, options: KernelOptions, timings: dict[str, float]) -> Program:
    """Machine code of a kernel, from the disk cache when it is there."""
    shared = session()
    function = prepared(built.function, timings)
    function.attrs["noalias"] = noalias
    program = Program(built, function, written_arrays(function), timings, shared.backend(options))
    backend = program.backend

    def make() -> bytes:
        start = time.perf_counter()
        optimized = optimize(function)
        timings["optimize_ir"] = time.perf_counter() - start
        artifact: Artifact = backend.compile(optimized, timings)
        return artifact.to_bytes()

    start = time.perf_counter()
    parts = (("ir", print_function(function)), ("options", repr(options)), *backend.key_parts())
    data = shared.through_cache(parts, make)
    inside = ("optimize_ir", "lower", "parse", "optimize", "codegen")
    timings["cache"] = time.perf_counter() - start - sum(timings.get(k, 0.0) for k in inside)
    start = time.perf_counter()
    program.artifact = Artifact.from_bytes(data)
    program.executable = backend.load(program.artifact)
    timings["load"] = time.perf_counter() - start
    return program


def written_arrays(function: Function) -> frozenset[str]:
    """Names of the array arguments that a kernel stores to."""
    roots = pointer_roots(function)
    stores = (op for op in function.walk() if TABLE[op.name].effect in (Effect.WRITE, Effect.ATOMIC))
    return frozenset().union(*(roots.get(op.operands[0], ()) for op in stores))


def pointer_roots(function: Function) -> dict[Value, frozenset[str]]:
    """The array arguments that each pointer may come from, through loops and branches too."""
    roots: dict[Value, frozenset[str]] = {}
    before, addresses = -1, any(op.name == "ptr_cast" for op in function.walk())  # then integers may be pointers, too
    while before != (before := sum(map(len, roots.values()))):
        for op in function.walk():
            if op.name == "array_ptr":
                roots[op.result] = frozenset({op.operands[0].hint})
            for v, source in flows(op):
                if not (isinstance(v.type, TileType) and (v.type.is_ptr or addresses)) or holds_data(op):
                    continue
                roots[v] = roots.get(v, frozenset()) | roots.get(source, frozenset())
    return roots


def holds_data(op: Op) -> bool:
    """Whether an op gives what was in memory, not addresses made of its operands."""
    return TABLE[op.name].effect in (Effect.READ, Effect.ATOMIC)


def flows(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of values, the second of which the first may be or be made from."""
    for region in op.regions:
        carried = region.args[len(region.args) - len(op.results) :]
        ends = region.terminator.operands
        yield from zip(carried, op.operands[len(op.operands) - len(carried) :], strict=True) if region.args else ()
        if len(ends) == len(op.results):
            yield from zip(op.results, ends, strict=True)
            yield from zip(carried, ends, strict=True) if region.args else ()
    if not op.regions:
        yield from ((v, o) for v in op.results for o in op.operands)
    elif op.name != "if":  # a loop that never runs
        yield from zip(op.results, op.operands[len(op.operands) - len(op.results) :], strict=True)
