"""Arrays whose loads had better pass L2 by: each byte is needed once, and all of them are more than L2 holds.

It leaves L2 to what is stored. How much a launch loads and stores depends on its grid, so what is found here is a
number of programs; which side of it a launch is on, the kernel sees for itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.tile_splitting import origin
from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.carried import LAYOUTS, flows

_MIN_BYTES = 4096  # bytes of a tile: smaller copies wait for their first bytes, whichever way they go


@dataclass(frozen=True, slots=True)
class AccessSite:
    """An access, and the loops around it, outermost first."""

    op: Op
    loops: tuple[Op, ...]


def bypass_l2(kernel: BlockKernel, function: Function, target: AscendTarget) -> BlockKernel:
    """The kernel with those of its arrays named that pass L2 by, and from how many programs on."""
    loaded, moved = touched_once(function)
    arrays = {slot.arg: p.name for p, slot in zip(kernel.params, kernel.slots, strict=False) if slot.kind == "ptr"}
    names = tuple(name for arg, name in arrays.items() if arg in loaded)
    return replace(kernel, streams=names, streams_from=target.l2_bytes // moved + 1) if names else kernel


def touched_once(function: Function) -> tuple[frozenset[str], int]:
    """The arrays of which a launch loads each byte once, and the bytes that a program loads and stores so."""
    if not function.attrs.get("noalias", False):
        return frozenset(), 0
    sources, names, moved = sources_of(function), set[str](), 0
    everything = list(access_sites(function.body, ()))
    arrays = [origin(v.op.operands[0]) for v in everything]
    axes = {op.attrs["axis"] for op in function.walk() if op.name == "program_id"}
    for visit, array in zip(everything, arrays, strict=True):
        size = bytes_of(visit)
        alone = array is not None and None not in arrays and arrays.count(array) == 1
        if array is None or not alone or not size or not is_touched_once(visit, axes, sources):
            continue
        moved += size
        if visit.op.name == "tile_load" and tile_bytes(visit.op) >= _MIN_BYTES:
            names.add(array.hint)
    return frozenset(names), moved


def access_sites(region: Region, loops: tuple[Op, ...]) -> Iterator[AccessSite]:
    """Every access of memory."""
    for op in region.ops:
        if TABLE[op.name].effect in (Effect.READ, Effect.WRITE, Effect.ATOMIC):
            yield AccessSite(op, loops)
        for inner in op.regions:
            yield from access_sites(inner, (*loops, op) if op.name in ("for", "while") else loops)


def tile_bytes(op: Op) -> int:
    access = Access.of(op)
    return math.prod(access.shape) * (access.value or op.result).dtype.itemsize


def bytes_of(visit: AccessSite) -> int:
    """Bytes that a program moves by an access; 0 where that is not known."""
    if visit.op.name not in ("tile_load", "tile_store") or visit.op.operands[0].shape:
        return 0
    return tile_bytes(visit.op) * math.prod(map(trip_count, visit.loops))


def trip_count(loop: Op) -> int:
    """How often a loop goes around; 0 where that is not known."""
    bounds = [v.op.attrs["value"] for v in loop.operands[:3] if v.op is not None and v.op.name == "constant"]
    return len(range(*bounds)) if loop.name == "for" and len(bounds) == 3 else 0


def is_touched_once(visit: AccessSite, axes: set[int], sources: Mapping[Value, list[Value]]) -> bool:
    """Whether every program, and every round of the loops around, has a place of its own."""
    access = Access.of(visit.op)
    known, todo = set[Value](), [access.base, *access.offsets]
    while todo:
        v = todo.pop()
        if v not in known:
            known.add(v)
            todo += sources.get(v) or (v.op.operands if v.op is not None else ())
    here = {v.op.attrs["axis"] for v in known if v.op is not None and v.op.name == "program_id"}
    return here >= axes and all(loop.regions[0].args[0] in known for loop in visit.loops)


def sources_of(function: Function) -> Mapping[Value, list[Value]]:
    """What values that pass through loops and branches may be."""
    found: dict[Value, list[Value]] = defaultdict(list)
    for op in function.walk():
        if op.name in LAYOUTS:
            for v, source in flows(op):
                found[v].append(source)
    return found
