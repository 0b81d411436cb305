"""What is read from values: attributes, items, slices, and f-strings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

from pypto.errors.frontend import BadIndex, NoAttribute, RuntimeFormat
from pypto.frontend.arrays import access, array_load, dimension, index_nodes
from pypto.frontend.operators import constant_result, run_row
from pypto.frontend.scope import Scope
from pypto.frontend.values import Dims, Method, captured, constant, describe, has_plain_fields, is_array, leaves
from pypto.ir.core import Value
from pypto.ir.types import DType, PtrType
from pypto.ops.table import TABLE
from pypto.options import suggestion

_CONVERSIONS: Final[Mapping[int, Any]] = MappingProxyType({-1: lambda x: x, 114: repr, 115: str, 97: ascii})


def run_formatted(scope: Scope, node: ast.FormattedValue) -> str:
    value = scope.eval(node.value)
    runtime = next((x for x in leaves(value) if isinstance(x, Value)), None)
    if runtime is not None:
        raise RuntimeFormat(scope.loc(node.value), text=ast.unparse(node.value), type=describe(runtime))
    return format(_CONVERSIONS[node.conversion](value), scope.eval(node.format_spec) if node.format_spec else "")


def run_fstring(scope: Scope, node: ast.JoinedStr) -> str:
    return "".join(str(scope.eval(part)) for part in node.values)


# fmt: off
ARRAY_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({
    "shape": lambda a: Dims(a, False), "strides": lambda a: Dims(a, True), "dtype": lambda a: a.type.elem,
    "ndim": lambda a: a.type.ndim,
})
TILE_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({
    "shape": lambda t: t.shape, "dtype": lambda t: t.tile.elem, "ndim": lambda t: len(t.shape),
    "size": lambda t: t.tile.size, "numel": lambda t: t.tile.size, "type": lambda t: t.tile,
})
# fmt: on
_METHODS: Final = MappingProxyType({"to": "cast", "transpose": "permute", "view": "reshape"})


def run_attribute(scope: Scope, node: ast.Attribute) -> Any:
    base, name = scope.eval(node.value), node.attr
    if isinstance(base, Value):
        return value_attribute(scope, node, base)
    if isinstance(base, ModuleType):
        return module_attribute(scope, node, base)
    if isinstance(base, DType | PtrType) and name == "element_ty":
        return base.pointee if isinstance(base, PtrType) else base
    if name in getattr(base, "_fields", ()):
        return getattr(base, name)
    plain = has_plain_fields(base)
    if plain and hasattr(base, name):
        return captured(ast.unparse(node), getattr(base, name), scope.loc(node))
    raise no_attribute(scope, node, base, [n for n in dir(base) if plain and not n.startswith("_")])


def no_attribute(scope: Scope, node: ast.Attribute, base: Any, names: Iterable[str], prefix: str = "") -> NoAttribute:
    way = suggestion(node.attr, names, f"did you mean `{prefix}.{{}}`?")
    return NoAttribute(scope.loc(node), what=describe(base), name=node.attr, way=way)


def module_attribute(scope: Scope, node: ast.Attribute, module: ModuleType) -> Any:
    """pypto's own names do not change; those of other modules are recorded like globals."""
    if not hasattr(module, node.attr):
        raise no_attribute(scope, node, module, dir(module), ast.unparse(node.value))
    value, variables = getattr(module, node.attr), vars(module)
    if module.__name__.split(".")[0] == "pypto" or isinstance(value, ModuleType) or node.attr not in variables:
        return captured(node.attr, value, scope.loc(node))
    return scope.session.capture(variables, node.attr, scope.loc(node))


def value_attribute(scope: Scope, node: ast.Attribute, value: Value) -> Any:
    """An attribute, or a method of tiles: an op whose first parameter is an operand, or a function in the language."""
    name, methods, row = node.attr, scope.session.methods, TABLE.get(_METHODS.get(node.attr, node.attr))
    table = ARRAY_ATTRIBUTES if is_array(value) else TILE_ATTRIBUTES
    if name in table:
        return table[name](value)
    is_method = row is not None and row.public and row.params and row.params[0].is_operand
    function = row if is_method else methods.get(name)
    if is_array(value) and function is not None:
        way = "load a tile first, for instance `x[row, :]`"
        raise NoAttribute(scope.loc(node), what=describe(value), name=name, way=way)
    if name == "T" and not is_array(value):
        return run_row(scope, node, "permute", x=value, dims=None)
    if function is None:
        public = [*_METHODS, *methods, *(r.name for r in TABLE.values() if r.public)]
        raise no_attribute(scope, node, value, [*table, *([] if is_array(value) else public)])
    return Method(value, name, function)


def run_subscript(scope: Scope, node: ast.Subscript) -> Any:
    base = scope.eval(node.value)
    if is_array(base):
        return array_load(scope, node, access(scope, node, base), 0)
    if isinstance(base, Value):
        return index_tile(scope, node, base)
    index = constant(scope.eval(node.slice), "the index of a tuple", scope.loc(node.slice))
    if isinstance(base, Dims):
        return dims_item(scope, node, base, index)
    if not isinstance(base, tuple | str | range):
        way = "arrays, tiles and tuples can be indexed"
        raise BadIndex(scope.loc(node), what=describe(base), index=describe(index), way=way)
    return constant_result(scope, node, lambda: base[index])


def dims_item(scope: Scope, node: ast.Subscript, dims: Dims, index: Any) -> Any:
    """Only the entries that are picked are asked for."""
    picked = constant_result(scope, node, lambda: range(len(dims))[index])
    scope.at(node)
    if isinstance(picked, int):
        return dimension(scope, dims, picked)
    return tuple(dimension(scope, dims, d) for d in picked)


def run_slice(scope: Scope, node: ast.Slice) -> slice:
    bounds = (None if x is None else scope.eval(x) for x in (node.lower, node.upper, node.step))
    return slice(*(constant(x, "the bound of a slice", scope.loc(node)) for x in bounds))


def index_tile(scope: Scope, node: ast.Subscript, tile: Value) -> Any:
    """New axes and full slices: the elements stay, the shape changes."""
    full, nodes = slice(None), index_nodes(node)
    entries = [scope.eval(item) for item in nodes]
    rest = max(0, len(tile.shape) - sum(isinstance(e, slice) for e in entries))
    left, shape = list(tile.shape), []
    for item, entry in zip(nodes, entries, strict=True):
        if entry is None:
            shape.append(1)
        elif entry is Ellipsis:
            shape, left = shape + left[:rest], left[rest:]
        elif isinstance(entry, slice) and entry == full and left:
            shape.append(left.pop(0))
        else:
            way = "a tile takes `None`, `:` and `...`; load the part from the array, or use `pto.where`"
            raise BadIndex(scope.loc(item), what=describe(tile), index=ast.unparse(item), way=way)
    return run_row(scope, node, "reshape", x=tile, shape=(*shape, *left))
