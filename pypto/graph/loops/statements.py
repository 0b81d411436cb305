"""Assignments of a loop, and the branches that choose between them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.graph.loops import masks
from pypto.graph.loops.arrays import View
from pypto.graph.loops.expressions import BINARY, Expressions, is_array
from pypto.graph.loops.masks import Masked
from pypto.graph.loops.numbers import Linear, NotCompiled, Number, joined
from pypto.graph.loops.store import copied, store
from pypto.graph.loops.writer import Writer

Env = dict[str, Any]


@dataclass(slots=True)
class Exit:
    """A place where an iteration ends: its line in the kernel, and the variables at that place."""

    at: int
    depth: int
    env: Env


@dataclass(slots=True)
class LoopState:
    """A loop that is written: its variables of the kernel, and the places where its iterations end."""

    exits: list[Exit] = field(default_factory=list)

    def moved(self, at: int, count: int) -> None:
        """Move the ends behind lines that are inserted."""
        for end in self.exits:
            end.at += count if end.at > at else 0


class Statements(Expressions):
    """Writes the statements of a function's loop.

    Parameters
    ----------
    function : ast.FunctionDef
        The function that has the loop.
    """

    def __init__(self, w: Writer, env: Env, outer: Any, enter: Any, function: ast.FunctionDef) -> None:
        super().__init__(w, env, outer, enter)
        self.function = function
        self.loops: list[LoopState] = []
        self.is_dead = False  # whether control does not reach the next statement

    def run(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if self.is_dead:
                return
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        self.w.at(node)
        handler = getattr(self, f"do_{type(node).__name__}", None)
        if handler is None:
            raise NotCompiled(f"`{ast.unparse(node).splitlines()[0]}`", node.lineno)
        try:
            handler(node)
        except NotCompiled as error:
            raise error.at(node.lineno) from None

    # --- assignments -------------------------------------------------------------------------------------------------

    def do_Pass(self, node: ast.Pass) -> None:
        """Do nothing."""

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.eval(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        if len(node.targets) > 1 and is_array(value):
            value = copied(self.w, value) if not isinstance(value, View) else value
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            old: Any = self.on_Name(node.target)
            target: Any = old if is_array(old) else None
        elif isinstance(node.target, ast.Subscript):
            target = self.target(node.target)
            old = self.loaded(target)
        else:
            raise NotCompiled(f"`{ast.unparse(node)}`")
        right = self.eval(node.value)
        if isinstance(node.op, ast.MatMult):
            raise NotCompiled(f"`{ast.unparse(node)}`")
        value = self.apply(BINARY[type(node.op)], old, right)
        if target is None:
            self.bind(node.target.id, value)  # type: ignore[union-attr]
            return
        if not isinstance(target, View | Masked):
            raise NotCompiled(f"`{ast.unparse(node)}`")
        if not isinstance(value, Number) and not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise NotCompiled(f"{value.dtype} is not stored in {target.dtype} in place")
        self.put(target, value)

    def put(self, target: View | Masked, value: Any) -> None:
        """Store a value into a part of an array."""
        self.w.common.clear()
        if isinstance(target, Masked):
            masks.assigned(self.w, target.source, target.mask, value)
        else:
            store(self.w, target, value)

    def target(self, node: ast.Subscript) -> View | Masked:
        """Return the part of an array that an assignment replaces."""
        owner = self.eval(node.value)
        part = self.part(owner, node.slice) if isinstance(owner, View) else None
        if not isinstance(part, View | Masked):
            raise NotCompiled(f"a store to `{ast.unparse(node)}`")
        return part

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Subscript):
            part = self.target(target)
            if not (isinstance(value, Number | Masked) or is_array(value)):
                raise NotCompiled(f"a store to `{ast.unparse(target)}`")
            self.put(part, value)
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, tuple) and len(value) == len(target.elts):
            rows = [self.w.stored(x) if isinstance(x, Number) else x for x in value]
            for each, x in zip(target.elts, rows, strict=True):
                self.assign(each, x)
        else:
            raise NotCompiled(f"`{ast.unparse(target)}` as a target")

    def bind(self, name: str, value: Any) -> None:
        """Bind a name to a value; an expression on arrays is computed now."""
        if isinstance(value, Number):
            value = value if value.is_known else self.w.stored(value, name)
        elif isinstance(value, tuple):
            value = tuple(self.w.stored(x) if isinstance(x, Number) else x for x in value)
        elif is_array(value) and not isinstance(value, View):
            value = copied(self.w, value)
        self.env[name] = value

    # --- branches ----------------------------------------------------------------------------------------------------

    def do_If(self, node: ast.If) -> None:
        condition = self.truth(self.eval(node.test))
        if condition.is_known:
            self.run(node.body if condition.value else node.orelse)
            return
        condition = self.w.stored(condition)
        before = dict(self.env)
        ends = []
        with self.w.block(f"if {condition.text}:"):
            self.assume(node.test, True)
            self.run(node.body)
            ends.append(self.arrive())
        self.env = dict(before)
        with self.w.block("else:"):
            self.assume(node.test, False)
            self.run(node.orelse)
            ends.append(self.arrive())
        self.is_dead = all(end is None for end in ends)
        live = [end for end in ends if end is not None]
        self.env = self.merged(live) if len(live) == 2 else (live[0].env if live else before)

    def arrive(self) -> Exit | None:
        """Return the end of a branch, or None if control leaves it before."""
        end = None if self.is_dead else Exit(len(self.w.lines), self.w.depth, dict(self.env))
        self.is_dead = False
        return end

    def merged(self, ends: Sequence[Exit]) -> Env:
        """Return the variables after two branches, and write an assignment into each for those that differ."""
        first, second = (end.env for end in ends)
        env: Env = {}
        added: list[tuple[str, list[str]]] = []
        for name in [n for n in first if n in second]:
            a, b = first[name], second[name]
            if a is b or a == b:
                env[name] = a
            elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
                env[name] = tuple(self.either(x, y, added) for x, y in zip(a, b, strict=True))
            elif isinstance(a, Number) and isinstance(b, Number):
                env[name] = self.either(a, b, added)
        for number in (1, 0):
            lines = [f"{name} = {texts[number]}" for name, texts in added]
            self.insert(ends[number].at, ends[number].depth, lines)
        return env

    def either(self, a: Any, b: Any, added: list[tuple[str, list[str]]]) -> Any:
        if a == b:
            return a
        if not (isinstance(a, Number) and isinstance(b, Number)):
            raise NotCompiled("a variable is one of two arrays")
        kind, name = joined(a, b), self.w.new("v")
        added.append((name, [self.w.typed(x, kind) for x in (a, b)]))
        return variable(self.w, name, kind)

    def insert(self, at: int, depth: int, lines: Sequence[str]) -> None:
        """Insert lines before a line of the kernel, and move the ends of iterations behind it."""
        self.w.insert(at, depth, lines)
        for state in self.loops:
            state.moved(at, len(lines))

    def assume(self, test: ast.expr, answer: bool) -> None:
        """Tighten the bounds of symbols by a condition that holds, or that does not."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is answer:
            for each in test.values:
                self.assume(each, answer)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.assume(test.operand, not answer)
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
            return
        count = len(self.w.lines)
        left, right = self.eval(test.left), self.eval(test.comparators[0])
        del self.w.lines[count:]
        self.w.common.clear()
        a, b = (x.linear if isinstance(x, Number) else None for x in (left, right))
        if a is None or b is None:
            return
        op: Any = type(test.ops[0])
        below = {ast.Lt: (a, b, 1), ast.LtE: (a, b, 0), ast.Gt: (b, a, 1), ast.GtE: (b, a, 0)}
        otherwise = {ast.Lt: (b, a, 0), ast.LtE: (b, a, 1), ast.Gt: (a, b, 0), ast.GtE: (a, b, 1)}
        fact = (below if answer else otherwise).get(op)
        if fact is not None:
            self.w.refine(fact[0].minus(fact[1]).plus(Linear({}, fact[2])))
        elif (op is ast.Eq) is answer and op in (ast.Eq, ast.NotEq):
            self.w.refine(a.minus(b))
            self.w.refine(b.minus(a))


def variable(w: Writer, name: str, kind: Any) -> Number:
    """Return the number that a variable of the kernel holds; nothing is known of its value."""
    return Number(name, kind, Linear.symbol(name) if kind is int else None)
