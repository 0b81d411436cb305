"""Shape of a copy in global memory: its rows, their length and their pitch."""

from __future__ import annotations

from typing import Any

from pypto.backends.ascend.blockir.effects import views
from pypto.backends.ascend.blockir.ir import Instr, Record, View

BLOCK: int = 32  # bytes that addresses of a core's memories count in


def memory_view(instr: Instr) -> View | None:
    """The view of a copy that is in GM; None for other instructions."""
    if not instr.name.startswith(("DataCopy", "Fixpipe")):
        return None
    return next((view for view in views(instr)[:2] if view.space == "GM"), None)


def rows_of(instr: Instr, numbers: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """The number of rows, the bytes of each, and the pitch in GM, of a copy with known arguments.

    The numbers may be arrays, with an element for each core.
    """
    view = memory_view(instr)
    assert view is not None
    size = view.elem.itemsize
    position = next((n for n, x in enumerate(instr.args) if isinstance(x, Record)), None)
    if position is None:
        run = numbers[-1] * size
        return 1, run, run
    fields = [0 if f is None else f for f in numbers[position]]
    if instr.name == "Fixpipe":
        return fields[1], fields[0] * size, fields[3] * size
    if instr.name == "DataCopyPad":
        gap = fields[2] if views(instr)[1] is view else fields[3]
        return fields[0], fields[1], fields[1] + gap
    if len(fields) == 8:  # rows and columns, to fractals
        return fields[1], fields[2] * size, fields[4] * size
    gap = fields[2] if views(instr)[1] is view else fields[3]
    return fields[0], fields[1] * BLOCK, (fields[1] + gap) * BLOCK
