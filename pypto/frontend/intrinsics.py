"""Builtins of Python and names of the language that are neither ops nor functions written in the language."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.frontend import HostFunction, MissingArgument, SurplusArgument, WrongArgument
from pypto.frontend.assign import items_of
from pypto.frontend.flow import check
from pypto.frontend.opcall import argument_node, bind, checked
from pypto.frontend.operators import constant_result, run_row
from pypto.frontend.scope import Scope
from pypto.frontend.values import Dims, Range, constant, describe, has_values, is_number
from pypto.ir.core import Value
from pypto.ops.row import Param
from pypto.ops.table import TABLE

Intrinsic = Callable[[Scope, ast.Call, list[Any], dict[str, Any]], Any]


def make_range(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Range:
    """`range` makes a loop, whatever its bounds; hints to a compiler for GPUs are accepted."""
    params = tuple(Param(n, "any", None) for n in ("start", "stop", "step", *_LOOP_HINTS))
    bound = bind(scope, node, "range", params, args, kwargs)
    start, stop = (bound["start"], bound["stop"]) if bound["stop"] is not None else (0, bound["start"])
    if stop is None:
        raise MissingArgument(scope.loc(node), function="range", name="stop", signature="range(start, stop, step)")
    return Range(start, stop, 1 if bound["step"] is None else bound["step"])


_LOOP_HINTS = (
    "num_stages",
    "loop_unroll_factor",
    "disallow_acc_multi_buffer",
    "flatten",
    "warp_specialize",
    "disable_licm",
)


def static_range(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> range:
    loop = make_range(scope, node, args, kwargs)
    bounds = constant((loop.start, loop.stop, loop.step), "a bound of `static_range`", scope.loc(node))
    result: range = constant_result(scope, node, range, *bounds)
    return result


def make_full(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Value:
    params = (Param("shape", "shape"), Param("value"), Param("dtype", "dtype"))
    bound = bind(scope, node, "full", params, args, kwargs)
    spots = (argument_node(node, p.name, params, len(args)) for p in params)
    shape, value, dtype = (checked(scope, at, "full", p, bound[p.name]) for at, p in zip(spots, params, strict=True))
    b = scope.at(node)
    if is_number(value):
        return b.constant(value, dtype, shape)
    result: Value = run_row(scope, node, "broadcast_to", {"x": b.cast(value, dtype), "shape": shape})
    return result


def static_assert(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    bound = bind(scope, node, "static_assert", (Param("condition", "any"), Param("message", "str", "")), args, kwargs)
    condition = constant(bound["condition"], "the condition of `static_assert`", scope.loc(node))
    check(scope, node, condition, str(bound["message"]))


def device_assert(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    params = (Param("condition"), Param("message", "str", ""), Param("mask", default=None))
    bound = bind(scope, node, "device_assert", params, args, kwargs)
    condition = bound["condition"]
    if bound["mask"] is not None:
        masked_off = run_row(scope, node, "not_", {"x": bound["mask"]})
        condition = run_row(scope, node, "or_", {"x": condition, "y": masked_off})
    check(scope, node, condition, str(bound["message"]))


def static_print(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    print(*(describe(a) if isinstance(a, Value) else a for a in args))


def device_print(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    """One op per run of constants and the run-time values after it."""
    text: list[str] = []
    values: list[Value] = []
    b = scope.at(node)
    for x in args:
        if isinstance(x, Value):
            values.append(x)
            continue
        if values:
            b.op("print_", *values, prefix=" ".join(text))
            text, values = [], []
        text.append(str(x))
    b.op("print_", *values, prefix=" ".join(text))


def make_breakpoint(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    scope.at(node).op("breakpoint_")


def promise(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A hint about a value that is accepted and not needed."""
    return args[0] if args else None


# fmt: off
INTRINSICS: Final[Mapping[str, Intrinsic]] = MappingProxyType({
    "range": make_range, "static_range": static_range, "full": make_full, "static_assert": static_assert,
    "device_assert": device_assert, "static_print": static_print, "device_print": device_print, "multiple_of": promise,
    "max_contiguous": promise, "max_constancy": promise, "assume": promise, "debug_barrier": promise,
})
# fmt: on


CONVERSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"float": "use `.to(pto.float32)`", "int": "use `.to(pto.int32)`", "bool": "compare it: `x != 0`"}
)


def on_constants(function: Callable[..., Any]) -> Intrinsic:
    """A builtin that is computed at compile time."""

    def handler(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for argument, value in zip(node.args, args, strict=False):
            if has_values(value):
                name = function.__name__
                way = CONVERSIONS.get(name) or (f"use `pto.{name}`" if name in TABLE else "")
                fields: dict[str, Any] = {"text": ast.unparse(argument), "type": describe(value), "way": way}
                raise HostFunction(scope.loc(argument), function=name, **fields)
        return constant_result(scope, node, lambda: function(*args, **kwargs))

    return handler


def on_items(function: Callable[..., Any]) -> Intrinsic:
    """A builtin that goes through tuples, which may hold run-time values."""

    def handler(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
        items = [items_of(scope, a, x) for a, x in zip(node.args, args, strict=True)]
        result = constant_result(scope, node, lambda: function(*items, **kwargs))
        return tuple(result)

    return handler


def extremum(function: Callable[..., Any], row: str) -> Intrinsic:
    """`min` and `max`: elementwise on run-time values."""

    def handler(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
        items = list(args[0]) if len(args) == 1 and isinstance(args[0], tuple) else args
        if not has_values(tuple(items)):
            return constant_result(scope, node, lambda: function(*args, **kwargs))
        result = items[0]
        for x in items[1:]:
            result = run_row(scope, node, row, {"x": result, "y": x, "propagate_nan": False})
        return result

    return handler


def absolute(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(args[0], Value):
        return run_row(scope, node, "abs", {"x": args[0]})
    return constant_result(scope, node, abs, *args)


def length(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> int:
    if len(args) != 1:
        raise SurplusArgument(scope.loc(node), function="len", most=1, given=len(args), signature="len(x)")
    x = args[0]
    if isinstance(x, tuple | str | range | Dims):
        return len(x)
    if isinstance(x, Value) and hasattr(x.type, "shape") and x.shape:
        return x.shape[0]
    raise WrongArgument(scope.loc(node), function="len", name="x", wanted="a tuple or tile", given=describe(x), way="")


def is_instance(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run-time values are of no Python type."""
    return not isinstance(args[0], Value) and constant_result(scope, node, isinstance, *args)


# fmt: off
BUILTINS: Final[Mapping[str, Intrinsic]] = MappingProxyType({
    "range": make_range, "print": device_print, "breakpoint": make_breakpoint, "len": length, "abs": absolute,
    "min": extremum(min, "minimum"), "max": extremum(max, "maximum"), "isinstance": is_instance,
    **{f.__name__: on_items(f) for f in (tuple, zip, reversed, enumerate)},
    **{f.__name__: on_constants(f) for f in (int, float, bool, str, round, divmod, pow, repr, ord, chr, sum, any, all)},
})
# fmt: on
