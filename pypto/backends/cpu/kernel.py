"""Register kernels: a block of C stays in registers while K goes by.

Each element of A is broadcast, each row of B is read as whole registers: out of a panel, or out of the matrix itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.prefetch import FAR, LINE, NEAR, fetch
from pypto.backends.cpu.stores import pieces
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.writer import Frame, Writer
from pypto.ir.types import DType, float32, int1, int32

Slots = dict[tuple[int, int], str]  # where registers of a block are, by row and place in the row

_UNROLL: Final = 4  # most steps of K in one round of the loop
_ROUND: Final = 32  # multiply-adds that hide what a round costs beside them: more would only take longer to compile
_AHEAD: Final = 1536  # bytes of a panel that are asked for before they are read
_IN_PLACE: Final = 8  # rows of A that lie far apart, often in one set of a cache


@dataclass(frozen=True, slots=True)
class Block:
    """Shape of one register kernel: `rows` of A, `vectors` registers of a panel.

    With `words`, so many numbers are multiplied at once; bytes of panels are unsigned. `coming` rows of the left side
    are asked for, that a later block will copy. With `parts`, so many products are added up, each with a pitch of A,
    and the numbers of A for one step of K are neighbours, and all there where it is `whole`; what is asked for `early`
    is another program's. Else rows of A lie `apart` bytes apart, and those of C `down`. Where these are 0, callers give
    them: of A odd multiples, so that all of its rows are addressed from one pointer, and no register is spilled. A
    block that `lands` may be stored elsewhere than where it was loaded from. Panels that do not stay in the first-level
    cache are `far`. K is `even` where all rounds are whole ones. What is run `seldom` has rounds of one step, which are
    compiled sooner. Where one instruction multiplies tiles (see amx.py), it takes a `step` of so many words along K.
    Numbers may be `parted`: sums of so many, each so many bytes behind the one before on the left and right side.
    """

    rows: int
    vectors: int
    lanes: int
    panel: int
    dtype: DType
    words: int = 0
    coming: int = 0
    parts: int = 0
    apart: int = 0
    down: int = 0
    lands: bool = False
    whole: bool = False
    early: bool = False
    far: bool = False
    even: bool = False
    seldom: bool = False
    step: int = 0
    parted: tuple[int, int, int] = (1, 0, 0)

    @property
    def name(self) -> str:
        sizes = self.rows, self.vectors * self.lanes, self.panel, self.words
        flags = self.lands, self.whole, self.early, self.far, self.even, self.seldom
        more = self.coming, self.parts, self.apart, self.down, *map(int, flags), self.step, *self.parted
        return f"dot_{self.dtype}_" + "_".join(map(str, (*sizes, *more)))

    @property
    def is_biased(self) -> bool:
        """True for bytes whose signs are flipped on the right side: what that adds is to be subtracted."""
        return self.words == 4 and not self.step

    @property
    def multiples(self) -> list[int]:
        return [] if self.parts or self.apart else list(range(1, 2 if self.step else self.rows, 2))

    @property
    def unroll(self) -> int:
        """Steps of K in one round."""
        if self.seldom:
            return 1
        needed = -(-_ROUND // (self.rows * self.vectors)) if self.parts < 2 else _UNROLL
        return min(_UNROLL, 1 << (needed - 1).bit_length())

    def over(self, *depths: Lanes) -> Block:
        """The same for products of these depths."""
        return replace(self, even=self.seldom or all(fixed(n) and not fixed(n) % _UNROLL for n in depths))

    @property
    def result(self) -> DType:
        """Type of the accumulators."""
        return float32 if self.words == 2 else self.dtype


@dataclass(frozen=True, slots=True)
class Part:
    """One product of those that a register kernel adds up, by name: pointers, the pitch where it varies, the depth.

    `after` is the left side of the one after it, if any: its address and pitch.
    """

    a: str
    b: str
    pitch: str
    depth: str
    after: tuple[str, ...] = ()


def fixed(n: Lanes) -> int:
    """A number that is known now; 0 where it is not."""
    return 0 if "%" in n.text else int(n.text)


def most_rows(target: CpuTarget, vectors: int, in_place: bool = False) -> int:
    """Rows whose accumulators fit into the registers, beside a panel row and a broadcast; fewer where A stays in place.

    Eight rows that lie a multiple of 4 KB apart find room in a set of twelve lines, beside what else goes by.
    """
    fit = target.registers - vectors - (1 if target.registers > 16 else 2)
    return max(1, min(fit // vectors, max(_IN_PLACE, 2 * _IN_PLACE // vectors) if in_place else fit))


def row_blocks(rows: int, most: int) -> list[tuple[int, int]]:
    """(size, count) of the blocks of rows: as few as fit, and as even as can be."""
    count = -(-rows // most)
    size, extra = divmod(rows, count)
    return [(n, c) for n, c in ((size + 1, extra), (size, count - extra)) if c]


class KernelEmitter:
    """Emits register kernels as functions, once for each shape."""

    arguments: ClassVar = "ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr %later, i64 %pitch, i64 %depth"

    def __init__(self, e: LaneEmitter) -> None:
        self.e = e
        self.w = e.w

    def kernel(self, block: Block) -> None:
        if not is_new(self.w, block.name):
            return
        with function(self.w, self.header(block)):
            kind = llvm_type(block.result, block.lanes)
            slots = {(r, v): self.w.slot(kind) for r in range(block.rows) for v in range(block.vectors)}
            downs = [self.w.raw(f"mul i64 {block.down or '%down'}, {r}") for r in range(block.rows)]
            rows = [self.w.raw(f"getelementptr i8, ptr %c, i64 {down}") for down in downs]
            for (r, v), slot in slots.items():
                place = self.at(rows[r], v * block.lanes, block)
                old = Lanes(self.load(kind, place), block.result, block.lanes, self.w.depth)
                self.w.line(f"store {self.begun(block, old, r).typed}, ptr {slot}")
            self.multiply(block, slots)
            self.leave(block, slots, rows)

    def header(self, block: Block) -> str:
        args = f"{self.arguments}, i64 %down, i1 %fresh" + ", ptr %into, i64 %apart" * block.lands
        args += "".join(f", i64 %apart{n}" for n in block.multiples) + ", ptr %sums" * block.is_biased
        return f"internal void @{block.name}({args}) noinline nounwind"

    def multiply(self, block: Block, slots: Slots) -> None:
        self.product(block, slots, Part("%a", "%b", "%pitch", "%depth"))

    def leave(self, block: Block, slots: Slots, rows: Sequence[str]) -> list[Lanes]:
        """Store the block."""
        kind = llvm_type(block.result, block.lanes)
        if block.lands:
            lands = self.w.raw("icmp ne ptr %into, null")
            start = self.w.raw(f"select i1 {lands}, ptr %into, ptr %c")
            down = self.w.raw(f"select i1 {lands}, i64 %apart, i64 {block.down or '%down'}")
            downs = [self.w.raw(f"mul i64 {down}, {r}") for r in range(block.rows)]
            rows = [self.w.raw(f"getelementptr i8, ptr {start}, i64 {down}") for down in downs]
        for (r, v), slot in slots.items():
            total = Lanes(self.load(kind, slot, 64), block.result, block.lanes, self.w.depth)
            for part, place in pieces(self.e, total, self.at(rows[r], v * block.lanes, block), 4):
                self.w.line(f"store {part.typed}, ptr {place}, align 4")
        return []

    def product(self, block: Block, slots: Slots, part: Part) -> list[Lanes]:
        """Add a product to the block."""
        whole = part.depth if block.even else self.w.raw(f"and i64 {part.depth}, {-block.unroll}")
        downs = [self.w.raw(f"mul i64 {part.pitch}, {r}") for r in range(block.coming)]
        later = [self.w.raw(f"getelementptr i8, ptr %later, i64 {down}") for down in downs]
        self.steps(block, slots, part, ("0", whole, block.unroll), later)
        if not block.even:
            self.steps(block, slots, part, (whole, part.depth, 1))
        return []

    def without_one(self, block: Block, slots: Slots, part: Part, last: str) -> list[Lanes]:
        """Add a product to all rows of the block but its last or its first one."""
        few, over = replace(block, rows=block.rows - 1), ("0", part.depth, 1)
        below = {(r - 1, v): slot for (r, v), slot in slots.items() if r}
        after = replace(part, a=self.at(part.a, 1, block))
        sides = (slots, part), (below, after)
        return self.w.branch(last, [partial(self.steps, few, *side, over) for side in sides])

    def steps(
        self, block: Block, slots: Slots, part: Part, over: tuple[str, str, int], later: Sequence[str] = ()
    ) -> list[Lanes]:
        first, last, unroll = over
        with self.w.loop(first, last, str(unroll)) as k:
            after = self.w.raw(f"mul i64 {k.text}, {part.pitch}") if block.parts else k.text
            left = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {part.a}, i64 {after}")
            down = self.w.raw(f"mul i64 {k.text}, {block.panel}")
            right = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {part.b}, i64 {down}")
            for u in range(unroll):
                for row in later[u::unroll]:
                    line = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {row}, i64 {k.text}")
                    fetch(self.w, line, 2)
                if part.after:
                    self.ahead(block, part, self.w.raw(f"add i64 {k.text}, {u}"))
                self.step(block, slots, replace(part, a=left, b=right), u)
        return []

    def ahead(self, block: Block, part: Part, k: str) -> None:
        """Have a step's last number of the next product fetched: those before it are in that line, or in the cache."""
        start, pitch = part.after
        step = self.w.raw(f"mul i64 {k}, {pitch}")
        line = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {start}, i64 {step}")
        fetch(self.w, self.at(line, block.rows - 1, block), FAR if block.early else NEAR)

    def step(self, block: Block, slots: Slots, part: Part, k: int) -> None:
        """One row of the panel times one column of the block."""
        kind = llvm_type(block.dtype, block.lanes)
        places = [self.at(part.b, k * block.panel + v * block.lanes, block) for v in range(block.vectors)]
        for c in range(0, block.far * block.vectors * block.lanes, LINE // block.dtype.itemsize):
            fetch(self.w, self.at(part.b, k * block.panel + _AHEAD // block.dtype.itemsize + c, block), 3)
        align = self.align(block)
        row = [Lanes(self.load(kind, p, align), block.dtype, block.lanes, self.w.depth) for p in places]
        for r in range(block.rows):
            align = block.dtype.itemsize // max(1, block.words)
            element = self.load(llvm_type(block.dtype, 1), self.element(block, part, r, k), align)
            factor = self.e.splat(Lanes(element, block.dtype, 1, self.w.depth), block.lanes)
            for v, b in enumerate(row):
                result = llvm_type(block.result, block.lanes)
                old = Lanes(self.w.raw(f"load {result}, ptr {slots[r, v]}"), block.result, block.lanes, self.w.depth)
                self.w.line(f"store {self.join(block, factor, b, old).typed}, ptr {slots[r, v]}")

    def element(self, block: Block, part: Part, r: int, k: int) -> str:
        """A number of A, some rows down and some steps on."""
        if not block.parts:
            times = max(1, r & -r)
            odd = block.apart * (r // times) or f"%apart{r // times}"
            down = self.w.raw(f"mul i64 {odd}, {times}") if r else "0"
            return self.at(self.w.raw(f"getelementptr i8, ptr {part.a}, i64 {down}"), k, block)
        after = self.w.raw(f"mul i64 {part.pitch}, {k}")
        return self.at(self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {part.a}, i64 {after}"), r, block)

    def begun(self, block: Block, old: Lanes, r: int) -> Lanes:
        """An accumulator's first state; for bytes, without what the flipped signs of the right side will add."""
        zero = self.e.splat(self.e.const(0, old.dtype), old.width)
        start = self.e.select(Lanes("%fresh", int1, 1, 0), zero, old)
        if block.words != 4:
            return start
        extra = Lanes(self.load("i32", self.at("%sums", r, block)), int32, 1, self.w.depth)
        return self.e.sub(start, self.e.splat(extra, old.width))

    def join(self, block: Block, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        if block.words == 4:
            return self.bytes_joined(c, b, a)
        if block.words == 2:
            return self.pairs_joined(c, a, b)
        return self.e.multiply_add(a, b, c) if block.dtype.is_float else self.e.add(self.e.mul(a, b), c)

    def bytes_joined(self, c: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """c + the products of the four bytes of each word; those of `a` are unsigned."""
        args = tuple((v.type, v.text) for v in (c, a, b))
        return Lanes(self.w.call(c.type, "llvm.x86.avx512.vpdpbusd.512", args), int32, c.width, c.level)

    def byte_sums(self, c: Lanes, b: Lanes) -> Lanes:
        ones = self.e.splat(self.e.const(0x01010101, int32), c.width)
        return self.bytes_joined(c, ones, b)

    def pairs_joined(self, c: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """c + the products of the two bfloat16 of each word."""
        kind = f"<{2 * c.width} x bfloat>"
        halves = [self.w.raw(f"bitcast {v.typed} to {kind}", v.level) for v in (a, b)]
        args = ((c.type, c.text), (kind, halves[0]), (kind, halves[1]))
        return Lanes(self.w.call(c.type, "llvm.x86.avx512bf16.dpbf16ps.512", args), c.dtype, c.width, c.level)

    def at(self, pointer: str, elements: int, block: Block) -> str:
        return self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {pointer}, i64 {elements}")

    def load(self, kind: str, pointer: str, align: int = 4) -> str:
        return self.w.raw(f"load {kind}, ptr {pointer}, align {align}")

    def align(self, block: Block) -> int:
        return min(64, block.lanes * block.dtype.itemsize)


def is_new(w: Writer, name: str) -> bool:
    """True when nobody has asked for a function of that name before."""
    known = name in w.begun
    w.begun.add(name)
    return not known


@contextmanager
def function(w: Writer, header: str) -> Iterator[None]:
    """Write another function beside the one that is under way."""
    outer = w.frames, w.slots, w.page, w.base
    w.frames, w.slots, w.page, w.base = [Frame([])], [], "", 0
    yield
    w.line("ret void")
    w.finish_function(header, w.frames[0].lines)
    w.frames, w.slots, w.page, w.base = outer
