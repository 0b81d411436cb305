"""Cube regions: the products, accumulators and stores of a kernel that a cube core can run.

An operand qualifies if it is a load of a strided matrix, possibly transposed or reshaped by dimensions of size 1, from
an array that the kernel does not write. A sum may stay in L0C if each of its uses continues it in place. For everything
else the analysis keeps the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pypto.backends.ascend.tile.fractals import OPERANDS, sum_type
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType, bfloat16, float16
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.analysis.dimensions import is_movement, source_dim
from pypto.passes.analysis.memory_effects import accessed_array, is_load, is_never_written, root, written_arrays
from pypto.passes.pattern import constant_of

CUBE_MOVEMENT_OPS: Final = ("permute", "reshape", "cast")  # that copies of the cube core do on the way


OTHER_FORM: Final = "products that are added up have other dtypes, or operands that lie another way round"

Slot = tuple[Value, Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Source:
    """The load that an operand comes from."""

    load: Op  # the load
    dims: tuple[int | None, ...]  # the load's dimension for each of the operand's, None for one of size 1

    @property
    def access(self) -> Access:
        """The access of the load."""
        return Access.of(self.load)

    def runs_down(self, i: int) -> bool:
        """Whether neighbours along one of the operand's dimensions lie apart in memory."""
        access, d = self.access, self.dims[i]
        return d is not None and access.shape[d] != 1 and constant_of(access.strides[d]) != 1


@dataclass
class CubeRegions:
    """The cube core's share of a kernel."""

    function: Function  # the kernel
    users: dict[Value, list[Op]] = field(default_factory=dict)  # users of each value
    # values that a loop passes a value on to
    carried_to: dict[tuple[Op, Value], list[Value]] = field(default_factory=dict)
    dots: list[Op] = field(default_factory=list)  # products that the cube core computes
    sums: set[Value] = field(default_factory=set)  # tiles that stay in L0C
    sources: dict[Value, Source] = field(default_factory=dict)  # operands that the cube core loads by itself
    refusals: dict[Value, str] = field(default_factory=dict)  # reasons by value
    ignored: set[Value] = field(default_factory=set)  # carried values that need no code

    @cached_property
    def branches(self) -> dict[Op, dict[Op, int]]:
        """The branches that each product lies in: from an `if` to which of its regions it is."""
        found: dict[Op, dict[Op, int]] = {}

        def collect(region: Region, around: dict[Op, int]) -> None:
            for op in region.ops:
                if op.name == "dot":
                    found[op] = around
                for i, inner in enumerate(op.regions):
                    collect(inner, around | {op: i} if op.name == "if" else around)

        collect(self.function.body, {})
        return found

    def are_exclusive(self, a: Op, b: Op) -> bool:
        """Whether no program, in no iteration of a loop, runs both of two products."""
        paths = self.branches[a], self.branches[b]
        return any(region != paths[1].get(op, region) for op, region in paths[0].items())

    @cached_property
    def product_count(self) -> int:
        """How many products share the core at most: of branches, one runs; what is added to a sum uses its memory."""
        groups: list[list[Op]] = []
        added = set[Op]()
        for dot in self.dots:
            if dot in added:
                continue
            added.update(self.products_of_sum(dot))
            group = next((g for g in groups if all(self.are_exclusive(dot, other) for other in g)), None)
            if group is None:
                groups.append([dot])
            else:
                group.append(dot)
        return len(groups)

    @property
    def refused_product(self) -> tuple[Op, str] | None:
        """The first product that no cube core computes, with the reason."""
        dots = (op for op in self.function.walk() if op.name == "dot" and op.result in self.refusals)
        return next(((op, self.refusals[op.result]) for op in dots), None)

    def products_of_sum(self, dot: Op) -> list[Op]:
        """Return a product and those that are added to its result later, wherever loops carry it."""
        found = {dot: None}
        worklist = [dot.result]
        seen = set[Value]()
        while worklist:
            v = worklist.pop()
            for op in self.users.get(v, []) if v not in seen else []:
                if op.name == "dot" and v in op.operands[2:]:
                    found[op] = None
                    worklist.append(op.result)
                elif op.name in ("for", "yield"):
                    worklist += self.carried_to.get((op, v), [])
            seen.add(v)
        return list(found)

    def regions(self) -> Iterator[Region]:
        """Yield all regions of the kernel."""
        yield self.function.body
        for op in self.function.walk():
            yield from op.regions

    def is_zero(self, v: Value) -> bool:
        """Whether a value is the constant 0."""
        return constant_of(v) == 0

    def accumulates_on_cube(self, dot: Op) -> bool:
        """Whether the cube core itself begins or continues the sum of a product."""
        return all(self.is_zero(v) or v in self.sums for v in dot.operands[2:])

    def form_of(self, dot: Op) -> tuple[object, ...]:
        """Return what the buffers of a product depend on: its dtype, and which way round its operands lie. An operand
        that comes from the vector cores lies in rows."""
        left, right = (self.sources.get(v) for v in dot.operands[:2])
        return (
            dot.operands[0].dtype,
            left is not None and left.runs_down(1),
            dot.operands[1].shape[-2] != 1 if right is None else right.runs_down(0),
        )

    def stored_sum(self, v: Value) -> Value:
        """Return the sum behind a stored value, through a cast and dimensions of size 1; otherwise the value."""
        inner = v
        while inner not in self.sums and inner.op is not None and inner.op.name in CUBE_MOVEMENT_OPS:
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
    """Return a shape without dimensions of size 1."""
    return tuple(n for n in shape if n != 1)


