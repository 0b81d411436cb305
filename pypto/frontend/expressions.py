"""Constants, names, tuples, f-strings and attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

from pypto.errors.frontend import NoAttribute, RuntimeFormat
from pypto.frontend.assign import items_of
from pypto.frontend.operators import run_row
from pypto.frontend.scope import Scope, suggestion
from pypto.frontend.values import Dims, Method, captured, describe, has_plain_fields, is_array, leaves
from pypto.ir.core import Value
from pypto.ir.types import ArrayType, DType, PtrType
from pypto.ops.table import TABLE


def run_constant(scope: Scope, node: ast.Constant) -> Any:
    return node.value


def run_name(scope: Scope, node: ast.Name) -> Any:
    return scope.lookup(node)


def run_tuple(scope: Scope, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
    """A list display is read as a tuple: nothing in a kernel can change it."""
    items: list[Any] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            items += items_of(scope, element, scope.eval(element.value))
        else:
            items.append(scope.eval(element))
    return tuple(items)


CONVERSIONS: Final[Mapping[int, Callable[[Any], str]]] = MappingProxyType({114: repr, 115: str, 97: ascii})


def run_fstring(scope: Scope, node: ast.JoinedStr) -> str:
    return "".join(str(scope.eval(part)) for part in node.values)


def run_formatted(scope: Scope, node: ast.FormattedValue) -> str:
    value = scope.eval(node.value)
    runtime = next((x for x in leaves(value) if isinstance(x, Value)), None)
    if runtime is not None:
        raise RuntimeFormat(scope.loc(node.value), text=ast.unparse(node.value), type=describe(runtime))
    spec = str(scope.eval(node.format_spec)) if node.format_spec else ""
    if node.conversion in CONVERSIONS:
        value = CONVERSIONS[node.conversion](value)
    return format(value, spec)


def run_attribute(scope: Scope, node: ast.Attribute) -> Any:
    base = scope.eval(node.value)
    if is_array(base):
        return array_attribute(scope, node, base)
    if isinstance(base, Value):
        return tile_attribute(scope, node, base)
    if isinstance(base, ModuleType):
        return module_attribute(scope, node, base)
    if isinstance(base, DType | PtrType) and node.attr == "element_ty":
        return base.pointee if isinstance(base, PtrType) else base
    if node.attr in getattr(base, "_fields", ()):
        return getattr(base, node.attr)
    if has_plain_fields(base) and hasattr(base, node.attr):
        return captured(ast.unparse(node), getattr(base, node.attr), scope.loc(node))
    way = suggestion(node.attr, plain_names(base), "`.{}`")
    raise NoAttribute(scope.loc(node), what=describe(base), name=node.attr, way=way)


def plain_names(base: Any) -> list[str]:
    return [n for n in dir(base) if not n.startswith("_")] if has_plain_fields(base) else []


def module_attribute(scope: Scope, node: ast.Attribute, module: ModuleType) -> Any:
    """pypto's own names do not change; those of other modules are recorded like globals."""
    if not hasattr(module, node.attr):
        way = suggestion(node.attr, dir(module), f"`{ast.unparse(node.value)}.{{}}`")
        raise NoAttribute(scope.loc(node), what=describe(module), name=node.attr, way=way)
    value = getattr(module, node.attr)
    if module.__name__.split(".")[0] == "pypto" or isinstance(value, ModuleType):
        return captured(node.attr, value, scope.loc(node))
    return scope.session.capture(vars(module), node.attr, value, scope.loc(node))


# fmt: off
ARRAY_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({
    "shape": lambda a: Dims(a, False), "strides": lambda a: Dims(a, True), "dtype": lambda a: a.type.elem,
    "ndim": lambda a: a.type.ndim,
})
# fmt: on


def array_attribute(scope: Scope, node: ast.Attribute, array: Value) -> Any:
    assert isinstance(array.type, ArrayType)
    if node.attr in ARRAY_ATTRIBUTES:
        return ARRAY_ATTRIBUTES[node.attr](array)
    way = suggestion(node.attr, ARRAY_ATTRIBUTES, "`.{}`")
    if node.attr in TABLE or node.attr in TILE_METHODS:
        way = "load a tile first, for instance `x[row, :]`"
    raise NoAttribute(scope.loc(node), what=describe(array), name=node.attr, way=way)


# fmt: off
TILE_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({
    "shape": lambda t: t.shape, "dtype": lambda t: t.tile.elem, "ndim": lambda t: len(t.shape),
    "size": lambda t: t.tile.size, "numel": lambda t: t.tile.size, "type": lambda t: t.tile,
})
# fmt: on
TILE_METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "to": "cast",
        "transpose": "permute",
        "view": "reshape",
    }
)


def tile_attribute(scope: Scope, node: ast.Attribute, tile: Value) -> Any:
    name = node.attr
    if name in TILE_ATTRIBUTES:
        return TILE_ATTRIBUTES[name](tile)
    if name == "T":
        return run_row(scope, node, "permute", {"x": tile, "dims": None})
    row = TABLE.get(TILE_METHODS.get(name, name))
    if (row is not None and row.public and row.params and row.params[0].is_operand) or name in scope.session.methods:
        return Method(tile, name)
    names = [*TILE_ATTRIBUTES, *TILE_METHODS, *scope.session.methods, *(r.name for r in TABLE.values() if r.public)]
    raise NoAttribute(scope.loc(node), what=describe(tile), name=name, way=suggestion(name, names, "`.{}`"))
