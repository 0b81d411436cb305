"""Two halves of a cube core's step as one loop: panels of the second product between columns of the first one.

Scores leave L0C slower than they are made, column by column. What else the cube core does in a step, product by product
of panels along K, is woven in, so that its copies and products have the time that the scores take to leave. But the
first column then waits until the last step's second product has left L0C: where there are few columns, that costs more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pypto.backends.ascend.blockir.effects import condition_of
from pypto.backends.ascend.blockir.ir import Expr, If, Instr, Item, Let, Loop, Scalar, fold
from pypto.ir.types import int32

MAX_PANELS: Final = 8  # columns; with fewer, each half has a loop of its own


def interleave_stages(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The items with such loops in place of two, wherever they are."""
    found = tuple(
        replace(x, body=interleave_stages(x.body)) if isinstance(x, Loop) and not condition_of(x) else x for x in items
    )
    halves = [i for i, x in enumerate(found) if isinstance(x, Loop) and condition_of(x)]
    if len(halves) != 2:
        return found
    i, j = halves
    made = fuse_stages(found[i], found[i + 1 : j], found[j])
    return found if made is None else (*found[:i], *made, *found[j + 1 :])


def fuse_stages(first: Item, between: tuple[Item, ...], second: Item) -> tuple[Item, ...] | None:
    """One loop for two halves of a step, what comes before it and after it; None where they are made otherwise."""
    assert isinstance(first, Loop)
    assert isinstance(second, Loop)
    loops = [x for half in (first, second) for x in half.body if isinstance(x, Loop)]
    if len(loops) != 2 or loops[0] not in first.body or not all(isinstance(x, Let) for x in between):
        return None
    columns, panels = loops
    at = second.body.index(panels)
    before, after = second.body[:at], second.body[at + 1 :]
    lets, waits = ([x for x in before if isinstance(x, kind)] for kind in (Let, Instr))
    count = fold("//", columns.stop, columns.step)
    plain = all(isinstance(x, Let) for x in first.body[:-1]) and len(lets) + len(waits) == len(before)
    if not plain or (columns.start, panels.start, panels.step) != (0, 0, 1):
        return None
    if not isinstance(count, int) or count < MAX_PANELS:
        return None
    exists = second.stop.args[0] if isinstance(second.stop, Expr) else True
    number = Let("panels", int32, Expr("i32", (Expr("?:", (exists, panels.stop, 0)),)), second.line)
    column = fold("//", columns.name, columns.step)
    bounds = (
        panels_per_column(number.name, column, count),
        panels_per_column(number.name, fold("+", column, 1), count),
    )
    inner = replace(panels, start=bounds[0], stop=bounds[1])
    body = (replace(first, body=columns.body), inner)
    return (*first.body[:-1], *between, *lets, If(exists, tuple(waits), (), second.line), number,
            replace(columns, body=body), replace(second, body=after))  # fmt: skip


def panels_per_column(number: str, columns: Scalar, count: int) -> Scalar:
    """How many panels come with so many columns."""
    return Expr("i32", (fold("//", fold("*", columns, number), count),))
