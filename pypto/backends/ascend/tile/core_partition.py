"""A kernel taken apart: products for the cube core, all else for the vector cores, with memory between them.

Both sides run the same loops and branches. A tile that goes over is stored to an array in the workspace by the one side
and loaded from it by the other, so that each side is a kernel like any other; what these accesses wait for is the
business of `mixed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.tile.cube_regions import CubeRegions, cube_ops, cube_regions_of
from pypto.backends.ascend.tile.operand_facts import Span
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import ArrayType, DType, TileType, int64
from pypto.ops.build import OpBuilder
from pypto.passes.memory_effects import writes_memory

MAX_CHANNELS: Final = 5  # flags between cores have numbers up to 10, and each channel takes two


class NotPartitionable(Exception):
    """Why a kernel cannot be taken apart."""


@dataclass(frozen=True)
class Transfer:
    """A tile that goes from one side to the other, by the channel of a `number`."""

    number: int
    value: Value
    to_cube: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def pitch(self) -> int:
        """Elements from row to row, in whole blocks of 32 bytes."""
        unit = 32 // self.dtype.itemsize
        return -(-self.shape[-1] // unit) * unit

    @property
    def place(self) -> tuple[int, ...]:
        """Offsets, strides and extents of an access to it."""
        return (*(0 for _ in self.shape), *(self.elements for _ in self.shape[2:]), self.pitch, 1, *self.shape)

    @property
    def elements(self) -> int:
        return self.shape[-2] * self.pitch


@dataclass
class CorePartition:
    """The two kernels; `marks` are their accesses to the workspace."""

    cube: Function
    vector: Function
    transfers: list[Transfer]
    marks: dict[Op, Transfer]
    natural: set[Value] = field(default_factory=set)  # numbers that are 0 or more
    loop_spans: dict[Op, Span] = field(default_factory=dict)  # what numbers stay below where a half of a step runs
    initialised: set[Transfer] = field(default_factory=set)  # tiles that the cube core sends before it takes any
    columns: dict[Op, tuple[Value, int]] = field(default_factory=dict)  # of stores of some: where they begin, at most

    @property
    def channels(self) -> list[Transfer]:
        """A site of each channel."""
        return list({site.number: site for site in self.transfers}.values())


def partition(function: Function) -> CorePartition:
    """The two sides of a kernel.

    Raises
    ------
    NoSides
        When it has no products, or when the cube core would have to know what the vector cores compute.
    """
    function = rewrite(rewrite(function, duplicate_ranges, OpBuilder), split_accumulation, OpBuilder)
    parts = cube_regions_of(function)
    if not parts.dots:
        raise NotPartitionable("it has no products that the cube core makes")
    sites = find_transfers(parts)
    channels = len({site.number for site in sites})
    if channels > MAX_CHANNELS:
        raise NotPartitionable(f"tiles go from core to core in {channels} ways, and there are flags for {MAX_CHANNELS}")
    if any(site.value.tile.size == 1 for site in sites):  # the scalar unit would read it whenever it likes
        raise NotPartitionable("a single number goes from core to core")
    handled = cube_ops(parts) | set(parts.dots)
    marks: dict[Op, Transfer] = {}
    effects = {op for op in function.walk() if writes_memory(op)}
    stores = {op for op in effects if op in handled}
    cube = PartitionSlicer(parts, sites, marks, stores | set(parts.dots), True).function()
    vector = PartitionSlicer(parts, sites, marks, effects - stores, False).function()
    return CorePartition(cube, vector, sites, marks)


def duplicate_ranges(r: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """Each op that counts has numbers of its own: what counts rows and what counts columns are then two dimensions."""
    ranges = [v for v in op.operands if v.op is not None and v.op.name == "arange"]
    if not ranges or op.regions:
        return None
    before = {v: r.value(v) for v in ranges}
    for v in before:
        assert v.op is not None
        r.mapping[v] = r.builder.create("arange", (), dict(v.op.attrs), (v.type,)).result
    made = r.copy(op).results
    r.mapping.update(before)
    return made


def split_accumulation(r: Rewriter[OpBuilder], op: Op) -> list[Value] | None:
    """A product that is added to what the vector cores computed becomes a product and a sum."""
    if op.name != "dot" or len(op.operands) < 3 or is_sum(op.operands[2]):
        return None
    a, b, acc = r.operands(op)
    return [r.builder.emit("add", r.builder.emit("dot", a, b), acc)]


def is_sum(v: Value) -> bool:
    """Whether an accumulator may stay on the cube core, as far as can be told without looking at its users."""
    return v.op is None or v.op.name in ("constant", "dot", "for")


# --- what goes over ---------------------------------------------------------------------------------------------------


def find_transfers(parts: CubeRegions) -> list[Transfer]:
    handled = cube_ops(parts)
    over: list[tuple[Value, bool]] = []
    for dot in parts.dots:
        over += [(v, True) for v in dot.operands[:2] if v not in parts.sources]
        if not parts.adds(dot):
            raise NotPartitionable("a product is added to what the vector cores changed in a loop")
    over += [
        (v, False) for v in parts.sums if any(not is_cube_use(parts, handled, op, v) for op in parts.users.get(v, []))
    ]
    order = {v: i for i, v in enumerate(all_values(parts.function.body))}
    found = sorted(dict.fromkeys(over), key=lambda pair: (order[pair[0]], pair[1]))
    return assign_channels(parts, found)


def assign_channels(parts: CubeRegions, over: list[tuple[Value, bool]]) -> list[Transfer]:
    """Sites with their channels.

    Tiles of one kind from different loops share one, since they go in the same order; but not one that the cube core
    keeps while others come.
    """
    function = parts.function
    tops: dict[Value, int] = {}
    for i, op in enumerate(function.body.ops):
        tops.update(dict.fromkeys((*op.results, *(v for inner in op.regions for v in all_values(inner))), i))
    channels: list[tuple[object, set[int]]] = []
    sites = []
    for v, to_cube in over:
        kind, top = (v.type, to_cube, v if to_cube and not has_single_use(parts, v) else None), tops.get(v, -1)
        number = next((n for n, (k, used) in enumerate(channels) if k == kind and top not in used), len(channels))
        if number == len(channels):
            channels.append((kind, set()))
        channels[number][1].add(top)
        sites.append(Transfer(number, v, to_cube))
    return sites


def has_single_use(parts: CubeRegions, v: Value) -> bool:
    """Whether a tile has one user, in the same sequence of ops."""
    users, home = parts.users.get(v, []), next((r for r in parts.regions() if v.op in r.ops), None)
    return len(users) == 1 and home is not None and users[0] in home.ops


def is_cube_use(parts: CubeRegions, handled: set[Op], op: Op, v: Value) -> bool:
    """Whether a use of sums is the cube core's own."""
    if op.name in ("for", "yield"):
        return all(x in parts.sums for x in parts.carried.get((op, v), [v if op.name == "for" else Value(v.type)]))
    return (op in parts.dots and v not in op.operands[:2]) if op.name == "dot" else op in handled


