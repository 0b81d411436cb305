"""Matrix products: register tiles over row-major A and packed panels of B, K innermost.

A kernel keeps a block of C in registers (`rows` by one panel), reads each row's element of A as a broadcast and each
panel row of B as whole registers. Blocks of C are spread evenly, so that no thin rest is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.loopir import Matmul, Pack, Words
from pypto.backends.cpu.storage import dot_dtype, item_bytes
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.words import WordEmitter
from pypto.backends.cpu.writer import Frame, Writer
from pypto.ir.types import DType, float32, int32, int64

_UNROLL = 4


@dataclass(frozen=True, slots=True)
class Block:
    """Shape of one register kernel: `rows` of A, `vectors` registers of a panel, `depth` along K."""

    rows: int
    vectors: int
    lanes: int
    depth: int
    pitch_a: int
    pitch_c: int
    panel: int
    dtype: DType
    words: int = 0

    @property
    def name(self) -> str:
        sizes = self.rows, self.vectors * self.lanes, self.depth, self.pitch_a, self.pitch_c, self.panel, self.words
        return f"dot_{self.dtype}_" + "_".join(map(str, sizes))

    @property
    def result(self) -> DType:
        """Type of the accumulators."""
        return float32 if self.words == 2 else self.dtype


def most_rows(target: CpuTarget, vectors: int) -> int:
    """Rows whose accumulators fit into the registers, beside a panel row and a broadcast."""
    return max(1, (target.registers - vectors - (1 if target.registers > 16 else 2)) // vectors)


def row_blocks(rows: int, most: int) -> list[tuple[int, int]]:
    """(size, count) of the blocks of rows: as few as fit, and as even as can be."""
    count = -(-rows // most)
    size, extra = divmod(rows, count)
    return [(n, c) for n, c in ((size + 1, extra), (size, count - extra)) if c]


class DotEmitter:
    """Emits products and transposing packs; register kernels become functions of their own, once for each shape."""

    def __init__(self, e: LaneEmitter, target: CpuTarget) -> None:
        self.e = e
        self.w = e.w
        self.target = target
        self.made: set[str] = set()
        self.joined = WordEmitter(e, target)

    def emit(self, item: Matmul, base_of: dict[int, Lanes]) -> None:
        assert isinstance(item.a.elem, DType)
        dtype = dot_dtype(item.a.elem)
        lanes = self.target.vector_bytes // dtype.itemsize
        a, b, c = (self.pointer(base_of[x.id]) for x in (item.a, item.b, item.c))
        if len(item.c.shape) < 3:
            self.stack(item, (a, b, c), lanes, dtype)
            return
        with self.w.loop("0", str(item.c.shape[0]), "1") as i:
            a, b, c = (self.offset(p, x.rows * x.pitch, i, dtype) for p, x in ((a, item.a), (b, item.b), (c, item.c)))
            self.stack(item, (a, b, c), lanes, dtype)

    def stack(self, item: Matmul, bases: tuple[str, str, str], lanes: int, dtype: DType) -> None:
        """All blocks of one matrix: panel by panel, so that a panel stays in cache; the last may be narrower."""
        a, b, c = bases
        m, k = item.a.shape[-2:]
        panel, width = item.b.panel, item.b.panel // lanes
        whole, rest = divmod(-(-item.b.shape[-1] // lanes), width)
        for first, last, vectors in ((0, whole, width), (whole, whole + 1, rest)):
            if first == last or not vectors:
                continue
            with self.w.loop(str(first), str(last), "1") as j:
                right, out = self.offset(b, panel * item.b.rows, j, dtype), self.offset(c, panel, j, dtype)
                row = 0
                for rows, count in row_blocks(m, most_rows(self.target, vectors)):
                    block = Block(rows, vectors, lanes, k, item.a.pitch, item.c.pitch, panel, dtype, item.words)
                    self.kernel(block)
                    with self.w.loop(str(row), str(row + rows * count), str(rows)) as i:
                        left, target = self.offset(a, item.a.pitch, i, dtype), self.offset(out, item.c.pitch, i, dtype)
                        self.w.line(f"call void @{block.name}(ptr {left}, ptr {right}, ptr {target})")
                    row += rows * count

    def pointer(self, base: Lanes) -> str:
        return self.w.raw(f"inttoptr i64 {base.text} to ptr")

    def offset(self, pointer: str, step: int, index: Lanes, dtype: DType) -> str:
        distance = self.w.raw(f"mul i64 {index.text}, {step}")
        return self.w.raw(f"getelementptr {llvm_type(dtype, 1)}, ptr {pointer}, i64 {distance}")

    # --- the register kernel ------------------------------------------------------------------------------------

    def kernel(self, block: Block) -> None:
        if block.name in self.made:
            return
        self.made.add(block.name)
        head = f"internal void @{block.name}(ptr noalias %a, ptr noalias %b, ptr noalias %c) noinline nounwind"
        with function(self.w, head):
            kind = llvm_type(block.result, block.lanes)
            cells = [(r, v) for r in range(block.rows) for v in range(block.vectors)]
            slots = {cell: self.w.slot(kind) for cell in cells}
            for r, v in cells:
                place = self.at("%c", r * block.pitch_c + v * block.lanes, block)
                old = Lanes(self.load(kind, place), block.result, block.lanes, self.w.depth)
                self.w.line(f"store {self.begun(block, old, v).typed}, ptr {slots[r, v]}")
            whole = block.depth // _UNROLL * _UNROLL
            if whole:
                with self.w.loop("0", str(whole), str(_UNROLL)) as k:
                    left = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr %a, i64 {k.text}")
                    down = self.w.raw(f"mul i64 {k.text}, {block.panel}")
                    right = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr %b, i64 {down}")
                    for u in range(_UNROLL):
                        self.step(block, slots, left, right, u)
            for u in range(whole, block.depth):
                self.step(block, slots, "%a", "%b", u)
            for r, v in cells:
                total = self.w.raw(f"load {kind}, ptr {slots[r, v]}")
                place = self.at("%c", r * block.pitch_c + v * block.lanes, block)
                self.w.line(f"store {kind} {total}, ptr {place}, align {self.align(block)}")

    def step(self, block: Block, slots: dict[tuple[int, int], str], left: str, right: str, k: int) -> None:
        """One row of the panel times one column of the block."""
        kind = llvm_type(block.dtype, block.lanes)
        places = [self.at(right, k * block.panel + v * block.lanes, block) for v in range(block.vectors)]
        row = [Lanes(self.load(kind, p, self.align(block)), block.dtype, block.lanes, self.w.depth) for p in places]
        for r in range(block.rows):
            element = self.load(llvm_type(block.dtype, 1), self.at(left, r * block.pitch_a + k, block))
            factor = self.e.splat(Lanes(element, block.dtype, 1, self.w.depth), block.lanes)
            for v, b in enumerate(row):
                result = llvm_type(block.result, block.lanes)
                old = Lanes(self.w.raw(f"load {result}, ptr {slots[r, v]}"), block.result, block.lanes, self.w.depth)
                self.w.line(f"store {self.join(block, factor, b, old).typed}, ptr {slots[r, v]}")

    def begun(self, block: Block, old: Lanes, v: int) -> Lanes:
        """An accumulator's first state; for bytes, without what the sign bits of the left side will add."""
        if block.words != 4:
            return old
        below = self.at("%b", block.depth * block.panel + v * block.lanes, block)
        extra = self.load(old.type, below, self.align(block))
        return self.e.sub(old, Lanes(extra, old.dtype, old.width, self.w.depth))

    def join(self, block: Block, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        if block.words:
            return self.joined.dot(block.words, a, b, c)
        return self.e.multiply_add(a, b, c) if block.dtype.is_float else self.e.add(self.e.mul(a, b), c)

    def at(self, pointer: str, elements: int, block: Block) -> str:
        return self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {pointer}, i64 {elements}")

    def load(self, kind: str, pointer: str, align: int = 4) -> str:
        return self.w.raw(f"load {kind}, ptr {pointer}, align {align}")

    def align(self, block: Block) -> int:
        return min(64, block.lanes * block.dtype.itemsize)

    # --- packing --------------------------------------------------------------------------------------------

    def words(self, item: Words, base_of: dict[int, Lanes]) -> None:
        """Numbers joined into words, for one matrix or a stack of them."""
        pointers = self.pointer(base_of[item.source.id]), self.pointer(base_of[item.target.id])
        if len(item.source.shape) < 3:
            self.joined.emit(item, *pointers)
            return
        with self.w.loop("0", str(item.source.shape[0]), "1") as i:
            steps = (x.rows * x.pitch for x in (item.source, item.target))
            self.joined.emit(item, *(self.offset(p, n, i, int32) for p, n in zip(pointers, steps, strict=True)))

    def pack(self, item: Pack, base_of: dict[int, Lanes]) -> None:
        """Rows of the source become columns of panels, a square of one register's lanes at a time."""
        source, target = item.source, item.target
        assert isinstance(source.elem, DType)
        dtype = dot_dtype(source.elem)
        lanes = self.target.vector_bytes // item_bytes(source.elem)
        n, k = source.shape
        a, b = self.pointer(base_of[source.id]), self.pointer(base_of[target.id])
        per_panel = target.panel // lanes
        rows, columns = str(-(-n // lanes)), str(-(-k // lanes))
        with self.w.loop("0", rows, "1") as i, self.w.loop("0", columns, "1") as j:
            corner = self.offset(self.offset(a, source.pitch * lanes, i, dtype), lanes, j, dtype)
            panel = self.w.raw(f"udiv i64 {i.text}, {per_panel}")
            within = self.w.raw(f"urem i64 {i.text}, {per_panel}")
            whole = self.offset(b, target.panel * target.rows, Lanes(panel, int64, 1, 0), dtype)
            start = self.offset(whole, lanes, Lanes(within, int64, 1, 0), dtype)
            place = self.offset(start, target.panel * lanes, j, dtype)
            block = [self.row(corner, r * source.pitch, lanes, dtype) for r in range(lanes)]
            for c, column in enumerate(self.transpose(block, lanes)):
                pointer = self.w.raw(f"getelementptr {llvm_type(dtype, 1)}, ptr {place}, i64 {c * target.panel}")
                self.w.line(f"store {llvm_type(dtype, lanes)} {column.text}, ptr {pointer}, align {dtype.itemsize}")

    def row(self, corner: str, elements: int, lanes: int, dtype: DType) -> Lanes:
        pointer = self.w.raw(f"getelementptr {llvm_type(dtype, 1)}, ptr {corner}, i64 {elements}")
        return Lanes(self.load(llvm_type(dtype, lanes), pointer, dtype.itemsize), dtype, lanes, self.w.depth)

    def transpose(self, rows: list[Lanes], lanes: int) -> list[Lanes]:
        """Butterfly of log2(lanes) steps: at each, rows that lie `step` apart exchange their blocks of `step` lanes."""
        step = lanes // 2
        while step:
            for r in [r for r in range(lanes) if not r & step]:
                low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
                high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
                pair = rows[r], rows[r + step]
                rows[r], rows[r + step] = self.e.shuffle(*pair, low), self.e.shuffle(*pair, high)
            step //= 2
        return rows


class function:  # reads as a statement: `with function(writer, header):`
    """Write another function beside the one that is under way."""

    def __init__(self, writer: Writer, header: str) -> None:
        self.w = writer
        self.header = header

    def __enter__(self) -> None:
        self.outer = self.w.frames, self.w.slots, self.w.base
        self.w.frames, self.w.slots, self.w.base = [Frame([])], [], 0

    def __exit__(self, *error: object) -> None:
        self.w.line("ret void")
        lines = self.w.frames[0].lines
        self.w.finish_function(self.header, lines)
        self.w.frames, self.w.slots, self.w.base = self.outer
