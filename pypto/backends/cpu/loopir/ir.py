"""Loop IR: a kernel as an ordered tree of fused loop nests over planned scratch; `printer` prints it.

A statement runs over a domain, which is the shape of a tile. Its loops are named by the dimensions of the domain. A
value without a buffer has no statement: code generation inlines it into its readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import DType, PtrType
from pypto.passes.analysis.memory_effects import is_pure

if TYPE_CHECKING:
    from pypto.backends.cpu.loopir.allocate import BufferAllocation
    from pypto.backends.cpu.loopir.use_sets import UseSet


def item_bytes(elem: DType | PtrType, in_memory_format: bool = False) -> int:
    """Bytes of an element in scratch: narrow floats take 4, as in registers, unless they are in memory format."""
    if isinstance(elem, PtrType):
        return 8
    return 4 if elem.is_narrow and not in_memory_format else elem.itemsize


@dataclass(eq=False, slots=True)
class Buffer:
    """A tile in scratch memory: padded rows, or packed panels for the right side of a dot."""

    id: int
    elem: DType | PtrType
    shape: tuple[int, ...]  # of the tile
    sizes: list[int]  # the shape with its padding
    panel: int = 0  # columns of a packed panel; 0 for rows
    in_memory_format: bool = False  # narrow floats take the bytes that they have in arrays
    unpadded: bool = False  # a view shows the memory under another shape, so that rows have no padding
    copies: int = 1  # number of such tiles in the buffer
    live_start: int = 0  # live range, in positions of `Materialization`
    live_end: int = 0
    offset: int = 0  # bytes from the start of scratch
    contracted_dims: int = 0  # array contraction: leading dimensions that are not stored
    contracted: bool = False  # array contraction: all readers are in the nest, so that the tile stays in registers
    view_of: Buffer | None = None  # the buffer whose memory this one shows under another shape

    @property
    def memory(self) -> Buffer:
        """The buffer that has the memory: itself, or the one that it is a view of."""
        return self.view_of or self

    @property
    def pitch(self) -> int:
        """Elements from one row to the next."""
        return self.sizes[-1] if self.sizes else 1

    @property
    def rows(self) -> int:
        """Rows of a matrix, padding included."""
        return self.sizes[-2] if len(self.sizes) > 1 else 1

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours, by dimension; 0 where the dimension is contracted."""
        steps = [math.prod(self.sizes[d + 1 :]) for d in range(len(self.sizes))]
        if self.panel:
            steps[-2] = self.panel
        return (*(0,) * self.contracted_dims, *steps[self.contracted_dims :])

    @property
    def elements(self) -> int:
        """Elements that the buffer has room for."""
        return math.prod(self.sizes[self.contracted_dims :]) * self.copies

    @property
    def size_bytes(self) -> int:
        """Bytes of scratch that the buffer takes."""
        return self.elements * item_bytes(self.elem, self.in_memory_format)


@dataclass(eq=False, slots=True)
class Stmt:
    """One computation over a domain, run by one loop nest.

    `kind` is ``compute`` (a value into a buffer), ``zero`` (clears a buffer), ``store``, ``reduce``, ``arg`` (argmax or
    argmin), ``scan``, ``atomic`` or ``count`` (a histogram).
    """

    kind: str
    op: Op | None  # the op that is computed; none for a copy or zeros
    value: Value | None  # the value that a ``compute`` writes
    domain: tuple[int, ...]  # the shape that the loops run over
    loops: tuple[int, ...]  # dimensions of size above 1, in loop order from the outermost
    lanes: int  # the dimension along the vector lanes, or -1
    reduced: tuple[int, ...] = ()  # dimensions that the result does not have
    buffer: Buffer | None = None  # the buffer that is written
    source: Buffer | None = None  # the buffer that a copy reads, if not that of the value
    forced_width: int = 0  # width of a chunk, as a panel demands it; 0 if free
    position: int = 0  # place in program order, in positions of `Materialization`
    packs_operand_of: Op | None = None  # the dot whose operand the statement packs

    @property
    def sizes(self) -> tuple[int, ...]:
        """Trip counts of the loops, from the outermost."""
        return tuple(self.domain[d] for d in self.loops)

    @property
    def signature(self) -> tuple[object, ...]:
        """Statements of equal signature can share all loops. A scan shares them with nobody."""
        roles = tuple((self.domain[d], d == self.lanes) for d in self.loops)
        return roles, self.forced_width, id(self) if self.kind == "scan" else 0

    @property
    def the_op(self) -> Op:
        """The op; only for statements that have one."""
        assert self.op is not None
        return self.op

    @property
    def the_buffer(self) -> Buffer:
        """The buffer; only for statements that write one."""
        assert self.buffer is not None
        return self.buffer

    @property
    def index(self) -> tuple[int | None, ...]:
        """Index map of the domain: loop positions by dimension."""
        return tuple(self.loops.index(d) if d in self.loops else None for d in range(len(self.domain)))

    @property
    def buffer_index(self) -> tuple[int | None, ...]:
        """Index map of the buffer that the statement writes."""
        if self.kind not in ("reduce", "arg"):
            return self.index
        axes: Any = self.the_op.attrs["axes"]
        if self.the_op.attrs["keep_dims"]:
            return tuple(None if d in axes else p for d, p in enumerate(self.index))
        return tuple(p for d, p in enumerate(self.index) if d not in axes)

    @property
    def result(self) -> Value | None:
        """The value that the statement defines, or None."""
        if self.value is not None:
            return self.value
        return self.op.results[0] if self.op is not None and self.op.results else None


