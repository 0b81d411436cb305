"""Epilogue fusion: the elementwise ops behind a product run on each register tile of it, as soon as that is done.

A bias is added, an activation computed or a residual added while the sum is still in the first-level cache. It pays
twice: the result is not read again from scratch, and its stores are spread over the product. All of them at its end
would fill the store queue, and the core would wait.

It is legal where the nest stores one value per element of the result, reads of the result that element alone, and
writes nothing that the product still reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.ir import Buffer, Nest
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Op
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand
from pypto.passes.analysis.memory_effects import may_alias
from pypto.passes.pattern import constant_range

if TYPE_CHECKING:
    from pypto.backends.cpu.gemm.emitted_operands import GemmOperands
    from pypto.backends.cpu.gemm.ir import Gemm
    from pypto.backends.cpu.gemm.macro_kernel import MacroKernel


@dataclass(frozen=True, slots=True)
class EpilogueRegion:
    """The part of the result that an epilogue runs on.

    `rows` are the first row and the end; `width` columns begin at `column`, or all columns where `width` is 0.
    """

    rows: tuple[str, str]
    column: VectorValue
    width: int = 0


def can_fuse_epilogue(
    gemm: Gemm, nest: Nest, reads: Iterable[tuple[Buffer, IndexMap]], plan: Materialization, last: Op
) -> bool:
    """Whether a nest that stores the result, computed on element by element, can be the epilogue of a product.

    `last` is the product, or the loop that adds it up. Such a loop must run: else the result is never computed here.
    """
    (stmt,) = nest.stmts
    loop = last if last is not gemm.op else None
    value = gemm.op.results[0] if loop is None else gemm.loop_sum(loop, plan)
    always_runs = loop is None or constant_range(loop.operands[:3])
    if not is_enabled(plan.function, "epilogue") or value is None or gemm.a_column_major or not always_runs:
        return False
    result_indices = {index for buffer, index in reads if buffer.memory is gemm.c.memory}
    iterates_result = (stmt.domain, stmt.loops, stmt.lanes) == (gemm.c.shape, (0, 1), 1)
    if not iterates_result or result_indices != {(0, 1)}:
        return False
    if gemm.c.shape[0] <= plan.target.products.skinny_rows or gemm.c.shape[-1] % gemm.b.panel:
        return False
    operands = [operand for operand in (gemm.a, gemm.b_source) if isinstance(operand, InPlaceOperand)]
    if any(may_alias(plan.function, operand.load, stmt.the_op) for operand in operands):
        return False
    return plan.readers[value] == (stmt.the_op,) and not is_tile(Access.of(stmt.the_op).base)


def emit_epilogue(
    macro: MacroKernel, operands: GemmOperands, i: VectorValue, rows: int, column: VectorValue, width: int = 0
) -> None:
    """Run the epilogue on `rows` rows from `i` on: on a micro-panel's `width` columns, or on whole rows (`width` 0).

    Nests with transcendental functions run on whole rows, others panel by panel, so that their stores are spread.
    """
    nest = operands.item.epilogue
    if nest is None or operands.destination is None or macro.nests.has_transcendentals(nest.stmts) != (not width):
        return

    def on_region() -> list[VectorValue]:
        end = macro.e.add(i, macro.index(rows)).text
        macro.nests.epilogue_region = EpilogueRegion((i.text, end), column, width)
        macro.nests.emit(nest, once=True)
        macro.nests.epilogue_region = None
        return []

    macro.w.branch(operands.destination.in_bounds.text, [on_region, list])
