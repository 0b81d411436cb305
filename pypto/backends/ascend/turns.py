"""A name for whose turn it is: the stage of a loop's buffers and events, computed once in an iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pypto.backends.ascend.blockir import (
    BlockKernel,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Scalar,
    View,
    While,
)
from pypto.backends.ascend.facts import all_views, items_of, names_in
from pypto.backends.ascend.rewrite import mapped
from pypto.ir.types import uint32

EVENTS = ("SetFlag", "WaitFlag")


def with_turns(kernel: BlockKernel) -> BlockKernel:
    """The kernel with a `Let` for every stage that a loop uses more than once."""
    taken = {item.name for item in items_of(kernel.body + kernel.cube_body) if isinstance(item, Let | Loop)}
    taken |= {param.name for param in kernel.params} | {buffer.name for buffer in kernel.buffers}
    return replace(kernel, body=_named(kernel.body, taken), cube_body=_named(kernel.cube_body, taken))


def _named(items: tuple[Item, ...], taken: set[str]) -> tuple[Item, ...]:
    return tuple(_inside(item, taken) for item in items)


def _inside(item: Item, taken: set[str]) -> Item:
    match item:
        case Loop():
            return _loop(item, taken)
        case While():
            return replace(item, test=_named(item.test, taken), body=_named(item.body, taken))
        case If():
            return replace(item, body=_named(item.body, taken), orelse=_named(item.orelse, taken))
    return item


def _loop(loop: Loop, taken: set[str]) -> Loop:
    body, lets = loop.body, []
    for stage in stages_of(loop):
        name = next(x for n in range(1, 99) if (x := f"turn{n if n > 1 else ''}") not in taken)
        taken.add(name)
        lets.append(Let(name, uint32, stage))
        body = _replaced(body, stage, name)
    return replace(loop, body=(*lets, *_named(body, taken)))


def stages_of(loop: Loop) -> list[Expr]:
    """Stages that several views or events of a loop share, computed from its own variable and the number of blocks."""
    found: Counter[Expr] = Counter()
    for item in items_of(loop.body):
        found.update(view.stage for view in all_views(item) if isinstance(view.stage, Expr))
        if isinstance(item, Instr) and item.name in EVENTS and isinstance(turn := _turn(item.args[1]), Expr):
            found[turn] += 1
    return [
        stage
        for stage, times in found.items()
        if times > 1 and loop.name in (used := set(names_in(stage))) and used <= {loop.name, "blocks"}
    ]


def _turn(number: object) -> object:
    """The stage in the number of an event."""
    shifted = isinstance(number, Expr) and number.op == "+" and isinstance(number.args[1], int)
    return number.args[0] if isinstance(number, Expr) and shifted else number


def _replaced(items: tuple[Item, ...], stage: Expr, name: str) -> tuple[Item, ...]:
    """Items with a name in a stage's place, also within events' numbers."""

    def number(value: Scalar) -> Scalar:
        if value == stage:
            return name
        return Expr(value.op, tuple(number(x) for x in value.args)) if isinstance(value, Expr) else value

    def event(item: Item) -> Item:
        if isinstance(item, Instr) and item.name in EVENTS and isinstance(item.args[1], Expr):
            return replace(item, args=(item.args[0], number(item.args[1])))
        return item

    def change(view: View) -> View:
        return replace(view, stage=number(view.stage))

    return _everywhere(mapped(items, change), event)


def _everywhere(items: tuple[Item, ...], change: Callable[[Item], Item]) -> tuple[Item, ...]:
    return tuple(change(_within(item, change)) for item in items)


def _within(item: Item, change: Callable[[Item], Item]) -> Item:
    match item:
        case Loop():
            return replace(item, body=_everywhere(item.body, change))
        case While():
            return replace(item, test=_everywhere(item.test, change), body=_everywhere(item.body, change))
        case If():
            return replace(item, body=_everywhere(item.body, change), orelse=_everywhere(item.orelse, change))
    return item
