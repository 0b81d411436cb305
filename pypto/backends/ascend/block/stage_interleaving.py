"""Stage interleaving: the two pipeline stages of a cube core's step run in one loop.

The first stage computes scores column by column, and they leave L0C more slowly than they are made. The second stage's
panels along K are interleaved with those columns, so that its copies and products fill the time. Its result leaves L0C
while the last `LAST_COLUMNS` are computed, so that nothing waits for that in the next step. It pays with `MIN_COLUMNS`
columns or more. It is legal because the stages work on different steps, and the waits between cores keep their order.

    for once in range(i32(i < n)):          for column in range(8):
        for column in range(8):                 for once in range(i32(i < n)):
            <scores of step i>          ->          <scores of step i>
    for once in range(i32(i > 0)):              for panel in range(column * k / 6, (column + 1) * k / 6):
        for panel in range(k):                      <product of step i - 1>
            <product of step i - 1>             for once in range(i32(i > 0)):
        <its result leaves L0C>                     for at in range(i32(column == 5)):
                                                        <its result leaves L0C>
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pypto.backends.ascend.blockir.effects import condition_of
from pypto.backends.ascend.blockir.ir import Expr, If, Instr, Item, Let, Loop, Scalar, fold
from pypto.ir.types import int32

MIN_COLUMNS: Final = 8  # with fewer, each stage keeps its own loop
LAST_COLUMNS: Final = 2  # that are computed while the second stage's result leaves L0C


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
    with_panels = column_count - LAST_COLUMNS
    bounds = (
        panels_per_column(number.name, column, with_panels),
        panels_per_column(number.name, fold("+", column, 1), with_panels),
    )
    inner = replace(panels, start=bounds[0], stop=bounds[1])
    scores = replace(first, body=columns.body)
    last = Expr("==", (columns.name, fold("*", with_panels - 1, columns.step)))
    at_last = replace(second, name=f"{second.name}_at", stop=Expr("i32", (last,)), body=after)
    result = replace(second, body=(at_last,))
    return (
        *first.body[:-1],
        *between,
        *definitions,
        If(has_second, tuple(waits), (), second.line),
        number,
        replace(columns, body=(scores, inner, result)),
    )


def panels_per_column(panel_count: str, columns: Scalar, column_count: int) -> Scalar:
    """Return the number of panels that come with so many columns: all of them with `column_count` and more."""
    return Expr("i32", (fold("min", panel_count, fold("//", fold("*", columns, panel_count), column_count)),))
