"""Parser of Block IR: a kernel from the text that `printer` writes."""

from __future__ import annotations

import ast
import io
import keyword
import math
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
from pypto.backends.ascend.blockir.printer import BINARY, COMPARE, LOGIC
from pypto.backends.ascend.target import PLAIN, TARGETS
from pypto.backends.base import Slot
from pypto.errors import PyptoError
from pypto.ir.types import DType, int64, named

SPACES = frozenset(space for target in TARGETS.values() for space in target.memories)
_OPERATORS: Mapping[type, str] = {made: op for table in (BINARY, COMPARE, LOGIC) for op, made in table.items()}


class ListingError(PyptoError, ValueError):
    """A text is no listing of Block IR."""


def meant(name: str) -> str:
    """The name that `printer.spelled` wrote."""
    return name.removesuffix("_") if keyword.iskeyword(name.rstrip("_")) else name


@dataclass
class Parser:
    """Reads one kernel. `lines` are the user's, by the line of the text that they stand in."""

    lines: Mapping[int, int]
    places: dict[str, Buffer | Param] = field(default_factory=dict)

    def wrong(self, node: ast.AST, wanted: str) -> ListingError:
        line = getattr(node, "lineno", 0)
        return ListingError(f"line {line}: `{ast.unparse(node).splitlines()[0]}` is no {wanted}")

    # --- items ----------------------------------------------------------------------------------------------------

    def items(self, body: list[ast.stmt]) -> tuple[Item, ...]:
        return tuple(self.item(node) for node in body if not isinstance(node, ast.Pass))

    def item(self, node: ast.stmt) -> Item:
        line = self.lines.get(node.lineno, 0)
        match node:
            case ast.Expr(ast.Call(ast.Name(name), args)):
                return Instr(name, tuple(self.argument(x) for x in args), line)
            case ast.AnnAssign(ast.Name(name), kind, ast.expr() as value):
                return Let(meant(name), self.dtype(kind), self.number(value), line)
            case ast.Assign([ast.Name(name)], value):
                return Assign(meant(name), self.number(value), line)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [start, stop, step, *dtype]), body):
                first, last, by = (self.number(x) for x in (start, stop, step))
                return Loop(
                    meant(name), first, last, by, self.items(body), line, self.dtype(dtype[0]) if dtype else int64
                )
            case ast.While(condition, [ast.With([ast.withitem(ast.Name("test"))], test), *body]):
                return While(self.items(test), self.number(condition), self.items(body), line)
            case ast.While(condition, body):
                return While((), self.number(condition), self.items(body), line)
            case ast.If(condition, body, orelse):
                return If(self.number(condition), self.items(body), self.items(orelse), line)
        raise self.wrong(node, "item of Block IR")

    # --- operands -------------------------------------------------------------------------------------------------

    def argument(self, node: ast.expr) -> Argument:
        match node:
            case ast.Constant(str(text)):
                return Word(text)
            case ast.Tuple(fields):
                return Record(tuple(self.field(x) for x in fields))
            case ast.Subscript():
                return self.view(node)
        return self.number(node)

    def field(self, node: ast.expr) -> Scalar | Word:
        return Word(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str) else self.number(node)

    def view(self, node: ast.expr) -> View:
        match node:
            case ast.Subscript(ast.Attribute(ast.Name(name), dtype), at):
                return self.place(node, name, at, named(dtype))
            case ast.Subscript(ast.Name(name), at):
                return self.place(node, name, at, None)
        raise self.wrong(node, "view of a buffer or an array")

    def place(self, node: ast.expr, name: str, at: ast.expr, dtype: DType | None) -> View:
        name = meant(name)
        if name not in self.places:
            raise self.wrong(node, "view of a buffer or an array")
        if isinstance(at, ast.Tuple):
            stage, offset = (self.number(x) for x in at.elts)
            return View(self.places[name], offset, stage, dtype)
        return View(self.places[name], self.number(at), 0, dtype)

    def number(self, node: ast.expr) -> Scalar:
        match node:
            case ast.Constant(bool() | int() | float() as value):
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return -value
            case ast.Name(name):
                return meant(name)
            case ast.Call(ast.Name("GetValue"), [view]):
                return Read(self.view(view))
            case ast.Call(ast.Name("float"), [ast.Constant(str(text))]):
                return math.nan if text == "nan" else float(text)  # one that equals itself in tuples
            case ast.Call(ast.Name(name), args):
                return Expr(name, tuple(self.number(x) for x in args))
        return self.operation(node)

    def operation(self, node: ast.expr) -> Expr:
        match node:
            case ast.BinOp(a, op, b) | ast.Compare(a, [op], [b]) | ast.BoolOp(op, [a, b]) if type(op) in _OPERATORS:
                return Expr(_OPERATORS[type(op)], (self.number(a), self.number(b)))
            case ast.UnaryOp(ast.Not(), a):
                return Expr("not", (self.number(a),))
            case ast.IfExp(test, a, b):
                return Expr("?:", (self.number(test), self.number(a), self.number(b)))
        raise self.wrong(node, "number of Block IR")

    def dtype(self, node: ast.expr) -> DType:
        found = named(node.id) if isinstance(node, ast.Name) else None
        if found is None:
            raise self.wrong(node, "element type")
        return found

    # --- the kernel -----------------------------------------------------------------------------------------------

    def kernel(self, node: ast.stmt) -> BlockKernel:
        if not isinstance(node, ast.FunctionDef) or not isinstance(node.returns, ast.Name):
            raise self.wrong(node, "kernel")
        params = tuple(self.param(arg) for arg in node.args.args)
        self.places = {p.name: p for p in params if p.is_array}
        body = list(node.body)
        buffers = []
        while body and (buffer := self.buffer(body[0])) is not None:
            buffers.append(buffer)
            body.pop(0)
        self.places |= {b.name: b for b in buffers}
        while body and (shared := self.shared(body[0])) is not None:
            self.places[shared.name] = shared
            body.pop(0)
        parts = self.parts(body)
        facts = {"name": node.name, **self.facts(node)}
        return BlockKernel(facts.pop("name"), node.returns.id, params, tuple(buffers), *parts, **facts)

    def parts(self, body: list[ast.stmt]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
        match body:
            case [
                ast.With([ast.withitem(ast.Name("cube"))], cube),
                ast.With([ast.withitem(ast.Name("vector"))], vector),
            ]:
                return self.items(vector), self.items(cube)
        return self.items(body), ()

    def param(self, arg: ast.arg) -> Param:
        match arg.annotation:
            case ast.Subscript(ast.Name("GM"), ast.Tuple([dtype, ast.Name(layout)])) if layout == PLAIN:
                return Param(meant(arg.arg), self.dtype(dtype), True)
            case ast.expr() as dtype:
                return Param(meant(arg.arg), self.dtype(dtype), False)
        raise self.wrong(arg, "parameter with a type")

    def buffer(self, node: ast.stmt) -> Buffer | None:
        match node:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name(space), args, more)) if space in SPACES:
                match args:
                    case [dtype, ast.Name(layout), ast.Constant(int(size))]:
                        facts = {x.arg: ast.literal_eval(x.value) for x in more}
                        return Buffer(meant(name), space, self.dtype(dtype), size, facts.get("stages", 1),
                                      facts.get("at"), layout=layout)  # fmt: skip
                raise self.wrong(node, "buffer with a type, a layout and a number of elements")
        return None

    def shared(self, node: ast.stmt) -> Param | None:
        """An array in the workspace."""
        match node:
            case ast.Assign(
                [ast.Name(name)],
                ast.Call(ast.Name("GM"), [dtype, ast.Name(layout)], [ast.keyword("at", ast.Constant(at))]),
            ) if layout == PLAIN:
                return Param(meant(name), self.dtype(dtype), True, int(str(at)))
        return None

    def facts(self, node: ast.FunctionDef) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                raise self.wrong(decorator, "list of a kernel's facts")
            found |= {str(x.arg): ast.literal_eval(x.value) for x in decorator.keywords}
        if "slots" in found:
            found["slots"] = tuple(Slot(kind, arg, dim, DType(name)) for kind, arg, dim, name in found["slots"])
        return found


def parse(text: str) -> BlockKernel:
    """The kernel of a listing.

    Raises
    ------
    ListingError
        When the text is no listing, with the line.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ListingError(f"line {error.lineno}: {error.msg}") from None
    if len(tree.body) != 1:
        raise ListingError(f"a listing is one kernel, not {len(tree.body)}")
    return Parser(_lines(text)).kernel(tree.body[0])


def _lines(text: str) -> dict[int, int]:
    """The user's lines, from the comments at the ends of lines."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    notes = ((t.start[0], t.string.lstrip("# ")) for t in tokens if t.type == tokenize.COMMENT)
    return {at: int(note) for at, note in notes if note.isdigit()}
