"""L2 bypass: loads of streamed arrays do not allocate in L2, which is then left to the stores.

An array is streamed if a launch loads each of its bytes once, and all that the launch moves exceeds L2. It pays for
large elementwise kernels. The amount depends on the grid, so the pass records a number of programs, and the kernel
compares its grid with it at run time. Any choice is correct: only time depends on it.

    streams=(), streams_from=0      ->      streams=('x', 'y'), streams_from=8193
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.target import AscendTarget
from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.analysis.carried import flow_sources
from pypto.passes.analysis.memory_effects import accesses_memory, is_noalias, root

# Traits of ops whose results differ where one operand does.
_KEEPS_APART = frozenset({"additive", "overflowing", "movement"})
_EXACT = frozenset({"cast", "shl"})
_CLAMPS = frozenset({"maximum", "minimum"})  # bring places together at the edges of an array alone
_QUOTIENTS = frozenset({"div", "floordiv"})
_REMAINDERS = frozenset({"mod", "rem"})
_MIN_BYTES = 4096  # of a tile; a smaller copy is bound by latency


@dataclass(frozen=True, slots=True)
class AccessSite:
    """An access of memory, and the loops around it, outermost first."""

    op: Op
    loops: tuple[Op, ...]


def bypass_l2(kernel: BlockKernel, function: Function, target: AscendTarget) -> BlockKernel:
    """Name the arrays of a kernel that bypass L2, and the number of programs from which on they do."""
    streamed, bytes_per_program = touched_once(function)
    arrays = {slot.arg: p.name for p, slot in zip(kernel.params, kernel.slots, strict=False) if slot.kind == "ptr"}
    names = tuple(name for arg, name in arrays.items() if arg in streamed)
    return replace(kernel, streams=names, streams_from=target.l2_bytes // bytes_per_program + 1) if names else kernel


def touched_once(function: Function) -> tuple[frozenset[str], int]:
    """Return the arrays of which a launch loads each byte once, and the bytes that one program moves so."""
    if not is_noalias(function):
        return frozenset(), 0
    sources_by_value = flow_sources(function)
    names = set[str]()
    bytes_moved = 0
    sites = list(access_sites(function.body, ()))
    arrays = [root(v.op.operands[0]) for v in sites]
    axes = {op.attrs["axis"] for op in function.walk() if op.name == "program_id"}
    for site, array in zip(sites, arrays, strict=True):
        size = bytes_of(site)
        is_only_access = array is not None and None not in arrays and arrays.count(array) == 1
        if array is None or not is_only_access or not size or not is_touched_once(site, axes, sources_by_value):
            continue
        bytes_moved += size
        if site.op.name == "tile_load" and tile_bytes(site.op) >= _MIN_BYTES:
            names.add(array.hint)
    return frozenset(names), bytes_moved


def access_sites(region: Region, loops: tuple[Op, ...]) -> Iterator[AccessSite]:
    """Yield every access of memory."""
    for op in region.ops:
        if accesses_memory(op):
            yield AccessSite(op, loops)
        for inner in op.regions:
            yield from access_sites(inner, (*loops, op) if op.name in ("for", "while") else loops)


def tile_bytes(op: Op) -> int:
    """Return the bytes of a tile that an op loads or stores."""
    access = Access.of(op)
    return math.prod(access.shape) * (access.value or op.result).dtype.itemsize


def bytes_of(site: AccessSite) -> int:
    """Return the bytes that a program moves by an access; 0 where that is unknown."""
    if site.op.name not in ("tile_load", "tile_store") or site.op.operands[0].shape:
        return 0
    return tile_bytes(site.op) * math.prod(map(trip_count, site.loops))


def trip_count(loop: Op) -> int:
    """Return the trip count of a loop; 0 where it is unknown."""
    bounds = [v.op.attrs["value"] for v in loop.operands[:3] if v.op is not None and v.op.name == "constant"]
    return len(range(*bounds)) if loop.name == "for" and len(bounds) == 3 else 0


def is_touched_once(site: AccessSite, axes: set[int], sources: Mapping[Value, list[Value]]) -> bool:
    """Whether every program, and every iteration of the loops around, accesses a place of its own.

    The address must depend on each program axis and each loop variable, and keep them apart: a quotient alone, as in
    ``program_id(0) // 4``, is one place for several programs. Together with the remainder it is not.
    """
    access = Access.of(site.op)
    dependences = kept_apart([access.base, *access.offsets], sources)
    program_axes = {v.op.attrs["axis"] for v in dependences if v.op is not None and v.op.name == "program_id"}
    return program_axes >= axes and all(loop.regions[0].args[0] in dependences for loop in site.loops)


def kept_apart(values: Iterable[Value], sources: Mapping[Value, list[Value]]) -> set[Value]:
    """Return what values are computed from by ops that keep different operands apart."""
    reached = set[Value]()
    parts: dict[Hashable, set[bool]] = {}  # quotients (True) and remainders (False) by dividend and divisor
    worklist = list(values)
    while worklist:
        v = worklist.pop()
        if v in reached:
            continue
        reached.add(v)
        worklist += sources.get(v, ())
        if v.op is None:
            continue
        if v.op.name in _CLAMPS or v.op.name in _EXACT or TABLE[v.op.name].traits & _KEEPS_APART:
            worklist += v.op.operands
        elif v.op.name in _QUOTIENTS | _REMAINDERS:
            dividend, divisor = v.op.operands
            both = parts.setdefault((dividend, number_or_value(divisor)), set())
            both.add(v.op.name in _QUOTIENTS)
            if len(both) == 2:
                worklist.append(dividend)
    return reached


def number_or_value(v: Value) -> Hashable:
    """Return the number of a constant, or the value."""
    return v.op.attrs["value"] if v.op is not None and v.op.name == "constant" else v
