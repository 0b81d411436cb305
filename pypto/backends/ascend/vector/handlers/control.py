"""Lowering of loops and branches: carried numbers become variables, carried tiles buffers.

The next state of a loop is read completely before any of it is written. A tile whose place is about to be overwritten
is copied aside first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto.backends.ascend.blockir.ir import Expr, If, Loop, Read, Record, Scalar, View, While, fold
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.handlers.broadcast import broadcast
from pypto.backends.ascend.vector.handlers.shape import fill
from pypto.backends.ascend.vector.values import (
    AnyTile,
    Broadcast,
    Deferred,
    LoweredValue,
    Pointer,
    Pointers,
    SelectedPointer,
    Splat,
    Tile,
)
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import ArrayType, DType, int32, int64, uint16
from pypto.passes.analysis.memory_effects import pointer_base, root
from pypto.passes.analysis.ranges import is_nonnegative

CarriedPlace = (
    Tile | str | Pointer | Pointers | SelectedPointer
)  # memory, a variable, or one of these as an offset into an array


def allocate_carried(low: Lowering, v: Value, init: Value, end: Value | None = None) -> CarriedPlace:
    """Allocate the place of a carried value and copy its initial value there; `end` is its next state."""
    initial = low.env[init]
    arrays = pointed_arrays(end, frozenset()) if end is not None and v.tile.is_ptr and not v.shape else {}
    if isinstance(initial, SelectedPointer) or (
        isinstance(initial, Pointer) and len(arrays | pointed_arrays(init, frozenset())) > 1
    ):
        selected = new_selected_pointer(low, v, pointed_arrays(init, frozenset()) | arrays)
        for name, _, value in selected_assignments(low, selected, initial):
            low.assign(name, value)
        return selected
    hint = v.hint or init.hint
    if isinstance(initial, Pointers):
        return Pointers(initial.array, (store_offsets(low, initial, low.new_tile(v.shape, int64, hint)),))
    if isinstance(initial, Pointer):
        return Pointer(initial.array, low.variable(hint or "at", int64, initial.offset))
    if not v.shape:
        return low.variable(hint, v.dtype, low.number(init))
    tile = low.new_tile(v.shape, v.dtype, hint)
    copy_tile(low, tile, low.tile_value(init))
    return tile


def store_offsets(low: Lowering, pointers: Pointers, to: Tile) -> Tile:
    """Write the offsets of pointers to memory."""
    with low.loop_nest(to.shape) as index:
        low.set_element(to, index, low.offset(pointers, index))
    return to


def allocate_merged(low: Lowering, v: Value, ends: Sequence[Value]) -> CarriedPlace:
    """Allocate the place of a value that both sides of a branch define."""
    if v.tile.is_ptr:
        arrays = {array: None for end in ends for array in pointed_arrays(end, frozenset())}
        if len(arrays) > 1 and not v.shape:
            return new_selected_pointer(low, v, arrays)
        array = next(iter(arrays), None)
        if len(arrays) > 1 or array is None or not isinstance(array.type, ArrayType):
            raise low.refusal("a tile of pointers into several arrays", "has no form here", "load from each")
        param = low.param("ptr", array, 0, array.type.elem)
        if v.shape:
            return Pointers(param, (low.new_tile(v.shape, int64, v.hint),))
        return Pointer(param, low.variable(v.hint or "at", int64, 0))
    if v.shape:
        return low.new_tile(v.shape, v.dtype, v.hint)
    return low.variable(v.hint, v.dtype, zero(v.dtype))


def pointed_arrays(v: Value, seen: frozenset[Value]) -> dict[Value, None]:
    """Return the arrays that a pointer may point into, in order."""
    array = root(v)
    op = v.op
    if array is not None:
        return {array: None}
    if op is not None and op.name == "where":
        return {array: None for end in op.operands[1:] for array in pointed_arrays(end, seen)}
    v = pointer_base(v)
    op = v.op
    if op is None or v in seen:
        return {}
    k = op.results.index(v) - len(op.results)
    ends = [r.terminator.operands[k] for r in (op.regions if op.name == "if" else op.regions[-1:])]
    inits = [] if op.name == "if" else [op.operands[k]]
    return {array: None for end in (*inits, *ends) for array in pointed_arrays(end, seen | {v})}


def new_selected_pointer(low: Lowering, v: Value, arrays: Iterable[Value]) -> SelectedPointer:
    """Define a variable for the array, and one for the offset in each."""
    params = [low.param("ptr", a, 0, a.type.elem) for a in arrays if isinstance(a.type, ArrayType)]
    which = low.variable("which", int32, 0)
    return SelectedPointer(which, tuple(Pointer(p, low.variable(v.hint or "at", int64, 0)) for p in params))


def selected_assignments(low: Lowering, to: SelectedPointer, pointer: LoweredValue) -> list[tuple[str, DType, Scalar]]:
    """Return the variables of a selected pointer with their next numbers."""
    assignments: list[tuple[str, DType, Scalar]] = []
    if isinstance(pointer, SelectedPointer) and [c.array for c in pointer.choices] == [c.array for c in to.choices]:
        assignments.append((to.which, int32, pointer.which))
        pairs = list(zip(to.choices, pointer.choices, strict=True))
    elif isinstance(pointer, Pointer) and pointer.array in [c.array for c in to.choices]:
        k = [c.array for c in to.choices].index(pointer.array)
        assignments.append((to.which, int32, k))
        pairs = [(to.choices[k], pointer)]
    else:
        raise low.refusal("a pointer into one array or another", "has no form here", "decide on the value instead")
    for place, next_pointer in pairs:
        assert isinstance(place, Pointer) and isinstance(place.offset, str) and isinstance(next_pointer, Pointer)
        assignments.append((place.offset, int64, next_pointer.offset))
    return assignments


def copy_tile(low: Lowering, to: Tile, value: AnyTile) -> None:
    """Copy a value to a tile, unless it is there already."""
    if isinstance(value, Tile) and value.view == to.view:
        return
    if isinstance(value, Splat):
        fill(low, to, value.value)
    elif isinstance(value, Broadcast) and low.lookup(value) is None:
        broadcast(low, to, value)
    elif to.dtype.is_bool:  # may be fewer than a whole block
        target, source = (
            View(v.of, fold("//", v.offset, 2), v.stage, uint16) for v in (to.view, low.materialize(value).view)
        )
        low.instr("Or", target, source, source, to.layout.count // 16)
    else:
        blocks = to.layout.count * to.dtype.bits // 256
        low.instr("DataCopy", to.view, low.materialize(value).view, Record((1, blocks, 0, 0)))


def update_carried(low: Lowering, targets: Sequence[CarriedPlace], values: Sequence[Value]) -> None:
    """Write the next state of a loop."""
    pairs = list(zip(targets, values, strict=True))
    tiles = [(to, materialize_deferred(low, low.tile_value(v))) for to, v in pairs if isinstance(to, Tile)]
    tiles += [next_offsets(low, to, v) for to, v in pairs if isinstance(to, Pointers)]
    assignments = [next_number(low, to, v) for to, v in pairs if isinstance(to, str | Pointer)]
    assignments += [
        x for to, v in pairs if isinstance(to, SelectedPointer) for x in selected_assignments(low, to, low.env[v])
    ]
    assignments = [(name, dtype, value) for name, dtype, value in assignments if name != value]
    names = {name for name, *_ in assignments}
    if any(names_in(value) & names - {name} for name, _, value in assignments):
        assignments = [(name, dtype, low.variable("next", dtype, value)) for name, dtype, value in assignments]
    written_views = {to.view for to, _ in tiles}
    for k, (to, held) in enumerate(tiles):
        if source_view(held) in written_views - {to.view}:
            tiles[k] = to, copy_aside(low, held)
    for to, held in tiles:
        copy_tile(low, to, held)
    for name, _, value in assignments:
        low.assign(name, value)


def next_offsets(low: Lowering, to: Pointers, v: Value) -> tuple[Tile, AnyTile]:
    """Return the memory for the offsets of pointers, and their next state."""
    pointers = low.env[v]
    place = to.offsets[0]
    assert isinstance(pointers, Pointers) and isinstance(place, Tile)
    if pointers.array != to.array:
        raise low.refusal("a tile of pointers into several arrays", "has no form here", "carry its offsets instead")
    return place, place if pointers == to else store_offsets(low, pointers, low.new_tile(place.shape, int64))


def next_number(low: Lowering, to: CarriedPlace, v: Value) -> tuple[str, DType, Scalar]:
    """Return a variable, its dtype and its next value."""
    if isinstance(to, str):
        return to, v.dtype, low.number(v)
    pointer = low.env[v]
    assert isinstance(to, Pointer) and isinstance(to.offset, str)
    if not isinstance(pointer, Pointer) or pointer.array != to.array:
        raise low.refusal("a pointer into one array or another", "has no form here", "decide on the value instead")
    return to.offset, int64, pointer.offset


def names_in(value: Scalar) -> set[str]:
    """Return the names in a number."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Read):
        return names_in(value.view.offset)
    return set().union(*map(names_in, value.args)) if isinstance(value, Expr) else set()


