"""Loops and branches: numbers they carry are variables, tiles they carry are buffers with a place of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto.backends.ascend.blockir.ir import Expr, If, Loop, Read, Record, Scalar, View, While, fold
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.tile.nonnegative import is_nonnegative
from pypto.backends.ascend.vector.broadcast import broadcast
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.shape import fill
from pypto.backends.ascend.vector.values import (
    AnyTile,
    Broadcast,
    Deferred,
    Held,
    Pointer,
    Pointers,
    SelectedPointer,
    Splat,
    Tile,
)
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import ArrayType, DType, int32, int64, uint16
from pypto.passes.memory_effects import pointer_base, root

Home = (
    Tile | str | Pointer | Pointers | SelectedPointer
)  # memory, a variable, or one of these as an offset into an array


def home(low: Lowering, v: Value, init: Value, end: Value | None = None) -> Home:
    """Where a value lives that begins as another one; `end` is its next state."""
    held = low.env[init]
    several = arrays_of(end, frozenset()) if end is not None and v.tile.is_ptr and not v.shape else {}
    if isinstance(held, SelectedPointer) or (
        isinstance(held, Pointer) and len(several | arrays_of(init, frozenset())) > 1
    ):
        to = choices(low, v, arrays_of(init, frozenset()) | several)
        for name, _, value in chosen(low, to, held):
            low.assign(name, value)
        return to
    hint = v.hint or init.hint
    if isinstance(held, Pointers):
        return Pointers(held.array, (summed(low, held, low.new(v.shape, int64, hint)),))
    if isinstance(held, Pointer):
        return Pointer(held.array, low.variable(hint or "at", int64, held.offset))
    if not v.shape:
        return low.variable(hint, v.dtype, low.number(init))
    made = low.new(v.shape, v.dtype, hint)
    write(low, made, low.held(init))
    return made


def summed(low: Lowering, held: Pointers, to: Tile) -> Tile:
    """Offsets of pointers in memory."""
    with low.each(to.shape) as index:
        low.put(to, index, low.offset(held, index))
    return to


def empty(low: Lowering, v: Value, ends: Sequence[Value]) -> Home:
    """Where a value lives that either side of a branch gives."""
    if v.tile.is_ptr:
        found = {array: None for end in ends for array in arrays_of(end, frozenset())}
        if len(found) > 1 and not v.shape:
            return choices(low, v, found)
        array = next(iter(found), None)
        if len(found) > 1 or array is None or not isinstance(array.type, ArrayType):
            raise low.refused("a tile of pointers into several arrays", "has no form here", "load from each")
        param = low.param("ptr", array, 0, array.type.elem)
        if v.shape:
            return Pointers(param, (low.new(v.shape, int64, v.hint),))
        return Pointer(param, low.variable(v.hint or "at", int64, 0))
    if v.shape:
        return low.new(v.shape, v.dtype, v.hint)
    return low.variable(v.hint, v.dtype, zero(v.dtype))


def arrays_of(v: Value, seen: frozenset[Value]) -> dict[Value, None]:
    """The arrays that a pointer may point into, in their order."""
    array, op = root(v), v.op
    if array is not None:
        return {array: None}
    if op is not None and op.name == "where":
        return {array: None for end in op.operands[1:] for array in arrays_of(end, seen)}
    v = pointer_base(v)
    op = v.op
    if op is None or v in seen:
        return {}
    k = op.results.index(v) - len(op.results)
    ends = [r.terminator.operands[k] for r in (op.regions if op.name == "if" else op.regions[-1:])]
    inits = [] if op.name == "if" else [op.operands[k]]
    return {array: None for end in (*inits, *ends) for array in arrays_of(end, seen | {v})}


def choices(low: Lowering, v: Value, arrays: Iterable[Value]) -> SelectedPointer:
    """A variable for which array it is, and one for the place in each."""
    params = [low.param("ptr", a, 0, a.type.elem) for a in arrays if isinstance(a.type, ArrayType)]
    which = low.variable("which", int32, 0)
    return SelectedPointer(which, tuple(Pointer(p, low.variable(v.hint or "at", int64, 0)) for p in params))


def chosen(low: Lowering, to: SelectedPointer, held: Held) -> list[tuple[str, DType, Scalar]]:
    """The variables of a choice, with their next numbers."""
    found: list[tuple[str, DType, Scalar]] = []
    if isinstance(held, SelectedPointer) and [c.array for c in held.choices] == [c.array for c in to.choices]:
        found.append((to.which, int32, held.which))
        pairs = list(zip(to.choices, held.choices, strict=True))
    elif isinstance(held, Pointer) and held.array in [c.array for c in to.choices]:
        k = [c.array for c in to.choices].index(held.array)
        found.append((to.which, int32, k))
        pairs = [(to.choices[k], held)]
    else:
        raise low.refused("a pointer into one array or another", "has no form here", "decide on the value instead")
    for a, b in pairs:
        assert isinstance(a, Pointer) and isinstance(a.offset, str) and isinstance(b, Pointer)
        found.append((a.offset, int64, b.offset))
    return found


def write(low: Lowering, to: Tile, held: AnyTile) -> None:
    """Copy a tile, unless it is there already."""
    if isinstance(held, Tile) and held.view == to.view:
        return
    if isinstance(held, Splat):
        fill(low, to, held.value)
    elif isinstance(held, Broadcast) and low.known(held) is None:
        broadcast(low, to, held)
    elif to.dtype.is_bool:  # fewer than whole blocks, perhaps
        target, source = (View(v.of, fold("//", v.offset, 2), v.stage, uint16) for v in (to.view, low.made(held).view))
        low.instr("Or", target, source, source, to.layout.count // 16)
    else:
        blocks = to.layout.count * to.dtype.bits // 256
        low.instr("DataCopy", to.view, low.made(held).view, Record((1, blocks, 0, 0)))


def carry(low: Lowering, homes: Sequence[Home], values: Sequence[Value]) -> None:
    """The next state: all of it is read before any of it is written."""
    pairs = list(zip(homes, values, strict=True))
    tiles = [(to, settled(low, low.held(v))) for to, v in pairs if isinstance(to, Tile)]
    tiles += [offsets(low, to, v) for to, v in pairs if isinstance(to, Pointers)]
    numbers = [number(low, to, v) for to, v in pairs if isinstance(to, str | Pointer)]
    numbers += [x for to, v in pairs if isinstance(to, SelectedPointer) for x in chosen(low, to, low.env[v])]
    numbers = [(name, dtype, value) for name, dtype, value in numbers if name != value]
    names = {name for name, *_ in numbers}
    if any(names_in(value) & names - {name} for name, _, value in numbers):
        numbers = [(name, dtype, low.variable("next", dtype, value)) for name, dtype, value in numbers]
    places = {to.view for to, _ in tiles}
    for k, (to, held) in enumerate(tiles):
        if place_of(held) in places - {to.view}:
            tiles[k] = to, aside(low, held)
    for to, held in tiles:
        write(low, to, held)
    for name, _, value in numbers:
        low.assign(name, value)


def offsets(low: Lowering, to: Pointers, v: Value) -> tuple[Tile, AnyTile]:
    """Memory for the offsets of pointers, and their next state."""
    held, place = low.env[v], to.offsets[0]
    assert isinstance(held, Pointers) and isinstance(place, Tile)
    if held.array != to.array:
        raise low.refused("a tile of pointers into several arrays", "has no form here", "carry its offsets instead")
    return place, place if held == to else summed(low, held, low.new(place.shape, int64))


def number(low: Lowering, to: Home, v: Value) -> tuple[str, DType, Scalar]:
    """A variable, its dtype and its next value."""
    if isinstance(to, str):
        return to, v.dtype, low.number(v)
    held = low.env[v]
    assert isinstance(to, Pointer) and isinstance(to.offset, str)
    if not isinstance(held, Pointer) or held.array != to.array:
        raise low.refused("a pointer into one array or another", "has no form here", "decide on the value instead")
    return to.offset, int64, held.offset


def names_in(value: Scalar) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, Read):
        return names_in(value.view.offset)
    return set().union(*map(names_in, value.args)) if isinstance(value, Expr) else set()


def settled(low: Lowering, held: AnyTile) -> AnyTile:
    return low.made(held) if isinstance(held, Deferred) else held


def place_of(held: AnyTile) -> object:
    return held.view if isinstance(held, Tile) else held.of.view if isinstance(held, Broadcast) else None


def aside(low: Lowering, held: AnyTile) -> Tile:
    """A copy of a tile, for where its own place is about to be written."""
    copy = low.new(held.shape, held.dtype)
    write(low, copy, held)
    return copy


def region(low: Lowering, body: Region) -> None:
    for op in body.body:
        low.dispatch(low, op)


def adds_up(low: Lowering, arg: Value, v: Value) -> bool:
    """Whether the next state is a product that is added to the last one, which nothing else reads."""
    return v.op is not None and v.op.name == "dot" and v.op.operands[2:] == (arg,) and low.uses[arg] == 1


def lower_for(low: Lowering, op: Op) -> None:
    (body,) = op.regions
    start, stop, step = (low.number(v) for v in op.operands[:3])
    if is_nonnegative(op.operands[0], low.nonnegative) and isinstance(step, int) and step > 0:
        low.nonnegative.add(body.args[0])
    carried = zip(body.args[1:], op.operands[3:], body.terminator.operands, strict=True)
    homes = [home(low, arg, init, end) for arg, init, end in carried]
    low.env.update(zip(body.args[1:], homes, strict=True))
    loc = low.loc
    for arg, to, v in zip(body.args[1:], homes, body.terminator.operands, strict=True):
        if isinstance(to, Tile) and adds_up(low, arg, v):
            low.into[v] = to
    with low.block() as items:
        index = low.env[body.args[0]] = low.name(body.args[0].hint or "i")
        region(low, body)
        low.loc = loc
        carry(low, homes, body.terminator.operands)
    assert isinstance(index, str)
    low.items.append(Loop(index, start, stop, step, tuple(items), low.line, op.operands[0].dtype))
    low.env.update(zip(op.results, homes, strict=True))


def lower_while(low: Lowering, op: Op) -> None:
    test, body = op.regions
    ends = body.terminator.operands
    homes = [home(low, arg, init, end) for arg, init, end in zip(body.args, op.operands, ends, strict=True)]
    loc = low.loc
    for r in (test, body):
        low.env.update(zip(r.args, homes, strict=True))
    with low.block() as before:
        region(low, test)
        condition = low.number(test.terminator.operands[0])
    with low.block() as items:
        region(low, body)
        low.loc = loc
        carry(low, homes, body.terminator.operands)
    low.items.append(While(tuple(before), condition, tuple(items), low.line))
    low.env.update(zip(op.results, homes, strict=True))


def lower_if(low: Lowering, op: Op) -> None:
    condition = low.number(op.operands[0])
    ends = zip(*(region.terminator.operands for region in op.regions), strict=True)
    homes = [empty(low, v, both) for v, both in zip(op.results, ends, strict=True)]
    loc, sides = low.loc, []
    for side in op.regions:
        with low.block() as items:
            region(low, side)
            low.loc = loc
            carry(low, homes, side.terminator.operands)
        sides.append(tuple(items))
    if any(sides):
        low.items.append(If(condition, sides[0], sides[1], low.line))
    low.env.update(zip(op.results, homes, strict=True))
