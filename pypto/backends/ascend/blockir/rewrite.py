"""Rewrites of Block IR: views with other buffers, and the removal of dead numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pypto.backends.ascend.blockir.effects import live_names
from pypto.backends.ascend.blockir.ir import (
    Argument,
    Assign,
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Read,
    Record,
    Scalar,
    View,
    While,
    Word,
)


def with_buffers(kernel: BlockKernel, buffers: Mapping[str, Buffer]) -> BlockKernel:
    """The kernel with its buffers replaced by others of the same names, in every view."""
    return replace(
        kernel,
        buffers=tuple(buffers.get(b.name, b) for b in kernel.buffers),
        body=mapped(kernel.body, lambda view: _moved(view, buffers)),
        cube_body=mapped(kernel.cube_body, lambda view: _moved(view, buffers)),
    )


def _moved(view: View, buffers: Mapping[str, Buffer]) -> View:
    return replace(view, of=buffers.get(view.of.name, view.of)) if isinstance(view.of, Buffer) else view


def without_dead(kernel: BlockKernel) -> BlockKernel:
    """Dead code elimination of numbers: the kernel without those that nothing reads."""
    live = live_names(kernel.body + kernel.cube_body)
    return replace(kernel, body=_living(kernel.body, live), cube_body=_living(kernel.cube_body, live))


def _living(items: tuple[Item, ...], live: frozenset[str]) -> tuple[Item, ...]:
    """The items without definitions of dead names."""
    needed = (x for x in items if not (isinstance(x, Let | Assign) and x.name not in live))
    return tuple(inside(x, lambda within: _living(within, live)) for x in needed)


def inside(item: Item, change: Callable[[tuple[Item, ...]], tuple[Item, ...]]) -> Item:
    """An item with each of its nested sequences of items mapped."""
    match item:
        case Loop():
            return replace(item, body=change(item.body))
        case While():
            return replace(item, test=change(item.test), body=change(item.body))
        case If():
            return replace(item, body=change(item.body), orelse=change(item.orelse))
    return item


def mapped(items: tuple[Item, ...], change: Callable[[View], View]) -> tuple[Item, ...]:
    """Items with every view mapped."""
    return tuple(_item(item, change) for item in items)


def _item(item: Item, change: Callable[[View], View]) -> Item:
    def number(value: Scalar) -> Scalar:
        return _scalar(value, change)

    match item:
        case Instr():
            return replace(item, args=tuple(_argument(x, change) for x in item.args))
        case Let() | Assign():
            return replace(item, value=number(item.value))
        case Loop():
            start, stop, step = number(item.start), number(item.stop), number(item.step)
            return replace(item, start=start, stop=stop, step=step, body=mapped(item.body, change))
        case While():
            test, body = mapped(item.test, change), mapped(item.body, change)
            return replace(item, test=test, condition=number(item.condition), body=body)
        case If():
            body, orelse = mapped(item.body, change), mapped(item.orelse, change)
            return replace(item, condition=number(item.condition), body=body, orelse=orelse)


def _argument(value: Argument, change: Callable[[View], View]) -> Argument:
    if isinstance(value, View):
        return _view(value, change)
    if isinstance(value, Word):
        return value
    if isinstance(value, Record):
        return Record(tuple(x if isinstance(x, Word) else _scalar(x, change) for x in value.fields))
    return _scalar(value, change)


def _view(view: View, change: Callable[[View], View]) -> View:
    return change(replace(view, offset=_scalar(view.offset, change), stage=_scalar(view.stage, change)))


def _scalar(value: Scalar, change: Callable[[View], View]) -> Scalar:
    if isinstance(value, Expr):
        return Expr(value.op, tuple(_scalar(x, change) for x in value.args))
    return Read(_view(value.view, change)) if isinstance(value, Read) else value
