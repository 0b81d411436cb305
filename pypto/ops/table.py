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
