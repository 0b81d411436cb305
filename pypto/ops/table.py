"""The table: every row, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pypto.ops import arith, atomic, control, mathematics, memory, reduce, select, shape
from pypto.ops.row import OpRow

ROWS: Final = (*arith.ROWS, *mathematics.ROWS, *shape.ROWS, *reduce.ROWS, *select.ROWS, *memory.ROWS, *atomic.ROWS, *control.ROWS)
TABLE: Final[Mapping[str, OpRow]] = MappingProxyType({row.name: row for row in ROWS})
