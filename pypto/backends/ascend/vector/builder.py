"""The state of a lowering: names, buffers, the lowered form of each value, and the items written so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pypto.backends.ascend.blockir.ir import (
    Argument,
    Assign,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Read,
    Scalar,
    View,
    Word,
    fold,
)
from pypto.backends.ascend.blockir.softfloat64 import stored
from pypto.backends.ascend.rules.scalars import apply
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.ub_layout import Grain
from pypto.backends.ascend.vector.naming import name_hint
from pypto.backends.ascend.vector.values import (
    AnyTile,
    Broadcast,
    Deferred,
    DeferredLoad,
    LoweredValue,
    Pointer,
    Pointers,
    SelectedPointer,
    Splat,
    Tile,
)
from pypto.backends.base import Slot
from pypto.errors import CompilerBug
from pypto.errors.ascend import NoForm
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import DType, int1, int64, uint8
from pypto.loc import UNKNOWN, Loc
from pypto.passes.analysis.memory_effects import is_noalias, written_arrays
from pypto.passes.analysis.ranges import Ranges

Index = tuple[Scalar, ...]


@dataclass
class Lowering:
    """The state of one kernel's lowering to Block IR."""

    function: Function  # the kernel
    target: AscendTarget  # the chip
    grain: Grain  # padding of its layouts
    params: dict[Slot, Param] = field(default_factory=dict)  # parameters by what a launch fills them with
    buffers: list[Buffer] = field(default_factory=list)  # buffers so far
    env: dict[Value, LoweredValue] = field(default_factory=dict)  # lowered form of each value
    destinations: dict[Value, Tile] = field(default_factory=dict)  # tiles that results shall be computed into
    items: list[Item] = field(default_factory=list)  # items of the open sequence
    preamble: list[Item] = field(default_factory=list)  # items that run once, before the programs
    # counting vectors that all programs share
    index_vectors: dict[tuple[int, int, DType], View] = field(default_factory=dict)
    # one number over and over, in a repeat of memory that all programs share
    repeated_numbers: dict[tuple[str, int, DType], View] = field(default_factory=dict)
    loc: Loc = UNKNOWN  # place of the op at hand
    group_size: Scalar = 1  # programs that run at once
    hint: str = "t"  # name for new buffers
    dispatch: Callable[[Lowering, Op], None] = lambda low, op: None  # lowers one op

    def __post_init__(self) -> None:
        self.users: dict[Value, list[Op]] = {}
        self.positions: dict[Op, tuple[Region, int]] = {}
        for region in nested_regions(self.function.body):
            self.positions.update((op, (region, k)) for k, op in enumerate(region.ops))
        for op in self.function.walk():
            for v in op.operands:
                self.users.setdefault(v, []).append(op)
        self.use_counts = Counter({v: len(ops) for v, ops in self.users.items()})
        self.used_names: Counter[str] = Counter(
            ("program", "block", "blocks", "grid_x", "grid_y", "grid_z", "workspace")
        )
        self.scalar_blocks: dict[tuple[DType, str], View] = {}
        self.written_arrays = {v and v.hint for v in written_arrays(self.function)}
        self.nonnegative: set[Value] = set()  # loop indices that are 0 or more
        self.ranges = Ranges(self.function)
        self.scopes: list[dict[object, Scalar | Tile]] = [{}]

    # --- names and items ----------------------------------------------------------------------------------------

    def name(self, hint: str) -> str:
        """Return a name that nothing else has."""
        hint = hint or self.hint
        while True:
            self.used_names[hint] += 1
            candidate = hint if self.used_names[hint] == 1 else f"{hint}_{self.used_names[hint] - 1}"
            if candidate == hint or candidate not in self.used_names:
                self.used_names[candidate] += candidate != hint
                return candidate

    def instr(self, name: str, *args: Argument) -> None:
        """Append an instruction."""
        self.items.append(Instr(name, args, self.line))

    @property
    def line(self) -> int:
        """The user's line of the op at hand."""
        return self.loc.user.line

    @contextmanager
    def block(self) -> Iterator[list[Item]]:
        """Write items into a list of their own; cached numbers of the block are forgotten after it."""
        outer = self.items
        self.items = []
        self.scopes.append({})
        try:
            yield self.items
        finally:
            self.items = outer
            self.scopes.pop()

    @contextmanager
    def loop(self, hint: str, stop: Scalar, start: Scalar = 0, step: Scalar = 1, dtype: DType = int64) -> Iterator[str]:
        """Open a loop."""
        name = self.name(hint)
        with self.block() as body:
            yield name
        self.items.append(Loop(name, start, stop, step, tuple(body), self.line, dtype))

    @contextmanager
    def when(self, condition: Scalar) -> Iterator[None]:
        """Open a branch; nothing is written where the condition is known to be false."""
        with self.block() as body:
            yield
        if condition is True:
            self.items += body
        elif condition is not False and body:
            self.items.append(If(condition, tuple(body), (), self.line))

    def branch(self, condition: Scalar, items: list[Item], otherwise: list[Item]) -> None:
        """Append one list of items or the other."""
        if isinstance(condition, bool):
            self.items += items if condition else otherwise
        else:
            self.items.append(If(condition, tuple(items), tuple(otherwise), self.line))

    @contextmanager
    def loop_nest(self, sizes: tuple[Scalar, ...]) -> Iterator[Index]:
        """Open nested loops over all indices; a size of 1 needs none."""
        index: list[Scalar] = []
        open_loops: list[tuple[list[Item], str, Scalar]] = []
        for size in sizes:
            if size == 1:
                index.append(0)
                continue
            open_loops.append((self.items, self.name("ijklmn"[len(open_loops) % 6]), size))
            self.items = []
            self.scopes.append({})
            index.append(open_loops[-1][1])
        yield tuple(index)
        for outer, name, size in reversed(open_loops):
            body, self.items = self.items, outer
            self.scopes.pop()
            self.items.append(Loop(name, 0, size, 1, tuple(body), self.line))

    # --- scalars ------------------------------------------------------------------------------------------------

    def let(self, hint: str, dtype: DType, value: Scalar) -> Scalar:
        """Name a number; the same expression keeps the name that it has."""
        if not isinstance(value, Expr | Read):
            return value
        if isinstance(value, Expr) and (existing := self.lookup((dtype, value))) is not None:
            return existing  # type: ignore[return-value]  # such a key has numbers only
        name = self.name(hint)
        self.items.append(Let(name, stored(dtype), value, self.line))
        if isinstance(value, Expr) and not reads_memory(value):
            self.scopes[-1][dtype, value] = name
        return name

    def lookup(self, key: object) -> Scalar | Tile | None:
        """Return what the open scopes have cached under a key."""
        return next((scope[key] for scope in reversed(self.scopes) if key in scope), None)

    def variable(self, hint: str, dtype: DType, value: Scalar) -> str:
        """Define a number that may change."""
        name = self.name(hint)
        self.items.append(Let(name, stored(dtype), value, self.line))
        return name

    def assign(self, name: str, value: Scalar) -> None:
        """Change a variable."""
        if value != name:
            self.items.append(Assign(name, value, self.line))

    def number(self, v: Value) -> Scalar:
        """Return a value of one element as a number."""
        held = self.env[v]
        if (known := self.lookup(("number", v))) is not None and not isinstance(known, Tile):
            return known
        if isinstance(held, Tile | Splat | Broadcast | Deferred):
            hint = v.hint or (name_hint(v.op, self.users) if v.op is not None else "")
            held = self.let(hint, v.dtype, self.element(held, (0,) * len(held.shape)))
            if not v.shape:
                self.scopes[-1].setdefault(("number", v), held)
        assert not isinstance(held, DeferredLoad)
        if isinstance(held, Pointer | Pointers | SelectedPointer):
            raise self.refusal("an address", "has no number on the device", "index the array that it points into")
        return held

    def param(self, kind: str, arg: Value, dim: int = 0, dtype: DType = int64) -> Param:
        """Return the parameter for something that a launch knows."""
        slot = Slot(kind, arg.hint, dim, dtype)
        if slot not in self.params:
            suffix = {"shape": f"_size{dim}", "stride": f"_stride{dim}"}.get(kind, "")
            stored_dtype = uint8 if dtype == int1 and kind == "ptr" else stored(dtype)
            self.params[slot] = Param(self.name(arg.hint + suffix), stored_dtype, kind == "ptr")
        return self.params[slot]

    # --- tiles --------------------------------------------------------------------------------------------------

    def buffer(self, hint: str, dtype: DType, elements: int) -> View:
        """Allocate memory in UB, in whole repeats."""
        bits = dtype.bits * elements
        buffer = Buffer(self.name(hint), "UB", stored(dtype), -(-bits // 256) * 256 // dtype.bits)
        self.buffers.append(buffer)
        return View(buffer)

    def new_tile(self, shape: tuple[int, ...], dtype: DType, hint: str = "") -> Tile:
        """Allocate a tile."""
        layout = self.grain.layout(shape)
        if dtype.is_bool:
            return Tile(shape, dtype, self.buffer(hint or "mask", uint8, -(-layout.count // 8)), layout)
        return Tile(shape, dtype, self.buffer(hint, dtype, layout.count), layout)

    def result(self, v: Value) -> Tile:
        """Return the tile that a result shall be computed into."""
        return self.destinations.get(v) or self.new_tile(v.shape, v.dtype, v.hint)

    def tile(self, v: Value) -> Tile:
        """Return a value as a tile in UB."""
        return self.materialize(self.tile_value(v))

    def tile_value(self, v: Value) -> AnyTile:
        """Return a value as a tile, a splat, a broadcast or a deferred op."""
        held = self.env[v]
        assert not isinstance(held, DeferredLoad)
        if isinstance(held, Pointer | Pointers | SelectedPointer):
            raise self.refusal("an address", "is no number on the device", "index the array that it points into")
        return held if isinstance(held, Tile | Splat | Broadcast | Deferred) else Splat(v.shape, v.dtype, held)

    def materialize(self, value: AnyTile) -> Tile:
        """Return a value as a tile in UB, computed once in a scope."""
        if isinstance(value, Tile):
            return value
        existing = self.lookup(value)
        if not isinstance(existing, Tile):
            existing = self.scopes[-1][value] = self.materialize_new(value)
        return existing

    def materialize_new(self, value: Splat | Broadcast | Deferred) -> Tile:
        """Compute a value into a new tile."""
        from pypto.backends.ascend.vector.handlers.broadcast import broadcast
        from pypto.backends.ascend.vector.handlers.elementwise import compute
        from pypto.backends.ascend.vector.handlers.shape import fill

        if isinstance(value, Deferred):
            return self.materialize(compute(self, value.op, value.operands, value.shape))
        tile = self.new_tile(value.shape, value.dtype)
        fill(self, tile, value.value) if isinstance(value, Splat) else broadcast(self, tile, value)
        return tile

    def element_index(self, tile: Tile, index: Index) -> Scalar:
        """Return the position of an element in UB."""
        offset: Scalar = 0
        for i, stride in zip(index, self.grain.strides(tile.shape), strict=True):
            offset = fold("+", offset, fold("*", i, stride))
        return offset

    def element(self, value: AnyTile, index: Index) -> Scalar:
        """Read one element of a value on the scalar unit."""
        if isinstance(value, Splat):
            return value.value
        if isinstance(value, Broadcast):
            return self.element(
                value.source, tuple(0 if n == 1 else i for i, n in zip(index, value.source.shape, strict=True))
            )
        if isinstance(value, Deferred):
            return apply(self, value.op, [self.element(x, index) for x in value.operands])
        position = self.element_index(value, index)
        if not value.dtype.is_bool:
            return Read(advance_view(value.view, position))
        byte = Read(advance_view(value.view, fold("//", position, 8)))
        return Expr("!=", (Expr("&", (Expr(">>", (byte, fold("%", position, 8))), 1)), 0))

    def set_element(self, tile: Tile, index: Index, value: Scalar) -> None:
        """Write one element of a tile of numbers."""
        self.instr("SetValue", advance_view(tile.view, self.element_index(tile, index)), value)

    def offset(self, base: Pointer | Pointers, index: Index) -> Scalar:
        """Return the offset of an address in its array."""
        if isinstance(base, Pointer):
            return base.offset
        at: Scalar = 0
        for offsets in base.offsets:
            inner = tuple(0 if n == 1 else i for i, n in zip(index, offsets.shape, strict=True))
            at = fold("+", at, self.element(offsets, inner))
        return at

    @contextmanager
    def atomic_mode(self, kind: str | None, dtype: DType) -> Iterator[None]:
        """Open a scope in which copies to arrays add, or keep the greater or the lesser."""
        if kind is not None:
            self.instr(f"SetAtomic{kind.capitalize()}", Word(dtype.mnemonic))
        yield
        if kind is not None:
            self.instr("SetAtomicNone")

    def scalar_block(self, dtype: DType, role: str) -> View:
        """Return a block of memory that single elements go through on their way in or out."""
        if (dtype, role) not in self.scalar_blocks:
            self.scalar_blocks[dtype, role] = self.buffer(role, dtype, 256 // dtype.bits)
        return self.scalar_blocks[dtype, role]

    def may_be_written(self, param: str) -> bool:
        """Whether the kernel may write into the memory of an array parameter."""
        if None in self.written_arrays or (self.written_arrays and not is_noalias(self.function)):
            return True
        arrays = {self.params[slot].name: slot.arg for slot in self.params if slot.kind == "ptr"}
        return arrays.get(param, "") in self.written_arrays

    # --- what cannot be -----------------------------------------------------------------------------------------

    def refusal(self, what: str, problem: str, way: str) -> NoForm:
        """Build the error for something that has no form on the chip."""
        return NoForm(self.loc, what=what, problem=problem, way=way)

    def bug(self, op: Op) -> CompilerBug:
        """Build the error for an op that should not have come here."""
        return CompilerBug(f"{op.name} at {self.loc} has no lowering to Block IR")


def nested_regions(region: Region) -> Iterator[Region]:
    """Yield a region and all regions inside of it."""
    yield region
    for op in region.ops:
        for inner in op.regions:
            yield from nested_regions(inner)


def advance_view(view: View, by: Scalar) -> View:
    """Return a view that begins some elements later."""
    return View(view.of, fold("+", view.offset, by), view.stage, view.dtype)


def reads_memory(value: Scalar) -> bool:
    """Whether a number depends on memory at the time when it is computed."""
    return isinstance(value, Read) or (isinstance(value, Expr) and any(map(reads_memory, value.args)))
