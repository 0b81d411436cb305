"""The reverse sweep: the ops of a region again, then their adjoints from the last to the first.

Legal for pure ops that have an adjoint, loads, stores, atomic additions, `if`, and `for` loops with a constant step. A
loop runs backwards: each trip begins with the carried values that it began with in the forward loop, computes its body
again, and sweeps it in reverse. Where the adjoints of a body need carried values, the forward loop saves them, trip by
trip; see `Tape`. Gradients are in the dtype of their value, in float32 for narrow floats.

    %y = for … %x { (%k, %c)  yield mul %c, %a }      %gx = for … %gy { (%t, %g)  yield mul %g, %a }
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from pypto.errors.gradients import NoGradient
from pypto.ir.core import Op, Region, Value, walk
from pypto.ir.types import int8, int64
from pypto.ops.adjoint import OF_BITS, NoAdjoint, apply_adjoint, gradient_dtype
from pypto.ops.build import OpBuilder
from pypto.ops.control import types_of
from pypto.ops.table import TABLE
from pypto.passes.adjoint.activity import is_real
from pypto.passes.adjoint.bounded_loops import UNFINISHED
from pypto.passes.adjoint.memory import GradientMemory
from pypto.passes.adjoint.reuse import ReusedResult, reload, stored_value
from pypto.passes.analysis.memory_effects import accessed_array

Values = dict[Value, Value]
_LEFT_OUT: Final = frozenset({"assert_", "print_", "breakpoint_", "store", "tile_store"})


@dataclass(frozen=True)
class Tape:
    """Memory for what one carried value of a loop is at the start of each trip.

    `array` is an argument of the derived kernel: one row for each of its programs, in it one for each trip, in it the
    elements. Truth values are kept as int8.
    """

    array: Value
    row: Value


@dataclass(frozen=True)
class ReversedLoop:
    """A loop to be swept: the numbers of its active carried values, the active values from outside, and all gradients.

    `initial` are the gradients of the carried results, then those of the values from outside.
    """

    op: Op
    slots: tuple[int, ...]
    outer: tuple[Value, ...]
    initial: tuple[Value, ...]


@dataclass
class ReverseSweep:
    """Sweeps a function whose `active` values have gradients; `used` are the values that some op takes.

    `places` are what `program_id` and `num_programs` are in the derived kernel. `tapes` keep what loops carry, by loop
    and number of the carried value; what has no tape is not needed. `bits` are integers made of bits of active values,
    `reused` the stores whose values are read again.
    """

    kernel: str
    builder: OpBuilder
    active: Collection[Value]
    used: Collection[Value]
    memory: GradientMemory
    places: dict[tuple[str, int], Value]
    bits: Collection[Value] = ()
    tapes: Mapping[tuple[Op, int], Tape] = field(default_factory=dict)
    reused: Mapping[Op, ReusedResult] = field(default_factory=dict)

    # --- forward --------------------------------------------------------------------------------------------------

    def forward(self, region: Region, primal: Values) -> None:
        """The ops of a region again, but for what they do to memory."""
        for op in region.body:
            with self.builder.at(op.loc):
                self.copy(op, primal)

    def copy(self, op: Op, primal: Values) -> None:
        if op.name in _LEFT_OUT and not reports_unfinished(op):
            if op in self.reused:
                reload(self.memory, self.reused[op], primal)
            return
        if op.name in ("program_id", "num_programs"):
            primal[op.result] = self.places[op.name, int(op.attrs["axis"])]
        elif op.name == "for":
            self.copy_loop(op, primal)
        elif op.name == "if":
            regions = tuple(self.copied_region(region, primal) for region in op.regions)
            self.keep(
                op, self.builder.create("if", (primal[op.operands[0]],), {}, types_of(op.results), regions), primal
            )
        elif op.name == "while":
            self.refuse(op, "how often a while loop runs is not known", "pass `max_trips`, or write a for loop")
        elif op.name.startswith("atomic_"):
            self.copy_atomic(op)
        else:
            if self.is_real_of_bits(op):
                self.refuse_op(op, OF_BITS)
            operands = tuple(primal[v] for v in op.operands)
            self.keep(op, self.builder.create(op.name, operands, dict(op.attrs), types_of(op.results)), primal)

    def is_real_of_bits(self, op: Op) -> bool:
        """Whether an op makes a real number of the bits of active values. An index made of them is constant nearby."""
        if len(op.results) != 1 or not is_real(op.result):
            return False
        if TABLE[op.name].adjoint is OF_BITS and any(v in self.active for v in op.operands):
            return True
        return op.name in ("cast", "bitcast") and op.operands[0] in self.bits

    def copy_atomic(self, op: Op) -> None:
        if op.name != "atomic_add":
            self.refuse(op, f"{op.name} keeps one of two values, which depends on other programs", "use atomic_add")

    def keep(self, op: Op, copy: Op, primal: Values) -> None:
        for old, new in zip(op.results, copy.results, strict=True):
            primal[old] = new
            new.hint = old.hint

    def copied_region(self, region: Region, primal: Values) -> Region:
        """A copy of a branch."""
        new, inner = Region(), dict(primal)
        with self.builder.inside(new):
            self.forward(region, inner)
            self.builder.create("yield", tuple(inner[v] for v in region.terminator.operands))
        return new

    def copy_loop(self, op: Op, primal: Values) -> None:
        """A copy of a loop that saves what its tapes want."""
        region = op.regions[0]
        new = Region([Value(a.type, a.hint) for a in region.args])
        inner = primal | dict(zip(region.args, new.args, strict=True))
        with self.builder.inside(new):
            for n, carried in enumerate(new.args[1:]):
                if (op, n) in self.tapes:
                    self.save(self.tapes[op, n], self.trip(op, new.args[0], primal), carried)
            self.forward(region, inner)
            self.builder.create("yield", tuple(inner[v] for v in region.terminator.operands))
        operands = tuple(primal[v] for v in op.operands)
        self.keep(op, self.builder.create("for", operands, {}, types_of(op.results), (new,)), primal)

    # --- tapes ----------------------------------------------------------------------------------------------------

    def trip(self, op: Op, index: Value, primal: Values) -> Value:
        """The number of a trip, from 0 on, as int64."""
        low, step = primal[op.operands[0]], primal[op.operands[2]]
        return self.as_int64(self.builder.emit("floordiv", self.builder.emit("sub", index, low), step))

    def as_int64(self, v: Value) -> Value:
        return self.builder.cast(v, int64)

    def tape_place(self, tape: Tape, trip: Value, size: int) -> tuple[tuple[Value, ...], dict[str, Any]]:
        b = self.builder
        offsets = (tape.row, trip, b.constant(0, int64))
        strides = tuple(b.emit("array_stride", tape.array, dim=d) for d in range(3))
        extents = tuple(b.emit("array_shape", tape.array, dim=d) for d in range(3))
        pointer = b.emit("array_ptr", tape.array)
        return (pointer, *offsets, *strides, *extents), {"masked": False, "shape": (1, 1, size)}

    def save(self, tape: Tape, trip: Value, v: Value) -> None:
        operands, attrs = self.tape_place(tape, trip, v.tile.size)
        saved_tile = self.builder.cast(v, int8) if v.dtype.is_bool else v
        self.builder.op("tile_store", *operands, self.in_shape(saved_tile, (1, 1, v.tile.size)), **attrs)

    def saved(self, tape: Tape, trip: Value, like: Value) -> Value:
        operands, attrs = self.tape_place(tape, trip, like.tile.size)
        saved_tile = self.in_shape(self.builder.emit("tile_load", *operands, **attrs), like.shape)
        return self.builder.cast(saved_tile, like.dtype)

    def in_shape(self, v: Value, shape: tuple[int, ...]) -> Value:
        """A tile of one element and a scalar are one shape apart from the other."""
        if v.shape == shape:
            return v
        if not v.shape:
            return self.builder.broadcast(v, shape)
        if not shape:
            return self.builder.emit("sum", v, axes=tuple(range(len(v.shape))), keep_dims=False)
        return self.builder.emit("reshape", v, shape=shape)

    # --- reverse --------------------------------------------------------------------------------------------------

    def reverse(self, region: Region, primal: Values, gradients: Values) -> None:
        """The adjoints of a region's ops, the last op first."""
        for op in reversed(region.body):
            with self.builder.at(op.loc):
                self.reverse_op(op, primal, gradients)

    def reverse_op(self, op: Op, primal: Values, gradients: Values) -> None:
        if op.name in ("store", "tile_store", "atomic_add"):
            self.reverse_store(op, primal, gradients)
        elif op.name in ("for", "if"):
            if not gradients.keys().isdisjoint(op.results) or any(stores_gradient(x) for x in inner_ops(op)):
                getattr(self, f"reverse_{op.name}")(op, primal, gradients)
        elif op.results and op.results[0] in gradients:
            g = gradients.pop(op.results[0])
            if op.name in ("load", "tile_load"):
                self.reverse_load(op, g, primal, gradients)
            else:
                self.reverse_pure(op, g, primal, gradients)

    def reverse_store(self, op: Op, primal: Values, gradients: Values) -> None:
        v = stored_value(op)
        if v not in self.active:
            if not op.results:  # no atomic op
                self.memory.incoming(op, primal)  # a constant replaces the old value, whose gradient ends here
            return
        if op.name == "atomic_add" and op.results[0] in self.used:
            self.refuse(op, "the result of an atomic op depends on other programs", "do not use it")
        g = self.memory.incoming(op, primal)
        if g is not None:
            self.add(gradients, v, g)

    def reverse_load(self, op: Op, g: Value, primal: Values, gradients: Values) -> None:
        self.memory.contribute(op, g, primal)
        for v in op.operands[1:]:
            if v in self.active:  # what stands for missing elements
                exists = self.memory.loaded_elements(op, primal)
                self.add(gradients, v, self.builder.emit("where", exists, self.zero(v), g))

    def reverse_pure(self, op: Op, g: Value, primal: Values, gradients: Values) -> None:
        rule = TABLE[op.name].adjoint
        if isinstance(rule, NoAdjoint):
            self.refuse_op(op, rule)
        assert callable(rule)
        values = (*(primal[v] for v in op.operands), primal[op.result], g)
        for v, contribution in zip(op.operands, apply_adjoint(rule, self.builder, op, values), strict=True):
            if contribution is not None and v in self.active:
                self.add(gradients, v, contribution.value)

    def add(self, gradients: Values, v: Value, g: Value) -> None:
        """Add to the gradient of a value."""
        gradients[v] = self.builder.emit("add", gradients[v], g) if v in gradients else g

    # --- control flow ---------------------------------------------------------------------------------------------

    def zero(self, v: Value) -> Value:
        return self.builder.constant(0, gradient_dtype(v.dtype), v.shape)

    def captured(self, op: Op) -> list[Value]:
        """Active values from outside that the regions of an op use."""
        inside = {v for x in inner_ops(op) for v in x.results}
        inside.update(
            v for region in (*op.regions, *(r for x in inner_ops(op) for r in x.regions)) for v in region.args
        )
        used = dict.fromkeys(v for x in inner_ops(op) for v in x.operands if v in self.active)
        return [v for v in used if v not in inside]

    def reverse_if(self, op: Op, primal: Values, gradients: Values) -> None:
        incoming = [(v, gradients.pop(v)) for v in op.results if v in gradients]
        outer = self.captured(op)
        before = {v: gradients[v] if v in gradients else self.zero(v) for v in outer}
        regions = []
        for region in op.regions:
            new, inner, local = Region(), dict(primal), dict(before)
            with self.builder.inside(new):
                self.forward(region, inner)
                for result, g in incoming:
                    v = region.terminator.operands[op.results.index(result)]
                    if v in self.active:
                        self.add(local, v, g)
                self.reverse(region, inner, local)
                self.builder.create("yield", tuple(local[v] for v in outer))
            regions.append(new)
        kinds = tuple(before[v].type for v in outer)
        branch = self.builder.create("if", (primal[op.operands[0]],), {}, kinds, tuple(regions))
        gradients.update(zip(outer, branch.results, strict=True))

    def reverse_for(self, op: Op, primal: Values, gradients: Values) -> None:
        """A loop backwards. Gradients that no trip changes are not carried."""
        region = op.regions[0]
        slots = [n for n, arg in enumerate(region.args[1:]) if arg in self.active]
        outer = self.captured(op)
        carried = [gradients.pop(v) if v in gradients else self.zero(v) for v in (op.results[n] for n in slots)]
        sums = [gradients[v] if v in gradients else self.zero(v) for v in outer]
        reversed_loop = ReversedLoop(op, tuple(slots), tuple(outer), (*carried, *sums))
        fixed: frozenset[int] = frozenset()
        loop, changed = self.reversed_loop(reversed_loop, fixed, primal)
        while changed:
            fixed |= changed
            loop, changed = self.reversed_loop(reversed_loop, fixed, primal)
        reverse = self.builder.create("for", *loop)
        moving = [n for n in range(len(reversed_loop.initial)) if n not in fixed]
        finals = dict(enumerate(reversed_loop.initial)) | dict(zip(moving, reverse.results, strict=True))
        gradients.update({v: finals[n] for n, v in enumerate(outer, len(slots)) if n in moving})
        for n, slot in enumerate(slots):
            initial = op.operands[3 + slot]
            if initial in self.active:
                self.add(gradients, initial, finals[n])

    def reversed_loop(self, x: ReversedLoop, fixed: frozenset[int], primal: Values) -> tuple[tuple[Any, ...], set[int]]:
        """The parts of a reversed loop, and which of the gradients that it carries no trip changes."""
        b, op, region = self.builder, x.op, x.op.regions[0]
        moving = [n for n in range(len(x.initial)) if n not in fixed]
        low, high, step = (primal[v] for v in op.operands[:3])
        is_taped = any((op, n) in self.tapes for n in range(len(op.results)))
        ordered = is_taped or any(n < len(x.slots) for n in moving)
        count = self.trip_count(op, low, high, step) if ordered else high
        index = Value(low.type, region.args[0].hint)
        new = Region([index, *(Value(x.initial[n].type) for n in moving)])
        now = list(x.initial)
        for n, arg in zip(moving, new.args[1:], strict=True):
            now[n] = arg
        with b.inside(new):
            inner = dict(primal)
            trip = b.emit("sub", b.emit("sub", count, b.constant(1, low.dtype)), index) if ordered else None
            inner[region.args[0]] = index if trip is None else b.emit("add", low, b.emit("mul", trip, step))
            self.restore(op, trip, inner)
            self.forward(region, inner)
            after = self.swept_body(x, now, inner)
            b.create("yield", tuple(after[n] for n in moving))
        bounds = (b.constant(0, low.dtype), count, b.constant(1, low.dtype)) if ordered else (low, high, step)
        operands = (*bounds, *(x.initial[n] for n in moving))
        unchanged = {n for n in moving if after[n] is now[n]}
        return (operands, {}, tuple(x.initial[n].type for n in moving), (new,)), unchanged

    def restore(self, op: Op, trip: Value | None, inner: Values) -> None:
        """What a loop carries at the start of a trip, from its tapes."""
        for n, arg in enumerate(op.regions[0].args[1:]):
            tape = self.tapes.get((op, n))
            inner[arg] = (
                self.zero_of(arg) if tape is None or trip is None else self.saved(tape, self.as_int64(trip), arg)
            )

    def swept_body(self, x: ReversedLoop, now: Sequence[Value], inner: Values) -> list[Value]:
        """The gradients that a trip leaves, from those that it finds."""
        region = x.op.regions[0]
        local = dict(zip(x.outer, now[len(x.slots) :], strict=True))
        for n, slot in enumerate(x.slots):
            v = region.terminator.operands[slot]
            if v in self.active:
                self.add(local, v, now[n])
        self.reverse(region, inner, local)
        ends = [local.get(region.args[1 + slot]) for slot in x.slots]
        zeros = [
            self.builder.constant(0, v.dtype, v.shape) if end is None else end
            for v, end in zip(now, ends, strict=False)
        ]
        return [*zeros, *(local[v] for v in x.outer)]

    def zero_of(self, v: Value) -> Value:
        """Stands for a carried value that nothing needs."""
        if v.tile.is_ptr:
            raise AssertionError("pointers that loops carry are turned into offsets before")
        return self.builder.constant(0, v.dtype, v.shape)

    def trip_count(self, op: Op, low: Value, high: Value, step: Value) -> Value:
        """How often a loop runs."""
        b, defined = self.builder, op.operands[2].op
        if defined is None or defined.name != "constant":
            self.refuse(op, "the step of a loop is not known", "use a constant step")
        size = abs(int(defined.attrs["value"]))
        span = b.emit("sub", high, low) if int(defined.attrs["value"]) > 0 else b.emit("sub", low, high)
        rounded = b.emit("add", span, b.constant(size - 1, low.dtype))
        return b.emit("floordiv", rounded, b.constant(size, low.dtype))

    def refuse_op(self, op: Op, rule: NoAdjoint) -> NoReturn:
        self.refuse(op, f"`{op.name}` has no gradient: {rule.reason}", "compute it by functions of real numbers")

    def refuse(self, op: Op, problem: str, way: str) -> NoReturn:
        raise NoGradient(op.loc, kernel=self.kernel, problem=problem, way=way)


def inner_ops(op: Op) -> list[Op]:
    """The ops in the regions of an op."""
    return [x for region in op.regions for x in walk(region)]


def reports_unfinished(op: Op) -> bool:
    """Whether an op says that a bounded loop has not ended."""
    array = accessed_array(op) if op.name == "store" else None
    return array is not None and array.hint == UNFINISHED


def stores_gradient(op: Op) -> bool:
    return op.name in ("store", "tile_store", "atomic_add")
