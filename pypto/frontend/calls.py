"""Calls: ops, methods, functions that are inlined, and functions of the host on constants."""

from __future__ import annotations

import ast
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

from pypto.errors import frontend as errors
from pypto.frontend.arrays import array_load, array_store, function_access, note_fractions
from pypto.frontend.assign import elements
from pypto.frontend.bind import Arguments, Signature, bind, checked_arguments, is_sizes
from pypto.frontend.flow import block
from pypto.frontend.intrinsics import INTRINSICS, on_constants
from pypto.frontend.operators import constant_result, run_row
from pypto.frontend.scope import RETURN, VALUE, Binding, Poison, Scope, captured
from pypto.frontend.source import KernelSource
from pypto.frontend.tuples import is_named
from pypto.frontend.values import ELSEWHERE, Inlined, Method, array_type, describe, is_array, is_index, load_first
from pypto.ir.core import Value
from pypto.ir.type_queries import Answer
from pypto.ir.types import DType, int1
from pypto.loc import Loc
from pypto.ops.public import Intrinsic, OpFunction, Refused, constexpr, constexpr_type
from pypto.ops.row import REQUIRED, Effect, OpRow, Param
from pypto.ops.table import TABLE

DEPTH = 50


def run_call(scope: Scope, node: ast.Call) -> Any:
    function, args = scope.eval(node.func), elements(scope, node.args)
    kwargs: Arguments = {}
    for k in node.keywords:
        if k.arg is None:
            raise errors.UnknownSyntax(scope.loc(k.value), what="`**` in a call", way="write the keywords out")
        kwargs[k.arg] = scope.eval(k.value)
    if isinstance(function, Method):
        function, args = function.function, [function.receiver, *args]
    return call(scope, node, function, args, kwargs)


def call(scope: Scope, node: ast.Call, function: Any, args: list[Any], kwargs: Arguments) -> Any:
    """Call anything that can be called in a kernel."""
    if isinstance(function, OpFunction | OpRow):
        return call_op(scope, node, function.row if isinstance(function, OpFunction) else function, args, kwargs)
    if isinstance(function, Intrinsic):
        return INTRINSICS[function.__name__](scope, node, args, kwargs)
    if isinstance(function, DType) and len(args) == 1 and not kwargs:  # Triton's `tl.float32(x)`
        return scope.at(node).cast(scope.at(node).value(args[0], function), function)
    if isinstance(function, Refused):
        raise errors.UnknownSyntax(scope.loc(node), what=f"`{function.__name__}`", way=function.way)
    if function is constexpr:
        return args[0]
    if is_named(function):
        return construct(scope, node, function, args, kwargs)
    code = inlined(scope, node, function)
    if code is None:
        return call_host(scope, node, function, args, kwargs)
    if code.source.library and args and is_array(args[0]) and scope.session.methods.get(code.name) is function:
        wanted, given, way = "a tile, scalar or number", describe(args[0]), load_first(args[0])
        names, loc = [a.arg for a in code.node.args.args], scope.loc(node.args[0] if node.args else node)
        raise errors.WrongArgument(loc, function=code.name, name=names[0], wanted=wanted, given=given, way=way)
    return returned(run_body(scope, node, code, args, kwargs), scope.loc(node), code.name)


def inlined(scope: Scope, node: ast.AST, function: Any) -> Inlined | None:
    """A function that is read as part of the kernel; None for others."""
    source = getattr(function, "kernel_source", None)
    if isinstance(function, FunctionType):
        function = scope.session.substitutes.get(function, function)
        source = KernelSource.of(function, scope.loc(node))
    if not isinstance(source, KernelSource):
        return function if isinstance(function, Inlined) else None
    f = source.function
    return Inlined(source.name, source.node, source, None, f.__defaults__ or (), f.__kwdefaults__ or {})


def construct(scope: Scope, node: ast.Call, kind: Any, args: list[Any], kwargs: Arguments) -> Any:
    """A named tuple or an aggregate. One with an `__init__` of its own starts without fields, and gets them there."""
    loc, init = scope.loc(node), getattr(kind, "initializer", None)
    code = init and inlined(scope, node, init)
    if init is None:
        params = tuple(Param(name, "any", kind._field_defaults.get(name, REQUIRED)) for name in kind._fields)
        return kind._make(bind(scope, node, Signature(kind.__name__, params), args, kwargs).values())
    if code is None:
        return captured(kind.__name__, constant_result(scope, node, partial(kind, *args, **kwargs)), loc)
    start = kind._make(map(partial(unset, kind.__name__), kind._fields))
    inner, first = run_body(scope, node, code, [start, *args], kwargs), code.node.args.args[0].arg
    return kind._make(Binding(x, loc).read(loc) for x in inner.vars[first].read(loc))


def unset(name: str, field: str) -> Poison:
    why = "`__init__` does not assign it on every path"
    return Poison(lambda use: errors.MaybeUnassigned(use, name=f"{name}.{field}", why=why))


def call_host(scope: Scope, node: ast.Call, function: Any, args: list[Any], kwargs: Arguments) -> Any:
    """A function of Python itself: some have a meaning on run-time values, and `math` is computed on constants."""
    module, host = getattr(function, "__module__", None), getattr(function, "host_function", None)
    of_types = function in (DType, constexpr_type) or isinstance(function, Answer)
    if host or of_types or (isinstance(function, BuiltinFunctionType) and module in ("math", "_operator")):
        return captured("the result", on_constants(host or function, scope, node, args, kwargs), scope.loc(node))
    handler = INTRINSICS.get(getattr(function, "__name__", "")) if module == "builtins" else None
    if handler is not None:
        return handler(scope, node, args, kwargs)
    name = getattr(function, "__name__", "")
    name = ELSEWHERE.get(name, name)
    is_ours = name in scope.session.methods or (name in TABLE and TABLE[name].public)
    way = f"in a kernel, `pto.{name}` does this" if is_ours else ""
    if callable(function) and not way:
        way = "call it outside of the kernel, and pass the result as `pto.constexpr`"
    raise errors.NotCallable(scope.loc(node), what=describe(function), way=way)


