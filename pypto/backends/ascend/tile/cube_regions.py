"""What of a kernel the cube core does: products of tiles that memory holds, their sums, and stores of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.tile.fractals import OPERANDS, sum_type
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType, bfloat16, float16
from pypto.ops.memory import Access
from pypto.passes.memory_effects import root, written_arrays
from pypto.passes.pattern import constant_of

_MOVES: Final = ("permute", "reshape", "cast")


Slot = tuple[Value, Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Source:
    """A tile as a load that it comes from; `dims` are the load's dimensions of it, None for one of size 1."""

    load: Op
    dims: tuple[int | None, ...]

    @property
    def access(self) -> Access:
        return Access.of(self.load)


@dataclass
class CubeRegions:
    """`sums` are tiles that stay on the cube core; `sources` are the operands that it loads by itself.

    `why` says for values that no cube core makes, why it does not; `dots` are those that it multiplies.
    """

    function: Function
    users: dict[Value, list[Op]] = field(default_factory=dict)
    carried: dict[tuple[Op, Value], list[Value]] = field(default_factory=dict)  # what a loop makes of what it is given
    dots: list[Op] = field(default_factory=list)
    sums: set[Value] = field(default_factory=set)
    sources: dict[Value, Source] = field(default_factory=dict)
    why: dict[Value, str] = field(default_factory=dict)
    ignored: set[Value] = field(default_factory=set)

    def stores(self, v: Value) -> list[Op]:
        """What stores sums, wherever products and loops carry them."""
        found, todo, seen = [], [v], set[Value]()
        while todo:
            v = todo.pop()
            for op in self.users.get(v, []) if v not in seen else []:
                if op.name == "tile_store":
                    found.append(op)
                elif op.name in ("for", "yield"):
                    todo += self.carried.get((op, v), [])
                elif len(op.results) == 1:
                    todo.append(op.result)
            seen.add(v)
        return found

    def regions(self) -> Iterator[Region]:
        yield self.function.body
        for op in self.function.walk():
            yield from op.regions

    def is_zero(self, v: Value) -> bool:
        return constant_of(v) == 0

    def adds(self, dot: Op) -> bool:
        """Whether a product's sums are begun or carried on by the cube core itself."""
        return all(self.is_zero(v) or v in self.sums for v in dot.operands[2:])

    def stored(self, v: Value) -> Value:
        """The sums behind a value that is stored, through a cast and dimensions of size 1; the value itself if none."""
        inner = v
        while inner not in self.sums and inner.op is not None and inner.op.name in _MOVES:
            narrows = inner.op.name == "cast" and inner.dtype not in (float16, bfloat16)
            if (
                narrows
                or inner.op.name == "permute"
                or without_unit_dims(inner.shape) != without_unit_dims(inner.op.operands[0].shape)
            ):
                return v
            inner = inner.op.operands[0]
        return inner if inner in self.sums else v


def without_unit_dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def cube_regions_of(function: Function) -> CubeRegions:
    """The cube core's share of a kernel."""
    parts = CubeRegions(function)
    for op in function.walk():
        for v in op.operands:
            parts.users.setdefault(v, []).append(op)
    for op in function.walk():
        for init, arg, step, result in carried(op) if op.name == "for" else ():
            parts.carried.setdefault((op, init), []).extend((arg, result))
            parts.carried.setdefault((op.regions[0].terminator, step), []).extend((arg, result))
    parts.dots = [op for op in function.walk() if op.name == "dot" and is_cube_product(parts, op)]
    written = written_arrays(function)
    for dot in parts.dots:
        for v in dot.operands[:2]:
            found = source_of(v, tuple(range(len(v.shape)))[-2:])
            reason = "the vector cores compute it" if found is None else unloadable(found, written)
            if found is None or reason:
                parts.why[v] = reason
            else:
                parts.sources[v] = found
    find_sums(parts)
    return parts


def is_cube_product(parts: CubeRegions, dot: Op) -> bool:
    """Whether the cube core has products of such tiles."""
    left = dot.operands[0]
    if left.dtype not in OPERANDS:
        parts.why[dot.result] = f"the cube core has no products of {left.dtype.public}"
    elif len(left.shape) == 3 and left.shape[0] != 1:
        parts.why[dot.result] = "a stack of products cannot be gone through one by one"
    return dot.result not in parts.why


def source_of(v: Value, dims: tuple[int | None, ...]) -> Source | None:
    """The load behind an operand, through moves of dimensions; `dims` are those of `v` that the operand has."""
    op = v.op
    if op is None:
        return None
    if op.name == "tile_load":
        return Source(op, dims)
    if op.name == "permute":
        order = op.attrs["dims"]
        return source_of(op.operands[0], tuple(None if d is None else order[d] for d in dims))
    if op.name == "reshape":
        before = op.operands[0].shape
        if without_unit_dims(before) != without_unit_dims(v.shape):
            return None
        old, new = ([d for d, n in enumerate(shape) if n != 1] for shape in (before, v.shape))
        places: dict[int | None, int] = dict(zip(new, old, strict=True))
        return source_of(op.operands[0], tuple(places.get(d) for d in dims))
    return None


