"""Core partition: splits a kernel into a cube side with the products and a vector side with all else.

Both sides run the same loops and branches, each with the ops that its own effects need (a backward slice). A tile that
one side computes and the other one uses is stored to the workspace and loaded from it, so each side is a kernel of its
own. `cube.mixed` adds the flags that order these accesses. It is legal if the cube side needs nothing from the vector
cores except operand tiles.

    s = dot(q, k)            cube:   over_0 = dot(q, k)
    p = exp(s)         ->            o = dot(over_1, v)
    o = dot(p, v)            vector: over_1 = exp(over_0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pypto.backends.ascend.tile.cube_regions import CUBE_MOVEMENT_OPS, CubeRegions, cube_ops, cube_regions_of
from pypto.backends.ascend.tile.operand_facts import Span
from pypto.backends.ascend.tile.transfers import NotPartitionable, Transfer, find_transfers
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import ArrayType, TileType, int64
from pypto.ops.build import OpBuilder
from pypto.passes.analysis.memory_effects import writes_memory

MAX_CHANNELS: Final = 5  # flags between cores have numbers up to 10, and each channel takes two


@dataclass
class CorePartition:
    """The two sides of a kernel."""

    cube: Function  # the cube core's kernel
    vector: Function  # the vector cores' kernel
    transfers: list[Transfer]  # the tiles that are exchanged
    transfer_of_op: dict[Op, Transfer]  # transfers by the ops that access the workspace
    nonnegative: set[Value] = field(default_factory=set)  # numbers that are 0 or more
    loop_spans: dict[Op, Span] = field(default_factory=dict)  # bounds of the index in each pipeline stage
    sent_first: set[Transfer] = field(default_factory=set)  # transfers that the cube core sends before it receives any
    # stores of column tiles: first column, and that of the last tile
    column_stores: dict[Op, tuple[Value, int]] = field(default_factory=dict)

    @property
    def channels(self) -> list[Transfer]:
        """The first transfer of each channel, which the channel's array is named after."""
        firsts: dict[int, Transfer] = {}
        for transfer in self.transfers:
            firsts.setdefault(transfer.channel, transfer)
        return list(firsts.values())


def partition(function: Function) -> CorePartition:
    """Split a kernel into its two sides.

    Raises
    ------
    NotPartitionable
        When it has no products, or when the cube core would need what the vector cores compute.
    """
    function = split_accumulation(rewrite(function, duplicate_ranges, OpBuilder))
    function = separate_operands(function)
    regions = cube_regions_of(function)
    if not regions.dots:
        op, reason = regions.refused_product or (function.body.terminator, "it has no products")
        raise NotPartitionable(f"line {op.loc.user.line}: {reason}")
    transfers = find_transfers(regions)
    channels = len({site.channel for site in transfers})
    if channels > MAX_CHANNELS:
        raise NotPartitionable(f"tiles go from core to core in {channels} ways, and there are flags for {MAX_CHANNELS}")
    if any(site.value.tile.size == 1 for site in transfers):  # no flag orders the scalar unit's reads
        raise NotPartitionable("a single number goes from core to core")
    cube_work = cube_ops(regions) | set(regions.dots)
    transfer_of_op: dict[Op, Transfer] = {}
    effects = {op for op in function.walk() if writes_memory(op)}
    stores = {op for op in effects if op in cube_work}
    cube = PartitionSlicer(regions, transfers, transfer_of_op, stores | set(regions.dots), True).function()
    vector = PartitionSlicer(regions, transfers, transfer_of_op, effects - stores, False).function()
    return CorePartition(cube, vector, transfers, transfer_of_op)


