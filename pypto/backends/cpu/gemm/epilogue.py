"""What comes of a product, element by element, is computed and stored block by block, between other blocks.

A bias is added, an activation computed, a residual added while a block of the sum is near; and stores that are spread
over the product go on beside it, where all of them at its end would fill the machine's queue of stores and wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.ir import Buffer, Nest
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.ir.core import Op
from pypto.ops.memory import Access
from pypto.passes.dot_facts import MIN_COLUMN_ROWS, InPlaceOperand
from pypto.passes.memory_effects import may_alias
from pypto.passes.pattern import constant_range

if TYPE_CHECKING:
    from pypto.backends.cpu.gemm.ir import Gemm
    from pypto.backends.cpu.gemm.macro_kernel import GemmOperands, MacroKernel


@dataclass(frozen=True, slots=True)
class EpilogueRegion:
    """Some rows, from one to before another, and `width` columns; all where that is 0."""

    rows: tuple[str, str]
    column: VectorValue
    width: int = 0


def can_fuse_epilogue(
    item: Gemm, nest: Nest, read: Iterable[tuple[Buffer, IndexMap]], plan: Materialization, last: Op
) -> bool:
    """True for a store, of what comes of the elements one by one, which writes nothing that is multiplied."""
    (stmt,), loop = nest.stmts, last if last is not item.op else None
    value = item.op.results[0] if loop is None else item.loop_sum(loop, plan)
    runs = loop is None or constant_range(loop.operands[:3])
    if {"checked", "profile"} & plan.function.attrs.keys() or value is None or item.a_column_major or not runs:
        return False
    own = {index for buffer, index in read if buffer.memory is item.c.memory}
    alike = (stmt.domain, stmt.loops, stmt.lanes, own) == (item.c.shape, (0, 1), 1, {(0, 1)})
    whole = item.c.shape[0] > MIN_COLUMN_ROWS and not item.c.shape[-1] % item.b.panel
    sides = [side for side in (item.a, item.b_source) if isinstance(side, InPlaceOperand)]
    apart = not any(may_alias(plan.function, side.load, stmt.the_op) for side in sides)
    return (
        alike and whole and apart and plan.readers[value] == (stmt.the_op,) and not is_tile(Access.of(stmt.the_op).base)
    )


def emit_epilogue(
    dots: MacroKernel, sides: GemmOperands, i: VectorValue, rows: int, column: VectorValue, width: int = 0
) -> None:
    """The nest on some rows: panel by panel, so that stores are spread, or on whole rows where it takes long."""
    nest = sides.item.epilogue
    if nest is None or sides.destination is None or dots.nests.has_transcendentals(nest.stmts) != (not width):
        return

    def on_block() -> list[VectorValue]:
        dots.nests.epilogue_region = EpilogueRegion((i.text, dots.e.add(i, dots.index(rows)).text), column, width)
        dots.nests.emit(nest, once=True)
        dots.nests.epilogue_region = None
        return []

    dots.w.branch(sides.destination.in_bounds.text, [on_block, list])
