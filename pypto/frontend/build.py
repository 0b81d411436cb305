"""From a Python function to Tile IR."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.frontend import NotConstant, SliceExtent, TooDeep, UnknownSyntax
from pypto.frontend import assign, calls, expressions, flow, loops, operators
from pypto.frontend.advice import annotated
from pypto.frontend.scope import Binding, Handler, LimitedBuilder, Scope, Session, captured
from pypto.frontend.source import KernelSource
from pypto.frontend.spec import ArgSpec, Built, ConstSpec, Facts
from pypto.frontend.tuples import remade
from pypto.frontend.weak import WeakNumbers
from pypto.ir.core import Function, Region, Value


def display(scope: Scope, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
    """A list display is read as a tuple: nothing in a kernel can change it."""
    return tuple(assign.elements(scope, node.elts))


def refuse(what: str, way: str, scope: Scope, node: ast.AST) -> None:
    raise UnknownSyntax(scope.loc(node), what=what, way=way)


_OUTSIDE = "do it outside of the kernel"
_RAISE = "write `assert condition, 'message'`, which checked mode tests; or test before the launch, and raise there"
# What other syntax is called, and what to write instead.
# fmt: off
REFUSED: Final[Mapping[type[ast.AST], tuple[str, str]]] = MappingProxyType({
    ast.Dict: ("a dict", "use a tuple"), ast.Set: ("a set", "use a tuple"), ast.SetComp: ("a set", "use a tuple"),
    ast.DictComp: ("a dict", "use a tuple"), ast.Yield: ("`yield`", "return a tuple"),
    ast.YieldFrom: ("`yield from`", "return a tuple"), ast.Try: ("`try`", "test with `if` before"),
    ast.TryStar: ("`try`", "test with `if` before"), ast.Raise: ("`raise`", _RAISE),
    ast.Starred: ("`*` here", "use it in a call, a tuple or an unpacking"), ast.Match: ("`match`", "use `if`"),
    ast.Global: ("`global`", "return the value"), ast.Nonlocal: ("`nonlocal`", "return the value"),
    ast.Import: ("`import`", _OUTSIDE), ast.ImportFrom: ("`import`", _OUTSIDE),
    ast.ClassDef: ("a class", _OUTSIDE), ast.Await: ("`await`", _OUTSIDE), ast.AsyncFunctionDef: ("`async`", _OUTSIDE),
    ast.AsyncFor: ("`async`", _OUTSIDE), ast.AsyncWith: ("`async`", _OUTSIDE),
})
HANDLERS: Final[Mapping[type[ast.AST], Handler]] = MappingProxyType({
    ast.Constant: lambda scope, node: node.value, ast.Name: Scope.lookup, ast.Tuple: display, ast.List: display,
    ast.Attribute: expressions.run_attribute, ast.JoinedStr: expressions.run_fstring,
    ast.FormattedValue: expressions.run_formatted, ast.BinOp: operators.run_binary, ast.UnaryOp: operators.run_unary,
    ast.Compare: operators.run_compare, ast.BoolOp: operators.run_bool, ast.IfExp: operators.run_ternary,
    ast.Subscript: expressions.run_subscript, ast.Slice: expressions.run_slice, ast.Call: calls.run_call,
    ast.Lambda: assign.local_function, ast.NamedExpr: assign.run_walrus, ast.Assign: assign.run_assign,
    ast.AnnAssign: assign.run_annotated, ast.AugAssign: assign.run_augmented, ast.Expr: assign.run_expression,
    ast.ListComp: assign.run_comprehension, ast.GeneratorExp: assign.run_comprehension,
    ast.Delete: assign.run_delete, ast.FunctionDef: assign.run_def, ast.If: flow.run_if, ast.For: loops.run_for,
    ast.While: loops.run_while, ast.Continue: partial(flow.leave, 1), ast.Break: partial(flow.leave, 2),
    ast.Return: flow.run_return, ast.Assert: flow.run_assert, ast.With: flow.run_with,
    ast.Pass: lambda scope, node: None,
    **{kind: partial(refuse, *row) for kind, row in REFUSED.items()},
})
# fmt: on


def argument(scope: Scope, name: str, spec: ArgSpec) -> Any:
    """What a parameter is in the kernel; the leaves of a tuple are arguments of their own."""
    if isinstance(spec, ConstSpec):
        return captured(name, spec.value, scope.builder.loc)
    if isinstance(spec, tuple):
        return remade(spec, [argument(scope, f"{name}.{n}", x) for n, x in enumerate(spec)])
    scope.session.arguments.append(Value(spec, name))
    scope.builder.numbers.argument(scope.session.arguments[-1])
    return scope.session.arguments[-1]


def build(
    fn: KernelSource,
    args: Mapping[str, ArgSpec],
    facts: Facts,
    methods: Mapping[str, Any],
    max_ops: int,
    substitutes: Mapping[Any, Any] = MappingProxyType({}),
) -> Built:
    """Build a kernel for the given kinds of arguments.

    Parameters
    ----------
    fn : KernelSource
        The kernel.
    args : mapping from str to ArgSpec
        One entry per parameter, in the order of the signature. Constants become no arguments of the function, a tuple
        becomes one per leaf.
    facts : Facts
        Asked for what is known of shapes, strides and integers, when the kernel's meaning or speed depends on it.
    methods : mapping from str to function
        Functions written in the language that tiles have as methods, besides the ops.
    max_ops : int
        Operations that the kernel may become.
    substitutes : mapping from function to function
        What is inlined in place of functions written in the language.

    Returns
    -------
    Built
        The function, and the outside values that it was built with.

    Raises
    ------
    Diagnostic
        For every mistake in the kernel, with its place.
    """
    body, loc = Region(), fn.loc(fn.node)
    builder = LimitedBuilder(body, loc, max_ops, WeakNumbers(facts), fn.lenient)
    session = Session(builder, facts, HANDLERS, methods, body.args, substitutes, lenient=fn.lenient)
    scope = Scope(session, fn)
    scope.vars.update({name: Binding(argument(scope, name, spec), loc) for name, spec in args.items()})
    try:
        if isinstance(fn.node, ast.Lambda):
            scope.eval(fn.node.body)
        else:
            flow.block(scope, scope.steps(fn.node.body))
    except (NotConstant, SliceExtent) as error:
        annotated(error, fn, session.arguments)
        error.args = (error.render(),)
        raise
    except RecursionError as error:
        if isinstance(error, TooDeep):
            raise
        raise TooDeep(session.builder.loc, limit="Python allows", function=fn.name) from None
    session.builder.op("yield")
    session.builder.numbers.settle(body.args, body.ops)
    remarks = () if fn.lenient else tuple(session.remarks.values())
    return Built(Function(fn.name, body, {}, loc), tuple(session.captures.values()), remarks, tuple(session.loops))