def duplicate_ranges(r: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """Give each op its own range: a shared one would tie the dimensions of rows and columns."""
    ranges = [v for v in op.operands if v.op is not None and v.op.name == "arange"]
    if not ranges or op.regions:
        return None
    mapped = {v: r.value(v) for v in ranges}
    for v in mapped:
        assert v.op is not None
        r.mapping[v] = r.builder.create("arange", (), dict(v.op.attrs), (v.type,)).result
    copies = r.copy(op).results
    r.mapping.update(mapped)
    return copies


def split_accumulation(function: Function) -> Function:
    """Rewrite a product that is added to what the cube core does not keep as a product and an addition."""
    regions = cube_regions_of(function)
    split = {
        dot
        for dot in regions.dots
        if dot.operands[2:] and not (may_stay_on_cube(dot.operands[2]) and is_kept(regions, dot))
    }
    return rewrite(function, lambda r, op: added(r, op) if op in split else None, OpBuilder) if split else function


def is_kept(regions: CubeRegions, dot: Op) -> bool:
    """Whether the sum of a product stays on the cube core."""
    return dot.result in regions.sums or regions.is_zero(dot.operands[2])


def added(r: Rewriter[OpBuilder], op: Op) -> list[Value]:
    """Rewrite a product with an accumulator as a product and an addition."""
    a, b, acc = r.operands(op)
    return [r.builder.emit("add", r.builder.emit("dot", a, b, **op.attrs), acc)]


def separate_operands(function: Function) -> Function:
    """Give each product whose operand is a sum in L0C a copy of that sum: nothing leads from L0C to L0A or L0B.

    The sum and its copy are two tiles. The first one goes to the vector cores, and the second one comes back.
    """
    regions = cube_regions_of(function)
    sums = {v for dot in regions.dots for v in dot.operands[:2] if v in regions.sums}
    return rewrite(function, lambda r, op: copy_operands(r, op, sums), OpBuilder) if sums else function


def copy_operands(r: Rewriter[OpBuilder], op: Op, sums: set[Value]) -> Sequence[Value] | None:
    """Rewrite a product of sums as a product of their copies."""
    operands = op.operands[:2]
    if op.name != "dot" or not sums & set(operands):
        return None
    copies = {v: copied(r, v) if v in sums else r.value(v) for v in operands}
    return [r.builder.emit("dot", *(copies[v] for v in operands), *map(r.value, op.operands[2:]), **op.attrs)]


def copied(r: Rewriter[OpBuilder], v: Value) -> Value:
    """Return a copy of a tile, by an op that leaves its shape."""
    return r.builder.create("reshape", (r.value(v),), {"shape": v.shape}, (v.type,)).result


def may_stay_on_cube(v: Value) -> bool:
    """Whether an accumulator may stay on the cube core, judged by its definition."""
    return v.op is None or v.op.name in ("constant", "dot", "for")


# --- one side ---------------------------------------------------------------------------------------------------------


@dataclass
class PartitionSlicer:
    """The backward slice of one side: ops that its effects and its transfers need."""

    regions: CubeRegions  # products of the kernel
    transfers: list[Transfer]  # tiles that are exchanged
    transfer_of_op: dict[Op, Transfer]  # filled in by the copy
    root_ops: set[Op]  # effects of this side
    is_cube: bool  # whether it is the cube side
    needed: set[Value] = field(default_factory=set)  # values of the slice
    kept_ops: set[Op] = field(default_factory=set)  # ops of the slice
    mapping: dict[Value, Value] = field(default_factory=dict)  # old values to new ones
    arrays: dict[int, Value] = field(default_factory=dict)  # workspace arrays by channel

    def __post_init__(self) -> None:
        self.definitions: dict[Value, Op | Region] = {}
        self.enclosing: dict[Op | int, Op | None] = {}
        self.index_definitions(self.regions.function.body, None)
        self.received = {transfer.value for transfer in self.transfers if transfer.to_cube == self.is_cube}
        self.worklist: list[Value] = []
        for transfer in self.transfers:
            self.keep_enclosing(self.enclosing_op(transfer.value))
            if transfer.value not in self.received:
                self.require(transfer.value)
        for op in self.root_ops:
            self.keep_op(op)
        while self.worklist:
            self.trace(self.worklist.pop())

    def index_definitions(self, region: Region, owner: Op | None) -> None:
        """Note where each value is defined, and what encloses it."""
        self.enclosing[id(region)] = owner
        for v in region.args:
            self.definitions[v] = region
        for op in region.ops:
            self.enclosing[op] = owner
            for v in op.results:
                self.definitions[v] = op
            for inner in op.regions:
                self.index_definitions(inner, op)

    def enclosing_op(self, v: Value) -> Op | None:
        """Return the loop or branch around the definition of a value."""
        definition = self.definitions[v]
        return self.enclosing[definition if isinstance(definition, Op) else id(definition)]

    def require(self, v: Value) -> None:
        """Add a value to the slice."""
        if v not in self.needed and v not in self.received:
            self.needed.add(v)
            self.worklist.append(v)

    def keep_op(self, op: Op) -> None:
        """Add an op with its operands and all that encloses it."""
        if op in self.kept_ops:
            return
        self.kept_ops.add(op)
        self.keep_enclosing(self.enclosing[op])
        if not op.regions:
            for v in op.operands:
                self.require(v)

    def keep_enclosing(self, op: Op | None) -> None:
        """Add a loop or branch and all that encloses it."""
        if op is None or op in self.kept_ops:
            return
        self.kept_ops.add(op)
        if op.name == "while":
            raise NotPartitionable("a `while` loop is around a product")
        for v in op.operands[:3] if op.name == "for" else op.operands:
            self.require(v)
        self.keep_enclosing(self.enclosing[op])

    def trace(self, v: Value) -> None:
        """Add the definition of a value."""
        definition = self.definitions[v]
        if isinstance(definition, Region):
            owner = self.enclosing[id(definition)]
            if owner is not None and owner.name == "for" and v is not definition.args[0]:
                self.require_slot(owner, definition.args.index(v) - 1)
            return
        if definition.name in ("for", "if"):
            self.require_slot(definition, definition.results.index(v))
        elif self.is_cube and definition.name != "dot" and not self.cube_has(definition):
            raise NotPartitionable(
                f"line {definition.loc.user.line}: the cube core would need what the vector cores compute"
            )
        elif not self.is_cube and definition.name == "dot" and definition in self.regions.dots:
            raise NotPartitionable(
                f"line {definition.loc.user.line}: sums go on in a loop that the vector cores take part in"
            )
        else:
            self.keep_op(definition)

    def cube_has(self, op: Op) -> bool:
        """Whether the cube core can run an op: scalar ops, and some tile ops."""
        values = [v for v in (*op.operands, *op.results) if isinstance(v.type, TileType) and v.shape]
        return not values or op.name in (*CUBE_MOVEMENT_OPS, "tile_load", "constant", "tile_store")

    def require_slot(self, op: Op, i: int) -> None:
        """Add a value that a loop carries or a branch gives."""
        self.keep_enclosing(op)
        self.needed.add(op.results[i])
        if op.name == "for":
            (body,) = op.regions
            self.require(op.operands[3 + i])
            self.needed.add(body.args[1 + i])
            self.require(body.terminator.operands[i])
        else:
            for region in op.regions:
                self.require(region.terminator.operands[i])

    # --- the copy -----------------------------------------------------------------------------------------------------

    def function(self) -> Function:
        """Return the side as a function."""
        old = self.regions.function
        new = Region([Value(a.type, a.hint) for a in old.args])
        self.mapping.update(zip(old.args, new.args, strict=True))
        for transfer in self.transfers:
            if transfer.channel not in self.arrays:
                self.arrays[transfer.channel] = Value(ArrayType(transfer.dtype, 2), transfer.name)
                new.args.append(self.arrays[transfer.channel])
        self.builder = OpBuilder(new, old.loc)
        self.numbers = {
            n: self.builder.constant(n, int64) for transfer in self.transfers for n in transfer.access_operands
        }
        self.copy_region(old.body, new)
        self.builder.region = new
        self.builder.create("yield")
        return replace(old, body=new, attrs=dict(old.attrs))

    def copy_region(self, old: Region, new: Region) -> None:
        """Copy the kept ops of a region, with its transfers."""
        with self.builder.inside(new):
            for v in old.args:
                self.emit_transfer(v)
            for op in old.body:
                with self.builder.at(op.loc):
                    if op in self.kept_ops:
                        self.copy_op(op)
                    for v in op.results:
                        self.emit_transfer(v)

    def copy_op(self, op: Op) -> None:
        """Copy an op."""
        if op.name in ("for", "if"):
            self.copy_control(op)
            return
        made = self.builder.create(op.name, tuple(self.mapping[v] for v in op.operands), dict(op.attrs), tuple(
            v.type for v in op.results))  # fmt: skip
        self.record_results(op.results, made.results)

    def record_results(self, old: tuple[Value, ...], new: tuple[Value, ...]) -> None:
        """Map results and keep their names."""
        for a, b in zip(old, new, strict=True):
            b.hint = a.hint
            self.mapping[a] = b

    def copy_control(self, op: Op) -> None:
        """Copy a loop or branch with the carried values of the slice."""
        chosen = [i for i, v in enumerate(op.results) if v in self.needed]
        first = 3 if op.name == "for" else len(op.operands)
        operands = (*op.operands[:first], *(op.operands[first + i] for i in chosen if op.name == "for"))
        values = tuple(self.mapping[v] for v in operands)
        regions = []
        for region in op.regions:
            picked = [a for j, a in enumerate(region.args) if j == 0 or j - 1 in chosen]
            new = Region([Value(a.type, a.hint) for a in picked])
            self.mapping.update(zip(picked, new.args, strict=True))
            self.copy_region(region, new)
            with self.builder.inside(new):
                self.builder.create("yield", tuple(self.mapping[region.terminator.operands[i]] for i in chosen))
            regions.append(new)
        results = tuple(op.results[i] for i in chosen)
        made = self.builder.create(op.name, values, dict(op.attrs), tuple(v.type for v in results), tuple(regions))
        self.record_results(results, made.results)

    def emit_transfer(self, v: Value) -> None:
        """Store or load a tile that is exchanged, right behind its definition."""
        for transfer in self.transfers:
            if transfer.value is not v:
                continue
            b, shape = self.builder, transfer.shape
            place = (
                b.emit("array_ptr", self.arrays[transfer.channel]),
                *(self.numbers[n] for n in transfer.access_operands),
            )
            if v in self.received:
                op = b.create("tile_load", place, {"shape": shape, "masked": False}, (v.type,))
                op.result.hint = v.hint
                self.mapping[v] = op.result
            else:
                op = b.create("tile_store", (*place, self.mapping[v]), {"shape": shape, "masked": False})
            self.transfer_of_op[op] = transfer
