"""Stage interleaving: the two pipeline stages of a cube core's step run in one loop.

The first stage computes scores column by column, and they leave L0C more slowly than they are made. The second stage's
panels along K are interleaved with those columns, so that its copies and products fill the time. But then the first
column waits until the last step's result has left L0C. So it pays with `MIN_COLUMNS` columns or more only. It is legal
because the stages work on different steps, and the waits between cores keep their order.

    for once in range(i32(i < n)):          for once in range(i32(i < n)):
        for column in range(8):                 for column in range(8):
            <scores of step i>          ->          <scores of step i>
    for once in range(i32(i > 0)):                  for panel in range(column * k / 8, (column + 1) * k / 8):
        for panel in range(k):                          <product of step i - 1>
            <product of step i - 1>
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pypto.backends.ascend.blockir.effects import condition_of
from pypto.backends.ascend.blockir.ir import Expr, If, Instr, Item, Let, Loop, Scalar, fold
from pypto.ir.types import int32

MIN_COLUMNS: Final = 8  # with fewer, each stage keeps its own loop


def interleave_stages(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Fuse the two stages of each step, wherever in the items it is."""
    changed = tuple(
        replace(x, body=interleave_stages(x.body)) if isinstance(x, Loop) and not condition_of(x) else x for x in items
    )
    stages = [i for i, x in enumerate(changed) if isinstance(x, Loop) and condition_of(x)]
    if len(stages) != 2:
        return changed
    i, j = stages
    fused = fuse_stages(changed[i], changed[i + 1 : j], changed[j])
    return changed if fused is None else (*changed[:i], *fused, *changed[j + 1 :])


def fuse_stages(first: Item, between: tuple[Item, ...], second: Item) -> tuple[Item, ...] | None:
    """Fuse two stages of a step into one loop over columns; None where the stages have another form."""
    assert isinstance(first, Loop)
    assert isinstance(second, Loop)
    loops = [x for stage in (first, second) for x in stage.body if isinstance(x, Loop)]
    if len(loops) != 2 or loops[0] not in first.body or not all(isinstance(x, Let) for x in between):
        return None
    columns, panels = loops
    panel_index = second.body.index(panels)
    before = second.body[:panel_index]
    after = second.body[panel_index + 1 :]
    definitions, waits = ([x for x in before if isinstance(x, kind)] for kind in (Let, Instr))
    column_count = fold("//", columns.stop, columns.step)
    is_plain = all(isinstance(x, Let) for x in first.body[:-1]) and len(definitions) + len(waits) == len(before)
    if not is_plain or (columns.start, panels.start, panels.step) != (0, 0, 1):
        return None
    if not isinstance(column_count, int) or column_count < MIN_COLUMNS:
        return None
    has_second = second.stop.args[0] if isinstance(second.stop, Expr) else True
    number = Let("panels", int32, Expr("i32", (Expr("?:", (has_second, panels.stop, 0)),)), second.line)
    column = fold("//", columns.name, columns.step)
    bounds = (
        panels_per_column(number.name, column, column_count),
        panels_per_column(number.name, fold("+", column, 1), column_count),
    )
    inner = replace(panels, start=bounds[0], stop=bounds[1])
    body = (replace(first, body=columns.body), inner)
    return (
        *first.body[:-1],
        *between,
        *definitions,
        If(has_second, tuple(waits), (), second.line),
        number,
        replace(columns, body=body),
        replace(second, body=after),
    )


def panels_per_column(panel_count: str, columns: Scalar, column_count: int) -> Scalar:
    """Return the number of panels that come with so many columns."""
    return Expr("i32", (fold("//", fold("*", columns, panel_count), column_count),))
