"""Cost model: a rough estimate of the time of one program.

The launcher asks it whether the work of a launch pays for waking a second thread; code generation asks it which nests
are negligible beside a loop or product, so that they need no versions. A factor of a few decides nothing here.
"""

from __future__ import annotations

import math

from pypto.backends.cpu.loopir.ir import Control, Item, Nest, Scalar
from pypto.backends.cpu.loopir.materialize import op_cost
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Region
from pypto.ir.types import ArrayType
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_range

_UNKNOWN_TRIPS = 16  # assumed trip count of a loop whose bounds are no constants
_INSTRUCTIONS_PER_NS = 4.0
_NEGLIGIBLE_RATIO = 1024  # scalar instructions of the costliest item, for each element of a negligible nest
_BYTES_PER_INSTRUCTION = 25.0  # bytes that the second-level cache delivers in the time of one instruction


def estimate(function: Function, target: CpuTarget) -> float:
    """Estimated nanoseconds of one program, within a factor of a few."""
    return 20.0 + region_instructions(function.body, target.vector_bytes // 4) / _INSTRUCTIONS_PER_NS


def region_instructions(body: Region, lanes: int) -> float:
    """Vector instructions of all ops of a region."""
    return sum(instructions(op, lanes) for op in body.ops)


def instructions(op: Op, lanes: int) -> float:
    """Vector instructions of an op with so many lanes in a register; memory traffic counts as instructions."""
    if op.regions:
        trips = trip_count(op)
        return sum(region_instructions(r, lanes) for r in op.regions) * (_UNKNOWN_TRIPS if trips is None else trips)
    sizes = [v.tile.size for v in (*op.results, *op.operands) if not isinstance(v.type, ArrayType)]
    if op.name == "dot":
        return math.prod(op.operands[0].shape) * op.operands[1].shape[-1] / lanes
    return op_cost(op) * max(sizes, default=1) / lanes + traffic(op) / _BYTES_PER_INSTRUCTION


def negligible_nests(items: list[Item], lanes: int) -> set[Nest]:
    """Nests whose time is negligible beside a loop or library op of the same region, and those in inner regions.

    They are emitted in one masked version, which LLVM compiles sooner. A branch is no reference: it may not be taken.
    """
    others = [item for item in items if not isinstance(item, Nest | Scalar)]
    costs = (instructions(item.op, lanes) for item in others if item.op.name != "if")
    max_elements = max(costs, default=0.0) * lanes / _NEGLIGIBLE_RATIO
    nests = (item for item in items if isinstance(item, Nest))
    negligible = {nest for nest in nests if sum(math.prod(s.domain) for s in nest.stmts) < max_elements}
    regions = (region for item in others if isinstance(item, Control) for region in item.regions)
    return negligible.union(*(negligible_nests(region, lanes) for region in regions))


def traffic(op: Op) -> int:
    """Bytes that a load or store moves; 0 for other ops."""
    if op.name in ("load", "tile_load"):
        return op.results[0].tile.size * op.results[0].dtype.itemsize
    if op.name in ("store", "tile_store"):
        value = op.operands[1] if op.name == "store" else Access.of(op).value
        return value.tile.size * value.dtype.itemsize if value is not None else 0
    return 0


def is_bounded(function: Function) -> bool:
    """Whether the trip counts of all loops are constants, so that the estimate covers them."""
    return None not in [trip_count(op) for op in function.walk() if op.regions]


def trip_count(op: Op) -> int | None:
    """The trip count of a loop with constant bounds, 1 for a branch; None where it is not constant."""
    if op.name == "if":
        return 1
    steps = constant_range(op.operands[:3]) if op.name == "for" else None
    return None if steps is None else len(steps)
