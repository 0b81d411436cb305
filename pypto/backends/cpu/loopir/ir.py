"""Loop IR: a kernel as an ordered tree of fused loop nests over planned scratch; `listing` prints it.

A statement computes one thing over a domain, which is a tile's shape; loops of a domain are named by their dimension.
What is no statement of its own is computed where it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pypto.ir.core import Op, Value
from pypto.ir.types import DType, PtrType


def item_bytes(elem: DType | PtrType, compact: bool = False) -> int:
    """Bytes of an element in scratch, where 16-bit floats are kept as they are in registers, unless it is compact."""
    if isinstance(elem, PtrType):
        return 8
    return 4 if elem.is_narrow and not compact else elem.itemsize


@dataclass(eq=False, slots=True)
class Buffer:
    """A tile in scratch memory: padded to `sizes`, or in panels of `panel` columns for the right side of a dot."""

    id: int
    elem: DType | PtrType
    shape: tuple[int, ...]
    sizes: list[int]
    panel: int = 0
    in_memory_format: bool = False  # 16-bit floats take the bytes that they have in memory
    unpadded: bool = False  # rows may not be padded: the buffer is also seen under another shape
    copies: int = 1  # how many such tiles it holds
    live_start: int = 0
    live_end: int = 0
    offset: int = 0
    contracted_dims: int = 0  # leading dimensions that are not stored, since writer and readers share their loops
    contracted: bool = False  # every reader is in the nest that computes it
    view_of: Buffer | None = None  # the same memory under another shape

    @property
    def memory(self) -> Buffer:
        """The buffer whose memory this is."""
        return self.view_of or self

    @property
    def pitch(self) -> int:
        """Elements of a row, with its padding."""
        return self.sizes[-1] if self.sizes else 1

    @property
    def rows(self) -> int:
        """Rows of a matrix, with its padding."""
        return self.sizes[-2] if len(self.sizes) > 1 else 1

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours, per dimension; 0 where the dimension is not stored."""
        steps = [math.prod(self.sizes[d + 1 :]) for d in range(len(self.sizes))]
        if self.panel:
            steps[-2] = self.panel
        return (*(0,) * self.contracted_dims, *steps[self.contracted_dims :])

    @property
    def elements(self) -> int:
        return math.prod(self.sizes[self.contracted_dims :]) * self.copies


@dataclass(eq=False, slots=True)
class Stmt:
    """One computation over a domain.

    `kind` is ``compute`` (a value into a buffer), ``zero`` (a buffer cleared), ``store``, ``reduce``, ``arg``,
    ``scan``, ``atomic`` or ``count``. `loops` are the domain's dimensions of size above 1 in loop order, `lanes` the
    one that lies along the lanes (or -1), `reduced` those that the result does not have.
    """

    kind: str
    op: Op | None
    value: Value | None
    domain: tuple[int, ...]
    loops: tuple[int, ...]
    lanes: int
    reduced: tuple[int, ...] = ()
    buffer: Buffer | None = None
    source: Buffer | None = None  # memory to copy from, where it is not the value's own
    forced_width: int = 0  # forced chunk width, 0 when free
    position: int = 0
    packs_operand_of: Op | None = None  # the cell whose operand it makes, in a form of its own

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.domain[d] for d in self.loops)

    @property
    def signature(self) -> tuple[object, ...]:
        """Statements of one signature can share a loop nest."""
        roles = tuple((self.domain[d], d == self.lanes) for d in self.loops)
        return roles, self.forced_width, id(self) if self.kind == "scan" else 0

    @property
    def the_op(self) -> Op:
        """The op of a statement that is more than a copy or zeros."""
        assert self.op is not None
        return self.op

    @property
    def the_buffer(self) -> Buffer:
        """The buffer of a statement that has one."""
        assert self.buffer is not None
        return self.buffer

    @property
    def index(self) -> tuple[int | None, ...]:
        """Loop positions by dimension of the domain."""
        return tuple(self.loops.index(d) if d in self.loops else None for d in range(len(self.domain)))

    @property
    def buffer_index(self) -> tuple[int | None, ...]:
        """Loop positions by dimension of the buffer that the statement writes."""
        if self.kind not in ("reduce", "arg"):
            return self.index
        axes: Any = self.the_op.attrs["axes"]
        if self.the_op.attrs["keep_dims"]:
            return tuple(None if d in axes else p for d, p in enumerate(self.index))
        return tuple(p for d, p in enumerate(self.index) if d not in axes)

    @property
    def result(self) -> Value | None:
        """The value that the statement defines, where it defines one."""
        if self.value is not None:
            return self.value
        return self.op.results[0] if self.op is not None and self.op.results else None


@dataclass(eq=False, slots=True)
class Nest:
    """Loop nests that share their `fused_depth` outer loops; statements of one inner list share all loops."""

    bodies: list[list[Stmt]]
    fused_depth: int = 0
    fallback_of: LibraryOp | None = None  # what may have done all of it already, as is known when a program runs

    @property
    def stmts(self) -> list[Stmt]:
        return [s for body in self.bodies for s in body]


@dataclass(frozen=True, slots=True)
class Use:
    """What a cell does with a buffer: the value that it has to find there, and the one that it leaves.

    With `outlives_program`, later programs find the contents again. `fault` says why the op cannot read the buffer
    in its present form.
    """

    buffer: Buffer
    reads: Value | None = None
    writes: Value | None = None
    outlives_program: bool = False
    fault: str = ""


@dataclass(eq=False, slots=True)
class LibraryOp:
    """What a structural cell makes of its op, to be emitted by itself."""

    op: Op

    def uses(self) -> Iterable[Use]:
        """The buffers that it reads and writes, while all of them are there."""
        return ()

    def fuse_store(self, stmt: Stmt, plan: Any, last: Op) -> bool:
        """Whether it can store its result, or that of the `last` op, which it ends, as the statement would."""
        return False

    def fuse_epilogue(self, nest: Nest, read: Iterable[tuple[Buffer, Any]], plan: Any, last: Op) -> bool:
        """Whether it can run the nest, which stores what comes of that result, on a few rows as soon as they are done.

        `read` are the buffers that the nest reads, with the loop positions that index them.
        """
        return False

    @property
    def decisions(self) -> str:
        """What the compiler chose for it, for `explain`; empty where there is nothing to choose."""
        return ""

    @property
    def programs_sharing(self) -> int:
        """How many programs that run one after the other share what it makes; 0 is all along the grid's first axis."""
        return 1


@dataclass(eq=False, slots=True)
class Scalar:
    """An op on scalars, in its place."""

    op: Op


@dataclass(eq=False, slots=True)
class Control:
    """An if, for or while, with a schedule for every region."""

    op: Op
    regions: list[list[Item]]


Item = Nest | LibraryOp | Scalar | Control


@dataclass(slots=True)
class Schedule:
    """The whole kernel."""

    items: list[Item]
    buffers: list[Buffer]
    scratch_bytes: int
    buffer_of: dict[Value, Buffer] = field(default_factory=dict)


def walk(items: list[Item]) -> Iterator[Item]:
    """Items in program order, each before those of its regions."""
    for item in items:
        yield item
        for region in item.regions if isinstance(item, Control) else ():
            yield from walk(region)
