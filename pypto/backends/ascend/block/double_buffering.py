"""Two buffers in turns where a loop loads or stores: one is copied while the other is worked on."""

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


def double_buffer(kernel: BlockKernel, loads: bool = False) -> BlockKernel:
    """The kernel with two stages for each buffer that a loop moves data through, or for `loads` of the workspace."""
    homes = enclosing_loops(kernel.body, None)
    moving = {b.name for instr in kernel.instructions() for b in moved_by(instr, loads) if not b.ahead}
    staged = {name: loop for name, loop in homes.items() if name in moving and loop is not None}
    buffers = {b.name: replace(b, stages=STAGES) if b.name in staged else b for b in kernel.buffers}

    def change(view: View) -> View:
        if not isinstance(view.of, Buffer) or view.of.name not in staged:
            return view
        return replace(view, of=buffers[view.of.name], stage=stage_of(staged[view.of.name]))

    return replace(kernel, buffers=tuple(buffers.values()), body=mapped(kernel.body, change))


def stage_of(loop: Loop) -> Scalar:
    """Which of the stages an iteration works in."""
    first = loop.name if loop.start in (0, "block") else fold("-", loop.name, loop.start)
    return Expr("%", (fold("//", first, loop.step), STAGES))


def enclosing_loops(items: tuple[Item, ...], around: Loop | None) -> dict[str, Loop | None]:
    """For each buffer the innermost loop that holds all of its touches."""
    found: dict[str, Loop | None] = {}
    for item in items:
        here: dict[str, Loop | None] = {}
        within = item if isinstance(item, Loop) and condition_of(item) is None else around
        for part in parts(item):
            merge_loops(here, enclosing_loops(part, within), within)
        merge_loops(here, {view.of.name: around for view in all_views(item) if isinstance(view.of, Buffer)}, around)
        merge_loops(found, here, around)
    return found


def merge_loops(found: dict[str, Loop | None], more: dict[str, Loop | None], around: Loop | None) -> None:
    """Two loops that both touch a buffer share the one around them."""
    for name, loop in more.items():
        found[name] = loop if found.get(name, loop) is loop else around


def moved_by(instr: Instr, loads: bool = False) -> Iterator[Buffer]:
    """Buffers on one side of a copy whose other side is an array, with `loads` one in the workspace to copy from."""
    views = [a for a in instr.args if isinstance(a, View)]
    arrays = [v.of for v in (views[1:] if loads else views) if isinstance(v.of, Param)]
    if instr.name.startswith("DataCopy") and any(not loads or array.place is not None for array in arrays):
        yield from (v.of for v in views if isinstance(v.of, Buffer))
