"""Dead code elimination and register allocation for the instructions of one op, with buffers as registers.

A rule writes into a new buffer each time. Once all of its instructions are known, those without a reader are dropped,
and buffers get memory by a linear scan: memory is free after the last use. A result may overwrite an operand that is
read for the last time: legal, as an instruction may write exactly over an operand of the same size.

    Muls(%1, x, 2)      Muls(t, x, 2)
    Exp(%2, %1)    ->   Exp(t, t)
    Adds(%3, %2, 1)     Adds(y, t, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pypto.backends.ascend.blockir.ir import (
    Assign,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Read,
    Record,
    Scalar,
    View,
    While,
)
from pypto.backends.ascend.rules.operand import as_dtype, part_of
from pypto.ir.types import DType

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.lane_rules import InstructionSink

STANDS_FOR = "%"  # the first letter of a buffer that no memory has been asked for


class Memory(Protocol):
    """A source of memory: temporaries, and buffers filled with a number."""

    def temporary(self, dtype: DType, count: int = 0) -> View: ...
    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View: ...


class Scratch:
    """A sink that records instructions on virtual buffers, which `made` gives memory."""

    def __init__(self, sink: InstructionSink) -> None:
        self.sink = sink
        self.items: list[Item] = []
        self.numbers: dict[Buffer, Scalar] = {}  # of buffers that hold one number
        self._made = 0
        self._filled: dict[tuple[str, DType, int], View] = {}

    @property
    def count(self) -> int:
        return self.sink.count

    @property
    def line(self) -> int:
        return self.sink.line

    def emit(self, item: Item) -> None:
        self.items.append(item)

    def temporary(self, dtype: DType, count: int = 0) -> View:
        self._made += 1
        return View(Buffer(f"{STANDS_FOR}{self._made}", "UB", dtype, count or self.count))

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        key = repr(value), dtype, count
        if key not in self._filled:
            self._filled[key] = view = self.temporary(dtype, count)
            assert isinstance(view.of, Buffer)
            self.numbers[view.of] = value
        return self._filled[key]

    def name(self, hint: str) -> str:
        return self.sink.name(hint)

    @contextmanager
    def nested(self) -> Iterator[list[Item]]:
        outer, self.items = self.items, []
        try:
            yield self.items
        finally:
            self.items = outer

    def made(self, result: View, places: Places) -> list[Item]:
        """Return the instructions that the result depends on, with memory from the places."""
        kept = {result.of} if isinstance(result.of, Buffer) else set()
        return placed(needed(self.items, kept), kept, places)

    def bytes_needed(self, result: View) -> int:
        """Return the peak of memory, the result's included."""
        supply = Supply(self.count)
        self.made(result, Places(self, supply))
        return supply.bytes


class Supply:
    """A source that counts the memory it is asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.bytes = count, 0

    def temporary(self, dtype: DType, count: int = 0) -> View:
        made = Buffer("counted", "UB", dtype, count or self.count, address=self.bytes)
        self.bytes += made.bytes
        return View(made)

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        return self.temporary(dtype, count)


@dataclass
class Places:
    """The allocation: the memory of each virtual buffer, and free memory by size and count of elements."""

    scratch: Scratch
    sink: Memory
    of: dict[Buffer, View] = field(default_factory=dict)
    free: dict[tuple[int, int], list[View]] = field(default_factory=dict)

    def view(self, v: View) -> View:
        """Return the view in the buffer's memory, which it gets with the first use."""
        if not (isinstance(v.of, Buffer) and v.of.name.startswith(STANDS_FOR)):
            return v
        if v.of not in self.of:
            self.of[v.of] = self.found(v.of)
        place, elem = self.of[v.of], v.dtype or v.of.dtype
        return part_of(place if elem.is_bool else as_dtype(place, elem), v.offset)

    def found(self, buffer: Buffer) -> View:
        if buffer in self.scratch.numbers:
            return self.sink.filled(self.scratch.numbers[buffer], buffer.dtype, buffer.elements)
        free = self.free.get((buffer.dtype.bits, buffer.elements))
        return free.pop() if free else self.sink.temporary(buffer.dtype, buffer.elements)

    def release(self, buffer: Buffer) -> None:
        if buffer in self.of and buffer not in self.scratch.numbers:
            self.free.setdefault((buffer.dtype.bits, buffer.elements), []).append(self.of.pop(buffer))


