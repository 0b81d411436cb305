"""Trace of global memory: the accesses of all cores of a launch, in the order in which each core makes them.

The kernel is interpreted for all cores at once: a number is an array with an element for each core, and a branch has a
mask. Iterations of a loop whose addresses differ by a constant stride become a dimension of one access:

    for k in range(0, K, 64):                     one access, with a dimension of K // 64
        DataCopy(a1, a[i * K + k], ...)   ->      that advances by 64 elements

The clock of a core is the number of bytes that it has moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pypto.backends.ascend.blockir.effects import pipe_of
from pypto.backends.ascend.blockir.ir import (
    Argument,
    Assign,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Read,
    Record,
    Scalar,
    View,
    While,
    Word,
    walk,
)
from pypto.backends.ascend.timing.rows import memory_view, rows_of
from pypto.ir.types import named

Lanes = npt.NDArray[np.int64]  # an element for each core
ReadNumber = Callable[[str, int], int | None]  # the integer at an index of an array parameter, by its name
MOST_ITEMS: Final = 30_000  # items that are followed; what comes behind them finds in L2 what these found


def usual_way(condition: Scalar | Word) -> int:
    """The usual outcome of a condition on data: an equality is false, anything else true."""
    return int(not (isinstance(condition, Expr) and condition.op == "=="))


def usual_branch(item: If) -> int:
    """The usual outcome of a branch on data: as of its condition, but true where it alone writes to arrays."""
    return int(not item.orelse and any(writes_array(x) for x in walk(item.body))) or usual_way(item.condition)


def writes_array(instr: Instr) -> bool:
    """Whether an instruction copies to an array of the launch."""
    view = memory_view(instr) if pipe_of(instr) in ("MTE3", "FIX") else None
    return view is not None and isinstance(view.of, Param) and view.of.place is None


def truncated(a: Lanes, b: Lanes) -> Lanes:
    """Integer quotients, rounded towards zero."""
    safe = np.where(b == 0, 1, b)
    quotients: Lanes = np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe))
    return quotients


_BINARY: Final[dict[str, Callable[[Lanes, Lanes], Any]]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal, "min": np.minimum, "max": np.maximum,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift,
    "&&": lambda a, b: (a != 0) & (b != 0), "||": lambda a, b: (a != 0) | (b != 0),
    "//": truncated, "%": lambda a, b: a - truncated(a, b) * b,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dim:
    """A loop around an access: its trip count, and the stride in bytes and in the core's clock."""

    count: int
    step: Lanes
    time: Lanes


@dataclass(frozen=True, slots=True)
class Access:
    """An access: the rows of an array that an instruction moves, in all iterations of the loops in `dims`."""

    instr: Instr
    array: str
    base: Lanes  # the first byte
    rows: Lanes
    run: Lanes  # bytes of a row
    pitch: Lanes  # bytes from one row to the next
    start: Lanes  # the core's clock
    mask: npt.NDArray[np.bool_]  # cores that make it
    is_write: bool
    dims: tuple[Dim, ...] = ()


