"""Calls: ops, methods, functions that are inlined, and functions of the host on constants."""

from __future__ import annotations

import ast
from types import BuiltinFunctionType, FunctionType
from typing import Any

from pypto.errors.frontend import (
    HostFunction,
    MissingArgument,
    NoSource,
    NotCallable,
    NotConstant,
    RepeatedArgument,
    ReturnOnSomePaths,
    SurplusArgument,
    TooDeep,
    UnknownArgument,
    UnknownSyntax,
)
from pypto.frontend.assign import items_of, local_function
from pypto.frontend.expressions import TILE_METHODS
from pypto.frontend.flow import block
from pypto.frontend.intrinsics import BUILTINS, INTRINSICS
from pypto.frontend.merge import VALUE
from pypto.frontend.opcall import call_op, keyword_loc
from pypto.frontend.operators import constant_result
from pypto.frontend.scope import Binding, Poison, Scope, suggestion
from pypto.frontend.source import KernelSource
from pypto.frontend.values import LocalFunction, Method, describe, has_values
from pypto.ir.core import Value
from pypto.ops.public import Intrinsic, OpFunction, constexpr
from pypto.ops.table import TABLE

DEPTH = 50
Arguments = dict[str, Any]


def run_call(scope: Scope, node: ast.Call) -> Any:
    function = scope.eval(node.func)
    args: list[Any] = []
    for a in node.args:
        if isinstance(a, ast.Starred):
            args += items_of(scope, a, scope.eval(a.value))
        else:
            args.append(scope.eval(a))
    kwargs: Arguments = {}
    for k in node.keywords:
        if k.arg is None:
            raise UnknownSyntax(scope.loc(k.value), what="`**` in a call", way="write the keywords out")
        kwargs[k.arg] = scope.eval(k.value)
    return call(scope, node, function, args, kwargs)


def call(scope: Scope, node: ast.Call, function: Any, args: list[Any], kwargs: Arguments) -> Any:
    """Call anything that can be called in a kernel."""
    if isinstance(function, OpFunction):
        return call_op(scope, node, function.row, args, kwargs)
    if isinstance(function, Method):
        return call_method(scope, node, function, args, kwargs)
    if isinstance(function, Intrinsic):
        return INTRINSICS[function.__name__](scope, node, args, kwargs)
    if isinstance(function, LocalFunction):
        return inline(scope, node, function.scope.source, function, args, kwargs)
    if isinstance(function, FunctionType):
        return inline(scope, node, source_of(scope, node, function), None, args, kwargs)
    if isinstance(source := getattr(function, "kernel_source", None), KernelSource):
        return inline(scope, node, source, None, args, kwargs)
    if function is constexpr:
        return args[0]
    return call_host(scope, node, function, args, kwargs)


def call_method(scope: Scope, node: ast.Call, method: Method, args: list[Any], kwargs: Arguments) -> Any:
    row = TABLE.get(TILE_METHODS.get(method.name, method.name))
    if row is not None:
        return call_op(scope, node, row, [method.receiver, *args], kwargs)
    return call(scope, node, scope.session.methods[method.name], [method.receiver, *args], kwargs)


def source_of(scope: Scope, node: ast.Call, function: FunctionType) -> KernelSource:
    try:
        return KernelSource.of(function)
    except NoSource as error:
        raise NoSource(scope.loc(node), **error.fields) from None


def call_host(scope: Scope, node: ast.Call, function: Any, args: list[Any], kwargs: Arguments) -> Any:
    """A function of Python itself: some have a meaning on run-time values, and `math` is computed on constants."""
    module = getattr(function, "__module__", None)
    handler = BUILTINS.get(getattr(function, "__name__", "")) if module == "builtins" else None
    if handler is not None:
        return handler(scope, node, args, kwargs)
    name = getattr(function, "__qualname__", type(function).__name__)
    if not isinstance(function, BuiltinFunctionType) or module not in ("math", "_operator"):
        way = "call it outside of the kernel, and pass the result as `pto.constexpr`" if callable(function) else ""
        raise NotCallable(scope.loc(node), what=describe(function), way=way)
    for argument, value in zip(node.args, args, strict=False):
        if has_values(value):
            way = f"use `pto.{name}`" if name in TABLE else ""
            fields: dict[str, Any] = {"text": ast.unparse(argument), "type": describe(value), "way": way}
            raise HostFunction(scope.loc(argument), function=name, **fields)
    return constant_result(scope, node, lambda: function(*args, **kwargs))


