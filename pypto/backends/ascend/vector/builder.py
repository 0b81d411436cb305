"""The state of a lowering: names, buffers, what each value has become, and the items written so far."""

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
    Held,
    Later,
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
from pypto.passes.memory_effects import is_noalias, written_arrays

Index = tuple[Scalar, ...]


@dataclass
class Lowering:
    """What one kernel's lowering knows. `into` says which buffers results shall be computed into."""

    function: Function
    target: AscendTarget
    grain: Grain
    params: dict[Slot, Param] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    env: dict[Value, Held] = field(default_factory=dict)
    into: dict[Value, Tile] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    front: list[Item] = field(default_factory=list)  # what is done once, before all else
    counted: dict[tuple[int, int, DType], View] = field(default_factory=dict)
    loc: Loc = UNKNOWN
    group: Scalar = 1  # programs that are done at once
    hint: str = "t"  # what is made now is called so, unless something else is said
    dispatch: Callable[[Lowering, Op], None] = lambda low, op: None

    def __post_init__(self) -> None:
        self.users: dict[Value, list[Op]] = {}
        self.places: dict[Op, tuple[Region, int]] = {}
        for region in regions(self.function.body):
            self.places.update((op, (region, k)) for k, op in enumerate(region.ops))
        for op in self.function.walk():
            for v in op.operands:
                self.users.setdefault(v, []).append(op)
        self.uses = Counter({v: len(ops) for v, ops in self.users.items()})
        self.taken: Counter[str] = Counter(("program", "block", "blocks", "grid_x", "grid_y", "grid_z", "workspace"))
        self.blocks: dict[tuple[DType, str], View] = {}
        self.written = {v and v.hint for v in written_arrays(self.function)}
        self.nonnegative: set[Value] = set()  # indices of loops that are 0 or more
        self.scopes: list[dict[object, Scalar | Tile]] = [{}]

    # --- names and items ----------------------------------------------------------------------------------------

    def name(self, hint: str) -> str:
        """A name that nothing else has."""
        hint = hint or self.hint
        while True:
            self.taken[hint] += 1
            made = hint if self.taken[hint] == 1 else f"{hint}_{self.taken[hint] - 1}"
            if made == hint or made not in self.taken:
                self.taken[made] += made != hint
                return made

    def instr(self, name: str, *args: Argument) -> None:
        self.items.append(Instr(name, args, self.line))

    @property
    def line(self) -> int:
        return self.loc.user.line

    @contextmanager
    def block(self) -> Iterator[list[Item]]:
        """Write items into a list of their own; what is known inside is forgotten after it."""
        outer, self.items = self.items, []
        self.scopes.append({})
        try:
            yield self.items
        finally:
            self.items = outer
            self.scopes.pop()

    @contextmanager
    def loop(self, hint: str, stop: Scalar, start: Scalar = 0, step: Scalar = 1, dtype: DType = int64) -> Iterator[str]:
        name = self.name(hint)
        with self.block() as body:
            yield name
        self.items.append(Loop(name, start, stop, step, tuple(body), self.line, dtype))

    @contextmanager
    def when(self, condition: Scalar) -> Iterator[None]:
        """Items that run where a condition holds; none at all where it is known not to."""
        with self.block() as body:
            yield
        if condition is True:
            self.items += body
        elif condition is not False and body:
            self.items.append(If(condition, tuple(body), (), self.line))

    def either(self, condition: Scalar, items: list[Item], otherwise: list[Item]) -> None:
        """One list of items or the other."""
        if isinstance(condition, bool):
            self.items += items if condition else otherwise
        else:
            self.items.append(If(condition, tuple(items), tuple(otherwise), self.line))

    @contextmanager
    def each(self, sizes: tuple[Scalar, ...]) -> Iterator[Index]:
        """Nested loops over all indices; a size of 1 needs none."""
        index: list[Scalar] = []
        lists: list[tuple[list[Item], str, Scalar]] = []
        for size in sizes:
            if size == 1:
                index.append(0)
                continue
            lists.append((self.items, self.name("ijklmn"[len(lists) % 6]), size))
            self.items = []
            self.scopes.append({})
            index.append(lists[-1][1])
        yield tuple(index)
        for outer, name, size in reversed(lists):
            body, self.items = self.items, outer
            self.scopes.pop()
            self.items.append(Loop(name, 0, size, 1, tuple(body), self.line))

    # --- scalars ------------------------------------------------------------------------------------------------

    def let(self, hint: str, dtype: DType, value: Scalar) -> Scalar:
        """A name for a number, the one that it has already where there is one."""
        if not isinstance(value, Expr | Read):
            return value
        if isinstance(value, Expr) and (known := self.known((dtype, value))) is not None:
            return known  # type: ignore[return-value]  # under such a key there are numbers alone
        name = self.name(hint)
        self.items.append(Let(name, stored(dtype), value, self.line))
        if isinstance(value, Expr) and not reads(value):
            self.scopes[-1][dtype, value] = name
        return name

    def known(self, key: object) -> Scalar | Tile | None:
        return next((scope[key] for scope in reversed(self.scopes) if key in scope), None)

    def variable(self, hint: str, dtype: DType, value: Scalar) -> str:
        """A name whose number may change."""
        name = self.name(hint)
        self.items.append(Let(name, stored(dtype), value, self.line))
        return name

    def assign(self, name: str, value: Scalar) -> None:
        if value != name:
            self.items.append(Assign(name, value, self.line))

    def number(self, v: Value) -> Scalar:
        """A value of one element as a number."""
        held = self.env[v]
        if isinstance(held, Tile | Splat | Broadcast | Deferred):
            hint = v.hint or (name_hint(v.op, self.users) if v.op is not None else "")
            held = self.let(hint, v.dtype, self.element(held, (0,) * len(held.shape)))
            if not v.shape:
                self.scopes[-1].setdefault(("number", v), held)
        assert not isinstance(held, Later)
        if isinstance(held, Pointer | Pointers | SelectedPointer):
            raise self.refused("an address", "has no number on the device", "index the array that it points into")
        return held

    def param(self, kind: str, arg: Value, dim: int = 0, dtype: DType = int64) -> Param:
        """A parameter of the kernel, for what a launch knows."""
        slot = Slot(kind, arg.hint, dim, dtype)
        if slot not in self.params:
            suffix = {"shape": f"_size{dim}", "stride": f"_stride{dim}"}.get(kind, "")
            held = uint8 if dtype == int1 and kind == "ptr" else stored(dtype)
            self.params[slot] = Param(self.name(arg.hint + suffix), held, kind == "ptr")
        return self.params[slot]

    # --- tiles --------------------------------------------------------------------------------------------------

    def buffer(self, hint: str, dtype: DType, elements: int) -> View:
        """Memory in UB, in whole repeats."""
        bits = dtype.bits * elements
        made = Buffer(self.name(hint), "UB", stored(dtype), -(-bits // 256) * 256 // dtype.bits)
        self.buffers.append(made)
        return View(made)

    def new(self, shape: tuple[int, ...], dtype: DType, hint: str = "") -> Tile:
        """A tile in memory that nothing has written."""
        layout = self.grain.layout(shape)
        if dtype.is_bool:
            return Tile(shape, dtype, self.buffer(hint or "mask", uint8, -(-layout.count // 8)), layout)
        return Tile(shape, dtype, self.buffer(hint, dtype, layout.count), layout)

    def result(self, v: Value) -> Tile:
        """Where a result shall be computed."""
        return self.into.get(v) or self.new(v.shape, v.dtype, v.hint)

    def tile(self, v: Value) -> Tile:
        """A value as a tile in UB."""
        return self.made(self.held(v))

    def held(self, v: Value) -> AnyTile:
        held = self.env[v]
        assert not isinstance(held, Later)
        if isinstance(held, Pointer | Pointers | SelectedPointer):
            raise self.refused("an address", "is no number on the device", "index the array that it points into")
        return held if isinstance(held, Tile | Splat | Broadcast | Deferred) else Splat(v.shape, v.dtype, held)

    def made(self, held: AnyTile) -> Tile:
        """A tile in UB of what may not be there yet; made once within a scope."""
        if isinstance(held, Tile):
            return held
        known = self.known(held)
        if not isinstance(known, Tile):
            known = self.scopes[-1][held] = self.fresh(held)
        return known

    def fresh(self, held: Splat | Broadcast | Deferred) -> Tile:
        from pypto.backends.ascend.vector.broadcast import broadcast
        from pypto.backends.ascend.vector.elementwise import computed
        from pypto.backends.ascend.vector.shape import fill

        if isinstance(held, Deferred):
            return self.made(computed(self, held.op, held.operands, held.shape))
        made = self.new(held.shape, held.dtype)
        fill(self, made, held.value) if isinstance(held, Splat) else broadcast(self, made, held)
        return made

    def place(self, tile: Tile, index: Index) -> Scalar:
        """Number of the element at an index, counted in UB."""
        offset: Scalar = 0
        for i, stride in zip(index, self.grain.strides(tile.shape), strict=True):
            offset = fold("+", offset, fold("*", i, stride))
        return offset

    def element(self, held: AnyTile, index: Index) -> Scalar:
        """One element of a tile, read by the scalar unit."""
        if isinstance(held, Splat):
            return held.value
        if isinstance(held, Broadcast):
            return self.element(held.of, tuple(0 if n == 1 else i for i, n in zip(index, held.of.shape, strict=True)))
        if isinstance(held, Deferred):
            return apply(self, held.op, [self.element(x, index) for x in held.operands])
        at = self.place(held, index)
        if not held.dtype.is_bool:
            return Read(moved(held.view, at))
        byte = Read(moved(held.view, fold("//", at, 8)))
        return Expr("!=", (Expr("&", (Expr(">>", (byte, fold("%", at, 8))), 1)), 0))

    def put(self, tile: Tile, index: Index, value: Scalar) -> None:
        """Write one element; of a tile of numbers."""
        self.instr("SetValue", moved(tile.view, self.place(tile, index)), value)

    def offset(self, base: Pointer | Pointers, index: Index) -> Scalar:
        """Where an address lies in its array."""
        if isinstance(base, Pointer):
            return base.offset
        at: Scalar = 0
        for part in base.offsets:
            inner = tuple(0 if n == 1 else i for i, n in zip(index, part.shape, strict=True))
            at = fold("+", at, self.element(part, inner))
        return at

    @contextmanager
    def adding(self, kind: str | None, dtype: DType) -> Iterator[None]:
        """Copies out that add to what is in memory, or keep the greater or the lesser of both."""
        if kind is not None:
            self.instr(f"SetAtomic{kind.capitalize()}", Word(dtype.mnemonic))
        yield
        if kind is not None:
            self.instr("SetAtomicNone")

    def block_of(self, dtype: DType, role: str) -> View:
        """A block of memory that single elements go through, on their way in or out."""
        if (dtype, role) not in self.blocks:
            self.blocks[dtype, role] = self.buffer(role, dtype, 256 // dtype.bits)
        return self.blocks[dtype, role]

    def may_be_written(self, param: str) -> bool:
        """Whether the kernel may write into an array parameter's memory."""
        if None in self.written or (self.written and not is_noalias(self.function)):
            return True
        arrays = {self.params[slot].name: slot.arg for slot in self.params if slot.kind == "ptr"}
        return arrays.get(param, "") in self.written

    # --- what cannot be -----------------------------------------------------------------------------------------

    def refused(self, what: str, problem: str, way: str) -> NoForm:
        return NoForm(self.loc, what=what, problem=problem, way=way)

    def bug(self, op: Op) -> CompilerBug:
        return CompilerBug(f"{op.name} at {self.loc} has no lowering to Block IR")


def regions(region: Region) -> Iterator[Region]:
    """A region and all that are inside of it."""
    yield region
    for op in region.ops:
        for inner in op.regions:
            yield from regions(inner)


def moved(view: View, by: Scalar) -> View:
    """A place further on in the same buffer or array."""
    return View(view.of, fold("+", view.offset, by), view.stage, view.dtype)


def reads(value: Scalar) -> bool:
    """Whether a number depends on what is in memory when it is computed."""
    return isinstance(value, Read) or (isinstance(value, Expr) and any(map(reads, value.args)))
