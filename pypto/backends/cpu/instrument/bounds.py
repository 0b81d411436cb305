"""Checked mode: tests in front of what touches memory, and of what the kernel's author asserted.

A structured access through one pointer is tested once, by the range of its offsets, as soon as its numbers are known:
before the nests of its region, so that these stay as they are. Only where the range is not enough (it leaves the array,
or the array has gaps), and for stores, whose owners are noted, `checking.ll` looks at the elements. A gather, and what
has a mask that no extents stand for, is tested in the nest, lanes at a time. What fails is noted in the launch's report
(see `checking.ll`), and the thread's programs end there; other threads end before their next program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pypto.backends.base import Slot
from pypto.backends.cpu.codegen.memory import Chunk, and_all
from pypto.backends.cpu.instrument.access_ranges import Ranges, Watched, item_of, pointee_of
from pypto.backends.cpu.instrument.hooks import Unchecked
from pypto.backends.cpu.llvm.value import VectorValue, vector
from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.cpu.loopir.ir import Control, Item
from pypto.backends.sites import Check
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import ArrayType, int1, int64, uint64
from pypto.ops.atomic import takes_turns
from pypto.ops.memory import Access
from pypto.passes.memory_effects import is_atomic, pointer_roots
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter
    from pypto.backends.cpu.codegen.tile_access import AccessEmitter
    from pypto.backends.cpu.loopir.index_maps import IndexMap

_ACCESS_WORDS: Final = 8  # before the dimensions
_MANY: Final = 2**26  # steps of a loop
_STORES: Final = {"tile_store": 1, "store": 1}  # what an op does with owners; atomics, which come after others, do 2
_OPS: Final = ("tile_load", "tile_store", "assert_")
_DECLARED: Final = MappingProxyType({
    "llvm.smul.with.overflow.i64": "declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)",
    "llvm.smax.i64": "declare i64 @llvm.smax.i64(i64, i64)",
    "llvm.smin.i64": "declare i64 @llvm.smin.i64(i64, i64)",
    "llvm.vector.reduce.or.v16i1": "declare i1 @llvm.vector.reduce.or.v16i1(<16 x i1>)",
})  # fmt: skip


@dataclass
class Checks(Unchecked):
    """The checks of one kernel. `waiting` are the ops of each region whose numbers are not known yet, in order."""

    emitter: FunctionEmitter
    memory: AccessEmitter
    report: str = ""
    number: str = ""
    waiting: dict[int, list[Op]] = field(default_factory=dict)
    sites: dict[tuple[Op, str], int] = field(default_factory=dict)
    proven: dict[Op, VectorValue] = field(default_factory=dict)  # accesses of loops, and whether no step needs a test
    arrays: dict[str, Watched] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.e, self.w, self.env = self.emitter.e, self.emitter.writer, self.emitter.env
        function, schedule = self.emitter.function, self.emitter.schedule
        self.roots = pointer_roots(function)
        self.ranges = Ranges(self.emitter.nests, self.roots, self.arrays)
        self.checks: list[Check] = []
        self.races = not takes_turns(function.walk())
        self.wait(schedule.items, function.body)

    @property
    def found(self) -> tuple[Check, ...]:  # type: ignore[override]  # what nothing is checked for has none
        return tuple(self.checks)

    def wait(self, items: Sequence[Item], region: Region) -> None:
        """Note what a region, and those inside, will check."""
        self.waiting[id(items)] = [op for op in region.ops if op.name in _OPS]
        for item in items:
            for inner, of in zip(item.regions, item.op.regions, strict=True) if isinstance(item, Control) else ():
                self.wait(inner, of)

    # --- a launch, a program, an item ---------------------------------------------------------------------------

    def enter(self) -> None:
        """Where the report is, and the records of all arrays."""
        self.report = self.pointer(Slot("report", ""))
        for v in (v for v in self.emitter.function.args if isinstance(v.type, ArrayType)):
            record = self.pointer(Slot("watched", v.hint))
            words = (self.w.raw(f"getelementptr i64, ptr {record}, i64 {n}", 0) for n in (0, 1, 5))
            self.arrays[v.hint] = Watched(record, *(self.w.instr(f"load i64, ptr {p}", int64, 1, 0) for p in words))

    def pointer(self, slot: Slot) -> str:
        return self.w.raw(f"inttoptr i64 {self.emitter.slot_of(slot).text} to ptr", 0)

    def program(self, number: VectorValue) -> None:
        """End where some program has failed."""
        self.number = number.text
        self.leave_if(self.has_failed())
        words = [x.text for a in self.arrays.values() for x in (a.low, a.quick, a.owners)]
        self.known = {**dict.fromkeys((self.report, *(a.record for a in self.arrays.values())), "ptr"),
            **dict.fromkeys((self.number, *words), "i64")}  # fmt: skip

    def has_failed(self) -> str:
        failed = self.w.raw(f"load atomic i64, ptr {self.report} monotonic, align 8")
        return self.w.raw(f"icmp ne i64 {failed}, 0")

    def leave_if(self, condition: str) -> None:
        on = self.w.name("checked")
        self.w.line(f"br i1 {condition}, label %leave, label %{on}")
        self.w.label(on)

    def after_part(self) -> None:
        """A part that is a function of its own ends by itself: then this one ends, too."""
        self.leave_if(self.has_failed())

    def ready(self, region: int) -> None:
        """Check what can be checked now, before an item of the region, or its end."""
        left = []
        for op in self.waiting[region]:
            needed = op.operands[:1] if op.name == "assert_" else scalars(Access.of(op))
            if not all(v in self.env for v in needed if not is_tile(v)):
                left.append(op)
            elif op.name == "assert_":
                self.asserted(op)
            else:
                if op.attrs.get("element"):
                    self.exists(op)
                if not self.by_lanes(op):
                    self.box(op)
        self.waiting[region] = left

    # --- what is tested -----------------------------------------------------------------------------------------

    def asserted(self, op: Op) -> None:
        self.rarely(self.no(self.env[op.operands[0]]).text, lambda: self.blame(op))

    def blame(self, op: Op) -> str:
        args = f"ptr {self.report}, i64 {self.site(op)}, i64 0, i64 {self.number}, i64 -1"
        return self.w.raw(f"call i1 @checks.fail({args})")

    def exists(self, op: Op) -> None:
        """What an index of integers alone names is there; slices are clipped."""
        access, e, scalar = Access.of(op), self.e, self.memory.scalar
        bounds = zip(access.offsets, access.extents, strict=True)
        # A negative position is a large one without a sign.
        outside = [e.cmp("ge", scalar(at).as_dtype(uint64), scalar(end).as_dtype(uint64)) for at, end in bounds]

        def blame() -> str:
            words = ["0", "0", str(len(access.offsets))]
            for at in access.offsets:
                words += [scalar(at).text, "0", "0", "0"]
            return self.w.raw(f"call i1 @checks.beyond(ptr {self.access(op, words, 'position')})")

        self.rarely(functools.reduce(e.or_, outside).text, blame)

    def by_lanes(self, op: Op) -> bool:
        """Whether an access is tested where its lanes are: pointers of its own, or a mask, decide what it touches."""
        access = Access.of(op)
        return is_tile(access.base) or access.mask is not None

    def box(self, op: Op) -> None:
        """A structured access, before what makes it."""
        access, roots = Access.of(op), self.roots.get(op.operands[0], frozenset())
        if not roots:
            return

        def test() -> None:
            outside = self.e.const(True, int1)
            if len(roots) == 1:
                outside = self.no(self.ranges.whole(op).inside)
            self.rarely(outside.text, lambda: self.exactly(op, access, 0))

        if op in self.proven:
            self.where(self.no(self.proven[op]).text, test)
        else:
            test()
        if self.owning(op):
            self.rarely(self.asks(roots).text, lambda: self.exactly(op, access, 1))

    def no(self, condition: VectorValue) -> VectorValue:
        return self.e.xor(condition, self.e.const(True, int1))

    def owning(self, op: Op) -> int:
        """What an op does with owners, see `checking.ll`."""
        kind = 2 if is_atomic(op) else _STORES.get(op.name, 0)
        return kind if self.races else 0

    def asks(self, arrays: Iterable[str]) -> VectorValue:
        """Whether the launch looks for races in one of the arrays."""
        owners = functools.reduce(self.e.or_, (self.arrays[a].owners for a in sorted(arrays)))
        return self.e.cmp("ne", owners, self.e.const(0, int64))

    def loop(self, item: Control) -> None:
        """Test before a loop what all its steps touch, where that moves evenly: then they need no test of their own."""
        op, step = item.op, constant_of(item.op.operands[2])
        if not isinstance(step, int) or step <= 0:
            return
        e, index, wide = self.e, op.regions[0].args[0], functools.partial(self.e.convert, dtype=int64)
        start, stop = (wide(self.env[v]) for v in op.operands[:2])
        length, by = e.maximum(e.sub(stop, start), e.const(0, int64)), e.const(step, int64)
        count = e.binary("udiv", e.add(length, e.const(step - 1, int64)), by)
        last = e.add(start, e.mul(e.sub(count, e.const(1, int64)), by))
        places = [e.convert(x, index.dtype) for x in (start, e.add(start, by), last)]
        few = e.cmp("le", count, e.const(_MANY, int64))
        for access in self.waiting[id(item.regions[0])]:
            even = access.name != "assert_" and not self.by_lanes(access) and self.ranges.evenly(access, index, places)
            if even:
                self.proven[access] = e.and_(few, even)
                self.emitter.outliner.live_in_types[self.proven[access].text] = "i1"

    def exactly(self, op: Op, access: Access, owns: int) -> str:
        """The exact test of a structured access. Owners are noted along the dimension that lies in memory as a row."""
        scalar, dims = self.memory.scalar, list(range(len(access.shape)))
        if owns:
            dims.sort(key=lambda d: constant_of(access.strides[d]) == 1 and access.shape[d] > 1)
        words = [scalar(v[d]).text for d in dims for v in (access.offsets, access.strides, access.extents)]
        sizes = [str(access.shape[d]) for d in dims]
        parts = [word for n, size in enumerate(sizes) for word in (*words[3 * n : 3 * n + 3], size)]
        place = self.access(op, [str(owns), scalar(access.base).text, str(len(dims)), *parts])
        return self.w.raw(f"call i1 @checks.box(ptr {place})")

    def lanes(self, op: Op, base: VectorValue, index: IndexMap, at: Chunk, mask: VectorValue | None) -> bool:
        """An access that is tested where its lanes are; False where it has been tested as a whole."""
        roots = self.roots.get(op.operands[0], frozenset())
        if not self.by_lanes(op) or not roots:
            return False
        access, m = Access.of(op), self.memory
        there = m.validity(access, index, at)
        first, step = m.element_offset(access, base, index, at)
        if at.lanes in index and at.width > 1:
            addresses = m.addresses(base, first, step, at.width, pointee_of(access.base))
            on = m.combined_mask(there, at, mask)
        else:
            size = self.e.const(item_of(op), int64)
            addresses, on = self.e.add(base, m.product(first, size)), and_all(self.e, (there.rows_in_bounds, mask))
        self.addressed(op, addresses, on, item_of(op), roots)
        return True

    def element(self, op: Op, address: VectorValue, mask: VectorValue | None) -> None:
        """One element, of a load or store of numbers, or of an atomic."""
        roots = self.roots.get(op.operands[0], frozenset())
        if roots:
            self.addressed(op, address, mask, item_of(op), roots)

    def atomic(self, op: Op, operands: Sequence[VectorValue]) -> None:
        """One element; what is compared has no mask."""
        self.element(op, operands[0], operands[2] if len(operands) > 2 and op.attrs["kind"] != "cas" else None)

    def addressed(
        self, op: Op, addresses: VectorValue, on: VectorValue | None, item: int, roots: frozenset[str]
    ) -> None:
        e, exact = self.e, functools.partial(self.each, op, addresses, on)
        if len(roots) > 1:
            self.leave_if(exact("lanes"))
            return
        known = self.arrays[next(iter(roots))]
        room = e.maximum(e.sub(known.quick, e.const(item - 1, int64)), e.const(0, int64))
        outside = e.cmp("ge", e.sub(addresses, known.low).as_dtype(uint64), room.as_dtype(uint64))
        bad = and_all(e, (outside, on))
        assert bad is not None
        doubt = e.any(bad)
        self.rarely((e.or_(doubt, self.asks(roots)) if self.owning(op) else doubt).text, lambda: exact("lanes"))

    def each(self, op: Op, values: VectorValue, on: VectorValue | None, function: str) -> str:
        """A call with lanes in memory."""
        width = max(values.width, on.width if on is not None else 1)
        values, on = self.e.splat(values, width), self.e.splat(self.e.const(True, int1) if on is None else on, width)
        bits, to = vector("i1", width), vector("i8", width)
        places = self.slot(f"[{width} x i64]"), self.slot(f"[{width} x i8]")
        self.w.line(f"store {values.typed}, ptr {places[0]}, align 8")
        whole = self.w.raw(f"zext {bits} {on.text} to {to}")
        self.w.line(f"store {to} {whole}, ptr {places[1]}, align 1")
        args = f"ptr {self.access(op, [str(self.owning(op)), '0', '0'])}, ptr {places[0]}, ptr {places[1]}, i64 {width}"
        return self.w.raw(f"call i1 @checks.{function}({args})")

    def picked(self, op: Op, where: VectorValue, at: Chunk) -> bool:
        """Indices into a tile. What is read there belongs to the frame that the test stands in."""
        wide, size = self.e.convert(where, int64), op.operands[0].shape[op.attrs["axis"]]
        outside = self.e.cmp("ge", wide.as_dtype(uint64), self.e.const(size, uint64))
        bad = and_all(self.e, (outside, self.memory.tail_mask(at) if where.width > 1 else None))
        assert bad is not None
        self.rarely(self.e.any(bad).text, lambda: self.each(op, wide, bad, "values"))
        return True

    # --- text ---------------------------------------------------------------------------------------------------

    def rarely(self, condition: str, test: Callable[[], str]) -> None:
        """Run a test where a condition holds, and end the program where it fails."""
        self.where(condition, lambda: self.leave_if(test()))

    def where(self, condition: str, emit: Callable[[], None]) -> None:
        near, on = self.w.name("doubt"), self.w.name("checked")
        self.w.line(f"br i1 {condition}, label %{near}, label %{on}")
        with self.w.frame() as inner, self.w.isolated():
            emit()
            self.w.line(f"br label %{on}")
        self.w.label(near)
        self.w.frames[-1].lines += inner.lines
        self.w.label(on)

    def slot(self, kind: str) -> str:
        """A stack slot of the function that is under way."""
        memo = self.w.frames[0].memo
        if ("slot", kind) not in memo:
            memo["slot", kind] = VectorValue(self.w.slot(kind), int64, 1, 0)
        return memo["slot", kind].text

    def access(self, op: Op, words: Iterable[str], kind: str = "") -> str:
        """An access as `checking.ll` takes it, in a stack slot: `words` from what it does with owners on."""
        roots = self.roots.get(op.operands[0], frozenset())
        place = self.slot(f"[{_ACCESS_WORDS + 4 * 8} x i64]")
        array = self.arrays[next(iter(roots))].record if len(roots) == 1 else "null"
        head = ("ptr", self.report), ("ptr", array), ("i64", str(self.site(op, kind))), ("i64", self.number)
        rest = (str(item_of(op)), *words)
        for n, (of, text) in enumerate((*head, *(("i64", word) for word in rest))):
            at = self.w.raw(f"getelementptr i64, ptr {place}, i64 {n}")
            self.w.line(f"store {of} {text}, ptr {at}")
        return place

    def site(self, op: Op, kind: str = "") -> int:
        if (op, kind) not in self.sites:
            self.sites[op, kind] = len(self.checks)
            found = described(op, tuple(sorted(self.roots.get(op.operands[0], ()))))
            self.checks.append(replace(found, kind=kind, what=found.kind) if kind else found)
        return self.sites[op, kind]

    def text(self) -> str:
        return Path(__file__).with_suffix(".ll").read_text(encoding="utf-8")

    def finish(self) -> None:
        """The end of the function: where failed programs leave it."""
        self.w.label("leave")
        self.w.line("fence seq_cst")
        self.w.line("ret void")
        self.w.declarations |= _DECLARED


def scalars(access: Access) -> tuple[Value, ...]:
    return access.base, *access.offsets, *access.strides, *access.extents


def described(op: Op, arrays: tuple[str, ...]) -> Check:
    if op.name == "assert_":
        wraps: Any = op.attrs["wraps"]
        return Check("overflow" if wraps else "assert", op.loc, (), wraps or op.attrs["message"])
    if op.name == "gather":
        axis: Any = op.attrs["axis"]
        return Check("gather", op.loc, (), f"axis {axis} of size {op.operands[0].shape[axis]}")
    return Check("store" if op.name in _STORES else "load", op.loc, arrays)
