"""What passes for Ascend give, as text: Tile IR, the two sides of a mixed kernel, or Block IR."""

from __future__ import annotations

from typing import Any

from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.ir.printer import print_function


def print_ir(ir: Any) -> str:
    """The text of what a pass gives."""
    if isinstance(ir, BlockKernel):
        return listing(ir)
    if isinstance(ir, CorePartition):
        return (
            f"# the cube core's side\n{print_function(ir.cube)}\n# the vector cores' side\n{print_function(ir.vector)}"
        )
    return print_function(ir)
