"""Builtins of Python and names of the language that are neither ops nor functions written in the language."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, groupby
from types import MappingProxyType, ModuleType
from typing import Any, Final

from pypto.errors.frontend import HostFunction, NoAttribute, UnknownSyntax, WrongArgument
from pypto.frontend.assign import items_of
from pypto.frontend.bind import Signature, bind, checked_arguments
from pypto.frontend.flow import Label
from pypto.frontend.ones import with_ones
from pypto.frontend.operators import constant_result, one_if_known, run_row
from pypto.frontend.scope import Scope
from pypto.frontend.tuples import is_named, leaves
from pypto.frontend.values import Dims, Range, as_pointer, constant, describe, has_values, is_array, is_index, tile_type
from pypto.ir.core import Value
from pypto.ir.types import DType, PtrType, int64
from pypto.ops.public import Refused, constexpr, tensor
from pypto.ops.row import Param
from pypto.ops.table import TABLE

Function = Callable[..., Any]
Intrinsic = Callable[[Scope, ast.Call, list[Any], dict[str, Any]], Any]

# Hints to a compiler for GPUs are accepted.
# fmt: off
_HINTS = ("num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm")
# fmt: on
_BOUNDS = (Param("start", "any"), Param("stop", "any", None), Param("step", "any", 1))
_RANGE = Signature("range", (*_BOUNDS, *(Param(n, "any", None) for n in _HINTS), Param("unroll", "shape", None)))
_LABEL = Signature("label", (Param("name", "str"),))
_HASATTR = Signature("hasattr", (Param("x", "any"), Param("name", "str")))
_GETATTR = Signature("getattr", (*_HASATTR.params, Param("default", "any", None)))
_LEN = Signature("len", (Param("x", "any"),))
_FULL = Signature("full", (Param("shape", "shape"), Param("value"), Param("dtype", "dtype")))


def make_range(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Range:
    """`range` makes a loop, whatever its bounds."""
    first, second, step, *_, unroll = checked_arguments(scope, node, _RANGE, args, kwargs).values()
    start, stop = (0, first) if second is None else (first, second)
    return Range(start, stop, step, unroll or ())


def static_range(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    loop = make_range(scope, node, args, kwargs)
    bounds = constant(
        with_ones(scope, (loop.start, loop.stop, loop.step)), "a bound of `static_range`", scope.loc(node)
    )
    return constant_result(scope, node, range, *bounds)


def make_full(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    shape, value, dtype = checked_arguments(scope, node, _FULL, args, kwargs).values()
    b = scope.at(node)
    if isinstance(value, Value):
        return run_row(scope, node, "broadcast_to", input=b.cast(value, dtype), shape=shape)
    return b.constant(value, dtype, shape)


def device_print(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    """One op per run of constants and the run-time values after it; of tuples their items."""
    b, text, base = scope.at(node), "", {"hex": bool(keywords(scope, node, "device_print", kwargs, hex=False)["hex"])}
    for at_run_time, group in groupby(chain.from_iterable(map(parts, args)), lambda x: isinstance(x, Value)):
        if at_run_time:
            b.op("print_", *group, prefix=text, **base)
            text = ""
        else:
            text = " ".join(map(str, group))
    if text or not args:
        b.op("print_", prefix=text, **base)


def parts(x: Any) -> Iterator[Any]:
    """The items of a tuple that holds run-time values, or the one value."""
    return leaves(x) if has_values(x) else iter((x,))


def static_print(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    options = keywords(scope, node, "static_print", kwargs, sep=" ", end="\n", file=None, flush=False)
    print(*(describe(x) if has_values(x) else x for x in args), **options)


def keywords(scope: Scope, node: ast.Call, function: str, kwargs: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The keywords of a function that takes any values before them."""
    params = tuple(Param(name, "constexpr", x) for name, x in defaults.items())
    return bind(scope, node, Signature(function, params), [], kwargs)


_ELEMENTWISE: Final[Mapping[str, Function]] = MappingProxyType({"abs": abs, "minimum": min, "maximum": max})
_CONVERSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"float": "use `.to(pto.float32)`", "int": "use `.to(pto.int32)`", "bool": "compare it: `x != 0`"}
)


