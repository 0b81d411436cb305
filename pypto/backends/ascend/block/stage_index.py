"""A name for whose turn it is: the stage of a loop's buffers and events, computed once in an iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.effects import all_views, assigned, items_of, names_in
from pypto.backends.ascend.blockir.ir import (
    Argument,
    Assign,
    BlockKernel,
    Expr,
    Instr,
    Item,
    Let,
    Loop,
    Scalar,
    View,
)
from pypto.backends.ascend.blockir.rewrite import inside, mapped
from pypto.ir.types import uint32

EVENTS = ("SetFlag", "WaitFlag")


def compute_stage_indices(kernel: BlockKernel) -> BlockKernel:
    """The kernel with a `Let` for every stage that a loop uses more than once."""
    everything = kernel.body + kernel.cube_body
    taken = {item.name for item in items_of(everything) if isinstance(item, Let | Loop)}
    taken |= {param.name for param in kernel.params} | {buffer.name for buffer in kernel.buffers}
    changed = assigned(everything)
    meanings = {x.name: x.value for x in items_of(everything) if isinstance(x, Let) and x.name not in changed}
    turns = StageIndices(taken, meanings)
    return replace(kernel, body=turns.items(kernel.body), cube_body=turns.items(kernel.cube_body))


@dataclass
class StageIndices:
    """`taken` are names in use, `meanings` what those stand for that never change: a stage may be told either way."""

    taken: set[str]
    meanings: dict[str, Scalar]

    def items(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(map(self.item, items))

    def item(self, item: Item) -> Item:
        return self.loop(item) if isinstance(item, Loop) else inside(item, self.items)

    def loop(self, loop: Loop) -> Loop:
        body, lets = loop.body, []
        for stage in self.stages_of(loop):
            name = next(x for n in range(1, 99) if (x := f"turn{n if n > 1 else ''}") not in self.taken)
            self.taken.add(name)
            lets.append(Let(name, uint32, stage))
            body = self.replaced(body, stage, name)
        return replace(loop, body=(*lets, *self.items(body)))

    def stages_of(self, loop: Loop) -> list[Expr]:
        """Stages that several views or events of a loop share, computed from what is known when a round begins."""
        found: dict[Scalar, list[Expr]] = defaultdict(list)
        for item in items_of(loop.body):
            stages: list[Argument] = [view.stage for view in all_views(item)]
            stages += [_turn(item.args[1])] if isinstance(item, Instr) and item.name in EVENTS else []
            for stage in stages:
                if isinstance(stage, Expr):
                    found[self.meaning(stage)].append(stage)
        later = {item.name for item in items_of(loop.body) if isinstance(item, Let | Assign | Loop)}
        shared = (min(same, key=lambda stage: len(str(stage))) for same in found.values() if len(same) > 1)
        return [s for s in shared if loop.name in (used := set(names_in(s))) and used.isdisjoint(later)]

    def meaning(self, value: Scalar) -> Scalar:
        if isinstance(value, str) and value in self.meanings:
            return self.meaning(self.meanings[value])
        return Expr(value.op, tuple(map(self.meaning, value.args))) if isinstance(value, Expr) else value

    def replaced(self, items: tuple[Item, ...], stage: Expr, name: str) -> tuple[Item, ...]:
        """Items with a name in a stage's place, also within events' numbers."""
        meant = self.meaning(stage)

        def number(value: Scalar) -> Scalar:
            if not isinstance(value, Expr):
                return value
            return name if self.meaning(value) == meant else Expr(value.op, tuple(number(x) for x in value.args))

        def event(item: Item) -> Item:
            if isinstance(item, Instr) and item.name in EVENTS and isinstance(item.args[1], Expr):
                return replace(item, args=(item.args[0], number(item.args[1])))
            return item

        def change(view: View) -> View:
            return replace(view, stage=number(view.stage))

        return _everywhere(mapped(items, change), event)


def _turn(number: Argument) -> Argument:
    """The stage in the number of an event."""
    shifted = isinstance(number, Expr) and number.op == "+" and isinstance(number.args[1], int)
    return number.args[0] if isinstance(number, Expr) and shifted else number


def _everywhere(items: tuple[Item, ...], change: Callable[[Item], Item]) -> tuple[Item, ...]:
    return tuple(change(inside(item, lambda within: _everywhere(within, change))) for item in items)
