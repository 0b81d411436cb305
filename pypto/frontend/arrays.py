"""Arrays: their shapes, and their slices as structured loads and stores."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pypto.errors import frontend as errors
from pypto.errors.advice import CutsFractions
from pypto.frontend.scope import Scope
from pypto.frontend.values import (
    Dims,
    array_type,
    describe,
    is_array,
    is_index,
    is_number,
    load_first,
    source_of,
    tile_type,
)
from pypto.ir.core import Op, Value
from pypto.ir.types import ArrayType, DType, TileType, int64
from pypto.ops.build import Number, OpBuilder, merge_shapes
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

Linear = dict[int | None, int]  # coefficient per term, and the constant under None
Entry = tuple[ast.expr, Any]  # where an index stands, and what it is: a slice of values, an integer, None or `...`

_DEPTH = 64  # of an index expression; what lies deeper is a term


@dataclass(frozen=True, slots=True)
class Access:
    """A slice of an array: first position and size per dimension. `shape` lacks integer positions, has new axes.

    `is_element` tells an index of integers alone, which names an element that must exist.
    """

    array: Value
    offsets: tuple[Value | int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    is_element: bool = False

    @property
    def attrs(self) -> dict[str, Any]:
        """Of the structured access that this becomes."""
        return {"shape": self.sizes, "masked": False, **({"element": True} if self.is_element else {})}


def dimension(scope: Scope, dims: Dims, dim: int) -> Value | int:
    """An entry of `shape` or `strides`: a constant where the launch's facts make it one."""
    name, facts = dims.array.hint, scope.session.facts
    known = facts.stride(name, dim) if dims.strides else facts.shape(name, dim)
    if known is None:
        return scope.builder.emit("array_stride" if dims.strides else "array_shape", dims.array, dim=dim)
    if not dims.strides:
        scope.session.shapes[name, dim] = known
    return known