def placed(items: Sequence[Item], kept: set[Buffer], places: Places) -> list[Item]:
    """Rewrite items to allocated memory by a linear scan; kept buffers stay allocated."""
    last = {buffer: i for i, item in enumerate(items) for buffer in buffers(item)}
    result: list[Item] = []
    for i, item in enumerate(items):
        dying = [b for b in dict.fromkeys(buffers(item)) if last[b] == i and b not in kept]
        if isinstance(item, Instr):
            made = instruction(item, dying, places)
            if not changes_nothing(made):
                result.append(made)
        else:
            beyond = kept | set(places.of) | {b for b in last if last[b] > i}
            result.append(rebuilt(item, places.view, partial(placed, kept=beyond, places=places)))
            for buffer in dying:
                places.release(buffer)
    return result


def changes_nothing(item: Instr) -> bool:
    """Whether an item copies a buffer onto itself."""
    # The zero is an integer's: to add a float's makes 0.0 of -0.0.
    in_place = item.name == "Adds" and item.args[:2] == (item.args[0],) * 2
    return in_place and isinstance(item.args[2], int) and item.args[2] == 0


def instruction(item: Instr, dying: list[Buffer], places: Places) -> Instr:
    """Rewrite an instruction; its result may overwrite an operand of the same size that dies here."""
    target = item.args[0]
    assert isinstance(target, View) and isinstance(target.of, Buffer)
    before = [b for b in dying if b != target.of and b.dtype.bits == target.of.dtype.bits]
    sources = [mapped(a, places.view) for a in item.args[1:]]
    for buffer in before:
        places.release(buffer)
    made = replace(item, args=(mapped(target, places.view), *sources))
    for buffer in dying:
        if buffer not in before:
            places.release(buffer)
    return made


def needed(items: list[Item], results: set[Buffer]) -> list[Item]:
    """Return the items that the results depend on (dead code elimination, backwards)."""
    used: set[Any] = set(results)
    kept: list[Item] = []
    for item in reversed(items):
        if isinstance(item, Let):
            wanted = item.name in used
        else:
            target = item.args[0] if isinstance(item, Instr) else None
            wanted = not isinstance(target, View) or target.of in used
        if wanted:
            used.update(buffers(item))
            used.update(names(item))
            kept.append(item)
    return kept[::-1]


def buffers(item: Item) -> list[Buffer]:
    """Return the virtual buffers of an item, in order."""
    found: list[Buffer] = []

    def note(v: View) -> View:
        if isinstance(v.of, Buffer) and v.of.name.startswith(STANDS_FOR):
            found.append(v.of)
        return v

    mapped(item, note)
    return found


def names(item: Item) -> set[str]:
    """Return the names of numbers that an item reads."""
    found: set[str] = set()
    mapped(item, lambda v: v, found.add)
    return found


def mapped(x: Any, view: Callable[[View], View], name: Callable[[str], None] = lambda name: None) -> Any:
    """Map all views of an item or argument; `name` is told every name that is read."""
    match x:
        case str():
            name(x)
        case View():
            if not (isinstance(x.offset, int) and isinstance(x.stage, int)):
                x = replace(x, offset=mapped(x.offset, view, name), stage=mapped(x.stage, view, name))
            return view(x)
        case Read():
            return Read(mapped(x.view, view, name))
        case Expr() | Instr():
            return replace(x, args=tuple(mapped(a, view, name) for a in x.args))
        case Record():
            return Record(tuple(mapped(a, view, name) for a in x.fields))
        case Let() | Assign():
            return replace(x, value=mapped(x.value, view, name))
        case Loop() | If() | While():
            return rebuilt(x, view, lambda body: tuple(mapped(i, view, name) for i in body), name)
    return x


def rebuilt(x: Item, view: Callable[[View], View], inside: Callable[[tuple[Item, ...]], Any],
            name: Callable[[str], None] = lambda name: None) -> Item:  # fmt: skip
    """Map the numbers of a loop or branch, and rebuild its bodies by `inside`."""

    def number(s: Any) -> Any:
        return mapped(s, view, name)

    match x:
        case Loop():
            ends = {"start": number(x.start), "stop": number(x.stop), "step": number(x.step)}
            return replace(x, body=tuple(inside(x.body)), **ends)
        case If():
            body, orelse = tuple(inside(x.body)), tuple(inside(x.orelse))
            return replace(x, condition=number(x.condition), body=body, orelse=orelse)
        case While():
            return replace(x, test=tuple(inside(x.test)), condition=number(x.condition), body=tuple(inside(x.body)))
    item: Item = mapped(x, view, name)
    return item