# --- ops --------------------------------------------------------------------------------------------------------------


def call_op(scope: Scope, node: ast.Call, row: OpRow, args: list[Any], kwargs: Arguments) -> Any:
    first = args[0] if args else kwargs.get("pointer", kwargs.get("array"))
    is_access = row.name in ("load", "store")
    if is_access and isinstance(first, tuple) and hasattr(type(first), row.name):
        return call(scope, node, getattr(type(first), row.name), args, kwargs)
    if is_access and is_array(first) and is_native(row.name, args, kwargs):
        return (native_load if row.name == "load" else native_store)(scope, node, args, kwargs)
    signature = Signature(row.name, row.params)
    bound = checked_arguments(scope, node, signature, gathered(row, args), kwargs)
    if row.effect in (Effect.WRITE, Effect.ATOMIC):
        pointee = getattr(bound["pointer"].tile.elem, "pointee", None)
        note_fractions(scope, node, pointee, bound["value"] if "value" in bound else bound["val"])
    return run_row(scope, node, row.name, **bound)


def gathered(row: OpRow, args: list[Any]) -> list[Any]:
    """`t.reshape(8, 16)` is `t.reshape((8, 16))`."""
    at = next((n for n, p in enumerate(row.params) if p.kind == "shape"), len(args))
    return [*args[:at], tuple(args[at:])] if len(args) > at + 1 and is_sizes(tuple(args[at:])) else args


def is_native(name: str, args: list[Any], kwargs: Arguments) -> bool:
    """Whether a load or store with an array first means a slice; otherwise the array is a pointer."""
    if kwargs.keys() & {"offsets", "shape", "tile", "pad"}:
        return True
    if len(args) < 2 or "mask" in kwargs:
        return False
    last = args[2] if len(args) > 2 else None
    fits = is_sizes(last) if name == "load" else isinstance(last, Value) and last.tile.elem != int1
    return isinstance(args[1], tuple) or (is_index(args[1]) and fits)


_ARRAY, _OFFSETS = Param("array", "any"), Param("offsets", "any")
_LOAD = Signature("load", (_ARRAY, _OFFSETS, Param("shape", "shape"), Param("pad", "number", 0)))
_STORE = Signature("store", (_ARRAY, _OFFSETS, Param("tile")))


def native_load(scope: Scope, node: ast.Call, args: list[Any], kwargs: Arguments) -> Value:
    array, offsets, shape, pad = checked_arguments(scope, node, _LOAD, args, kwargs).values()
    return array_load(scope, node, function_access(scope, node, array, offsets, shape), pad)


def native_store(scope: Scope, node: ast.Call, args: list[Any], kwargs: Arguments) -> None:
    array, offsets, tile = checked_arguments(scope, node, _STORE, args, kwargs).values()
    shape = tile.shape if isinstance(tile, Value) else ()
    shape = (1,) * (array_type(array).ndim - len(shape)) + shape
    array_store(scope, node, function_access(scope, node, array, offsets, shape), tile)


# --- functions --------------------------------------------------------------------------------------------------------


def run_body(scope: Scope, node: ast.Call, function: Inlined, args: list[Any], kwargs: Arguments) -> Scope:
    """Build a function's body here, in variables of its own: what they are at its end."""
    loc, spec = scope.loc(node), function.node.args
    if scope.depth >= DEPTH:
        raise errors.TooDeep(loc, limit=DEPTH, function=function.name)
    inner = Scope(scope.session, function.source, loc, function.scope, scope.depth + 1)
    positional = [*spec.posonlyargs, *spec.args]
    optional = (p.arg for p in positional[len(positional) - len(function.defaults) :])
    defaults = {**dict(zip(optional, function.defaults, strict=True)), **function.kw_defaults}
    strict = not function.source.lenient
    params_of = (*positional, *spec.kwonlyargs)
    kinds = [(p.arg, "constexpr" if strict and is_constexpr(p.annotation) else "any") for p in params_of]
    params = tuple(Param(name, kind, defaults.get(name, REQUIRED)) for name, kind in kinds)
    bound = bind(scope, node, Signature(function.name, params, spec), args, kwargs)
    inner.vars.update({name: Binding(value, loc) for name, value in bound.items()})
    if isinstance(function.node, ast.Lambda):
        inner.vars[VALUE] = Binding(inner.eval(function.node.body), loc)
    else:
        block(inner, inner.steps(function.node.body))
    return inner


def returned(inner: Scope, loc: Loc, name: str) -> Any:
    """What the function gave back."""
    if VALUE not in inner.vars:
        return None
    value, left = inner.vars[VALUE].read(loc), inner.vars.get(RETURN)
    if left and isinstance(left.value, Value) and value is not None:
        raise errors.ReturnOnSomePaths(inner.vars[VALUE].loc, function=name)
    return value


def is_constexpr(annotation: ast.expr | None) -> bool:
    """Whether an annotation reads `constexpr`, also under a module's name or in quotes."""
    if isinstance(annotation, ast.Constant):
        return str(annotation.value).endswith("constexpr")
    return getattr(annotation, "id", getattr(annotation, "attr", "")) == "constexpr"
