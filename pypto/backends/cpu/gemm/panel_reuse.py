"""Panels that stay: programs that follow one another along the grid's first axis often multiply by the same matrix.

The first of them fills the panels, for every step of its loop; the others find them in scratch. Where programs take a
grid of one axis apart, as into groups of rows (`pid % n // m`), it shows as the kernel runs whether a program's panels
are those of the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pypto.backends.cpu.gemm.ir import PanelCache
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.passes.dot_facts import InPlaceOperand, is_grid_invariant, is_program_invariant
from pypto.passes.memory_effects import is_pure, may_alias
from pypto.passes.pattern import constant_range

_MAX_CACHE_BYTES: Final = 4 << 20  # of panels that stay, for each thread: its part of a last-level cache


def plan_panel_cache(
    plan: Materialization, dot: Op, left: Buffer | InPlaceOperand, source: InPlaceOperand, size: int
) -> PanelCache | None:
    """Whether the panels of a dot can stay, of `size` bytes for each step; None where they differ by program."""
    loops = plan.enclosing_loops[dot]
    loop = loops[0] if loops else None
    if len(loops) > 1 or (loop is not None and not runs_every_step(loop, dot)):
        return None
    if (loop or dot) not in executed_once(plan.function.body):
        return None
    index = loop.regions[0].args[0] if loop is not None else None
    bounds = (loop.operands[0], loop.operands[2]) if loop is not None else ()
    if any(may_alias(plan.function, source.load, write) for write in plan.writes):
        return None
    keys = cache_keys(plan.function, loop, source.load.operands)
    if keys is None or not all(is_program_invariant(plan.function, v, index) for v in bounds):
        return None
    whole = isinstance(left, InPlaceOperand) and not has_invariant_k(plan.function, left, index)
    steps, most = range(1) if loop is None else constant_range(loop.operands[:3]), _MAX_CACHE_BYTES // size
    if steps is not None and len(steps) <= most:
        common = loop is None and is_grid_invariant(plan.function, source)
        return PanelCache(loop, len(steps), len(steps), common, whole or common, keys)
    return PanelCache(loop, most - 1, most, full_depth=whole, keys=keys) if most > 1 else None


def cache_keys(function: Function, loop: Op | None, reads: Sequence[Value]) -> tuple[Value, ...] | None:
    """What programs along the grid's first axis may differ in of what a load reads; None where neighbours often do."""
    inside = set(loop.regions[0].body) if loop is not None else set()
    index = loop.regions[0].args[0] if loop is not None else None
    found, work = dict[Value, None](), list(reads)
    while work:
        v = work.pop()
        if is_program_invariant(function, v, index):
            continue
        if v.op in inside and v.op is not None and is_pure(v.op) and not v.op.regions:
            work += v.op.operands
        elif v.op is not None and v.op not in inside and is_mostly_invariant(function, v):
            found[v] = None
        else:
            return None
    return tuple(found)


def is_mostly_invariant(function: Function, v: Value) -> bool:
    """True for a scalar that is the same in most programs that follow one another: a quotient, and what comes of it."""
    if is_program_invariant(function, v, None):
        return True
    if v.op is None or v.op.regions or v.op.name == "program_id" or not is_pure(v.op):
        return False
    return v.op.name == "floordiv" or all(is_mostly_invariant(function, x) for x in v.op.operands)


def executed_once(region: Region) -> Iterator[Op]:
    """The ops that a program runs at most once."""
    for op in region.ops:
        yield op
        for inner in op.regions if op.name == "if" else ():
            yield from executed_once(inner)


def has_invariant_k(function: Function, left: InPlaceOperand, index: Value | None) -> bool:
    """True when rows of the left side end at the same place along K in all programs along the grid's first axis."""
    access, rows = Access.of(left.load), left.columns if left.transposed else left.rows
    bounds = (v for d, pair in enumerate(zip(access.offsets, access.extents, strict=True)) if d != rows for v in pair)
    return all(is_program_invariant(function, v, index) for v in bounds)


def runs_every_step(loop: Op, dot: Op) -> bool:
    """True when every step of a counted loop runs the dot, so that steps are filled in order."""
    return loop.name == "for" and dot in loop.regions[0].ops
