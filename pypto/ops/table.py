"""The table: every row, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pypto.ops import arith, atomic, casts, control, mathematics, matmul, memory, reduce, select, shape
from pypto.ops.row import OpRow

ROWS: Final = (
    *arith.ROWS,
    *casts.ROWS,
    *mathematics.ROWS,
    *shape.ROWS,
    *reduce.ROWS,
    *matmul.ROWS,
    *select.ROWS,
    *memory.ROWS,
    *atomic.ROWS,
    *control.ROWS,
)
TABLE: Final[Mapping[str, OpRow]] = MappingProxyType({row.name: row for row in ROWS})


def ops_with(*traits: str) -> tuple[str, ...]:
    """Names of the ops that have one of some traits."""
    return tuple(row.name for row in ROWS if row.traits.intersection(traits))


ARG_REDUCTIONS: Final = ops_with("arg_reduction")
MOVEMENT_OPS: Final = ops_with("movement")
OVERFLOWING_OPS: Final = ops_with("overflowing")
REDUCTIONS: Final = ops_with("reduction", "arg_reduction")
SCANS: Final = ops_with("scan")
