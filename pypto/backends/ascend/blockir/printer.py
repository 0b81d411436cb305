"""Printer of Block IR: its text in Python's syntax, one item a line, which `parser` reads.

`blockir.ir` has an example. Further forms: ``a.uint16[4]`` is a view as another dtype, ``GetValue(a[4])`` a number in
memory. ``with test:`` at the begin of a loop holds the items that compute its condition. ``with cube:`` and
``with vector:`` are the parts of a mixed kernel.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.effects import all_views, items_of
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
    Param,
    Read,
    Record,
    Scalar,
    View,
    While,
    Word,
)
from pypto.backends.ascend.blockir.reserved import symbol
from pypto.backends.ascend.target import PLAIN
from pypto.ir.types import int64

BINARY: Final = MappingProxyType({
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "&": ast.BitAnd,
    "|": ast.BitOr, "^": ast.BitXor, "<<": ast.LShift, ">>": ast.RShift,
})  # fmt: skip
COMPARE: Final = MappingProxyType(
    {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq}
)
LOGIC: Final = MappingProxyType({"&&": ast.And, "||": ast.Or})


def listing(kernel: BlockKernel) -> str:
    """The text of a kernel, which `parse` reads back."""
    types = (f"GM[{p.dtype.public}, {PLAIN}]" if p.is_array else p.dtype.public for p in kernel.params)
    params = ", ".join(f"{spelled(p.name)}: {kind}" for p, kind in zip(kernel.params, types, strict=True))
    lines = [*_facts(kernel), f"def {spelled(symbol(kernel.name))}({params}) -> {kernel.kind}:"]
    lines += [f"    {_buffer(b)}" for b in kernel.buffers]
    lines += [f"    {spelled(p.name)} = GM({p.dtype.public}, {PLAIN}, at={p.place})" for p in _shared(kernel)]
    if kernel.cube_body:
        lines += ["    with cube:", *_block(kernel.cube_body, 2), "    with vector:", *_block(kernel.body, 2)]
    else:
        lines += _block(kernel.body, 1)
    return "\n".join([*lines, ""])


def _facts(kernel: BlockKernel) -> Iterator[str]:
    """The attributes of a kernel that differ from their defaults."""
    facts = []
    if kernel.name != spelled(symbol(kernel.name)):
        facts.append(f"name={kernel.name!r}")
    if kernel.file:
        facts.append(f"file={kernel.file!r}")
    if kernel.workspace:
        facts.append(f"workspace={kernel.workspace}")
    if not kernel.noalias:
        facts.append("noalias=False")
    if kernel.streams:
        facts.append(f"streams={kernel.streams}, streams_from={kernel.streams_from}")
    if kernel.one_core:
        facts.append("one_core=True")
    if kernel.slots:
        slots = ", ".join(str((s.kind, s.arg, s.dim, s.dtype.public)) for s in kernel.slots)
        facts.append(f"slots=[{slots}]")
    if facts:
        yield f"@kernel({', '.join(facts)})"


def _buffer(b: Buffer) -> str:
    place = "" if b.address is None else f", at={b.address}"
    stages = f", stages={b.stages}" if b.stages != 1 else ""
    return f"{spelled(b.name)} = {b.space}({b.dtype.public}, {b.layout}, {b.elements}{place}{stages})"


def _shared(kernel: BlockKernel) -> list[Param]:
    """The arrays in the workspace."""
    touched = (view.of for item in items_of(kernel.cube_body + kernel.body) for view in all_views(item))
    return list(dict.fromkeys(p for p in touched if isinstance(p, Param) and p.place is not None))


def _block(items: tuple[Item, ...], depth: int) -> list[str]:
    lines = [line for item in items for line in _item(item, depth)]
    return lines or ["    " * depth + "pass"]


def _item(item: Item, depth: int) -> Iterator[str]:
    begin, note = "    " * depth, f"  # {item.line}" if item.line else ""
    match item:
        case Instr():
            yield f"{begin}{item.name}({', '.join(map(_argument, item.args))}){note}"
        case Let():
            yield f"{begin}{spelled(item.name)}: {item.dtype.public} = {text(item.value)}{note}"
        case Assign():
            yield f"{begin}{spelled(item.name)} = {text(item.value)}{note}"
        case Loop():
            bounds = ", ".join(text(x) for x in (item.start, item.stop, item.step))
            dtype = "" if item.dtype == int64 else f", {item.dtype.public}"
            yield f"{begin}for {spelled(item.name)} in range({bounds}{dtype}):{note}"
            yield from _block(item.body, depth + 1)
        case While():
            yield f"{begin}while {text(item.condition)}:{note}"
            if item.test:
                yield f"{begin}    with test:"
                yield from _block(item.test, depth + 2)
            yield from _block(item.body, depth + 1)
        case If():
            yield f"{begin}if {text(item.condition)}:{note}"
            yield from _block(item.body, depth + 1)
            if item.orelse:
                yield f"{begin}else:"
                yield from _block(item.orelse, depth + 1)


def spelled(name: str) -> str:
    """A name as Python takes it: keywords get an underscore at the end."""
    return f"{name}_" if keyword.iskeyword(name.rstrip("_")) else name


def text(value: Scalar) -> str:
    """A number as Python writes it."""
    return ast.unparse(_tree(value))


def _argument(value: Argument) -> str:
    if isinstance(value, View):
        return ast.unparse(_view(value))
    if isinstance(value, Word):
        return repr(value.text)
    if isinstance(value, Record):
        fields = ", ".join(map(_argument, value.fields))
        return f"({fields},)" if len(value.fields) == 1 else f"({fields})"
    return text(value)


def _view(view: View) -> ast.expr:
    base: ast.expr = ast.Name(spelled(view.of.name))
    if view.dtype is not None:
        base = ast.Attribute(base, view.dtype.public)
    staged = isinstance(view.of, Buffer) and view.of.stages > 1
    at = _tree(view.offset)
    return ast.Subscript(base, ast.Tuple([_tree(view.stage), at]) if staged else at)


def _tree(value: Scalar) -> ast.expr:
    if isinstance(value, str):
        return ast.Name(spelled(value))
    if isinstance(value, Read):
        return _call("GetValue", _view(value.view))
    if isinstance(value, Expr):
        return _operation(value.op, [_tree(x) for x in value.args])
    if isinstance(value, float) and not math.isfinite(value):
        return _call("float", ast.Constant(str(value)))
    return ast.Constant(value)


def _operation(op: str, args: list[ast.expr]) -> ast.expr:
    if op in BINARY:
        return ast.BinOp(args[0], BINARY[op](), args[1])
    if op in COMPARE:
        return ast.Compare(args[0], [COMPARE[op]()], [args[1]])
    if op in LOGIC:
        return ast.BoolOp(LOGIC[op](), args)
    if op == "not":
        return ast.UnaryOp(ast.Not(), args[0])
    return ast.IfExp(args[0], args[1], args[2]) if op == "?:" else _call(op, *args)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name), list(args), [])