def materialize_deferred(low: Lowering, value: AnyTile) -> AnyTile:
    """Compute a deferred op."""
    return low.materialize(value) if isinstance(value, Deferred) else value


def source_view(value: AnyTile) -> object:
    """Return the view that a value reads."""
    return value.view if isinstance(value, Tile) else value.source.view if isinstance(value, Broadcast) else None


def copy_aside(low: Lowering, value: AnyTile) -> Tile:
    """Copy a tile whose own place is about to be written."""
    copy = low.new_tile(value.shape, value.dtype)
    copy_tile(low, copy, value)
    return copy


def lower_region(low: Lowering, body: Region) -> None:
    """Lower the ops of a region."""
    for op in body.body:
        low.dispatch(low, op)


def is_accumulation(low: Lowering, arg: Value, v: Value) -> bool:
    """Whether the next state is a product added to the last one, which nothing else reads."""
    return v.op is not None and v.op.name == "dot" and v.op.operands[2:] == (arg,) and low.use_counts[arg] == 1


def lower_for(low: Lowering, op: Op) -> None:
    """Lower a counted loop."""
    (body,) = op.regions
    start, stop, step = (low.number(v) for v in op.operands[:3])
    if is_nonnegative(op.operands[0], low.nonnegative) and isinstance(step, int) and step > 0:
        low.nonnegative.add(body.args[0])
    carried = zip(body.args[1:], op.operands[3:], body.terminator.operands, strict=True)
    places = [allocate_carried(low, arg, init, end) for arg, init, end in carried]
    low.env.update(zip(body.args[1:], places, strict=True))
    loc = low.loc
    for arg, to, v in zip(body.args[1:], places, body.terminator.operands, strict=True):
        if isinstance(to, Tile) and is_accumulation(low, arg, v):
            low.destinations[v] = to
    with low.block() as items:
        index = low.env[body.args[0]] = low.name(body.args[0].hint or "i")
        lower_region(low, body)
        low.loc = loc
        update_carried(low, places, body.terminator.operands)
    assert isinstance(index, str)
    low.items.append(Loop(index, start, stop, step, tuple(items), low.line, op.operands[0].dtype))
    low.env.update(zip(op.results, places, strict=True))


