"""What comes of a product, element by element, is computed and stored block by block, between other blocks.

A bias is added, an activation computed, a residual added while a block of the sum is near; and stores that are spread
over the product go on beside it, where all of them at its end would fill the machine's queue of stores and wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Buffer, Nest
from pypto.backends.cpu.operands import FEW, Direct
from pypto.backends.cpu.plan import Plan, may_alias
from pypto.backends.cpu.pull import IndexMap, is_tile
from pypto.ir.core import Op
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_range

if TYPE_CHECKING:
    from pypto.backends.cpu.dot import DotEmitter, Sides
    from pypto.backends.cpu.matmul import Matmul


@dataclass(frozen=True, slots=True)
class Area:
    """Some rows, from one to before another, and `width` columns; all where that is 0."""

    rows: tuple[str, str]
    column: Lanes
    width: int = 0


def may_finish(item: Matmul, nest: Nest, read: Iterable[tuple[Buffer, IndexMap]], plan: Plan, last: Op) -> bool:
    """True for a store, of what comes of the elements one by one, which writes nothing that is multiplied."""
    (stmt,), loop = nest.stmts, last if last is not item.op else None
    value = item.op.results[0] if loop is None else item.summed(loop, plan)
    runs = loop is None or constant_range(loop.operands[:3])
    if {"checked", "profile"} & plan.function.attrs.keys() or value is None or item.is_across or not runs:
        return False
    own = {index for buffer, index in read if buffer.memory is item.c.memory}
    alike = (stmt.domain, stmt.loops, stmt.lanes, own) == (item.c.shape, (0, 1), 1, {(0, 1)})
    whole = item.c.shape[0] > FEW and not item.c.shape[-1] % item.b.panel
    sides = [side for side in (item.a, item.source) if isinstance(side, Direct)]
    apart = not any(may_alias(plan.function, side.load, stmt.does) for side in sides)
    return alike and whole and apart and plan.readers[value] == (stmt.does,) and not is_tile(Access.of(stmt.does).base)


def run(dots: DotEmitter, sides: Sides, i: Lanes, rows: int, column: Lanes, width: int = 0) -> None:
    """The nest on some rows: panel by panel, so that stores are spread, or on whole rows where it takes long."""
    nest = sides.item.rest
    if nest is None or sides.landing is None or dots.nests.is_long(nest.stmts) != (not width):
        return

    def on_block() -> list[Lanes]:
        dots.nests.block = Area((i.text, dots.e.add(i, dots.number(rows)).text), column, width)
        dots.nests.emit(nest, once=True)
        dots.nests.block = None
        return []

    dots.w.branch(sides.landing.done.text, [on_block, list])
