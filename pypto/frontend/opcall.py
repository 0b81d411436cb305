"""Calls of public ops: arguments are bound as the op's row says."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.frontend import MissingArgument, RepeatedArgument, SurplusArgument, UnknownArgument, WrongArgument
from pypto.frontend.access import array_load, array_store, function_access, is_position
from pypto.frontend.operators import as_pointer, run_row
from pypto.frontend.scope import Scope, suggestion
from pypto.frontend.values import constant, describe, is_array, is_number
from pypto.ir.core import Value
from pypto.ir.types import DType, int1
from pypto.loc import Loc
from pypto.ops.row import REQUIRED, OpRow, Param

Arguments = dict[str, Any]


def signature(name: str, params: tuple[Param, ...]) -> str:
    shown = (p.name if p.default is REQUIRED else f"{p.name}={p.default!r}" for p in params)
    return f"{name}({', '.join(shown)})"


def bind(
    scope: Scope, node: ast.AST, name: str, params: tuple[Param, ...], args: list[Any], kwargs: Arguments
) -> Arguments:
    """Arguments by name, complete with defaults."""
    args = gather_shape(params, args)
    names = [p.name for p in params]
    if len(args) > len(params):
        counts: dict[str, Any] = {"most": len(params), "given": len(args)}
        raise SurplusArgument(scope.loc(node), function=name, **counts, signature=signature(name, params))
    bound = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            way = suggestion(key, names, "`{}`") or f"its signature is {signature(name, params)}"
            raise UnknownArgument(keyword_loc(scope, node, key), function=name, name=key, way=way)
        if key in bound:
            raise RepeatedArgument(keyword_loc(scope, node, key), function=name, name=key)
        bound[key] = value
    for p in params:
        if p.name not in bound and p.default is REQUIRED:
            raise MissingArgument(scope.loc(node), function=name, name=p.name, signature=signature(name, params))
    return {p.name: bound.get(p.name, p.default) for p in params}


def keyword_loc(scope: Scope, node: ast.AST, name: str) -> Loc:
    """The place of a keyword argument."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return scope.loc(next((k for k in keywords if k.arg == name), node))


def gather_shape(params: tuple[Param, ...], args: list[Any]) -> list[Any]:
    """`t.reshape(8, 16)` is `t.reshape((8, 16))`."""
    last = len(params) - 1
    sizes = args[last:]
    if params and params[last].kind == "shape" and len(sizes) > 1 and all(isinstance(n, int) for n in sizes):
        return [*args[:last], tuple(sizes)]
    return args


def call_op(scope: Scope, node: ast.Call, row: OpRow, args: list[Any], kwargs: Arguments) -> Any:
    native = NATIVE.get(row.name)
    first = args[0] if args else kwargs.get("array")
    if native and is_array(first) and is_native(row.name, args, kwargs):
        return native(scope, node, args, kwargs)
    bound = bind(scope, node, row.name, row.params, args, kwargs)
    for p in row.params:
        if p.name == "pointer" and is_array(bound[p.name]):
            bound[p.name] = as_pointer(scope.at(node), bound[p.name])
        place = argument_node(node, p.name, row.params, len(args))
        bound[p.name] = checked(scope, place, row.name, p, bound[p.name])
    return run_row(scope, node, row.name, bound)


def argument_node(node: ast.Call, name: str, params: tuple[Param, ...], count: int) -> ast.expr:
    """Where an argument stands in the call, or the call itself."""
    keyword = next((k.value for k in node.keywords if k.arg == name), None)
    if keyword is not None:
        return keyword
    # A method's receiver comes before the arguments that are written.
    index = [p.name for p in params].index(name) - (count - len(node.args))
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    return node.args[index] if 0 <= index < len(node.args) and not starred else node


def is_int(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def is_sizes(x: Any) -> bool:
    return is_int(x) or (isinstance(x, tuple) and all(is_int(n) for n in x))


# What an attribute of each kind has to be, and how that is said.
# fmt: off
KINDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = MappingProxyType({
    "int": (is_int, "an integer"), "bool": (lambda x: isinstance(x, bool | int), "True or False"),
    "str": (lambda x: isinstance(x, str), "a string"),
    "dtype": (lambda x: isinstance(x, DType), "a dtype such as pto.float32"),
    "shape": (is_sizes, "a tuple of integers"), "axis": (is_sizes, "an integer, a tuple of integers or None"),
})
# fmt: on


def checked(scope: Scope, node: ast.expr, function: str, p: Param, x: Any) -> Any:
    """An argument in the form that rows take: values and numbers for operands, Python objects for attributes."""
    if x is None and p.default is None:
        return None
    if p.is_operand:
        if is_array(x) or (not isinstance(x, Value) and not is_number(x)):
            way = "load a tile from the array first, for instance `x[row, :]`" if is_array(x) else ""
            fields: dict[str, Any] = {"wanted": "a tile, scalar or number", "given": describe(x), "way": way}
            raise WrongArgument(scope.loc(node), function=function, name=p.name, **fields)
        return x
    if p.kind == "any":
        return x
    constant(x, f"`{p.name}` of {function}", scope.loc(node))
    test, wanted = KINDS[p.kind]
    if not test(x):
        raise WrongArgument(scope.loc(node), function=function, name=p.name, wanted=wanted, given=describe(x), way="")
    return (x,) if p.kind == "shape" and is_int(x) else x


def is_native(name: str, args: list[Any], kwargs: Arguments) -> bool:
    """Whether a load or store with an array first means a slice; otherwise the array is a pointer."""
    if kwargs.keys() & {"offsets", "shape", "tile", "pad"}:
        return True
    if len(args) < 2 or "mask" in kwargs:
        return False
    if name == "load":
        return len(args) > 2 and is_sizes(args[2]) and not isinstance(args[2], bool)
    if isinstance(args[1], tuple):
        return True
    return len(args) > 2 and is_position(args[1]) and isinstance(args[2], Value) and args[2].tile.elem != int1


_ARRAY, _OFFSETS = Param("array"), Param("offsets", "any")
_LOAD = (_ARRAY, _OFFSETS, Param("shape", "shape"), Param("pad", "any", 0))
_STORE = (_ARRAY, _OFFSETS, Param("tile"))


def native_load(scope: Scope, node: ast.Call, args: list[Any], kwargs: Arguments) -> Value:
    bound = bind(scope, node, "load", _LOAD, args, kwargs)
    if not is_number(bound["pad"]):
        fields: dict[str, Any] = {"wanted": "a number", "given": describe(bound["pad"]), "way": ""}
        raise WrongArgument(scope.loc(node), function="load", name="pad", **fields)
    where = function_access(scope, node, bound["array"], bound["offsets"], bound["shape"])
    return array_load(scope, node, where, bound["pad"])


def native_store(scope: Scope, node: ast.Call, args: list[Any], kwargs: Arguments) -> None:
    bound = bind(scope, node, "store", _STORE, args, kwargs)
    tile, array = bound["tile"], bound["array"]
    if not isinstance(tile, Value):
        fields: dict[str, Any] = {"wanted": "a tile", "given": describe(tile), "way": ""}
        raise WrongArgument(scope.loc(node), function="store", name="tile", **fields)
    shape = (1,) * (array.type.ndim - len(tile.shape)) + tile.shape
    array_store(scope, node, function_access(scope, node, array, bound["offsets"], shape), tile)


NATIVE: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType({"load": native_load, "store": native_store})
