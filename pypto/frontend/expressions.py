"""What is read from values: attributes, items, slices, and f-strings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

from pypto.errors.frontend import BadIndex, NoAttribute, RuntimeFormat
from pypto.frontend.arrays import Entry, access, array_load, dimension, fill, index_nodes, not_empty, shaped
from pypto.frontend.calls import call
from pypto.frontend.intrinsics import is_of_array
from pypto.frontend.ones import known_number
from pypto.frontend.operators import constant_result, operate, run_row
from pypto.frontend.scope import Binding, Scope, captured, has_plain_fields
from pypto.frontend.tuples import is_named, leaves
from pypto.frontend.values import (
    ELSEWHERE,
    Dims,
    Method,
    as_pointer,
    constant,
    describe,
    has_values,
    is_array,
    is_index,
    is_number,
    load_first,
    source_of,
)
from pypto.ir.core import Value
from pypto.ir.type_queries import YES
from pypto.ir.types import DType
from pypto.ops.public import constexpr_type
from pypto.ops.table import TABLE
from pypto.ops.target import FACTS, TargetName, similar_fact
from pypto.options import suggestion

_CONVERSIONS: Final[Mapping[int, Any]] = MappingProxyType({-1: lambda x: x, 114: repr, 115: str, 97: ascii})


def run_formatted(scope: Scope, node: ast.FormattedValue) -> str:
    value = scope.eval(node.value)
    runtime = next(filter(has_values, leaves(value)), None)
    if runtime is not None:
        raise RuntimeFormat(scope.loc(node.value), text=ast.unparse(node.value), type=describe(runtime))
    return format(_CONVERSIONS[node.conversion](value), scope.eval(node.format_spec) if node.format_spec else "")


def run_fstring(scope: Scope, node: ast.JoinedStr) -> str:
    return "".join(str(scope.eval(part)) for part in node.values)


# fmt: off
ARRAY_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({
    "shape": lambda a: Dims(a, False), "strides": lambda a: Dims(a, True), "dtype": lambda a: a.type.elem,
    "ndim": lambda a: a.type.ndim, "type": lambda a: a.type.pointer,
})
TILE_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({
    "shape": lambda t: t.shape, "dtype": lambda t: t.tile.elem, "ndim": lambda t: len(t.shape),
    "size": lambda t: t.tile.size, "numel": lambda t: t.tile.size, "type": lambda t: t.tile if t.shape else t.tile.elem,
})
# fmt: on
_TILE_INDEX: Final = "a tile takes integers, slices, `None` and `...`; for an index per element, use `pto.gather`"
_METHODS: Final = MappingProxyType({"to": "cast", "astype": "cast", "transpose": "permute", "view": "reshape"})


def run_attribute(scope: Scope, node: ast.Attribute) -> Any:
    base, name = scope.eval(node.value), node.attr
    if isinstance(base, Value):
        one = known_number(scope, base) if name == "type" and base in scope.session.arguments else None
        return value_attribute(scope, node, base) if one is None else constexpr_type(one)
    if isinstance(base, ModuleType | TargetName):
        return module_attribute(scope, node, base) if isinstance(base, ModuleType) else target_fact(scope, node)
    if isinstance(base, DType) and name == "is_ptr" and is_of_array(scope, node.value):
        return YES
    if is_named(base) or is_named(type(base)):
        return member(scope, node, base)
    plain = has_plain_fields(base)
    if plain and hasattr(base, name):
        return captured(ast.unparse(node), getattr(base, name), scope.loc(node))
    if is_number(base) and name == "type" and scope.source.lenient and not is_assigned(scope, node.value):
        return constexpr_type(base)
    if is_number(base) and name != "value":  # what a tile of that number has
        return value_attribute(scope, node, scope.at(node).value(base))
    if name == "value" and not has_values(base):  # of what may have been a `pto.constexpr`
        return base
    raise no_attribute(scope, node, base, [n for n in dir(base) if plain and not n.startswith("_")])


def target_fact(scope: Scope, node: ast.Attribute) -> Any:
    """A fact of the machine that the kernel is built for."""
    name, loc = node.attr, scope.loc(node)
    if name not in FACTS:
        raise NoAttribute(loc, what="pto.target", name=name, way=similar_fact(name))
    return scope.session.facts.target().read(name, loc)


def is_assigned(scope: Scope, node: ast.expr) -> bool:
    """Whether a constant comes from a plain assignment, which for Triton makes a scalar of it."""
    plain = (n for n in ast.walk(scope.source.node) if isinstance(n, ast.Assign | ast.AugAssign))
    targets = (t for n in plain for t in (n.targets if isinstance(n, ast.Assign) else [n.target]))
    return isinstance(node, ast.Name) and any(isinstance(t, ast.Name) and t.id == node.id for t in targets)


def member(scope: Scope, node: ast.Attribute, base: Any) -> Any:
    """A field of a named tuple or an aggregate, or what its class has."""
    kind: Any = base if isinstance(base, type) else type(base)
    if kind is not base and node.attr in kind._fields:
        return Binding(getattr(base, node.attr), scope.loc(node)).read(scope.loc(node))
    member = inspect.getattr_static(kind, node.attr, None)
    if isinstance(member, property):
        return call(scope, ast.copy_location(ast.Call(node, [], []), node), member.fget, [base], {})
    if member is None:
        raise no_attribute(scope, node, base, [*kind._fields, *vars(kind)])
    function = getattr(member, "__func__", member)
    if isinstance(member, classmethod):
        return Method(kind, node.attr, function)
    if kind is not base and (inspect.isfunction(member) or {"kernel_source", "host_function"} & {*dir(type(member))}):
        return Method(base, node.attr, function)
    return captured(node.attr, function, scope.loc(node))


def no_attribute(scope: Scope, node: ast.Attribute, base: Any, names: Iterable[str], prefix: str = "") -> NoAttribute:
    name = ELSEWHERE.get(node.attr, node.attr)
    way = suggestion(name, names, f"did you mean `{prefix}.{{}}`?")
    if isinstance(base, tuple) and node.attr in ("append", "extend", "insert"):
        grown = f"`{ast.unparse(node.value)} += (value,)`"
        way = f"lists are tuples in a kernel: write {grown}, in a loop over `pto.static_range`"
    return NoAttribute(scope.loc(node), what=describe(base), name=node.attr, way=way)


def module_attribute(scope: Scope, node: ast.Attribute, module: ModuleType) -> Any:
    """pypto's own names do not change, also under `triton`; those of other modules are recorded like globals."""
    if not hasattr(module, node.attr):
        raise no_attribute(scope, node, module, dir(module), ast.unparse(node.value))
    value, variables, package = getattr(module, node.attr), vars(module), module.__name__.split(".")[0]
    if package in ("pypto", "triton") or isinstance(value, ModuleType) or node.attr not in variables:
        return captured(node.attr, value, scope.loc(node))
    return scope.session.capture(variables, node.attr, scope.loc(node))


