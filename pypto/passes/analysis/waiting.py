"""Busy-waiting detection: `while` loops that do nothing until memory holds what another program stores.

A launch does not run all of its programs at once: each thread runs its programs one after the other, in the order of
the grid. A program that waits for a later one on the same thread never ends. So the compiler warns of
such a loop. The analysis changes nothing.

    while load(flag) == 0:                 busy waiting: nothing in the loop changes its condition
        pass
    while atomic_cas(lock, 0, 1) == 1:     a lock: busy waiting only if no store outside of the loop frees `lock`;
        pass                               a program that holds a lock runs on and frees it
    while (load(flag) == 0) & (i < n):     no busy waiting: the loop ends by itself
        i += 1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.passes.analysis.carried import LAYOUTS, carried, yields
from pypto.passes.analysis.memory_effects import is_load, is_pure, pointer_roots, writes_memory

_ACQUIRES: Final = ("atomic_cas", "atomic_xchg")
_READS: Final = ("atomic_add", "atomic_or", "atomic_xor")  # of 0

Roots = dict[Value, frozenset[str]]


def waiting_loops(function: Function) -> Iterator[Op]:
    """The busy-waiting loops of a kernel."""
    loops = [op for op in function.walk() if op.name == "while"]
    if not loops:
        return
    roots = pointer_roots(function)
    for loop in loops:
        polled = polled_by(loop)
        if polled and not is_lock(function, loop, polled, roots):
            yield loop


def polled_by(loop: Op) -> list[Op]:
    """The reads of memory that alone decide the trip count of a loop; none if the loop has another effect or exit."""
    inside = list(ops_of(loop))
    if any(not is_pure(op) and not reads(op) for op in inside):
        return []
    polled: list[Op] = []
    within = {v for op in inside for v in op.results}
    arguments = {*carried(loop, loop.regions[1])}
    state = dict(zip(carried(loop, loop.regions[0]), yields(loop)[0], strict=False))
    pending = [loop.regions[0].terminator.operands[0]]
    seen = set[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in state:
            if not rests_on_memory(state[value], within, arguments):
                return []
            pending.append(state[value])
        elif value in within and value.op is not None:
            polled += [value.op] if reads(value.op) else []
            pending += value.op.operands  # of a read as well: an address that moves ends the loop by itself
    return polled


def rests_on_memory(value: Value, within: set[Value], arguments: set[Value]) -> bool:
    """Whether the next value of a carried value is read from memory, and does not count iterations.

    A branch may also keep a carried value as it is: `if load(flag) > 0: done = True` polls the flag.
    """
    op = value.op
    if op is None:
        return False
    if reads(op):
        return True
    branches = [x[op.results.index(value)] for x in yields(op)] if op.name in LAYOUTS else []
    parts = [*op.operands, *(v for v in branches if v not in arguments)]
    return all((v in within and rests_on_memory(v, within, arguments)) or is_fixed(v, within) for v in parts)


def is_fixed(value: Value, within: set[Value]) -> bool:
    """Whether a value is computed before the loop."""
    return value.op is not None and value not in within


def reads(op: Op) -> bool:
    """Whether an op polls memory: a load, an atomic op that adds 0, or one that acquires a lock."""
    if is_load(op) or op.name in _ACQUIRES:
        return True
    return op.name in _READS and is_zero(op.operands[1])


def is_zero(value: Value) -> bool:
    """Whether all elements are the constant 0."""
    op = value.op
    while op is not None and op.name in ("cast", "broadcast_to", "reshape", "splat"):
        op = op.operands[0].op
    return op is not None and op.name == "constant" and op.attrs.get("value") == 0


def is_lock(function: Function, loop: Op, polled: list[Op], roots: Roots) -> bool:
    """Whether a loop acquires a lock that the kernel releases outside of the loop."""
    if not all(op.name in _ACQUIRES for op in polled):
        return False
    inside = set(map(id, ops_of(loop)))
    wanted = [roots.get(op.operands[0]) for op in polled]
    stores = (op for op in function.walk() if writes_memory(op))
    given = [roots.get(op.operands[0]) for op in stores if id(op) not in inside]
    return all(any(not a or not b or a & b for b in given) for a in wanted)


def ops_of(op: Op) -> Iterator[Op]:
    """All ops in the regions of an op, without their terminators."""
    for region in op.regions:
        yield from ops_in(region)


def ops_in(region: Region) -> Iterator[Op]:
    """All ops in a region, at every depth, without terminators."""
    for op in region.body:
        yield op
        yield from ops_of(op)
