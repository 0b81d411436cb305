"""Arguments of a call by the names of what is called: ops, builtins and functions alike."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pypto.errors import frontend as errors
from pypto.frontend.ones import with_ones
from pypto.frontend.scope import YOU_MEAN, Scope
from pypto.frontend.values import as_pointer, constant, describe, is_array, is_index, is_number, load_first
from pypto.ir.core import Value
from pypto.ir.types import DType, PtrType
from pypto.ops.row import REQUIRED, Param
from pypto.options import suggestion

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes; `spec` is how it is written in the source, where it has one."""

    name: str
    params: tuple[Param, ...]
    spec: ast.arguments | None = None

    def __str__(self) -> str:
        shown = (p.name if p.default is REQUIRED else f"{p.name}={p.default!r}" for p in self.params)
        return f"{self.name}({ast.unparse(self.spec) if self.spec else ', '.join(shown)})"


# Arguments of Triton-Ascend that allow what need not be: elements behind a mask may then have any value.
_IGNORED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"load": ("care_padding",)})


def bind(scope: Scope, node: ast.AST, to: Signature, args: list[Any], kwargs: Arguments) -> Arguments:
    """Arguments by name, complete with defaults."""
    names, spec = [p.name for p in to.params], to.spec
    most = len(names) - len(spec.kwonlyargs) if spec else len(names)
    star = {spec.vararg.arg: tuple(args[most:])} if spec and spec.vararg else {}
    if len(args) > most and not star:
        raise errors.SurplusArgument(scope.loc(node), function=to.name, most=most, given=len(args), signature=to)
    bound = dict(zip(names[:most], args, strict=False))
    for key, value in kwargs.items():
        if key not in names and scope.source.lenient and key in _IGNORED.get(to.name, ()):
            continue
        if key not in names:
            meant = "axis" if key == "dim" else key
            way = suggestion(meant, names, YOU_MEAN) or f"its signature is {to}"
            raise errors.UnknownArgument(scope.loc(keyword(node, key)), function=to.name, name=key, way=way)
        if key in bound:
            raise errors.RepeatedArgument(scope.loc(keyword(node, key)), function=to.name, name=key)
        bound[key] = value
    missing = [f"`{p.name}`" for p in to.params if bound.setdefault(p.name, p.default) is REQUIRED]
    if missing:
        missing_text = f"its argument{'s' if missing[1:] else ''} {', '.join(missing)}"
        raise errors.MissingArgument(scope.loc(node), function=to.name, missing=missing_text, signature=to)
    for p in to.params:
        if p.kind == "constexpr":
            bound[p.name] = constant(with_ones(scope, bound[p.name]), f"`{p.name}` of {to.name}", scope.loc(node))
    return {**{name: bound[name] for name in names}, **star}


def keyword(node: ast.AST, name: str) -> ast.AST:
    """Where a keyword argument stands."""
    return next((k for k in getattr(node, "keywords", ()) if k.arg == name), node)


def argument_node(node: ast.Call, name: str, params: tuple[Param, ...], count: int) -> ast.expr:
    """Where an argument stands in the call, or the call itself."""
    argument = keyword(node, name)
    if isinstance(argument, ast.keyword):
        return argument.value
    # A method's receiver comes before the arguments that are written.
    index = [p.name for p in params].index(name) - (count - len(node.args))
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    return node.args[index] if 0 <= index < len(node.args) and not starred else node


def is_sizes(x: Any) -> bool:
    return all(isinstance(n, int) and is_index(n) for n in (x if isinstance(x, tuple) else (x,)))


# What an attribute of each kind has to be, and how that is said.
# fmt: off
_KINDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = MappingProxyType({
    "int": (is_index, "an integer"), "bool": (lambda x: isinstance(x, bool | int), "True or False"),
    "number": (is_number, "a number"), "str": (lambda x: isinstance(x, str), "a string"),
    "dtype": (lambda x: isinstance(x, DType), "a dtype such as pto.float32"),
    "elem": (lambda x: isinstance(x, DType | PtrType), "a dtype such as pto.float32, or a type of pointers"),
    "shape": (is_sizes, "a tuple of integers"), "axis": (is_sizes, "an integer, a tuple of integers or None"),
})
# fmt: on


def checked_arguments(scope: Scope, node: ast.Call, to: Signature, args: list[Any], kwargs: Arguments) -> Arguments:
    """Bound arguments in the form that rows take: values and numbers for operands, Python objects for attributes."""
    bound = bind(scope, node, to, args, kwargs)
    for p in to.params:
        if p.kind != "any":
            place = argument_node(node, p.name, to.params, len(args))
            bound[p.name] = checked(scope, place, to.name, p, bound[p.name])
    return bound


def checked(scope: Scope, node: ast.expr, function: str, p: Param, x: Any) -> Any:
    if x is None and p.default is None:
        return x
    if p.name == "pointer" and isinstance(x, tuple) and len(x) == 1:
        (x,) = x  # `block = array + index,`: Triton takes the pointer behind a trailing comma
    if is_array(x) and (p.name == "pointer" or function == "cast" or (function == "where" and scope.source.lenient)):
        return as_pointer(scope.at(node), x)
    if p.is_operand:
        way = load_first(x) if is_array(x) else ""
        fits, wanted = is_number(x) or (isinstance(x, Value) and not is_array(x)), "a tile, scalar or number"
    else:
        x = constant(with_ones(scope, x), f"`{p.name}` of {function}", scope.loc(node))
        (test, wanted), way = _KINDS[p.kind], ""
        fits = test(x)
    if not fits:
        given = describe(x)
        raise errors.WrongArgument(scope.loc(node), function=function, name=p.name, wanted=wanted, given=given, way=way)
    return (x,) if p.kind == "shape" and isinstance(x, int) else x