def all_values(region: Region) -> Iterator[Value]:
    yield from region.args
    for op in region.ops:
        for inner in op.regions:
            yield from all_values(inner)
        yield from op.results


# --- one side ---------------------------------------------------------------------------------------------------------


@dataclass
class PartitionSlicer:
    """Copies what one side needs for the effects at its `roots`, and for what it sends over."""

    parts: CubeRegions
    sites: list[Transfer]
    marks: dict[Op, Transfer]
    roots: set[Op]
    is_cube: bool
    needed: set[Value] = field(default_factory=set)
    kept: set[Op] = field(default_factory=set)
    mapping: dict[Value, Value] = field(default_factory=dict)
    arrays: dict[int, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.homes: dict[Value, Op | Region] = {}
        self.around: dict[Op | int, Op | None] = {}
        self.note(self.parts.function.body, None)
        self.received = {site.value for site in self.sites if site.to_cube == self.is_cube}
        self.todo: list[Value] = []
        for site in self.sites:
            self.enclose(self.outer_of(site.value))
            if site.value not in self.received:
                self.need(site.value)
        for op in self.roots:
            self.keep(op)
        while self.todo:
            self.trace(self.todo.pop())

    def note(self, region: Region, owner: Op | None) -> None:
        self.around[id(region)] = owner
        for v in region.args:
            self.homes[v] = region
        for op in region.ops:
            self.around[op] = owner
            for v in op.results:
                self.homes[v] = op
            for inner in op.regions:
                self.note(inner, op)

    def outer_of(self, v: Value) -> Op | None:
        home = self.homes[v]
        return self.around[home if isinstance(home, Op) else id(home)]

    def need(self, v: Value) -> None:
        if v not in self.needed and v not in self.received:
            self.needed.add(v)
            self.todo.append(v)

    def keep(self, op: Op) -> None:
        """An op with its operands, and the loops and branches around it."""
        if op in self.kept:
            return
        self.kept.add(op)
        self.enclose(self.around[op])
        if not op.regions:
            for v in op.operands:
                self.need(v)

    def enclose(self, op: Op | None) -> None:
        if op is None or op in self.kept:
            return
        self.kept.add(op)
        if op.name == "while":
            raise NotPartitionable("a `while` loop is around a product")
        for v in op.operands[:3] if op.name == "for" else op.operands:
            self.need(v)
        self.enclose(self.around[op])

    def trace(self, v: Value) -> None:
        """What a value is made of."""
        home = self.homes[v]
        if isinstance(home, Region):
            owner = self.around[id(home)]
            if owner is not None and owner.name == "for" and v is not home.args[0]:
                self.slot(owner, home.args.index(v) - 1)
            return
        if home.name in ("for", "if"):
            self.slot(home, home.results.index(v))
        elif self.is_cube and home.name != "dot" and not self.cube_has(home):
            raise NotPartitionable(f"line {home.loc.user.line}: the cube core would need what the vector cores compute")
        elif not self.is_cube and home.name == "dot" and home in self.parts.dots:
            raise NotPartitionable(
                f"line {home.loc.user.line}: sums go on in a loop that the vector cores take part in"
            )
        else:
            self.keep(home)

    def cube_has(self, op: Op) -> bool:
        """Whether the cube core does an op: on numbers, or on tiles in one of the ways that it knows."""
        values = [v for v in (*op.operands, *op.results) if isinstance(v.type, TileType) and v.shape]
        return not values or op.name in ("tile_load", "permute", "reshape", "cast", "constant", "tile_store")

    def slot(self, op: Op, i: int) -> None:
        """One of the values that a loop carries, or that a branch gives."""
        self.enclose(op)
        self.needed.add(op.results[i])
        if op.name == "for":
            (body,) = op.regions
            self.need(op.operands[3 + i])
            self.needed.add(body.args[1 + i])
            self.need(body.terminator.operands[i])
        else:
            for region in op.regions:
                self.need(region.terminator.operands[i])

    # --- the copy -----------------------------------------------------------------------------------------------------

    def function(self) -> Function:
        old = self.parts.function
        new = Region([Value(a.type, a.hint) for a in old.args])
        self.mapping.update(zip(old.args, new.args, strict=True))
        for site in self.sites:
            if site.number not in self.arrays:
                self.arrays[site.number] = Value(ArrayType(site.dtype, 2), f"over_{site.number}")
                new.args.append(self.arrays[site.number])
        self.builder = OpBuilder(new, old.loc)
        self.numbers = {n: self.builder.constant(n, int64) for site in self.sites for n in site.place}
        self.fill(old.body, new)
        self.builder.region = new
        self.builder.create("yield")
        return Function(old.name, new, dict(old.attrs), old.loc)

    def fill(self, old: Region, new: Region) -> None:
        with self.builder.inside(new):
            for v in old.args:
                self.cross(v)
            for op in old.body:
                with self.builder.at(op.loc):
                    if op in self.kept:
                        self.copy(op)
                    for v in op.results:
                        self.cross(v)

    def copy(self, op: Op) -> None:
        if op.name in ("for", "if"):
            self.control(op)
            return
        made = self.builder.create(op.name, tuple(self.mapping[v] for v in op.operands), dict(op.attrs), tuple(
            v.type for v in op.results))  # fmt: skip
        self.name(op.results, made.results)

    def name(self, old: tuple[Value, ...], new: tuple[Value, ...]) -> None:
        for a, b in zip(old, new, strict=True):
            b.hint = a.hint
            self.mapping[a] = b

    def control(self, op: Op) -> None:
        chosen = [i for i, v in enumerate(op.results) if v in self.needed]
        first = 3 if op.name == "for" else len(op.operands)
        operands = (*op.operands[:first], *(op.operands[first + i] for i in chosen if op.name == "for"))
        values = tuple(self.mapping[v] for v in operands)
        regions = []
        for region in op.regions:
            picked = [a for j, a in enumerate(region.args) if j == 0 or j - 1 in chosen]
            new = Region([Value(a.type, a.hint) for a in picked])
            self.mapping.update(zip(picked, new.args, strict=True))
            self.fill(region, new)
            with self.builder.inside(new):
                self.builder.create("yield", tuple(self.mapping[region.terminator.operands[i]] for i in chosen))
            regions.append(new)
        results = tuple(op.results[i] for i in chosen)
        made = self.builder.create(op.name, values, dict(op.attrs), tuple(v.type for v in results), tuple(regions))
        self.name(results, made.results)

    def cross(self, v: Value) -> None:
        """Store or load a tile that goes over, where it has been made."""
        for site in self.sites:
            if site.value is not v:
                continue
            b, shape = self.builder, site.shape
            place = (b.emit("array_ptr", self.arrays[site.number]), *(self.numbers[n] for n in site.place))
            if v in self.received:
                op = b.create("tile_load", place, {"shape": shape, "masked": False}, (v.type,))
                op.result.hint = v.hint
                self.mapping[v] = op.result
            else:
                op = b.create("tile_store", (*place, self.mapping[v]), {"shape": shape, "masked": False})
            self.marks[op] = site