def value_attribute(scope: Scope, node: ast.Attribute, value: Value) -> Any:
    """An attribute, or a method of tiles: an op whose first parameter is an operand, or a function in the language."""
    name, methods, row = node.attr, scope.session.methods, TABLE.get(_METHODS.get(node.attr, node.attr))
    if is_array(value) and row is TABLE["cast"] and name != "astype":  # which means the elements
        value = scope.at(node).emit("array_ptr", value)
    table = ARRAY_ATTRIBUTES if is_array(value) else TILE_ATTRIBUTES
    if name == "size" and is_array(value):
        return array_size(scope, node, value)
    if name in table:
        return table[name](value)
    is_method = row is not None and row.public and row.params and row.params[0].is_operand
    function = methods.get(name, row if is_method else None)
    if is_array(value) and function is not None:
        raise no_method(scope, node, value)
    if name == "T":
        if is_array(value):
            raise no_method(scope, node, value)
        return run_row(scope, node, "permute", input=value, dims=None)
    if function is None:
        public = [*_METHODS, *methods, *(r.name for r in TABLE.values() if r.public)]
        raise no_attribute(scope, node, value, [*table, *(["size"] if is_array(value) else public)])
    return Method(value, name, function)


def no_method(scope: Scope, node: ast.Attribute, array: Value) -> NoAttribute:
    """What tiles have and arrays have not."""
    way = f"{load_first(array)}, then `{source_of(array)}[:].{node.attr}`"
    return NoAttribute(scope.loc(node), what=describe(array), name=node.attr, way=way)


