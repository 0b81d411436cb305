"""Double buffering: a loop copies the next tile while it works on the present one.

Each buffer on either side of a copy from or to an array gets two stages, and iteration i uses stage i % 2. That pays in
every loop that loads or stores, at the price of twice the memory. It is legal because each loop that is double buffered
holds all uses of the buffer; a later fallback to one stage stays possible (see `allocate`).

    x_ub = UB(float32, ND, 2048)                       x_ub = UB(float32, ND, 2048, stages=2)
    for i in range(block, tiles, blocks):        ->    for i in range(block, tiles, blocks):
        DataCopy(x_ub[0], x[i * 2048], ...)                DataCopy(x_ub[i // blocks % 2, 0], x[i * 2048], ...)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pypto.backends.ascend.blockir.effects import all_views, condition_of
from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    Expr,
    Instr,
    Item,
    Loop,
    Param,
    Scalar,
    View,
    fold,
    parts,
)
from pypto.backends.ascend.blockir.rewrite import mapped

STAGES = 2


def double_buffer(kernel: BlockKernel, workspace_loads: bool = False) -> BlockKernel:
    """Give two stages to each buffer that a loop copies.

    With `workspace_loads`, only buffers that are loaded from the workspace get them.
    """
    innermost_loops = enclosing_loops(kernel.body, None)
    copied = {b.name for instr in kernel.instructions() for b in copied_buffers(instr, workspace_loads) if not b.ahead}
    loop_of_buffer = {name: loop for name, loop in innermost_loops.items() if name in copied and loop is not None}
    buffers = {b.name: replace(b, stages=STAGES) if b.name in loop_of_buffer else b for b in kernel.buffers}

    def change(view: View) -> View:
        if not isinstance(view.of, Buffer) or view.of.name not in loop_of_buffer:
            return view
        return replace(view, of=buffers[view.of.name], stage=stage_of(loop_of_buffer[view.of.name]))

    return replace(kernel, buffers=tuple(buffers.values()), body=mapped(kernel.body, change))


def stage_of(loop: Loop) -> Scalar:
    """Return the stage in which an iteration of a loop works."""
    distance = loop.name if loop.start in (0, "block") else fold("-", loop.name, loop.start)
    return Expr("%", (fold("//", distance, loop.step), STAGES))


def enclosing_loops(items: tuple[Item, ...], outer: Loop | None) -> dict[str, Loop | None]:
    """Map each buffer to the innermost loop that holds all of its uses."""
    loops: dict[str, Loop | None] = {}
    for item in items:
        item_loops: dict[str, Loop | None] = {}
        inner = item if isinstance(item, Loop) and condition_of(item) is None else outer
        for part in parts(item):
            merge_loops(item_loops, enclosing_loops(part, inner), inner)
        merge_loops(item_loops, {view.of.name: outer for view in all_views(item) if isinstance(view.of, Buffer)}, outer)
        merge_loops(loops, item_loops, outer)
    return loops


def merge_loops(loops: dict[str, Loop | None], more: dict[str, Loop | None], outer: Loop | None) -> None:
    """Add loops of buffers; a buffer with two different ones belongs to the loop around both."""
    for name, loop in more.items():
        loops[name] = loop if loops.get(name, loop) is loop else outer


def copied_buffers(instr: Instr, workspace_loads: bool = False) -> Iterator[Buffer]:
    """Yield the buffers that an instruction copies from or to an array.

    With `workspace_loads`, only those that it loads from the workspace.
    """
    views = [a for a in instr.args if isinstance(a, View)]
    arrays = [v.of for v in (views[1:] if workspace_loads else views) if isinstance(v.of, Param)]
    if instr.name.startswith("DataCopy") and any(not workspace_loads or array.place is not None for array in arrays):
        yield from (v.of for v in views if isinstance(v.of, Buffer))