def lower_while(low: Lowering, op: Op) -> None:
    """Lower a loop with a condition."""
    test, body = op.regions
    ends = body.terminator.operands
    places = [
        allocate_carried(low, arg, init, end) for arg, init, end in zip(body.args, op.operands, ends, strict=True)
    ]
    loc = low.loc
    for r in (test, body):
        low.env.update(zip(r.args, places, strict=True))
    with low.block() as before:
        lower_region(low, test)
        condition = low.number(test.terminator.operands[0])
    with low.block() as items:
        lower_region(low, body)
        low.loc = loc
        update_carried(low, places, body.terminator.operands)
    low.items.append(While(tuple(before), condition, tuple(items), low.line))
    low.env.update(zip(op.results, places, strict=True))


def lower_if(low: Lowering, op: Op) -> None:
    """Lower a branch."""
    condition = low.number(op.operands[0])
    ends = zip(*(region.terminator.operands for region in op.regions), strict=True)
    places = [allocate_merged(low, v, both) for v, both in zip(op.results, ends, strict=True)]
    loc = low.loc
    sides = []
    for side in op.regions:
        with low.block() as items:
            lower_region(low, side)
            low.loc = loc
            update_carried(low, places, side.terminator.operands)
        sides.append(tuple(items))
    if any(sides):
        low.items.append(If(condition, sides[0], sides[1], low.line))
    low.env.update(zip(op.results, places, strict=True))