@dataclass(eq=False, slots=True)
class Nest:
    """One or more loop nests, fused at their outer loops."""

    bodies: list[list[Stmt]]  # statements of one body share all loops
    fused_depth: int = 0  # outer loops that all bodies share
    fallback_of: LibraryOp | None = None  # runs only where this op did not run the nest as its epilogue

    @property
    def stmts(self) -> list[Stmt]:
        """All statements in program order."""
        return [s for body in self.bodies for s in body]


@dataclass(frozen=True, slots=True)
class Use:
    """How a library op uses a buffer, for the verifier."""

    buffer: Buffer
    reads: Value | None = None  # the value that has to be in the buffer before
    writes: Value | None = None  # the value that is in the buffer after
    outlives_program: bool = False  # later programs of the thread read the contents again
    fault: str = ""  # why the op cannot read the buffer in its layout; empty if it can


@dataclass(eq=False, slots=True)
class LibraryOp:
    """An op with an emitter of its own, such as a matrix product or a sort."""

    op: Op

    def uses(self) -> Iterable[Use]:
        """The buffers that the op reads and writes; they are live at the same time."""
        return ()

    def fuse_store(self, stmt: Stmt, plan: Any, last: Op) -> bool:
        """Fuse a store of the op's result; gives whether that is possible.

        `last` is the op whose result is stored: this op, or a loop whose result this op computes last.
        """
        return False

    def fuse_epilogue(self, nest: Nest, read: Iterable[tuple[Buffer, Any]], plan: Any, last: Op) -> bool:
        """Fuse a nest that reads and stores the result as an epilogue, run on each block of rows while it is in cache.

        Gives whether that is possible. `read` are the buffers that the nest reads, with their index maps.
        """
        return False

    @property
    def decisions(self) -> str:
        """What the compiler chose for it, for `explain`; empty where there is nothing to choose."""
        return ""

    @property
    def programs_sharing(self) -> int:
        """Number of consecutive programs that share data of the op; 0 for all along the grid's first axis."""
        return 1


@dataclass(eq=False, slots=True)
class Scalar:
    """An op on scalars, in program order."""

    op: Op


@dataclass(eq=False, slots=True)
class Control:
    """An ``if``, ``for`` or ``while``."""

    op: Op
    regions: list[list[Item]]  # the items of each region of the op


Item = Nest | LibraryOp | Scalar | Control


def is_movable(item: Item) -> bool:
    """True for a scalar op without an effect."""
    return isinstance(item, Scalar) and is_pure(item.op)


def last_structured_item(items: list[Item]) -> LibraryOp | Control | None:
    """The last item but pure scalars, where it is no nest and none of these reads its results."""
    last = next((item for item in reversed(items) if not is_movable(item)), None)
    after = items[items.index(last) + 1 :] if last is not None else []
    read = {v for item in after if isinstance(item, Scalar) for v in item.op.operands}
    return last if isinstance(last, LibraryOp | Control) and read.isdisjoint(last.op.results) else None


@dataclass(slots=True)
class Schedule:
    """Loop IR of a kernel."""

    items: list[Item]  # in program order
    buffers: list[Buffer]
    scratch_bytes: int  # scratch memory that a thread needs
    buffer_of: dict[Value, Buffer]  # buffers of materialised values
    function: Function  # the Tile IR whose values and ops the items name
    storage: BufferAllocation | None = None  # while passes run that ask for readers and live ranges of values
    use_sets: dict[Stmt, UseSet] = field(default_factory=dict)  # of statements, as far as a pass has asked

    @property
    def the_storage(self) -> BufferAllocation:
        """The buffers by value of Loop IR that was built from Tile IR."""
        assert self.storage is not None
        return self.storage


def walk(items: list[Item]) -> Iterator[Item]:
    """Items in program order, each before those of its regions."""
    for item in items:
        yield item
        for region in item.regions if isinstance(item, Control) else ():
            yield from walk(region)
