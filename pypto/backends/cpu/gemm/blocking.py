"""Blocking of a matrix product: the width NR of a panel of B, and the step KC along K.

NR follows from the registers, KC from the sizes of the caches.
A step's panel of B and rows of A are to stay in half of the second-level cache while the product reads them again and
again, and the rows of A of one micro-kernel in the first.
"""

from __future__ import annotations

from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.passes.dot_facts import (
    dot_dtype,
    packed_bytes,
    packing_factor,
    reads_both_in_place,
    split_terms,
)
from pypto.passes.k_blocking import ReductionLoop
from pypto.passes.scalar_evolution import ScalarEvolution
from pypto.passes.target_facts import TargetFacts

_L1_ROWS: Final = 8  # of the left side, whose part of a step stays in the first-level cache
_AMX_ROWS: Final = 32  # the same where tiles are multiplied by one instruction
_MC_CAP: Final = 128  # rows of the left side that are counted; of more, the first ones go before the last ones come
_L1_RESERVED: Final = 24 << 10  # bytes of that cache for what goes by, sums among it
_L1_RESERVED_SINGLE_STEP: Final = 16 << 10  # the same for a step that is the only one: it has no sums to load
_KC_UNIT: Final = 16  # steps are multiples of it: of what kernels unroll
_KC_UNIT_BYTES: Final = 64  # large ones of so many bytes: of a register, or a row of a tile


def choose_nr(v: Value, target: TargetFacts, in_place: bool) -> int:
    """NR: columns of a micro-panel, in one, two or four registers.

    With four registers by six rows there is a load for every 2.4 multiply-adds. With two by eight, which is what fits
    where A is read in place, there is one for every 1.6. Alone on a core both wait for the multiply-adds; with another
    thread on it, they wait for the loads.
    """
    lanes = target.vector_bytes // dot_dtype(v.dtype).itemsize
    if in_place and target.vector_bytes >= 64 and v.shape[-1] % (4 * lanes) == 0:
        return 4 * lanes
    return lanes * (2 if v.shape[-1] > lanes else 1)


def choose_kc(function: Function, loop: ReductionLoop, target: TargetFacts) -> int:
    """KC of a loop: as deep as fits the caches, and such that no remainder is left.

    Where K is not known, only dots that read both sides in place go deeper: they stop where the sides do, which must be
    the same for all programs that share panels.
    """
    deepest = min(max_kc(dot, target, _L1_RESERVED) for dot in loop.dots)
    deepest_single = min(max_kc(dot, target, _L1_RESERVED_SINGLE_STEP) for dot in loop.dots)
    if loop.preserves_zero and loop.extent_from_start:
        return even_kc(loop, deepest, deepest_single, target)
    if loop.preserves_zero and loop.has_runtime_bounds and has_invariant_bounds(function, loop):
        in_place = all(reads_both_in_place(dot, loop.uses, target) for dot in loop.dots)
        return max(loop.step, deepest_single) if in_place else loop.step
    trips = loop.extent_from_start // loop.step
    return loop.step * next((n for n in range(min(deepest // loop.step, trips), 0, -1) if trips % n == 0), 1)


def even_kc(loop: ReductionLoop, deepest: int, deepest_single: int, target: TargetFacts) -> int:
    """KC where K is known: as few steps as the caches allow, all of them about as deep."""
    extents = [loop.extent(load, d) for load, d in loop.loads]
    depth = loop.extent_from_start
    if extents and None not in extents:
        depth = min(depth, max(n for n in extents if n is not None))
    count = 1 if depth <= deepest_single else -(-depth // deepest)
    unit = max(kc_unit(dot, target) for dot in loop.dots) if depth >= _KC_UNIT_BYTES else _KC_UNIT
    return max(_KC_UNIT, -(-depth // (count * unit)) * unit)


def has_invariant_bounds(function: Function, loop: ReductionLoop) -> bool:
    return not any(ScalarEvolution.of(function).depends_on_program(v, (0,)) for v in loop.op.operands[:2])


def max_kc(dot: Op, target: TargetFacts, reserved: int) -> int:
    """How far along K the operands' tiles fit into half of a second-level cache, and rows into the first."""
    a, b = dot.operands[:2]
    size = packed_bytes(dot, target) * split_terms(dot, target)
    rows = _AMX_ROWS if target.has_amx and packing_factor(dot, target) else _L1_ROWS
    row = max(1024, (target.caches[0] - reserved) // rows)
    both = target.caches[1] // 2 // (min(a.shape[-2], _MC_CAP) + b.shape[-1])
    unit = kc_unit(dot, target)
    return max(unit, min(row, both) // size // unit * unit)


def kc_unit(dot: Op, target: TargetFacts) -> int:
    return max(_KC_UNIT, _KC_UNIT_BYTES // packed_bytes(dot, target))