def on_constants(function: Function, scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of Python that is computed at compile time."""
    for argument, value in zip(node.args, args, strict=False):
        if has_values(value):
            name = function.__qualname__
            way = _CONVERSIONS.get(name) or (f"use `pto.{name}`" if name in TABLE else "")
            text, type = ast.unparse(argument), describe(value)
            raise HostFunction(scope.loc(argument), function=name, text=text, type=type, way=way)
    return constant_result(scope, node, lambda: function(*args, **kwargs))


def on_items(function: Function, scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A builtin that goes through tuples, which may hold run-time values."""
    items = [items_of(scope, a, x) for a, x in zip(node.args, args, strict=True)]
    return tuple(constant_result(scope, node, lambda: function(*items, **kwargs)))


def elementwise(row: str, scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`abs`, `min` and `max`: an op on run-time values."""
    items = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    # Python's `min` of one tile would be the least of its elements
    if (row != "abs" and items is args and len(args) == 1) or not has_values(tuple(items)):
        return on_constants(_ELEMENTWISE[row], scope, node, args, kwargs)
    if row == "abs":
        return run_row(scope, node, row, x=items[0])
    return reduce(lambda x, y: run_row(scope, node, row, x=x, y=y, propagate_nan=False), items)


def block_indices(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A tuple of integers in 64 bits. Python's stay what they are, and so do arguments that are 1 at launch."""
    items, b = items_of(scope, node, args[0]) if isinstance(args[0], tuple | Dims) else (args[0],), scope.at(node)
    for x in items:
        if not is_index(x):
            given, wanted = describe(x), "an integer, or a tuple of integers"
            raise WrongArgument(scope.loc(node), function="a block", name=args[1], wanted=wanted, given=given, way="")
    return tuple(b.cast(x, int64) if isinstance(x, Value) else x for x in (one_if_known(scope, node, x) for x in items))


def structured(row: str, scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An access of block pointers and descriptors: sizes, then operands, which are good but for their types."""
    shape, b = constant(with_ones(scope, args[0]), "block_shape", scope.loc(node)), scope.at(node)
    inputs = [b.cast(b.value(x, int64), int64) if is_index(x) else as_pointer(b, x) for x in args[1:]]
    results = b.op(row, *inputs, shape=shape, masked=False).results
    return results[0] if results else None


def of_elements(name: str, *call: Any) -> Any:
    """Functions of single elements, which few kernels have; the module is loaded with the first of them."""
    from pypto.frontend import elements

    return getattr(elements, name)(*call)


def length(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> int:
    x = checked_arguments(scope, node, _LEN, args, kwargs)["x"]
    if isinstance(x, tuple | str | range | Dims):
        return len(x)
    if isinstance(x, Value) and tile_type(x) and x.shape:
        return x.shape[0]
    way = "its sizes are `x.shape`" if is_array(x) else ""
    given = describe(x)
    raise WrongArgument(scope.loc(node), function="len", name="x", wanted="a tuple or tile", given=given, way=way)


def is_of_array(scope: Scope, node: ast.expr) -> bool:
    """Whether this is `x.dtype` of an array. It is that of the elements, and for Triton a pointer all the same."""
    return isinstance(node, ast.Attribute) and node.attr == "dtype" and is_array(scope.eval(node.value))


def is_instance(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run-time values are of no Python type, tuples of them are. What is known is a `constexpr`, else a `tensor`."""
    x, *kinds = (() if isinstance(args[0], Dims) else args[0], *args[1:2])
    known = tuple(getattr(kind, "instances_of", kind) for kind in leaves(tuple(kinds)))
    for kind in known:
        if isinstance(kind, Refused):
            raise UnknownSyntax(scope.loc(node), what=f"`{kind.__name__}`", way=kind.way)
    if {tensor if has_values(x) else constexpr} & {*known}:
        return not isinstance(x, tuple)
    if isinstance(x, DType) and PtrType in known and is_of_array(scope, node.args[0]):
        return True
    return (isinstance(x, tuple) or not has_values(x)) and constant_result(scope, node, isinstance, x, known)


def attribute(asks: bool, scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`getattr` and `hasattr` mean `x.name`, so that it is noted what a kernel depends on.

    That something of the user has no such name cannot be noted: there it is an error, a default or not.
    """
    x, name, *_ = checked_arguments(scope, node, _HASATTR if asks else _GETATTR, args, kwargs).values()
    if not isinstance(node.args[0], ast.Name | ast.Attribute):
        function, wanted = "hasattr" if asks else "getattr", "a name, or an attribute of one"
        raise WrongArgument(scope.loc(node), function=function, name="x", wanted=wanted, given=describe(x), way="")
    try:
        value = scope.eval(ast.copy_location(ast.Attribute(node.args[0], name, ast.Load()), node))
    except NoAttribute:
        ours = isinstance(x, ModuleType) and x.__name__.split(".")[0] in ("pypto", "triton")
        if not (ours or isinstance(x, Value | DType)) or not (asks or args[2:]):
            raise
        return False if asks else args[2]
    return asks or value


def replace_fields(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`pto.aggregate_replace`: a named tuple with other items."""
    instance: Any = args[0] if len(args) == 1 else args
    function = "aggregate_replace"
    if not is_named(type(instance)):
        loc, given, wanted = scope.loc(node), describe(tuple(args)), "one instance of an aggregate, and fields by name"
        raise WrongArgument(loc, function=function, name="instance", wanted=wanted, given=given, way="")
    fields = tuple(Param(name, "any", None) for name in instance._fields)
    bind(scope, node, Signature(type(instance).__name__, fields), [], kwargs)
    return instance._replace(**kwargs)


# fmt: off
INTRINSICS: Final[Mapping[str, Intrinsic]] = MappingProxyType({
    # Of the language
    "static_range": static_range, "full": make_full, "device_print": device_print,
    "static_print": static_print,
    "combination": partial(of_elements, "combination"), "map_elements": partial(of_elements, "map_elements"),
    "label": lambda scope, node, args, kwargs: Label(*checked_arguments(scope, node, _LABEL, args, kwargs).values()),
    "aggregate_replace": replace_fields, "block_indices": block_indices, "tile_load": partial(structured, "tile_load"),
    "tile_store": partial(structured, "tile_store"),
    # Hints about a value that are accepted and not needed
    **dict.fromkeys(("multiple_of", "max_contiguous", "max_constancy", "assume", "debug_barrier", "in_kernel"),
                    lambda scope, node, args, kwargs: args[0] if args else None),
    # Of Python; `range` is of both
    "range": make_range, "print": device_print, "len": length,
    "breakpoint": lambda scope, node, args, kwargs: scope.at(node).op("breakpoint_"),
    "isinstance": is_instance, "getattr": partial(attribute, False), "hasattr": partial(attribute, True),
    **{f.__name__: partial(elementwise, row) for row, f in _ELEMENTWISE.items()},
    **{f.__name__: partial(on_items, f) for f in (tuple, zip, reversed, enumerate)},
    **{f.__name__: partial(on_constants, f)
       for f in (int, float, bool, str, round, divmod, pow, repr, ord, chr, sum, any, all)},
})
# fmt: on
