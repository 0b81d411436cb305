"""Footprints: which elements of an array the programs of a launch read, and whether two programs read the same one.

The offsets of an access are affine in the places of its program on the axes of the grid and in the trips of its loops.
With the numbers of a launch, each dimension of an access is a sum of digits, ``constant + Σ coefficient · digit``, as
in a mixed radix. A digit is injective where its coefficient is at least the reach of all smaller ones: then no element
is met twice.

    x[i : i + 32, k : k + 16] with i = 32 · program_id(0), k = 0, 16, …    row: 32 · axis 0 + (0 … 31)
                                                                          column: 16 · trip + (0 … 15)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import ArrayType
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import pointer_base

Digit = int | Value  # an axis of the grid, or the index of a loop
_UNKNOWN_TRIPS: Final = 1 << 62


@dataclass(frozen=True)
class Affine:
    """``constant + Σ coefficient · digit``."""

    constant: int
    coefficients: Mapping[Digit, int] = field(default_factory=dict)

    def __add__(self, other: Affine) -> Affine:
        digits = dict.fromkeys((*self.coefficients, *other.coefficients))
        sums = {d: self.coefficients.get(d, 0) + other.coefficients.get(d, 0) for d in digits}
        return Affine(self.constant + other.constant, {d: n for d, n in sums.items() if n})

    def __mul__(self, factor: int) -> Affine:
        scaled = {d: n * factor for d, n in self.coefficients.items() if n * factor}
        return Affine(self.constant * factor, scaled)


@dataclass(frozen=True)
class Dimension:
    """The indices along one dimension of an access: an affine part, and `size` elements from there on."""

    index: Affine
    size: int
    extent: int

    def reach(self, counts: Mapping[Digit, int]) -> int | None:
        """How many indices from the constant on are met, each once and none left out; None where that is not so."""
        reach = self.size
        for digit, coefficient in sorted(self.index.coefficients.items(), key=lambda item: item[1]):
            if coefficient != reach:
                return None
            reach += coefficient * (counts[digit] - 1)
        return reach

    def is_injective(self, counts: Mapping[Digit, int]) -> bool:
        """Whether different digits give different indices."""
        reach = self.size
        for digit, coefficient in sorted(self.index.coefficients.items(), key=lambda item: item[1]):
            if coefficient < reach:
                return False
            reach += coefficient * (counts[digit] - 1)
        return True

    def is_separate(self, other: Dimension, counts: Mapping[Digit, int]) -> bool:
        """Whether no index is met by both: they lie beside each other, and move by at least what both take."""
        low, high = sorted((self, other), key=lambda x: x.index.constant)
        if low.index.coefficients != high.index.coefficients or low.index.constant + low.size > high.index.constant:
            return False
        union = high.index.constant + high.size - low.index.constant
        return replace(low, size=union).is_injective(counts)


@dataclass(frozen=True)
class LaunchNumbers:
    """What a launch says: the numbers among the arguments, shapes and strides of arrays, and the grid."""

    scalars: Mapping[str, Any]
    shapes: Mapping[str, Sequence[int]]
    strides: Mapping[str, Sequence[int]]
    grid: tuple[int, int, int]

    @property
    def key(self) -> tuple[object, ...]:
        """All that decides footprints, as a key."""
        scalars = tuple((n, x) for n, x in self.scalars.items() if isinstance(x, int))
        return self.grid, scalars, tuple(self.shapes.items()), tuple(self.strides.items())


class AffineNumbers:
    """Evaluates scalars of a function to affine forms, with the numbers of a launch."""

    def __init__(self, function: Function, launch: LaunchNumbers) -> None:
        self.launch = launch
        self.arguments = frozenset(function.args)
        self.unconditional = frozenset(function.body.ops)  # run once by each program
        self.loops = {op.regions[0].args[0]: op for op in function.walk() if op.name == "for"}
        self.known: dict[Value, Affine | None] = {}

    def of(self, v: Value) -> Affine | None:
        """The affine form of a scalar; None where there is none."""
        if v not in self.known:
            self.known[v] = self.evaluate(v)
        return self.known[v]

    def number(self, v: Value) -> int | None:
        """The value of a scalar that is the same for all programs and trips."""
        form = self.of(v)
        return form.constant if form is not None and not form.coefficients else None

    def trips(self, loop: Op) -> int:
        """How often a loop runs; a very large number where that is not the same for all programs."""
        low, high, step = (self.of(v) for v in loop.operands[:3])
        if low is None or high is None or step is None or step.coefficients or not step.constant:
            return _UNKNOWN_TRIPS
        span = high + low * -1
        return _UNKNOWN_TRIPS if span.coefficients else max(0, -(-span.constant // step.constant))

    def evaluate(self, v: Value) -> Affine | None:
        if v in self.loops:
            low, step = (self.of(x) for x in (self.loops[v].operands[0], self.loops[v].operands[2]))
            if low is None or step is None or step.coefficients:
                return None
            return low + Affine(0, {v: step.constant})
        if v in self.arguments:
            value = self.launch.scalars.get(v.hint)
            return Affine(int(value)) if isinstance(value, int) else None
        if v.op is None or v.shape:
            return None
        return self.evaluate_op(v.op)

    def evaluate_op(self, op: Op) -> Affine | None:
        if op.name == "constant":
            value: Any = op.attrs["value"]
            return Affine(value) if isinstance(value, int) else None
        if op.name == "program_id":
            return Affine(0, {int(op.attrs["axis"]): 1})
        if op.name == "num_programs":
            return Affine(self.launch.grid[int(op.attrs["axis"])])
        if op.name in ("array_shape", "array_stride"):
            table = self.launch.shapes if op.name == "array_shape" else self.launch.strides
            return Affine(int(table[op.operands[0].hint][int(op.attrs["dim"])]))
        operands = [self.of(x) for x in op.operands]
        if op.name == "cast" and op.result.dtype.is_int:
            return operands[0]
        if len(operands) != 2 or operands[0] is None or operands[1] is None:
            return None
        return combine(op.name, operands[0], operands[1])


def combine(name: str, a: Affine, b: Affine) -> Affine | None:
    """The affine form of an op on two."""
    if name == "add":
        return a + b
    if name == "sub":
        return a + b * -1
    if name == "mul" and not (a.coefficients and b.coefficients):
        return a * b.constant if not b.coefficients else b * a.constant
    if a.coefficients or b.coefficients:
        return None
    functions: dict[str, Any] = {"minimum": min, "maximum": max}
    if name in functions:
        return Affine(functions[name](a.constant, b.constant))
    if name in ("floordiv", "rem") and a.constant >= 0 and b.constant > 0:
        return Affine(a.constant // b.constant if name == "floordiv" else a.constant % b.constant)
    return None


@dataclass(frozen=True)
class Footprint:
    """The elements that one load or store accesses: an affine base, and its dimensions with their strides.

    `loops` are the loops around it, outermost first. `is_native` says that the dimensions are those of the array. An
    index that is data may be any of its dimension. `is_partial` says that not all these elements need be accessed.
    """

    op: Op
    base: Affine
    dimensions: tuple[Dimension, ...]
    strides: tuple[int, ...]
    loops: tuple[Op, ...]
    is_native: bool
    is_partial: bool


def footprint(op: Op, loops: tuple[Op, ...], numbers: AffineNumbers) -> Footprint | None:
    """The footprint of a load or store of a scalar, or of a structured one; None where it is no affine one."""
    if op.name in ("load", "store") and not op.operands[0].shape:
        place = base_offset(op.operands[0], numbers)
        is_masked = len(op.operands) > (1 if op.name == "load" else 2)
        return None if place is None else Footprint(op, place, (), (), loops, False, is_masked)
    if op.name not in ("tile_load", "tile_store"):
        return None
    access = Access.of(op)
    base = base_offset(access.base, numbers)
    strides = [numbers.number(v) for v in access.strides]
    offsets = [numbers.of(v) for v in access.offsets]
    extents = [numbers.number(v) for v in access.extents]
    array = pointer_base(access.base).op
    kind = array.operands[0].type if array is not None and array.operands else None
    native = access.base.op is array and isinstance(kind, ArrayType) and kind.ndim == len(access.shape)
    if native and array is not None:
        launch, name = numbers.launch, array.operands[0].hint
        native = strides == list(launch.strides[name]) and extents == list(launch.shapes[name])
    if base is None or None in strides or access.base.shape or (None in offsets and not native):
        return None
    dimensions = []
    for offset, size, extent in zip(offsets, access.shape, extents, strict=True):
        most = _UNKNOWN_TRIPS if extent is None else extent
        dimensions.append(Dimension(Affine(0), most, most) if offset is None else Dimension(offset, size, most))
    numbered = tuple(s for s in strides if s is not None)
    is_partial = access.mask is not None or None in offsets
    return Footprint(op, base, tuple(dimensions), numbered, loops, native, is_partial)


def base_offset(pointer: Value, numbers: AffineNumbers) -> Affine | None:
    """How far a pointer lies behind the first element of its array."""
    total = Affine(0)
    while pointer.op is not None and pointer.op.name == "addptr":
        offset = numbers.of(pointer.op.operands[1])
        if offset is None:
            return None
        total, pointer = total + offset, pointer.op.operands[0]
    return total if pointer.op is not None and pointer.op.name == "array_ptr" else None