def index_nodes(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def access(scope: Scope, node: ast.Subscript, array: Value) -> Access:
    """What `array[...]` names. Slice bounds are evaluated here: a slice object cannot hold where they stand."""
    entries = fill(scope, node, array, [(item, index_entry(scope, item, array)) for item in index_nodes(node)])
    spans = [extent(scope, item, array, d, e) for d, (item, e) in enumerate(x for x in entries if x[1] is not None)]
    sizes = [size for _, size in spans]
    remaining_sizes, stored = iter(sizes), tuple(n or 1 for n in sizes) or (1,)
    shape = [1 if e is None else next(remaining_sizes) for _, e in entries]
    is_element = bool(sizes) and not any(sizes)
    return Access(array, tuple(x for x, _ in spans), stored, tuple(n for n in shape if n), is_element)


def index_entry(scope: Scope, item: ast.expr, array: Value) -> Any:
    if not isinstance(item, ast.Slice):
        return position(scope, item, "use integers and slices", (None, Ellipsis))
    if item.step is not None and (step := scope.eval(item.step)) not in (None, 1):
        raise bad_index(scope, item.step, "a step", way_to_step(array, step, ast.unparse(item)))
    bounds = (x and position(scope, x, "bounds of a slice are integers", (None,)) for x in (item.lower, item.upper))
    return slice(*bounds)


def way_to_step(array: Value, step: Any, text: str) -> str:
    """What to write for elements that lie apart, or in the order from the last to the first."""
    name = source_of(array)
    if step == -1:
        return f"turn round what is loaded: `pto.flip({name}[:])`; a tile takes a step as well: `{name}[:][{text}]`"
    pointers = f"`pto.load({name} + pto.arange(0, BLOCK) * step)`"
    return f"load first, a tile takes a step: `{name}[:][{text}]`; or load those alone by pointers: {pointers}"


def position(scope: Scope, node: ast.expr, way: str, others: tuple[Any, ...]) -> Any:
    """An integer, or one of the others."""
    value = scope.eval(node)
    if is_index(value) or value in others:
        return value
    if tile_type(value) and value.shape:
        way = "gather with pointers: `pto.load(x + offsets, mask=...)`"
    raise bad_index(scope, node, describe(value), way)


def bad_index(scope: Scope, node: ast.AST, index: str, way: str) -> errors.BadIndex:
    return errors.BadIndex(scope.loc(node), what="an array", index=index, way=way)


def fill(scope: Scope, node: ast.expr, array: Value, entries: list[Entry]) -> list[Entry]:
    """One entry per dimension: `...` and missing ones are full slices."""
    ndim = array.type.ndim if isinstance(array.type, ArrayType) else len(array.shape)
    missing = ndim - sum(e is not None and e is not Ellipsis for _, e in entries)
    if missing < 0:
        raise index_count(scope, node, array, ndim, ndim - missing)
    at = next((n for n, (_, e) in enumerate(entries) if e is Ellipsis), len(entries))
    where = entries[min(at, len(entries) - 1)][0] if entries else node  # `x[()]` has none
    return [*entries[:at], *[(where, slice(None))] * missing, *entries[at + 1 :]]


def index_count(scope: Scope, node: ast.AST, array: Value, ndim: int, given: int) -> errors.IndexCount:
    return errors.IndexCount(scope.loc(node), given=given, what=describe(array), ndim=ndim)


def extent(scope: Scope, node: ast.expr, array: Value, dim: int, entry: Any) -> tuple[Value | int, int]:
    """First position and size along a dimension; size 0 stands for a single position."""
    if not isinstance(entry, slice):
        return not_negative(scope, node, entry), 0
    low, high = (0 if entry.start is None else entry.start), entry.stop
    if high is None:
        not_negative(scope, node, low)
        high = scope.session.shapes[array.hint, dim] = scope.session.facts.require_shape(array.hint, dim)
    elif entry.start is None:
        not_negative(scope, node, high)
    size = difference(scope.session.numbers, high, low)
    if size is None:
        assert isinstance(node, ast.Slice)
        needed = tuple(needed_constants(scope, high, low))
        problem, way = extent_problem(node, high, low), over_blocks(node, bool(needed))
        raise errors.SliceExtent(scope.loc(node), problem=problem, way=way, needed=needed)
    return low, not_empty(scope, node, size, empty_way(array, dim, entry))


def empty_way(array: Value, dim: int, entry: slice) -> str:
    if entry.stop is not None:
        return "the upper bound is greater than the lower one, for instance `i:i + BLOCK`"
    name = source_of(array)
    return f"`{name}` is empty in dimension {dim}: launch for arrays with elements only: `if {name}.size:`"


def extent_problem(node: ast.Slice, high: Value | int, low: Value | int) -> str:
    """The extent in the words of the source: the bound that is no constant, or both."""
    upper, lower = (f"`{ast.unparse(x)}`" if x else "" for x in (node.upper, node.lower))
    both = f"{upper or 'the size'} minus {lower}" if isinstance(high, Value) or not upper else lower
    return f"{upper if isinstance(low, int) else both} does not simplify to a constant"


def over_blocks(node: ast.Slice, of_arguments: bool) -> str:
    """What to write for an extent that is known at run time alone."""
    start, stop = ast.unparse(node.lower) if node.lower else "0", ast.unparse(node.upper) if node.upper else "size"
    loop = f"`for j in range({start}, {stop}, BLOCK):`"
    if of_arguments and start != "0":
        return "a kernel is compiled once for every value of a constant, which suits the size of a block"
    block = f"write the upper bound as the lower one plus a constant: `{start}:{start} + BLOCK`; or, "
    blocks = f"for an extent at run time, loop over blocks: {loop} with slices `j:j + BLOCK`"
    return blocks if start == "0" else block + blocks


def needed_constants(scope: Scope, high: Value | int, low: Value | int) -> list[Value]:
    """The least arguments that make an extent a constant when they are constants; none where no arguments do."""
    numbers, places = scope.session.numbers, {v: n for n, v in enumerate(scope.session.arguments) if is_index(v)}
    known = {v: 1_000_003 + 2 * n for v, n in places.items()}
    for argument in list(known):
        fewer = {v: x for v, x in known.items() if v is not argument}
        if difference(numbers, high, low, fewer) is not None:
            known = fewer
    return list(known) if difference(numbers, high, low, known) is not None else []


def not_empty(scope: Scope, node: ast.AST, size: int, way: str = "sizes are 1 or more") -> int:
    if size < 1:
        raise errors.EmptySlice(scope.loc(node), extent=size, way=way)
    return size


def not_negative(scope: Scope, node: ast.AST, x: Value | int) -> Value | int:
    if isinstance(x, int) and x < 0:
        raise errors.NegativePosition(scope.loc(node), position=x)
    return x


def function_access(scope: Scope, node: ast.AST, array: Value, offsets: Any, sizes: tuple[int, ...]) -> Access:
    """What `pto.load(array, offsets, shape)` names: one offset and one size per dimension."""
    starts = offsets if isinstance(offsets, tuple) else (offsets,)
    for given in (starts, sizes):
        if len(given) != array_type(array).ndim:
            raise index_count(scope, node, array, array_type(array).ndim, len(given))
    for x in starts:
        if not is_index(x):
            raise bad_index(scope, node, describe(x), "offsets are integers")
    return Access(array, starts, tuple(not_empty(scope, node, n) for n in sizes) or (1,), sizes)


def operands(scope: Scope, node: ast.AST, where: Access) -> list[Value]:
    """Base, offsets, strides and extents of a structured access."""
    b, array = scope.at(node), where.array
    name, dims, session = array.hint, range(len(where.offsets)), scope.session
    offsets = [b.cast(b.value(x, int64), int64) for x in where.offsets]
    strides = [b.value(dimension(scope, Dims(array, True), d), int64) for d in dims]
    sizes = [session.shapes.get((name, d)) for d in dims]
    extents = [b.emit("array_shape", array, dim=d) if n is None else b.constant(n, int64) for d, n in enumerate(sizes)]
    # An array of rank 0 is one of one element.
    return [b.emit("array_ptr", array), *(offsets + strides + extents or [b.constant(n, int64) for n in (0, 1, 1)])]


def array_load(scope: Scope, node: ast.AST, where: Access, pad: Number) -> Value:
    inputs, b = operands(scope, node, where), scope.builder
    if pad:
        inputs.append(b.constant(pad, array_type(where.array).elem, where.sizes))
    return shaped(b, b.emit("tile_load", *inputs, **where.attrs), where.shape)


def shaped(b: OpBuilder, v: Value, shape: tuple[int, ...]) -> Value:
    return v if v.shape == shape else b.emit("reshape", v, shape=shape)


def array_store(scope: Scope, node: ast.AST, where: Access, value: Any) -> None:
    inputs, b, type = operands(scope, node, where), scope.builder, tile_type(value)
    note_fractions(scope, node, array_type(where.array).elem, value)
    if is_number(value):
        data = b.constant(value, array_type(where.array).elem, where.sizes)
    elif type is not None and not type.is_ptr:
        data = fitted(scope, node, where, value)
    else:
        wanted, given, loc = "a tile or a number", describe(value), scope.loc(node)
        way = load_first(value) if is_array(value) else ""
        raise errors.WrongArgument(loc, function="a store", name="value", wanted=wanted, given=given, way=way)
    b.op("tile_store", *inputs, data, **where.attrs)


def note_fractions(scope: Scope, node: ast.AST, to: Any, value: Any) -> None:
    """A warning where integers are to hold what is a float, and nobody has said so."""
    is_float = isinstance(value, float) and not value.is_integer()
    if isinstance(value, Value) and isinstance(value.type, TileType):
        is_float = not value.tile.is_ptr and value.dtype.is_float
    if is_float and isinstance(to, DType) and to.kind in ("int", "uint"):
        loc = scope.loc(node)
        scope.session.remarks[str(loc)] = CutsFractions(loc, given=describe(value), dtype=to.public)


def fitted(scope: Scope, node: ast.AST, where: Access, value: Value) -> Value:
    """A tile as it is stored: cast, without leading sizes of 1 that the slice has not got, broadcast."""
    b, extra = scope.builder, max(0, len(value.shape) - len(where.shape))
    shape = value.shape[extra:] if set(value.shape[:extra]) <= {1} else value.shape
    if merge_shapes(shape, where.shape) != where.shape:
        raise errors.StoreShape(scope.loc(node), value=value.shape, target=where.shape)
    value = shaped(b, b.cast(value, array_type(where.array).elem), shape)
    return shaped(b, b.broadcast(value, where.shape), where.sizes)


# --- extents ----------------------------------------------------------------------------------------------------------


def difference(
    numbers: dict[Any, int], high: Value | int, low: Value | int, known: Mapping[Value, int] = MappingProxyType({})
) -> int | None:
    """`high - low` where that is a constant.

    Index scalars are read as sums of terms, so that `i + BLOCK` minus `i` is `BLOCK`. Equal pure expressions are one
    term, which has a number. Conversions between integer types count as nothing: positions are exact in 64 bits.
    `known` gives numbers to some values.
    """
    form = add(linear(numbers, high, _DEPTH, known), linear(numbers, low, _DEPTH, known), -1)
    return None if set(form) - {None} else form.get(None, 0)


def linear(numbers: dict[Any, int], x: Value | int, depth: int, known: Mapping[Value, int]) -> Linear:
    if isinstance(x, int) or x in known:
        return {None: x if isinstance(x, int) else known[x]}
    form = sum_of(numbers, x.op, depth, known) if x.op and depth else None
    return {number(numbers, x, depth): 1} if form is None else form


def sum_of(numbers: dict[Any, int], op: Op, depth: int, known: Mapping[Value, int]) -> Linear | None:
    """An op's result as a sum, or None where it is a term of its own."""
    if op.name == "constant":
        return {None: int(op.attrs["value"])}
    widening = op.name == "cast" and op.operands[0].dtype.is_int and op.result.dtype.bits >= op.operands[0].dtype.bits
    if op.name not in ("add", "sub", "mul", "neg") and not widening:
        return None
    first, *others = (linear(numbers, v, depth - 1, known) for v in op.operands)
    if op.name == "mul":
        factor, other = (first, others[0]) if not set(first) - {None} else (others[0], first)
        return None if set(factor) - {None} else add({}, other, factor.get(None, 0))
    sign = -1 if op.name in ("sub", "neg") else 1
    return add(first, others[0], sign) if others else add({}, first, sign)


def add(a: Linear, b: Linear, scale: int) -> Linear:
    result = dict(a)
    for term, factor in b.items():
        result[term] = result.get(term, 0) + factor * scale
    return {t: f for t, f in result.items() if f}


def number(numbers: dict[Any, int], x: Value, depth: int) -> int:
    """Number a value; equal pure expressions have equal numbers."""
    if x not in numbers:
        key = tuple(structure(numbers, x, depth))
        numbers[x] = numbers.setdefault(key, len(numbers))
    return numbers[x]


def structure(numbers: dict[Any, int], x: Value, depth: int) -> Iterator[Any]:
    op = x.op
    if op is None or depth == 0 or op.regions or TABLE[op.name].effect is not Effect.PURE:
        yield x
        return
    yield from (op.name, op.results.index(x), x.type)
    yield from ((key, type(value), value) for key, value in op.attrs.items())
    yield from (number(numbers, v, depth - 1) for v in op.operands)