def array_size(scope: Scope, node: ast.Attribute, array: Value) -> Value | int:
    """Number of elements: the product of the entries of the shape."""
    size: Any = 1
    for dim in range(len(Dims(array, False))):
        size = operate(scope, node, ast.Mult(), size, dimension(scope, Dims(array, False), dim))
    return size  # type: ignore[no-any-return]


def run_subscript(scope: Scope, node: ast.Subscript) -> Any:
    base = scope.eval(node.value)
    if is_array(base) and scope.source.lenient and adds_axes(scope, node):
        base = as_pointer(scope.at(node), base)
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


def adds_axes(scope: Scope, node: ast.Subscript) -> bool:
    """Whether an index is made of `None` and `:`: of a pointer, that is a block of one, as Triton has it."""
    items = index_nodes(node)
    new = [item for item in items if is_none(scope, item)]
    return bool(new) and all(item in new or is_whole(item) for item in items)


def is_whole(item: ast.expr) -> bool:
    """Whether an index is `:`."""
    return isinstance(item, ast.Slice) and not (item.lower or item.upper or item.step)


def is_none(scope: Scope, item: ast.expr) -> bool:
    return isinstance(item, ast.Constant | ast.Name) and scope.eval(item) is None


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


def tile_entries(scope: Scope, node: ast.Subscript, rank: int) -> list[Entry]:
    """The indices of a tile. Triton drops `:` beyond the last dimension."""
    entries = [(item, scope.eval(item)) for item in index_nodes(node)]
    surplus = sum(entry is not None for _, entry in entries) - rank
    for n in reversed(range(len(entries))):
        if surplus > 0 and scope.source.lenient and is_whole(entries[n][0]):
            del entries[n]
            surplus -= 1
    return entries


def index_tile(scope: Scope, node: ast.Subscript, tile: Value) -> Value:
    """New axes, slices, and elements at one position, known at compile time or not."""
    parts: list[range] = []
    shape: list[int] = []
    for item, entry in fill(scope, node, tile, tile_entries(scope, node, len(tile.shape))):
        size = tile.shape[len(parts)] if len(parts) < len(tile.shape) else 1
        if entry is None:
            shape.append(1)
        elif isinstance(entry, slice):
            parts.append(constant_result(scope, item, lambda e=entry, n=size: range(n)[e]))
            shape.append(not_empty(scope, item, len(parts[-1]), "let it end behind its start, as `t[2:4]` does"))
        elif isinstance(entry, Value) and is_index(entry):
            at = tuple(1 if d == len(parts) else n for d, n in enumerate(tile.shape))
            index = scope.at(node).broadcast(entry, at)
            tile = run_row(scope, node, "gather", src=tile, index=index, axis=len(parts))
            parts.append(range(1))
        elif is_index(entry) and -size <= entry < size:
            parts.append(range(entry % size, entry % size + 1))
        else:
            way = f"an index lies within the size of {size}" if is_index(entry) else _TILE_INDEX
            text = ast.unparse(item) + (f", which is {describe(entry)}" if isinstance(entry, Value) else "")
            raise BadIndex(scope.loc(item), what=describe(tile), index=text, way=way)
    if any(len(part) != n or part.step != 1 for part, n in zip(parts, tile.shape, strict=True)):
        starts, sizes, steps = zip(*((part.start, len(part), part.step) for part in parts), strict=True)
        tile = scope.at(node).emit("slice", tile, starts=starts, shape=sizes, steps=steps)
    return shaped(scope.at(node), tile, tuple(shape))