def inline(
    scope: Scope, node: ast.Call, source: KernelSource, local: LocalFunction | None, args: list[Any], kwargs: Arguments
) -> Any:
    """Build the function's body here, in variables of its own."""
    if scope.depth >= DEPTH:
        raise TooDeep(scope.loc(node), limit=DEPTH, function=source.name)
    inner = Scope(
        scope.session,
        source,
        scope.loc(node),
        local.scope if local else None,
        scope.depth + 1,
        live_out=frozenset((".return", VALUE)),
    )
    function = local.node if local else source.node
    name = local.name if local else source.name
    bind_function(scope, inner, node, name, function.args, defaults_of(source, local), args, kwargs)
    if isinstance(function, ast.Lambda):
        return inner.eval(function.body)
    block(inner, inner.steps(function.body))
    return returned(inner, node, name)


def defaults_of(source: KernelSource, local: LocalFunction | None) -> tuple[tuple[Any, ...], Arguments]:
    if local:
        return local.defaults, local.kw_defaults
    return source.function.__defaults__ or (), source.function.__kwdefaults__ or {}


def returned(inner: Scope, node: ast.Call, name: str) -> Any:
    """What the function gave back."""
    value, done = inner.vars.get(VALUE), inner.vars.get(".return")
    if value is None or done is None:
        return None
    if isinstance(value.value, Poison):
        raise value.value.reason(inner.call_site or inner.loc(node))
    if isinstance(done.value, Value) and value.value is not None:
        raise ReturnOnSomePaths(value.loc, function=name)
    return value.value


def bind_function(
    scope: Scope,
    inner: Scope,
    node: ast.Call,
    name: str,
    spec: ast.arguments,
    defaults: tuple[tuple[Any, ...], Arguments],
    args: list[Any],
    kwargs: Arguments,
) -> None:
    """Give a function's parameters their values."""
    loc = scope.loc(node)
    params = [*spec.posonlyargs, *spec.args]
    shown = f"{name}({ast.unparse(spec)})"
    if len(args) > len(params) and spec.vararg is None:
        raise SurplusArgument(loc, function=name, most=len(params), given=len(args), signature=shown)
    values = dict(zip((p.arg for p in params), args, strict=False))
    if spec.vararg:
        values[spec.vararg.arg] = tuple(args[len(params) :])
    bind_keywords(scope, node, name, spec, values, kwargs)
    positional, keyword = defaults
    optional = (p.arg for p in params[len(params) - len(positional) :])
    fallback = {**dict(zip(optional, positional, strict=True)), **keyword}
    for p in (*params, *spec.kwonlyargs):
        if p.arg not in values and p.arg not in fallback:
            raise MissingArgument(loc, function=name, name=p.arg, signature=shown)
        value = values.get(p.arg, fallback.get(p.arg))
        if is_constexpr(p.annotation) and has_values(value):
            raise NotConstant(loc, what=f"`{p.arg}` of {name}", type=describe(value))
        inner.vars[p.arg] = Binding(value, loc)
    if spec.vararg:
        inner.vars[spec.vararg.arg] = Binding(values[spec.vararg.arg], loc)


def bind_keywords(
    scope: Scope, node: ast.Call, name: str, spec: ast.arguments, values: Arguments, kwargs: Arguments
) -> None:
    names = [p.arg for p in (*spec.args, *spec.kwonlyargs)]
    for key, value in kwargs.items():
        if key not in names:
            way = suggestion(key, names, "`{}`") or f"its signature is {name}({ast.unparse(spec)})"
            raise UnknownArgument(keyword_loc(scope, node, key), function=name, name=key, way=way)
        if key in values:
            raise RepeatedArgument(keyword_loc(scope, node, key), function=name, name=key)
        values[key] = value


def is_constexpr(annotation: ast.expr | None) -> bool:
    """Whether an annotation reads `constexpr`, also under a module's name or in quotes."""
    if isinstance(annotation, ast.Constant):
        return str(annotation.value).endswith("constexpr")
    return getattr(annotation, "id", getattr(annotation, "attr", "")) == "constexpr"


def run_lambda(scope: Scope, node: ast.Lambda) -> LocalFunction:
    return local_function(scope, node)