@dataclass
class Tracer:
    """Interpreter of the part of a kernel for one kind of core, on `lanes` cores."""

    lanes: int
    values: dict[str, Lanes | None]
    read: ReadNumber | None = None
    clock: Lanes = field(default_factory=lambda: np.zeros(0, np.int64))
    mask: npt.NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, np.bool_))
    found: list[Access] = field(default_factory=list)
    left: int = MOST_ITEMS

    def __post_init__(self) -> None:
        self.clock = np.zeros(self.lanes, np.int64)
        self.mask = np.ones(self.lanes, np.bool_)

    def same(self, number: int) -> Lanes:
        return np.full(self.lanes, number, np.int64)

    def value(self, value: Scalar | Word) -> Lanes | None:
        """A number on every core, or None where it depends on unknown data."""
        if isinstance(value, str):
            return self.values.get(value)
        if isinstance(value, Expr):
            return self.computed(value)
        if isinstance(value, Read):
            return self.loaded(value.view)
        return None if isinstance(value, Word | float) else self.same(int(value))

    def computed(self, value: Expr) -> Lanes | None:
        args = [self.value(x) for x in value.args]
        known = [x for x in args if x is not None]
        if value.op in ("min", "max", "?:") and known and len(known) < len(args):
            return args[1 if usual_way(value.args[0]) else 2] if value.op == "?:" else known[0]
        if len(known) < len(args):
            return None
        if named(value.op) is not None:
            return known[0]
        if value.op == "?:":
            chosen: Lanes = np.where(known[0] != 0, known[1], known[2])
            return chosen
        if value.op == "not":
            return np.where(known[0] == 0, self.same(1), self.same(0))
        operation = _BINARY.get(value.op)
        if operation is None or len(known) != 2:
            return None
        found: Lanes = operation(*known).astype(np.int64)
        return found

    def loaded(self, view: View) -> Lanes | None:
        """Numbers loaded from an array in GM."""
        places = self.value(view.offset)
        if self.read is None or places is None or view.space != "GM":
            return None
        numbers = [self.read(view.of.name, int(at)) for at in places]
        return None if None in numbers else np.array(numbers, np.int64)

    def number(self, value: Scalar | Word | None, usual: int = 0) -> Lanes:
        """A number, assumed to be `usual` where it depends on unknown data."""
        found = None if value is None else self.value(value)
        return self.same(usual) if found is None else found

    # --- items -----------------------------------------------------------------------------------------------------

    def items(self, items: tuple[Item, ...]) -> None:
        for item in items:
            self.left -= 1
            match item:
                case Instr():
                    self.instruction(item)
                case Let() | Assign():
                    self.values[item.name] = self.value(item.value)
                case Loop():
                    self.loop(item)
                case While():
                    self.items(item.test)
                    self.items(item.body)
                case If():
                    self.branch(item)

    def branch(self, item: If) -> None:
        holds, before = self.number(item.condition, usual_branch(item)) != 0, self.mask
        for mask, body in ((before & holds, item.body), (before & ~holds, item.orelse)):
            self.mask = mask
            if mask.any():
                self.items(body)
        self.mask = before

    def instruction(self, instr: Instr) -> None:
        view = memory_view(instr)
        if view is None or (isinstance(view.of, Param) and view.of.place is not None):
            return
        if self.value(view.offset) is None:  # of addresses that are not known, nobody has read the same before
            return
        numbers = tuple(self.argument(x) for x in instr.args)
        rows, run, pitch = (self.same(0) + x for x in rows_of(instr, numbers))
        base = self.number(view.offset) * view.elem.itemsize
        is_write = pipe_of(instr) in ("MTE3", "FIX")
        self.found.append(Access(instr, view.of.name, base, rows, run, pitch, self.clock, self.mask, is_write))
        self.clock = self.clock + np.where(self.mask, rows * run, 0)

    def argument(self, value: Argument) -> Any:
        if isinstance(value, Record):
            return tuple(None if isinstance(x, Word) else self.number(x) for x in value.fields)
        return None if isinstance(value, View | Word | Read) else self.number(value)

    # --- loops -----------------------------------------------------------------------------------------------------

    def loop(self, item: Loop) -> None:
        start, stop, step = self.number(item.start), self.number(item.stop, 1), self.number(item.step, 1)
        step = np.where(step == 0, 1, step)
        trips = np.maximum(0, -((start - stop) // step))
        outer, before = self.found, self.mask
        shared = int(trips[before].min(initial=1 << 40)) if before.any() else 0
        most, segments, n = int(trips[before].max(initial=0)), list[Segment](), 0

        def iteration(n: int) -> list[Access]:
            self.values[item.name], self.mask, self.found = start + n * step, before & (n < trips), []
            self.items(item.body)
            return self.found

        while n < most:
            started = self.clock
            append(segments, iteration(n))
            n += 1
            if len(segments) == 1 and n == 2 and shared > 3 and segments[0].count == 2:
                n = self.skip(segments[0], iteration, shared)
            elif self.left < 0 and n > 1:
                self.clock = self.clock + (most - n) * (self.clock - started)
                break
        self.found, self.mask = outer, before
        for segment in segments:
            self.found += segment.accesses()

    def skip(self, segment: Segment, iteration: Callable[[int], list[Access]], trips: int) -> int:
        """Skip to the end of a loop whose last iteration continues the stride of the first two. Gives the next one."""
        clock, values = self.clock, dict(self.values)
        self.clock = clock + (trips - 3) * segment.time
        if segment.goes_on(iteration(trips - 1), trips - 1):
            segment.count = trips
            return trips
        self.clock, self.values = clock, values
        return 2


@dataclass
class Segment:
    """Iterations with one stride: the accesses of the first one, and the stride of each."""

    first: list[Access]
    count: int = 1
    steps: list[Lanes] = field(default_factory=list)
    time: Lanes = field(default_factory=lambda: np.zeros(1, np.int64))

    def goes_on(self, made: list[Access], n: int) -> bool:
        """Whether accesses are those of iteration `n` by the strides."""
        if len(made) != len(self.first) or not all(map(alike, self.first, made)):
            return False
        return all(
            np.array_equal(a.base + n * step, b.base) and np.array_equal(a.start + n * self.time, b.start)
            for a, b, step in zip(self.first, made, self.steps, strict=True)
        )

    def accesses(self) -> list[Access]:
        """The accesses with a dimension for the iterations."""
        if self.count == 1:
            return self.first
        return [
            replace(access, dims=(Dim(self.count, step, self.time), *access.dims))
            for access, step in zip(self.first, self.steps, strict=True)
        ]


def append(segments: list[Segment], made: list[Access]) -> None:
    """Append the accesses of an iteration: to the last segment where they continue its strides, else as a new one."""
    if not made:
        return
    last = segments[-1] if segments else None
    if last is not None and last.count == 1 and len(made) == len(last.first) and all(map(alike, last.first, made)):
        last.steps = [b.base - a.base for a, b in zip(last.first, made, strict=True)]
        last.time = made[0].start - last.first[0].start
    if last is not None and last.steps and last.goes_on(made, last.count):
        last.count += 1
        return
    segments.append(Segment(made))


def alike(a: Access, b: Access) -> bool:
    """Whether two accesses differ only in their first byte and their time."""
    if a.instr is not b.instr or len(a.dims) != len(b.dims) or not np.array_equal(a.mask, b.mask):
        return False
    pairs = [(a.rows, b.rows), (a.run, b.run), (a.pitch, b.pitch)]
    pairs += [(d.step, e.step) for d, e in zip(a.dims, b.dims, strict=True)]
    return all(np.array_equal(x, y) for x, y in pairs)
