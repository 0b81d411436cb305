"""Reading with subscripts: tuples, shapes, tiles and arrays."""

from __future__ import annotations

import ast
from typing import Any

from pypto.errors.frontend import BadIndex
from pypto.frontend.access import access, array_load, dimension
from pypto.frontend.operators import constant_result, run_row
from pypto.frontend.scope import Scope
from pypto.frontend.values import Dims, constant, describe, is_array
from pypto.ir.core import Value


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
    return constant_result(scope, node, lambda a, i: a[i], base, index)


def dims_item(scope: Scope, node: ast.Subscript, dims: Dims, index: Any) -> Any:
    """Only the entries that are picked are asked for."""
    picked = constant_result(scope, node, lambda r, i: r[i], range(len(dims)), index)
    scope.at(node)
    if isinstance(picked, int):
        return dimension(scope, dims, picked)
    return tuple(dimension(scope, dims, d) for d in picked)


def run_slice(scope: Scope, node: ast.Slice) -> slice:
    bounds = (None if x is None else scope.eval(x) for x in (node.lower, node.upper, node.step))
    return slice(*(constant(x, "the bound of a slice", scope.loc(node)) for x in bounds))


def index_tile(scope: Scope, node: ast.Subscript, tile: Value) -> Value:
    """New axes and full slices: the elements stay, the shape changes."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    entries = [scope.eval(item) for item in items]
    full = slice(None)
    kept = sum(e == full for e in entries if isinstance(e, slice))
    shape: list[int] = []
    left = list(tile.shape)
    for item, entry in zip(items, entries, strict=True):
        if entry is None:
            shape.append(1)
        elif entry is Ellipsis:
            count = max(0, len(tile.shape) - kept)
            shape += [left.pop(0) for _ in range(min(count, len(left)))]
        elif isinstance(entry, slice) and entry == full and left:
            shape.append(left.pop(0))
        else:
            way = "a tile takes `None`, `:` and `...`; load the part from the array, or use `pto.where`"
            raise BadIndex(scope.loc(item), what=describe(tile), index=ast.unparse(item), way=way)
    result: Value = run_row(scope, node, "reshape", {"x": tile, "shape": (*shape, *left)})
    return result