def cube_regions_of(function: Function) -> CubeRegions:
    """Analyse a kernel."""
    regions = CubeRegions(function)
    for op in function.walk():
        for v in op.operands:
            regions.users.setdefault(v, []).append(op)
    for op in function.walk():
        for init, arg, step, result in carried(op) if op.name == "for" else ():
            regions.carried_to.setdefault((op, init), []).extend((arg, result))
            regions.carried_to.setdefault((op.regions[0].terminator, step), []).extend((arg, result))
    regions.dots = [op for op in function.walk() if op.name == "dot" and is_cube_product(regions, op)]
    written = written_arrays(function)
    for dot in regions.dots:
        for v in dot.operands[:2]:
            source = source_of(v, tuple(range(len(v.shape)))[-2:])
            reason = "the vector cores compute it" if source is None else why_unloadable(source, written)
            if source is None or reason:
                regions.refusals[v] = reason
            else:
                regions.sources[v] = source
    find_sums(regions)
    return regions


def is_cube_product(regions: CubeRegions, dot: Op) -> bool:
    """Whether the cube core can compute a product."""
    left = dot.operands[0]
    if left.dtype not in OPERANDS:
        regions.refusals[dot.result] = f"the cube core has no products of {left.dtype.public}"
    elif len(left.shape) == 3 and left.shape[0] != 1:
        regions.refusals[dot.result] = "a stack of products cannot be gone through one by one"
    return dot.result not in regions.refusals


def source_of(v: Value, dims: tuple[int | None, ...]) -> Source | None:
    """Return the load behind an operand; `dims` are the operand's dimensions of `v`."""
    op = v.op
    if op is None:
        return None
    if op.name == "tile_load":
        return Source(op, dims)
    if op.name in ("permute", "reshape") and is_movement(op):
        return source_of(op.operands[0], tuple(None if d is None else source_dim(v, d) for d in dims))
    return None


def why_unloadable(source: Source, written: frozenset[Value | None]) -> str:
    """Return why the cube core cannot load an operand; empty if it can."""
    access = source.access
    if access.mask is not None or access.base.shape:
        return "its mask or its addresses are tiles"
    if access.other is not None and constant_of(access.other) != 0:
        return "its missing elements are not 0"
    matrix_dims = [d for d in source.dims if d is not None]
    if any(access.shape[d] != 1 for d in range(len(access.shape)) if d not in matrix_dims):
        return "it is a stack of matrices"
    wide_dims = [d for d in matrix_dims if access.shape[d] != 1]
    if len(wide_dims) > 1 and all(constant_of(access.strides[d]) != 1 for d in wide_dims):
        return "no two of its elements are neighbours in memory"
    array = root(access.base)
    return (
        "the kernel also writes to where it is loaded from"
        if array in written or None in written or array is None
        else ""
    )


