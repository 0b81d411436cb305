"""Reuse of packed panels: programs that multiply by the same matrix B share its panels, which are packed once.

Programs that follow one another along the grid's first axis often have the same B. The first of them packs the panels
of every step along K; the others find them in scratch. It pays wherever a thread runs two such programs in a row, and
where the panels of all steps fit into its part of the last-level cache.

It is legal where the load of B depends on nothing in which these programs differ, its memory is written nowhere in the
kernel, and every program runs the steps in the same order. Where programs split a one-axis grid into groups of rows
(`pid % n // m`), scalars such as that quotient are kept as keys and compared at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pypto.backends.cpu.gemm.ir import PanelCache
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.ir.core import Op, Region, Value
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand, is_grid_invariant
from pypto.passes.analysis.memory_effects import is_pure, may_alias
from pypto.passes.analysis.scalar_evolution import ScalarEvolution
from pypto.passes.pattern import constant_range


def plan_panel_cache(
    plan: Materialization, dot: Op, left: Buffer | InPlaceOperand, source: InPlaceOperand, step_bytes: int
) -> PanelCache | None:
    """Plan the cache of a product's panels, `step_bytes` for each step along K; None where programs cannot share."""
    loops = plan.enclosing_loops[dot]
    loop = loops[0] if loops else None
    if len(loops) > 1 or (loop is not None and not runs_every_step(loop, dot)):
        return None
    if (loop or dot) not in executed_once(plan.function.body):
        return None
    bounds = (loop.operands[0], loop.operands[2]) if loop is not None else ()
    if any(may_alias(plan.function, source.load, write) for write in plan.writes):
        return None
    # Loops that carry pointers count by offsets since `normalize_loops`, but for checked mode, which shares nothing.
    evolution = ScalarEvolution.of(plan.function, through_carried=False)
    keys = cache_keys(evolution, loop, source.load.operands)
    if keys is None or not all(evolution.is_invariant(v, 0) for v in bounds):
        return None
    full_depth = isinstance(left, InPlaceOperand) and not has_invariant_k(evolution, left)
    steps = range(1) if loop is None else constant_range(loop.operands[:3])
    max_steps = plan.target.panel_cache // step_bytes
    if steps is not None and len(steps) <= max_steps:
        grid_invariant = loop is None and is_grid_invariant(plan.function, source)
        return PanelCache(loop, len(steps), len(steps), grid_invariant, full_depth or grid_invariant, keys)
    return PanelCache(loop, max_steps - 1, max_steps, full_depth=full_depth, keys=keys) if max_steps > 1 else None


def cache_keys(evolution: ScalarEvolution, loop: Op | None, reads: Sequence[Value]) -> tuple[Value, ...] | None:
    """Scalars of a load that may differ between programs along the grid's first axis, though neighbours mostly agree.

    None where neighbours often differ.
    """
    inside = set(loop.regions[0].body) if loop is not None else set()
    keys = dict[Value, None]()
    worklist = list(reads)
    while worklist:
        v = worklist.pop()
        if evolution.is_invariant(v, 0):
            continue
        if v.op in inside and v.op is not None and is_pure(v.op) and not v.op.regions:
            worklist += v.op.operands
        elif v.op is not None and v.op not in inside and is_mostly_invariant(evolution, v):
            keys[v] = None
        else:
            return None
    return tuple(keys)


def is_mostly_invariant(evolution: ScalarEvolution, v: Value) -> bool:
    """Whether a scalar is the same in most neighbouring programs: a quotient, or computed from quotients alone."""
    if evolution.is_invariant(v, 0):
        return True
    if v.op is None or v.op.regions or v.op.name == "program_id" or not is_pure(v.op):
        return False
    return v.op.name == "floordiv" or all(is_mostly_invariant(evolution, x) for x in v.op.operands)


def executed_once(region: Region) -> Iterator[Op]:
    """The ops that a program runs at most once."""
    for op in region.ops:
        yield op
        for inner in op.regions if op.name == "if" else ():
            yield from executed_once(inner)


def has_invariant_k(evolution: ScalarEvolution, left: InPlaceOperand) -> bool:
    """Whether A ends at the same place along K in all programs along the grid's first axis."""
    access = Access.of(left.load)
    rows = left.columns if left.transposed else left.rows
    bounds = (v for d, pair in enumerate(zip(access.offsets, access.extents, strict=True)) if d != rows for v in pair)
    return all(evolution.is_invariant(v, 0) for v in bounds)


def runs_every_step(loop: Op, dot: Op) -> bool:
    """Whether every step of a counted loop runs the product, so that panels are packed in the order of the steps."""
    return loop.name == "for" and dot in loop.regions[0].ops
