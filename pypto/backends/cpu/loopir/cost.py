"""A rough estimate of what one program costs, to tell work that pays for a second thread from work that does not."""

from __future__ import annotations

import math

from pypto.backends.cpu.loopir.ir import Control, Item, Nest, Scalar
from pypto.backends.cpu.loopir.materialize import op_cost
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Region
from pypto.ir.types import ArrayType
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_range

_UNKNOWN_TRIPS = 16
_INSTRUCTIONS_PER_NS = 4.0
_NEGLIGIBLE_RATIO = (
    1024  # instructions on single elements, in a loop or product, for one element of a minor nest beside it
)
_BYTES_PER_INSTRUCTION = 25.0  # what the second-level cache gives one thread in that time


def estimate(function: Function, target: CpuTarget) -> float:
    """Nanoseconds of one program, within a factor of a few."""
    return 20.0 + region_instructions(function.body, target.vector_bytes // 4) / _INSTRUCTIONS_PER_NS


def region_instructions(body: Region, lanes: int) -> float:
    return sum(instructions(op, lanes) for op in body.ops)


def instructions(op: Op, lanes: int) -> float:
    if op.regions:
        known = trip_count(op)
        return sum(region_instructions(r, lanes) for r in op.regions) * (_UNKNOWN_TRIPS if known is None else known)
    sizes = [v.tile.size for v in (*op.results, *op.operands) if not isinstance(v.type, ArrayType)]
    if op.name == "dot":
        return math.prod(op.operands[0].shape) * op.operands[1].shape[-1] / lanes
    return op_cost(op) * max(sizes, default=1) / lanes + traffic(op) / _BYTES_PER_INSTRUCTION


def negligible_nests(items: list[Item], lanes: int) -> set[Nest]:
    """Nests that take next to nothing of the time of a loop or product beside them; a branch may never be taken."""
    beside = [item for item in items if not isinstance(item, Nest | Scalar)]
    most = (
        max((instructions(x.op, lanes) for x in beside if x.op.name != "if"), default=0.0) * lanes / _NEGLIGIBLE_RATIO
    )
    own = {n for n in items if isinstance(n, Nest) and sum(math.prod(s.domain) for s in n.stmts) < most}
    return own.union(
        *(negligible_nests(r, lanes) for item in beside if isinstance(item, Control) for r in item.regions)
    )


def traffic(op: Op) -> int:
    """Bytes that a load or store moves."""
    if op.name in ("load", "tile_load"):
        return op.results[0].tile.size * op.results[0].dtype.itemsize
    if op.name in ("store", "tile_store"):
        value = op.operands[1] if op.name == "store" else Access.of(op).value
        return value.tile.size * value.dtype.itemsize if value is not None else 0
    return 0


def is_bounded(function: Function) -> bool:
    """Whether the estimate can be trusted to be near: no loop has a number of iterations that only a launch knows."""
    return None not in [trip_count(op) for op in function.walk() if op.regions]


def trip_count(op: Op) -> int | None:
    """Iterations of a loop over constants, and the one of a branch."""
    steps = constant_range(op.operands[:3]) if op.name == "for" else range(1) if op.name == "if" else None
    return None if steps is None else len(steps)