def find_sums(regions: CubeRegions) -> None:
    """Find the tiles that can stay in L0C: assume all, then remove those with another use until nothing changes."""
    slots = list(carried_slots(regions.function))
    regions.sums = {dot.result for dot in regions.dots}
    for _, arg, step, result in slots:
        if isinstance(arg.type, TileType) and len(arg.shape) in (2, 3) and not arg.tile.is_ptr and step.op is not None:
            regions.sums |= {arg, result}
    size = -1
    while size != (size := len(regions.sums)):
        drop_other_forms(regions)
        for init, arg, step, result in slots:
            fits = (init in regions.sums or regions.is_zero(init)) and step in regions.sums and step is not arg
            if not (fits and is_chained(regions, arg) and (init not in regions.sums or is_chained(regions, init))):
                regions.sums -= {arg, result}
        for dot in regions.dots:
            acc = dot.operands[2:]
            if not regions.accumulates_on_cube(dot) or any(
                v in regions.sums and not is_chained(regions, v) for v in acc
            ):
                regions.sums.discard(dot.result)
    for dot in regions.dots:
        assert dot.result in regions.sums or sum_type(dot.operands[0].dtype) == dot.result.dtype


def drop_other_forms(regions: CubeRegions) -> None:
    """Drop products whose operands do not fit the buffers of the product that begins their sum."""
    for dot in regions.dots:
        form = regions.form_of(dot)
        for other in regions.products_of_sum(dot) if dot.result in regions.sums else ():
            if regions.form_of(other) != form:
                regions.sums.discard(other.result)
                regions.refusals[other.result] = OTHER_FORM


def is_chained(regions: CubeRegions, v: Value) -> bool:
    """Whether the only use of a sum continues it, since it is updated in place."""
    users = regions.users.get(v, [])
    return len(users) == 1 and (users[0].name in ("for", "yield") or v in users[0].operands[2:]) and (
        users[0].name in ("dot", "for", "yield"))  # fmt: skip


def carried_slots(function: Function) -> Iterator[Slot]:
    """Yield what all loops carry."""
    for op in function.walk():
        if op.name == "for":
            yield from carried(op)


def carried(loop: Op) -> Iterator[Slot]:
    """Return what a loop carries: its value before, inside, after an iteration, and after the loop."""
    (body,) = loop.regions
    return zip(loop.operands[3:], body.args[1:], body.terminator.operands, loop.results, strict=True)


def non_cube_ops(regions: CubeRegions) -> Iterator[tuple[Op, str]]:
    """Yield the ops that no cube core can run, with the reason."""
    done = cube_ops(regions)
    written = written_arrays(regions.function)
    for op in regions.function.walk():
        if op in done or TABLE[op.name].traits & {"control", "terminator"}:
            continue
        if is_load(op) and not op.result.shape:
            if not is_never_written(regions.function, accessed_array(op), written):
                yield op, "the kernel may write to where a number is loaded from"
            continue
        tiles = [v for v in (*op.operands, *op.results) if isinstance(v.type, TileType) and v.shape]
        if tiles:
            reasons = [regions.refusals[v] for v in tiles if v in regions.refusals]
            yield op, reasons[0] if reasons else f"`{op.name}` works on tiles element by element"
    for _, arg, _, _ in carried_slots(regions.function):
        if isinstance(arg.type, TileType) and arg.shape and arg not in regions.sums:
            yield regions.function.body.ops[-1], "a loop carries a tile that is no sum of products"


def cube_ops(regions: CubeRegions) -> set[Op]:
    """Return the tile ops that the cube core runs, and those that vanish in them."""
    done = {
        dot
        for dot in regions.dots
        if dot.result in regions.sums and all(v in regions.sources for v in dot.operands[:2])
    }
    for op in regions.function.walk():
        if op.name == "tile_store" and is_storable(regions, op):
            done.add(op)
    # Loads, moves and zeros vanish if all their users are done.
    pending = [
        op
        for op in regions.function.walk()
        if op.name in ("tile_load", "constant", *CUBE_MOVEMENT_OPS) and op.result.shape
    ]
    for op in reversed(pending):
        users = regions.users.get(op.result, [])
        if all(u in done or u.name == "for" for u in users):
            done.add(op)
    return done


def is_storable(regions: CubeRegions, op: Op) -> bool:
    """Whether the cube core can store a sum where an op stores it."""
    access = Access.of(op)
    assert access.value is not None
    sum_ = regions.stored_sum(access.value)
    if sum_ not in regions.sums or access.mask is not None or access.base.shape:
        return False
    wide = [d for d, n in enumerate(access.shape) if n != 1]
    return not wide or constant_of(access.strides[wide[-1]]) == 1 or (len(wide) == 1 and sum_.shape[1] == 1)