def unloadable(source: Source, written: frozenset[Value | None]) -> str:
    """Why the cube core cannot load an operand by itself; empty where it can."""
    access = source.access
    if access.mask is not None or access.base.shape:
        return "its mask or its addresses are tiles"
    if access.other is not None and constant_of(access.other) != 0:
        return "its missing elements are not 0"
    kept = [d for d in source.dims if d is not None]
    if any(access.shape[d] != 1 for d in range(len(access.shape)) if d not in kept):
        return "it is a stack of matrices"
    wide = [d for d in kept if access.shape[d] != 1]
    if len(wide) > 1 and all(constant_of(access.strides[d]) != 1 for d in wide):
        return "no two of its elements are neighbours in memory"
    here = root(access.base)
    return (
        "the kernel also writes to where it is loaded from"
        if here in written or None in written or here is None
        else ""
    )


def find_sums(parts: CubeRegions) -> None:
    """The tiles that can stay in L0C: all that might, less those that something else takes part in."""
    slots = list(carried_slots(parts.function))
    parts.sums = {dot.result for dot in parts.dots}
    for _, arg, step, result in slots:
        if isinstance(arg.type, TileType) and len(arg.shape) in (2, 3) and not arg.tile.is_ptr and step.op is not None:
            parts.sums |= {arg, result}
    size = -1
    while size != (size := len(parts.sums)):
        for init, arg, step, result in slots:
            fits = (init in parts.sums or parts.is_zero(init)) and step in parts.sums and step is not arg
            if not (fits and is_chained(parts, arg) and (init not in parts.sums or is_chained(parts, init))):
                parts.sums -= {arg, result}
        for dot in parts.dots:
            acc = dot.operands[2:]
            if not parts.adds(dot) or any(v in parts.sums and not is_chained(parts, v) for v in acc):
                parts.sums.discard(dot.result)
    for dot in parts.dots:
        assert dot.result in parts.sums or sum_type(dot.operands[0].dtype) == dot.result.dtype


def is_chained(parts: CubeRegions, v: Value) -> bool:
    """Whether the only use of sums is to go on with them, since they are changed in place."""
    users = parts.users.get(v, [])
    return len(users) == 1 and (users[0].name in ("for", "yield") or v in users[0].operands[2:]) and (
        users[0].name in ("dot", "for", "yield"))  # fmt: skip


def carried_slots(function: Function) -> Iterator[Slot]:
    """What all loops carry."""
    for op in function.walk():
        if op.name == "for":
            yield from carried(op)


def carried(loop: Op) -> Iterator[Slot]:
    """What a loop carries: its value before, inside, after a step, and after the loop."""
    (body,) = loop.regions
    return zip(loop.operands[3:], body.args[1:], body.terminator.operands, loop.results, strict=True)


def non_cube_ops(parts: CubeRegions) -> Iterator[tuple[Op, str]]:
    """Ops on tiles that are no work of a cube core, with the reason."""
    handled = cube_ops(parts)
    for op in parts.function.walk():
        if op in handled or op.name in ("for", "while", "if", "yield"):
            continue
        tiles = [v for v in (*op.operands, *op.results) if isinstance(v.type, TileType) and v.shape]
        if tiles:
            reasons = [parts.why[v] for v in tiles if v in parts.why]
            yield op, reasons[0] if reasons else f"`{op.name}` works on tiles element by element"
    for _, arg, _, _ in carried_slots(parts.function):
        if isinstance(arg.type, TileType) and arg.shape and arg not in parts.sums:
            yield parts.function.body.ops[-1], "a loop carries a tile that is no sum of products"


def cube_ops(parts: CubeRegions) -> set[Op]:
    """Ops on tiles that the cube core does, and those that vanish in what it does."""
    done = {dot for dot in parts.dots if dot.result in parts.sums and all(v in parts.sources for v in dot.operands[:2])}
    for op in parts.function.walk():
        if op.name == "tile_store" and storable(parts, op):
            done.add(op)
    # What is left of loads, moves and zeros vanishes where nothing but the above takes it.
    pending = [op for op in parts.function.walk() if op.name in ("tile_load", "constant", *_MOVES) and op.result.shape]
    for op in reversed(pending):
        users = parts.users.get(op.result, [])
        if all(u in done or u.name == "for" for u in users):
            done.add(op)
    return done


def storable(parts: CubeRegions, op: Op) -> bool:
    access = Access.of(op)
    assert access.value is not None
    held = parts.stored(access.value)
    if held not in parts.sums or access.mask is not None or access.base.shape:
        return False
    wide = [d for d, n in enumerate(access.shape) if n != 1]
    return not wide or constant_of(access.strides[wide[-1]]) == 1 or (len(wide) == 1 and held.shape[1] == 1)
