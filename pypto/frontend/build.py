"""From a Python function to Tile IR."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.frontend import TooDeep
from pypto.frontend import assign, calls, expressions, flow, loops, operators, subscripts
from pypto.frontend.scope import Binding, Scope, Session, Tables
from pypto.frontend.source import KernelSource
from pypto.frontend.spec import ArgSpec, ArraySpec, Built, ConstSpec, Facts
from pypto.frontend.values import captured
from pypto.ir.core import Function, Region, Value
from pypto.ir.types import ArrayType, TileType
from pypto.ops.build import OpBuilder

# fmt: off
EXPRESSIONS: Final[Mapping[type[ast.AST], Any]] = MappingProxyType({
    ast.Constant: expressions.run_constant, ast.Name: expressions.run_name, ast.Tuple: expressions.run_tuple,
    ast.List: expressions.run_tuple, ast.Attribute: expressions.run_attribute, ast.JoinedStr: expressions.run_fstring,
    ast.FormattedValue: expressions.run_formatted, ast.BinOp: operators.run_binary, ast.UnaryOp: operators.run_unary,
    ast.Compare: operators.run_compare, ast.BoolOp: operators.run_bool, ast.IfExp: operators.run_ternary,
    ast.Subscript: subscripts.run_subscript, ast.Slice: subscripts.run_slice, ast.Call: calls.run_call,
    ast.Lambda: calls.run_lambda, ast.NamedExpr: assign.run_walrus,
})
STATEMENTS: Final[Mapping[type[ast.AST], Any]] = MappingProxyType({
    ast.Assign: assign.run_assign, ast.AnnAssign: assign.run_annotated, ast.AugAssign: assign.run_augmented,
    ast.Expr: assign.run_expression, ast.Delete: assign.run_delete, ast.FunctionDef: assign.run_def,
    ast.If: flow.run_if, ast.For: loops.run_for, ast.While: loops.run_while, ast.Break: flow.leave(".break"),
    ast.Continue: flow.leave(".continue"), ast.Return: flow.run_return, ast.Assert: flow.run_assert,
    ast.Pass: lambda scope, node: None,
})
# fmt: on
_OUTSIDE = "do it outside of the kernel"
# What other syntax is called, and what to write instead.
# fmt: off
WAYS: Final[Mapping[type[ast.AST], tuple[str, str]]] = MappingProxyType({
    ast.Dict: ("a dict", "use a tuple"), ast.Set: ("a set", "use a tuple"),
    ast.ListComp: ("a comprehension", "use a loop over `pto.static_range`"),
    ast.SetComp: ("a comprehension", "use a loop"), ast.DictComp: ("a comprehension", "use a loop"),
    ast.GeneratorExp: ("a generator", "use a loop over `pto.static_range`"), ast.Await: ("`await`", _OUTSIDE),
    ast.Yield: ("`yield`", "return a tuple"), ast.YieldFrom: ("`yield from`", "return a tuple"),
    ast.Starred: ("`*` here", "use it in a call, a tuple or an unpacking"),
    ast.Try: ("`try`", "test with `if` before"), ast.TryStar: ("`try`", "test with `if` before"),
    ast.With: ("`with`", _OUTSIDE), ast.Raise: ("`raise`", "use `assert`"), ast.Import: ("`import`", _OUTSIDE),
    ast.ImportFrom: ("`import`", _OUTSIDE), ast.ClassDef: ("a class", _OUTSIDE),
    ast.Global: ("`global`", "return the value"), ast.Nonlocal: ("`nonlocal`", "return the value"),
    ast.Match: ("`match`", "use `if`"), ast.AsyncFunctionDef: ("`async`", _OUTSIDE),
    ast.AsyncFor: ("`async`", _OUTSIDE), ast.AsyncWith: ("`async`", _OUTSIDE),
})
# fmt: on
TABLES: Final = Tables(EXPRESSIONS, STATEMENTS, WAYS)


def build(
    fn: KernelSource, args: Mapping[str, ArgSpec], facts: Facts, methods: Mapping[str, Any] = MappingProxyType({})
) -> Built:
    """Build a kernel for the given kinds of arguments.

    Parameters
    ----------
    fn : KernelSource
        The kernel.
    args : mapping from str to ArgSpec
        One entry per parameter, in the order of the signature. Constants become no arguments of the function.
    facts : Facts
        Asked for what is known of shapes, strides and integers, when the kernel's meaning or speed depends on it.
    methods : mapping from str to function
        Functions written in the language that tiles have as methods, besides the ops.

    Returns
    -------
    Built
        The function, and the outside values that it was built with.

    Raises
    ------
    Diagnostic
        For every mistake in the kernel, with its place.
    """
    body = Region()
    session = Session(OpBuilder(body), facts, TABLES, methods)
    scope = Scope(session, fn)
    for name, spec in args.items():
        scope.vars[name] = Binding(argument(session, body, name, spec), fn.loc(fn.node))
    session.builder.loc = fn.loc(fn.node)
    try:
        run(scope, fn.node)
    except RecursionError as error:
        if isinstance(error, TooDeep):
            raise
        raise TooDeep(session.builder.loc, limit="Python allows", function=fn.name) from None
    session.builder.op("yield")
    return Built(Function(fn.name, body, {}, fn.loc(fn.node)), tuple(session.captures.values()))


def run(scope: Scope, node: ast.FunctionDef | ast.Lambda) -> None:
    if isinstance(node, ast.Lambda):
        scope.eval(node.body)
    else:
        flow.block(scope, scope.steps(node.body))


def argument(session: Session, body: Region, name: str, spec: ArgSpec) -> Any:
    if isinstance(spec, ConstSpec):
        return captured(name, spec.value, session.builder.loc)
    value = Value(ArrayType(spec.elem, spec.ndim) if isinstance(spec, ArraySpec) else TileType((), spec.dtype), name)
    body.args.append(value)
    session.arguments[value] = name
    return value
