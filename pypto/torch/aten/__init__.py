"""Core ATen as data: one row for each op, which lowers it to the Tensor graph by functions on arrays.

Read `row` first: the record, and torch's promotion of dtypes; `layout` has the order of dimensions in memory. Then the
rows by kind: `elementwise`, `reductions`, `movement`, `products`, `indexing`. `TABLE` has them by name. An op without a
row, or a use that its row refuses (`NotLowered`), is run by torch as a step of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pypto.torch.aten import elementwise, indexing, movement, products, reductions
from pypto.torch.aten.row import Row

TABLE: Final[Mapping[str, Row]] = MappingProxyType(
    {row.name: row for module in (elementwise, reductions, movement, products, indexing) for row in module.ROWS}
)
__all__ = ["TABLE", "Row"]
