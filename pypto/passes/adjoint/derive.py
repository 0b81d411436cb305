"""Derived kernels: which programs they have, what each of them sweeps, and where its gradients go.

A kernel has one derived kernel for all arrays whose elements every axis of the grid owns, or none does, and one for
each other set of owning axes; see `ownership`.

    all axes own     the grid of the forward kernel
    some own         programs along the owning axes; a loop over the others
    none owns        blocks of programs, one after the other; a partial gradient for each block
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pypto.ir.core import Attr, Function, Op, Region, Value
from pypto.ir.types import ArrayType, DType, TileType, int8, int32, int64
from pypto.ops.adjoint import gradient_dtype
from pypto.ops.build import OpBuilder
from pypto.passes.adjoint.activity import active_values, bit_patterns, is_real
from pypto.passes.adjoint.memory import GradientArray, GradientMemory
from pypto.passes.adjoint.ownership import Accumulation, Ownership
from pypto.passes.adjoint.reassociation import reassociate
from pypto.passes.adjoint.reuse import reused_results
from pypto.passes.adjoint.shift_invariance import shift_invariant_values
from pypto.passes.adjoint.sweep import ReverseSweep, Tape
from pypto.passes.analysis.memory_effects import accessed_array, is_load, is_pure, writes_memory
from pypto.passes.canonicalize import canonicalize
from pypto.passes.cse import cse
from pypto.passes.dce import dce

ALL_AXES = frozenset({0, 1, 2})
_ROUNDS = 2  # of reassociation: the second one sees what the first has taken out of reductions


class Workspace(enum.Enum):
    """Where a gradient is accumulated before it is written to its array."""

    NONE = "none"  # in the array itself
    SHARED = "shared"  # in one wider row, since sums of narrow floats are kept in float32
    BLOCKS = "blocks"  # in one row for each block of programs


@dataclass(frozen=True)
class Target:
    """An array by which a kernel is differentiated, and how its gradient is accumulated."""

    name: str
    ownership: Ownership
    workspace: Workspace


@dataclass(frozen=True)
class SavedValue:
    """A carried value of a loop that the derived kernel keeps for each trip.

    `name` is the argument that keeps it, `variable` its name in the forward kernel.
    """

    name: str
    variable: str
    size: int
    dtype: DType
    loop: Op


@dataclass(frozen=True)
class DerivedKernel:
    """A kernel that computes gradients: its IR, and what a launch has to bring.

    `axes` are the axes of the grid that are axes of it, too; None where its programs are blocks. `saved` are its
    arguments that keep carried values.
    """

    function: Function
    axes: frozenset[int] | None
    targets: tuple[Target, ...]
    saved: tuple[SavedValue, ...]


@dataclass
class Derivation:
    """Derives the kernel of some targets.

    `trivial` are axes of the grid with one program; `reuse` are stored arrays that are read again. `wanted` are carried
    values to keep, by loop and number; None: all.
    """

    forward: Function
    targets: Sequence[Target]
    stored: Sequence[str]
    axes: frozenset[int] | None
    trivial: frozenset[int]
    reuse: frozenset[str] = frozenset()
    overwritten: frozenset[str] = frozenset()  # stored arrays whose gradients are set to 0 once they are read
    wanted: frozenset[tuple[Op, int]] | None = None
    arguments: dict[str, Value] = field(default_factory=dict)
    saved: list[SavedValue] = field(default_factory=list)
    slots: dict[tuple[Op, int], str] = field(default_factory=dict)

    def derive(self) -> DerivedKernel:
        """The kernel, without what it does not need."""
        function = self.build()
        read = read_arrays(function)
        if self.saved and any(x.name not in read for x in self.saved):
            wanted = frozenset(key for key, name in self.slots.items() if name in read)
            return replace(self.cleared(), wanted=wanted).derive()
        used = {v for op in function.walk() for v in op.operands}
        function.body.args[:] = [v for v in function.args if v in used]
        return DerivedKernel(function, self.axes, tuple(self.targets), tuple(self.saved))

    @property
    def name(self) -> str:
        """The name of the derived kernel."""
        return f"{self.forward.name}_adjoint_{'_'.join(t.name for t in self.targets)}"

    def cleared(self) -> Derivation:
        """Return this derivation before anything was derived."""
        return replace(self, arguments={}, saved=[], slots={})

    # --- arguments ------------------------------------------------------------------------------------------------

    def argument(self, name: str, kind: ArrayType | TileType) -> Value:
        if name not in self.arguments:
            self.arguments[name] = Value(kind, name)
        return self.arguments[name]

    def array(self, name: str, elem: DType, ndim: int) -> Value:
        return self.argument(name, ArrayType(elem, ndim))

    def gradient(self, b: OpBuilder, target: Target, row: Value) -> GradientArray:
        kind = self.kind_of(target.name)
        how, first = target.ownership.accumulation, target.ownership.first
        if target.workspace is Workspace.NONE:
            return GradientArray(self.array(f"d_{target.name}", kind.elem, kind.ndim), how, first=first)
        elem = gradient_dtype(kind.elem)
        if target.workspace is Workspace.SHARED:
            row = b.constant(0, int64)
        return GradientArray(self.array(f"partial_{target.name}", elem, kind.ndim + 1), add_or_atomic(how), row, first)

    def kind_of(self, name: str) -> ArrayType:
        kind = next(v.type for v in self.forward.args if v.hint == name)
        assert isinstance(kind, ArrayType)
        return kind

    # --- building -------------------------------------------------------------------------------------------------

    def contributing_loads(self) -> frozenset[Op]:
        """The loads that add to a gradient. What another one loads reaches no result, or by constant functions."""
        _, sweep = self.swept()
        return frozenset(sweep.memory.contributing)

    def swept(self) -> tuple[Region, ReverseSweep]:
        """The body of the kernel before any pass, and the sweep that has built it."""
        region = Region()
        builder = OpBuilder(region)
        for arg in self.forward.args:
            self.arguments[arg.hint] = Value(arg.type, arg.hint)
        count = [self.count(builder, a) for a in range(3)]
        sweep = self.blocks(builder, count) if self.axes is None else self.nest(builder, count, self.axes)
        builder.create("yield")
        return region, sweep

    def build(self) -> Function:
        region, _ = self.swept()
        region.args[:] = self.arguments.values()
        attrs: dict[str, Attr] = {"noalias": True, "facts": self.facts()}
        function = Function(self.name, region, attrs, self.forward.loc)
        function = cse(canonicalize(cse(dce(function))))
        for _ in range(_ROUNDS):
            function = cse(dce(reassociate(dce(function))))
        return dce(cse(canonicalize(function)))

    def count(self, b: OpBuilder, axis: int) -> Value:
        """The number of programs of the forward launch along an axis."""
        if axis in self.trivial:
            return b.constant(1, int32)
        return self.argument(f"programs_{axis}", TileType((), int32))

    def facts(self) -> tuple[tuple[str, str, int, int], ...]:
        """Shapes and strides that are numbers in the forward IR; see `unparse`."""
        facts = self.forward.attrs.get("facts", ())
        assert isinstance(facts, tuple)
        return facts

    def blocks(self, b: OpBuilder, count: Sequence[Value]) -> ReverseSweep:
        """One program for a block of programs, in the order of their numbers."""
        total = b.emit("mul", b.emit("mul", count[0], count[1]), count[2])
        block, number = b.emit("program_id", axis=0), b.emit("num_programs", axis=0)
        one = b.constant(1, int32)
        size = b.emit("floordiv", b.emit("sub", b.emit("add", total, number), one), number)
        first = b.emit("mul", block, size)
        last = b.emit("minimum", b.emit("add", first, size), total, propagate_nan=False)
        row = b.cast(block, int64)
        sweep = self.sweep(b, count, row)
        fixed = self.loads_at_one_place()
        index = Value(TileType((), int32), "program")
        zeros = [b.constant(0, gradient_dtype(op.result.dtype), op.result.shape) for op in fixed]
        region = Region([index, *(Value(v.type, f"sum_{n}") for n, v in zip(fixed.values(), zeros, strict=True))])
        sweep.memory.carried.update(zip(fixed, region.args[1:], strict=True))
        with b.inside(region):
            self.program(sweep, self.place_of(b, index, count))
            b.create("yield", tuple(sweep.memory.carried[op] for op in fixed))
        kinds = tuple(v.type for v in zeros)
        loop = b.create("for", (first, last, one, *zeros), {}, kinds, (region,))
        self.write_sums(sweep, dict(zip(fixed, loop.results, strict=True)))
        return sweep

    def place_of(self, b: OpBuilder, index: Value, count: Sequence[Value]) -> tuple[Value, Value, Value]:
        """The place in the forward grid of the program with a number."""
        if self.trivial >= {1, 2}:
            zero = b.constant(0, int32)
            return index, zero, zero
        x, others = b.emit("rem", index, count[0]), b.emit("floordiv", index, count[0])
        return x, b.emit("rem", others, count[1]), b.emit("floordiv", others, count[1])

    def loads_at_one_place(self) -> dict[Op, str]:
        """Loads, with their arrays, that read the same elements in all programs, and alone of their array."""
        fixed_loads: dict[Op, str] = {}
        for target in self.targets:
            loads = [op for op in self.forward.walk() if is_load(op) and is_of(op, target.name)]
            op = loads[0] if len(loads) == 1 else None
            if op is not None and op in self.forward.body.ops and is_program_invariant(op):
                fixed_loads[op] = target.name
        return fixed_loads

    def write_sums(self, sweep: ReverseSweep, sums: Mapping[Op, Value]) -> None:
        """Write what the loop over programs carried."""
        primal = {arg: self.arguments[arg.hint] for arg in self.forward.args}
        for op, total in sums.items():
            for x in self.forward.body.ops:
                is_address = is_pure(x) and x.results and not x.regions and not is_program(x)
                if is_address and all(v in primal for v in x.operands):
                    sweep.copy(x, primal)
            array = accessed_array(op)
            assert array is not None
            gradient = replace(sweep.memory.loaded[array], accumulation=Accumulation.STORE)
            elem = gradient.array.type
            assert isinstance(elem, ArrayType)
            sweep.memory.write(op, gradient, sweep.builder.cast(total, elem.elem), primal)

    def nest(self, b: OpBuilder, count: Sequence[Value], axes: frozenset[int]) -> ReverseSweep:
        """One program for each place on some axes; loops over the others."""
        places: list[Value | None] = [b.emit("program_id", axis=a) if a in axes else None for a in range(3)]
        row = b.cast(self.row_of(b, places, count), int64)
        sweep = self.sweep(b, count, row)
        self.loops(sweep, places, count)
        return sweep

    def row_of(self, b: OpBuilder, places: Sequence[Value | None], count: Sequence[Value]) -> Value:
        """The number of the program among all of the derived kernel."""
        row = b.constant(0, int32)
        for a in reversed(range(3)):
            place = places[a]
            if place is not None:
                row = b.emit("add", b.emit("mul", row, count[a]), place)
        return row

    def loops(self, sweep: ReverseSweep, places: Sequence[Value | None], count: Sequence[Value]) -> None:
        """Loops over the axes on which the derived kernel has no programs, around the sweep of one program."""
        b = sweep.builder
        missing = [a for a in reversed(range(3)) if places[a] is None]
        if not missing:
            self.program(sweep, [p for p in places if p is not None])
            return
        axis = missing[0]
        index = Value(TileType((), int32), f"place_{axis}")
        region = Region([index])
        with b.inside(region):
            self.loops(sweep, [index if a == axis else p for a, p in enumerate(places)], count)
            b.create("yield")
        b.create("for", (b.constant(0, int32), count[axis], b.constant(1, int32)), {}, (), (region,))

    def sweep(self, b: OpBuilder, count: Sequence[Value], row: Value) -> ReverseSweep:
        """The sweep of the forward kernel, with the memory of gradients."""
        forward = self.forward
        arrays = {v.hint: v for v in forward.args}
        loaded = {arrays[t.name]: self.gradient(b, t, row) for t in self.targets}
        stored = {arrays[name]: self.stored_gradient(name) for name in self.stored}
        active = active_values(forward, loaded, shift_invariant_values(forward))
        bits = bit_patterns(forward, active)
        used = frozenset(v for op in forward.walk() for v in op.operands)
        known = {("num_programs", a): v for a, v in enumerate(count)}
        memory = GradientMemory(b, stored, loaded, frozenset(self.facts()))
        reused = reused_results(forward, self.reuse)
        return ReverseSweep(forward.name, b, active, used, memory, known, bits, self.tapes(row), reused)

    def program(self, sweep: ReverseSweep, places: Sequence[Value]) -> None:
        """One program of the forward kernel, forwards and in reverse."""
        sweep.places.update({("program_id", a): v for a, v in enumerate(places)})
        primal = {arg: self.arguments[arg.hint] for arg in self.forward.args}
        sweep.forward(self.forward.body, primal)
        sweep.reverse(self.forward.body, primal, {})

    def stored_gradient(self, name: str) -> GradientArray:
        kind = self.kind_of(name)
        array = self.array(f"d_{name}", kind.elem, kind.ndim)
        return GradientArray(array, Accumulation.STORE, is_consumed=name in self.overwritten)

    def tapes(self, row: Value) -> dict[tuple[Op, int], Tape]:
        """Memory for what loops carry."""
        tapes: dict[tuple[Op, int], Tape] = {}
        self.saved.clear()
        loops = [op for op in self.forward.walk() if op.name == "for"]
        for key in ((op, n) for op in loops for n in range(len(op.results))):
            v = key[0].results[key[1]]
            if (self.wanted is not None and key not in self.wanted) or v.tile.is_ptr:
                continue
            name = f"saved_{len(self.saved)}"
            dtype = int8 if v.dtype.is_bool else v.dtype
            variable = key[0].regions[0].args[1 + key[1]].hint
            self.saved.append(SavedValue(name, variable, math.prod(v.shape), dtype, key[0]))
            self.slots[key] = name
            tapes[key] = Tape(self.array(name, dtype, 3), row)
        return tapes


def is_of(op: Op, name: str) -> bool:
    """Whether an access goes to the array of a name."""
    array = accessed_array(op)
    return array is not None and array.hint == name


def is_program(op: Op) -> bool:
    return op.name == "program_id"


def is_program_invariant(op: Op) -> bool:
    """Whether the place of an access is computed by pure ops, and is the same for all programs."""
    pending, seen = list(op.operands), set[Op]()
    while pending:
        x = pending.pop().op
        if x is None or x in seen:
            continue
        if is_program(x) or not is_pure(x) or x.regions:
            return False
        seen.add(x)
        pending.extend(x.operands)
    return True


def add_or_atomic(how: Accumulation) -> Accumulation:
    """What several programs of a block add to is read before it is written."""
    return Accumulation.ATOMIC if how is Accumulation.ATOMIC else Accumulation.ADD


def read_arrays(function: Function) -> frozenset[str]:
    """The names of arrays that a function reads."""
    return frozenset(array.hint for op in function.walk() if is_load(op) and (array := accessed_array(op)) is not None)


def stored_arrays(function: Function) -> dict[str, Op]:
    """Arrays that a function writes, with the first op that does."""
    first_stores: dict[str, Op] = {}
    for op in function.walk():
        array = accessed_array(op) if writes_memory(op) else None
        if array is not None:
            first_stores.setdefault(array.hint, op)
    return first_stores


def stores_reals(op: Op) -> bool:
    """Whether a store writes floats."""
    return any(is_real(v) for v in op.operands[1:])
