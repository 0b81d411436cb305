"""What the machine can do at most, measured in the same run as the kernels: no C compiler, only llvmlite."""

from __future__ import annotations

import ctypes
import operator
import threading
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from benchmarks.levels import forced_level
from benchmarks.limits_ir import (
    CHAINS,
    PRODUCTS,
    STREAMS,
    TILE_FEATURES,
    TILES,
    module,
    products,
    tile_operations,
    tiles_module,
)
from pypto._platform import may_use_tiles
from pypto.backends.cpu.target import detect_target

# Bytes of one array, over all threads: L1 and L2 are a core's own, the rest is shared.
OWN: Final = MappingProxyType({"L1": 12 << 10, "L2": 256 << 10})
SHARED: Final = MappingProxyType({"L3": 6 << 20, "DRAM": 256 << 20})
MOVED: Final = MappingProxyType({"read": 1, "copy": 2, "add": 3})
PASS_BYTES: Final = 256 << 20
FMA_ROUNDS: Final = 1_000_000
TILE_ROUNDS: Final = 200_000
REPEATS: Final = 9
CALLS: Final = 20_000

Loop = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Machine:
    """The compiled loops, the floats in one vector, and what keeps the machine code alive."""

    width: int
    products: tuple[str, ...]
    loops: Mapping[str, Loop]
    owner: Any
    tiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Measured rates by name and number of threads.

    "fma", "fma64", "bf16" and "int8" in operations per second, the rate of "fma" in place of the latter two where the
    machine has no instruction for them, or a slow one; "bf16x3" and "bf16x6" for three and six products of tiles in
    place of one, or "fma" where that is faster; "read", "copy" and "add" at "L1", "L2", "L3" and "DRAM" in bytes
    moved per second, stores past the caches included where they are faster; "call" in calls from Python of a C function
    that does next to nothing, on one thread.
    """

    rates: Mapping[str, Mapping[int, float]]

    def rate(self, name: str, threads: int) -> float:
        """The rate at a number of threads; KeyError if it was not measured."""
        return self.rates[name][threads]


def compile_loops() -> Machine:
    """Compile the loops of `limits_ir` for this host, or for the level that it is held to."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    held = detect_target(forced_level())
    target = llvm.Target.from_default_triple().create_target_machine(cpu=held.cpu, features=held.features, opt=2)
    host = llvm.get_host_cpu_features() if held.level == "host" else {}
    on = frozenset(name for name, there in host.items() if there)
    width, jit = held.vector_bytes // 4, llvm.create_lljit_compiler(target)
    tiles = tuple(TILES) if on >= TILE_FEATURES and may_use_tiles() else ()
    library = llvm.JITLibraryBuilder().add_ir(module(width, on) + tiles_module(tiles))
    names = (*products(on), *STREAMS, *(f"{name}_tiles" for name in tiles))
    for name in names:
        library.export_symbol(name)
    linked = library.link(jit, "limits")
    signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 3)
    return Machine(width, products(on), {name: signature(linked[name]) for name in names}, (jit, linked), tiles)


def measure(machine: Machine, threads: Sequence[int]) -> Limits:
    """Measure every limit with each number of threads; takes a few seconds."""
    rates: dict[str, dict[int, float]] = {}
    for n in threads:
        found = {name: product_rate(machine, name, n) for name in machine.products}
        tiled = {name: tile_rate(machine, name, n) for name in machine.tiles}
        found |= {name: max(found.get(name, 0.0), rate) for name, rate in tiled.items()}
        for product in PRODUCTS:
            instead = found["fma"] if product in ("bf16", "int8") else 0.0
            rates.setdefault(product, {})[n] = max(found.get(product, 0.0), instead)
        for level in (*OWN, *SHARED):
            for name, rate in stream_rates(machine, level, n).items():
                rates.setdefault(f"{name} {level}", {})[n] = rate
        for count in (3, 6):
            rates.setdefault(f"bf16x{count}", {})[n] = max(found["fma"], tiled.get("bf16", 0.0) / count)
        rates.setdefault("call", {})[n] = call_rate()
    return Limits(rates)


def call_rate() -> float:
    """Calls of a C function per second."""
    function = partial(operator.is_, None, None)
    return CALLS / min(timeit.repeat(function, number=CALLS, repeat=REPEATS))


def product_rate(machine: Machine, name: str, threads: int) -> float:
    """Multiply-adds on vectors, in operations per second over all threads."""
    arrays = [buffers(64, machine.width) for _ in range(threads)]
    calls = [call(machine, name, 1, FMA_ROUNDS, own) for own in arrays]
    return per_round(machine, name) * FMA_ROUNDS * threads / fastest(calls)


def tile_rate(machine: Machine, name: str, threads: int) -> float:
    """The same for products of tiles."""
    arrays = [buffers(64, machine.width) for _ in range(threads)]
    calls = [call(machine, f"{name}_tiles", 1, TILE_ROUNDS, own) for own in arrays]
    return tile_operations(name) * TILE_ROUNDS * threads / fastest(calls)


def per_round(machine: Machine, name: str) -> float:
    """Operations of one round of a loop of multiply-adds."""
    return PRODUCTS[name].flops * CHAINS * machine.width


def stream_rates(machine: Machine, level: str, threads: int) -> dict[str, float]:
    """Bytes per second of "read", "copy" and "add" over arrays that fit the level, over all threads."""
    size = OWN[level] if level in OWN else SHARED[level] // threads
    n = size // 4 // (128 * 8) * (128 * 8)
    arrays = [buffers(n, k) for k in range(threads)]
    best: dict[str, float] = {}
    for loop in STREAMS:
        name = loop.removesuffix("_nt")
        if loop != name and level != "DRAM":
            continue
        moved = 4 * n * MOVED[name]
        repeats = max(1, PASS_BYTES // moved)
        seconds = fastest([call(machine, loop, repeats, n, own) for own in arrays])
        best[name] = max(best.get(name, 0.0), moved * repeats * threads / seconds)
    return best


def buffers(n: int, stagger: int) -> list[Any]:
    """Three arrays of n floats on 64-byte boundaries, whose starts differ in their place within a 4 KB page."""
    made = []
    for k in range(3):
        raw = np.ones(n + 1024, np.float32)
        skip = (-raw.ctypes.data % 64) // 4 + (3 * stagger + k) % 3 * 320
        made.append(raw[skip : skip + n])
    return made


def call(machine: Machine, loop: str, repeats: int, n: int, arrays: Sequence[Any]) -> Callable[[], None]:
    """The loop bound to its arrays, which it keeps alive."""
    function, pointers = machine.loops[loop], [array.ctypes.data for array in arrays]

    def run(_keep: Sequence[Any] = arrays) -> None:
        function(repeats, n, *pointers)

    return run


def fastest(calls: Sequence[Callable[[], None]]) -> float:
    """Least seconds that all calls together take, each in a thread of its own, over `REPEATS` tries."""
    times: list[list[tuple[float, float]]] = [[] for _ in calls]
    barrier = threading.Barrier(len(calls))

    def work(function: Callable[[], None], spans: list[tuple[float, float]]) -> None:
        for _ in range(REPEATS):
            barrier.wait()
            start = time.perf_counter()
            function()
            spans.append((start, time.perf_counter()))

    workers = [threading.Thread(target=work, args=pair) for pair in zip(calls, times, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return min(_span(spans) for spans in zip(*times, strict=True))


def _span(spans: Sequence[tuple[float, float]]) -> float:
    """From the first start to the last end."""
    return max(end for _, end in spans) - min(start for start, _ in spans)
