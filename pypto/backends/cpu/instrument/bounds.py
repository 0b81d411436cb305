"""Checked mode: bounds checks, races and assertions, emitted in front of what they test.

A structured access through one pointer is tested once, by its range, as soon as its scalars are known: ahead of the
nests of its region, which stay as they are. Only where the range does not decide (it leaves the array, or the array has
gaps), and for stores whose owners are recorded, `bounds.c` looks at the elements. A gather, or an access whose mask is
not a matter of extents, is tested in the nest, lanes at a time. A failure is written to the launch's report, and ends
the programs of the thread; other threads end before their next program.

tile_load x becomes if range of x is not inside: if elements of x are not inside: report, leave tile_load x
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pypto.backends.base import Slot
from pypto.backends.cpu.codegen.memory import Chunk, and_all
from pypto.backends.cpu.instrument.access_ranges import Ranges, Watched, item_of, pointee_of
from pypto.backends.cpu.instrument.hooks import Unchecked
from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.cpu.loopir.ir import Control, Item
from pypto.backends.llvm.compiled import helpers
from pypto.backends.llvm.value import VectorValue, vector
from pypto.backends.sites import Check
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import ArrayType, int1, int64, uint64
from pypto.ops.atomic import takes_turns
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import is_atomic, pointer_roots
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter
    from pypto.backends.cpu.codegen.tile_access import AccessEmitter
    from pypto.backends.cpu.loopir.index_maps import IndexMap

_ACCESS_WORDS: Final = 8  # before the dimensions
_MAX_ITERATIONS: Final = 2**26  # of a loop that is tested as a whole
_STORES: Final = {"tile_store": 1, "store": 1}  # what an op does with owners; atomics do 2
_OPS: Final = ("tile_load", "tile_store", "assert_")
_HELPERS: Final = Path(__file__).with_suffix(".c")


@dataclass
class Checks(Unchecked):
    """The checks of one kernel."""

    emitter: FunctionEmitter
    memory: AccessEmitter
    report: str = ""
    number: str = ""
    waiting: dict[int, list[Op]] = field(default_factory=dict)  # ops with unknown scalars, by region, in order
    sites: dict[tuple[Op, str], int] = field(default_factory=dict)
    proven: dict[Op, VectorValue] = field(default_factory=dict)  # whether accesses in loops need no test
    arrays: dict[str, Watched] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.e = self.emitter.e
        self.w = self.emitter.writer
        self.env = self.emitter.env
        function = self.emitter.function
        self.roots = pointer_roots(function)
        self.ranges = Ranges(self.emitter.nests, self.roots, self.arrays)
        self.checks: list[Check] = []
        self.races = not takes_turns(function.walk())
        self.wait(self.emitter.schedule.items, function.body)

    @property
    def places(self) -> tuple[Check, ...]:  # type: ignore[override]  # what nothing is checked for has none
        """The places that may fail."""
        return tuple(self.checks)

    def wait(self, items: Sequence[Item], region: Region) -> None:
        """Record what a region, and those inside, will check."""
        self.waiting[id(items)] = [op for op in region.ops if op.name in _OPS]
        for item in items:
            if isinstance(item, Control):
                for inner, inner_region in zip(item.regions, item.op.regions, strict=True):
                    self.wait(inner, inner_region)

    # --- a launch, a program, an item ---------------------------------------------------------------------------

    def enter(self) -> None:
        """Load the address of the report, and the records of all arrays."""
        self.report = self.pointer(Slot("report", ""))
        for v in (v for v in self.emitter.function.args if isinstance(v.type, ArrayType)):
            record = self.pointer(Slot("watched", v.hint))
            words = (self.w.raw(f"getelementptr i64, ptr {record}, i64 {n}", 0) for n in (0, 1, 5))
            self.arrays[v.hint] = Watched(record, *(self.w.instr(f"load i64, ptr {p}", int64, 1, 0) for p in words))

    def pointer(self, slot: Slot) -> str:
        """The pointer in a slot of the argument block."""
        return self.w.raw(f"inttoptr i64 {self.emitter.slot_of(slot).text} to ptr", 0)

    def program(self, number: VectorValue) -> None:
        """Leave the function where some program has failed."""
        self.number = number.text
        self.leave_if(self.has_failed())
        words = [x.text for a in self.arrays.values() for x in (a.low, a.quick, a.owners)]
        self.known = {**dict.fromkeys((self.report, *(a.record for a in self.arrays.values())), "ptr"),
            **dict.fromkeys((self.number, *words), "i64")}  # fmt: skip

    def has_failed(self) -> str:
        """Whether the report has a failure."""
        failed = self.w.raw(f"load atomic i64, ptr {self.report} monotonic, align 8")
        return self.w.raw(f"icmp ne i64 {failed}, 0")

    def leave_if(self, condition: str) -> None:
        """Leave the function where a condition holds."""
        checked = self.w.name("checked")
        self.w.line(f"br i1 {condition}, label %leave, label %{checked}")
        self.w.label(checked)

    def after_part(self) -> None:
        """Leave the function where a part has left: a part is a function of its own, which only returns."""
        self.leave_if(self.has_failed())

    def ready(self, region: int) -> None:
        """Emit the checks whose scalars are known, before an item of the region, or at its end."""
        unknown = []
        for op in self.waiting[region]:
            needed = op.operands[:1] if op.name == "assert_" else scalars(Access.of(op))
            if not all(v in self.env for v in needed if not is_tile(v)):
                unknown.append(op)
            elif op.name == "assert_":
                self.asserted(op)
            else:
                if op.attrs.get("element"):
                    self.exists(op)
                if not self.by_lanes(op):
                    self.box(op)
        self.waiting[region] = unknown

    # --- what is tested -----------------------------------------------------------------------------------------

    def asserted(self, op: Op) -> None:
        """Test an assertion."""
        self.rarely(self.no(self.env[op.operands[0]]).text, lambda: self.blame(op))

    def blame(self, op: Op) -> str:
        args = f"ptr {self.report}, i64 {self.site(op)}, i64 0, i64 {self.number}, i64 -1"
        return self.w.raw(f"call i1 @checks_fail({args})")

    def exists(self, op: Op) -> None:
        """Test an access by integers alone: the element has to exist. Slices are clipped instead."""
        access = Access.of(op)
        e = self.e
        scalar = self.memory.scalar
        bounds = zip(access.offsets, access.extents, strict=True)
        # As an unsigned number, a negative position is a large one.
        outside = [e.cmp("ge", scalar(at).as_dtype(uint64), scalar(end).as_dtype(uint64)) for at, end in bounds]

        def blame() -> str:
            words = ["0", "0", str(len(access.offsets))]
            for at in access.offsets:
                words += [scalar(at).text, "0", "0", "0"]
            return self.w.raw(f"call i1 @checks_beyond(ptr {self.access(op, words, 'position')})")

        self.rarely(functools.reduce(e.or_, outside).text, blame)

    def by_lanes(self, op: Op) -> bool:
        """Whether an access is tested lane by lane: pointers of its own, or a mask, decide what it touches."""
        access = Access.of(op)
        return is_tile(access.base) or access.mask is not None

    def box(self, op: Op) -> None:
        """Test a structured access by its range."""
        access = Access.of(op)
        roots = self.roots.get(op.operands[0], frozenset())
        if not roots:
            return

        def test() -> None:
            outside = self.e.const(True, int1)
            if len(roots) == 1:
                outside = self.no(self.ranges.of(op).inside)
            self.rarely(outside.text, lambda: self.exactly(op, access, 0))

        if op in self.proven:
            self.where(self.no(self.proven[op]).text, test)
        else:
            test()
        if self.owning(op):
            self.rarely(self.asks(roots).text, lambda: self.exactly(op, access, 1))

    def no(self, condition: VectorValue) -> VectorValue:
        """The negation."""
        return self.e.xor(condition, self.e.const(True, int1))

    def owning(self, op: Op) -> int:
        """What an op does with owners, see `bounds.c`."""
        kind = 2 if is_atomic(op) else _STORES.get(op.name, 0)
        return kind if self.races else 0

    def asks(self, arrays: Iterable[str]) -> VectorValue:
        """Whether the launch looks for races in one of the arrays."""
        owners = functools.reduce(self.e.or_, (self.arrays[a].owners for a in sorted(arrays)))
        return self.e.cmp("ne", owners, self.e.const(0, int64))

    def loop(self, item: Control) -> None:
        """Test accesses with affine addresses for all iterations of a loop, ahead of it: then no iteration
        tests them.
        """
        op = item.op
        step = constant_of(op.operands[2])
        if not isinstance(step, int) or step <= 0:
            return
        e = self.e
        index = op.regions[0].args[0]
        start, stop = (e.convert(self.env[v], int64) for v in op.operands[:2])
        length = e.maximum(e.sub(stop, start), e.const(0, int64))
        stride = e.const(step, int64)
        count = e.binary("udiv", e.add(length, e.const(step - 1, int64)), stride)
        last = e.add(start, e.mul(e.sub(count, e.const(1, int64)), stride))
        places = [e.convert(x, index.dtype) for x in (start, e.add(start, stride), last)]
        is_short = e.cmp("le", count, e.const(_MAX_ITERATIONS, int64))
        for access in self.waiting[id(item.regions[0])]:
            if access.name == "assert_" or self.by_lanes(access):
                continue
            in_bounds = self.ranges.affine_in_bounds(access, index, places)
            if in_bounds:
                self.proven[access] = e.and_(is_short, in_bounds)
                self.emitter.outliner.live_in_types[self.proven[access].text] = "i1"

    def exactly(self, op: Op, access: Access, owns: int) -> str:
        """Test the elements of a structured access. Owners are recorded along the contiguous dimension."""
        scalar = self.memory.scalar
        dims = list(range(len(access.shape)))
        if owns:
            dims.sort(key=lambda d: constant_of(access.strides[d]) == 1 and access.shape[d] > 1)
        words = [scalar(v[d]).text for d in dims for v in (access.offsets, access.strides, access.extents)]
        sizes = [str(access.shape[d]) for d in dims]
        parts = [word for n, size in enumerate(sizes) for word in (*words[3 * n : 3 * n + 3], size)]
        record = self.access(op, [str(owns), scalar(access.base).text, str(len(dims)), *parts])
        return self.w.raw(f"call i1 @checks_box(ptr {record})")

    def lanes(self, op: Op, base: VectorValue, index: IndexMap, at: Chunk, mask: VectorValue | None) -> bool:
        """Test an access lane by lane; False where it has been tested by its range."""
        roots = self.roots.get(op.operands[0], frozenset())
        if not self.by_lanes(op) or not roots:
            return False
        access = Access.of(op)
        m = self.memory
        validity = m.validity(access, index, at)
        first, step = m.element_offset(access, base, index, at)
        if at.lanes in index and at.width > 1:
            addresses = m.addresses(base, first, step, at.width, pointee_of(access.base))
            valid = m.combined_mask(validity, at, mask)
        else:
            size = self.e.const(item_of(op), int64)
            addresses = self.e.add(base, m.product(first, size))
            valid = and_all(self.e, (validity.rows_in_bounds, mask))
        self.addressed(op, addresses, valid, item_of(op), roots)
        return True

    def element(self, op: Op, address: VectorValue, mask: VectorValue | None) -> None:
        """Test one element, of a scalar load or store, or of an atomic."""
        roots = self.roots.get(op.operands[0], frozenset())
        if roots:
            self.addressed(op, address, mask, item_of(op), roots)

    def atomic(self, op: Op, operands: Sequence[VectorValue]) -> None:
        """Test the element of an atomic; a compare-and-swap has no mask."""
        self.element(op, operands[0], operands[2] if len(operands) > 2 and op.attrs["kind"] != "cas" else None)

    def addressed(
        self, op: Op, addresses: VectorValue, mask: VectorValue | None, item: int, roots: frozenset[str]
    ) -> None:
        """Test addresses, in lanes where the mask holds."""
        e = self.e
        exact = functools.partial(self.each, op, addresses, mask)
        if len(roots) > 1:
            self.leave_if(exact("lanes"))
            return
        array = self.arrays[next(iter(roots))]
        limit = e.maximum(e.sub(array.quick, e.const(item - 1, int64)), e.const(0, int64))
        outside = e.cmp("ge", e.sub(addresses, array.low).as_dtype(uint64), limit.as_dtype(uint64))
        suspect_lanes = and_all(e, (outside, mask))
        assert suspect_lanes is not None
        suspect = e.any(suspect_lanes)
        if self.owning(op):
            suspect = e.or_(suspect, self.asks(roots))
        self.rarely(suspect.text, lambda: exact("lanes"))

    def each(self, op: Op, values: VectorValue, mask: VectorValue | None, function: str) -> str:
        """A call of a function that looks at lanes in memory."""
        width = max(values.width, mask.width if mask is not None else 1)
        values = self.e.splat(values, width)
        mask = self.e.splat(self.e.const(True, int1) if mask is None else mask, width)
        bits, byte_type = vector("i1", width), vector("i8", width)
        value_slot = self.slot(f"[{width} x i64]")
        mask_slot = self.slot(f"[{width} x i8]")
        self.w.line(f"store {values.typed}, ptr {value_slot}, align 8")
        mask_bytes = self.w.raw(f"zext {bits} {mask.text} to {byte_type}")
        self.w.line(f"store {byte_type} {mask_bytes}, ptr {mask_slot}, align 1")
        record = self.access(op, [str(self.owning(op)), "0", "0"])
        args = f"ptr {record}, ptr {value_slot}, ptr {mask_slot}, i64 {width}"
        return self.w.raw(f"call i1 @checks_{function}({args})")

    def picked(self, op: Op, where: VectorValue, at: Chunk) -> bool:
        """Test the indices of a gather from a tile, whose result is not hoisted above the test."""
        indices = self.e.convert(where, int64)
        size = op.operands[0].shape[op.attrs["axis"]]
        outside = self.e.cmp("ge", indices.as_dtype(uint64), self.e.const(size, uint64))
        failed = and_all(self.e, (outside, self.memory.tail_mask(at) if where.width > 1 else None))
        assert failed is not None
        self.rarely(self.e.any(failed).text, lambda: self.each(op, indices, failed, "values"))
        return True

    # --- text ---------------------------------------------------------------------------------------------------

    def rarely(self, condition: str, test: Callable[[], str]) -> None:
        """Run an exact test where a condition holds, and leave the function where it fails."""
        self.where(condition, lambda: self.leave_if(test()))

    def where(self, condition: str, emit: Callable[[], None]) -> None:
        """Emit a branch for a condition that seldom holds."""
        doubt = self.w.name("doubt")
        checked = self.w.name("checked")
        self.w.line(f"br i1 {condition}, label %{doubt}, label %{checked}")
        with self.w.frame() as inner, self.w.isolated():
            emit()
            self.w.line(f"br label %{checked}")
        self.w.label(doubt)
        self.w.frames[-1].lines += inner.lines
        self.w.label(checked)

    def slot(self, kind: str) -> str:
        """A stack slot of the function that is emitted, shared by all its tests."""
        memo = self.w.frames[0].memo
        if ("slot", kind) not in memo:
            memo["slot", kind] = VectorValue(self.w.slot(kind), int64, 1, 0)
        return memo["slot", kind].text

    def access(self, op: Op, words: Iterable[str], kind: str = "") -> str:
        """An access in the form of `bounds.c`, in a stack slot; `words` begin with what it does with owners."""
        roots = self.roots.get(op.operands[0], frozenset())
        record = self.slot(f"[{_ACCESS_WORDS + 4 * 8} x i64]")
        array = self.arrays[next(iter(roots))].record if len(roots) == 1 else "null"
        head = ("ptr", self.report), ("ptr", array), ("i64", str(self.site(op, kind))), ("i64", self.number)
        tail = [("i64", word) for word in (str(item_of(op)), *words)]
        for n, (kind_of_word, text) in enumerate((*head, *tail)):
            address = self.w.raw(f"getelementptr i64, ptr {record}, i64 {n}")
            self.w.line(f"store {kind_of_word} {text}, ptr {address}")
        return record

    def site(self, op: Op, kind: str = "") -> int:
        """The number of a place that may fail."""
        if (op, kind) not in self.sites:
            self.sites[op, kind] = len(self.checks)
            check = described(op, tuple(sorted(self.roots.get(op.operands[0], ()))))
            self.checks.append(replace(check, kind=kind, what=check.kind) if kind else check)
        return self.sites[op, kind]

    def text(self) -> str:
        """The helper functions."""
        return helpers(_HELPERS)[0]

    def finish(self) -> None:
        """The end of the function, to which failed programs go."""
        self.w.label("leave")
        self.w.line("fence seq_cst")
        self.w.line("ret void")
        self.w.declarations |= helpers(_HELPERS)[1]


def scalars(access: Access) -> tuple[Value, ...]:
    """The scalars of an access."""
    return access.base, *access.offsets, *access.strides, *access.extents


def described(op: Op, arrays: tuple[str, ...]) -> Check:
    """A place that may fail, for the report."""
    if op.name == "assert_":
        wraps: Any = op.attrs["wraps"]
        return Check("overflow" if wraps else "assert", op.loc, (), wraps or op.attrs["message"])
    if op.name == "gather":
        axis: Any = op.attrs["axis"]
        return Check("gather", op.loc, (), f"axis {axis} of size {op.operands[0].shape[axis]}")
    return Check("store" if op.name in _STORES else "load", op.loc, arrays)
