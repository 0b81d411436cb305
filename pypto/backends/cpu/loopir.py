"""Loop IR: a kernel as an ordered tree of fused loop nests over planned scratch, printed for people and golden files.

A statement computes one thing over a domain, which is a tile's shape; loops of a domain are named by their dimension.
What is no statement of its own is computed where it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pypto.backends.cpu.operands import Direct
from pypto.ir.core import Op, Value
from pypto.ir.types import DType, PtrType


@dataclass(eq=False, slots=True)
class Buffer:
    """A tile in scratch memory: padded to `sizes`, or in panels of `panel` columns for the right side of a dot."""

    id: int
    elem: DType | PtrType
    shape: tuple[int, ...]
    sizes: list[int]
    panel: int = 0
    compact: bool = False  # 16-bit floats take the bytes that they have in memory
    dense: bool = False  # rows may not be padded: the buffer is also seen under another shape
    places: int = 1  # how many such tiles it holds
    start: int = 0
    end: int = 0
    offset: int = 0
    dropped: int = 0  # leading dimensions that are not stored, since writer and readers share their loops
    unused: bool = False  # every reader is in the nest that computes it
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
        return (*(0,) * self.dropped, *steps[self.dropped :])

    @property
    def elements(self) -> int:
        return math.prod(self.sizes[self.dropped :]) * self.places

    def __str__(self) -> str:
        form = f" panels of {self.panel}" if self.panel else ""
        form += f" for {self.places} steps" if self.places > 1 else ""
        sizes = "x".join(map(str, self.shape[self.dropped :])) or "1"
        return f"b{self.id}: {sizes}x{self.elem}{form}" + (" (registers)" if self.unused else f" @{self.offset}")


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
    width: int = 0  # forced chunk width, 0 when free
    position: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.domain[d] for d in self.loops)

    @property
    def signature(self) -> tuple[object, ...]:
        """Statements of one signature can share a loop nest."""
        roles = tuple((self.domain[d], d == self.lanes) for d in self.loops)
        return roles, self.width, id(self) if self.kind == "scan" else 0

    @property
    def does(self) -> Op:
        """The op of a statement that is more than a copy or zeros."""
        assert self.op is not None
        return self.op

    @property
    def into(self) -> Buffer:
        """The buffer of a statement that has one."""
        assert self.buffer is not None
        return self.buffer

    @property
    def index(self) -> tuple[int | None, ...]:
        """Loop positions by dimension of the domain."""
        return tuple(self.loops.index(d) if d in self.loops else None for d in range(len(self.domain)))

    @property
    def written(self) -> tuple[int | None, ...]:
        """Loop positions by dimension of the buffer that the statement writes."""
        if self.kind not in ("reduce", "arg"):
            return self.index
        axes: Any = self.does.attrs["axes"]
        if self.does.attrs["keep_dims"]:
            return tuple(None if d in axes else p for d, p in enumerate(self.index))
        return tuple(p for d, p in enumerate(self.index) if d not in axes)

    @property
    def result(self) -> Value | None:
        """The value that the statement defines, where it defines one."""
        if self.value is not None:
            return self.value
        return self.op.results[0] if self.op is not None and self.op.results else None

    def __str__(self) -> str:
        loops = " ".join(map(self.loop_text, self.loops))
        what = self.op.name if self.op is not None else "copy"
        into = f" -> b{self.buffer.id}" if self.buffer is not None else ""
        return f"{self.kind} {what}{into} [{loops or 'once'}]"

    def loop_text(self, d: int) -> str:
        return f"{'lanes' if d == self.lanes else 'for'} d{d}<{self.domain[d]}{'*' if d in self.reduced else ''}"


@dataclass(eq=False, slots=True)
class Nest:
    """Loop nests that share their `shared` outer loops; statements of one inner list share all loops."""

    bodies: list[list[Stmt]]
    shared: int = 0

    @property
    def stmts(self) -> list[Stmt]:
        return [s for body in self.bodies for s in body]


@dataclass(frozen=True, slots=True)
class Stay:
    """How many steps of a loop have panels that stay; where there are more steps, the rest shares one more place."""

    loop: Op | None
    steps: int
    places: int


@dataclass(eq=False, slots=True)
class Matmul:
    """A dot; `c` is read and written, or only written where it is `fresh`.

    Rows of `a` are copied into `block`, a few at a time, unless that is None. The panels `b` are filled from `source`
    (`turned`: with its rows as columns), unless that is None. With `words`, so many numbers are multiplied at once.
    """

    op: Op
    a: Buffer | Direct
    b: Buffer
    c: Buffer
    words: int = 0
    block: Buffer | None = None
    source: Buffer | Direct | None = None
    turned: bool = False
    fresh: bool = False
    stay: Stay | None = None  # where the panels outlast a program


@dataclass(eq=False, slots=True)
class Sort:
    """The rows of a buffer of integer keys, sorted in place."""

    buffer: Buffer


@dataclass(eq=False, slots=True)
class Scalar:
    """An op on scalars, in its place."""

    op: Op


@dataclass(eq=False, slots=True)
class Control:
    """An if, for or while, with a schedule for every region."""

    op: Op
    regions: list[list[Item]]


Item = Nest | Matmul | Sort | Scalar | Control


@dataclass(slots=True)
class Schedule:
    """The whole kernel."""

    items: list[Item]
    buffers: list[Buffer]
    scratch_bytes: int
    of: dict[Value, Buffer] = field(default_factory=dict)


def print_schedule(schedule: Schedule) -> str:
    """Text of Loop IR."""
    live = [f"  {b}" for b in schedule.buffers]
    return "\n".join([f"scratch {schedule.scratch_bytes} bytes", *live, *print_items(schedule.items, "")]) + "\n"


def matmul_text(item: Matmul) -> str:
    words = f" in words of {item.words}" if item.words else ""
    block = f" by b{item.block.id}" if item.block is not None else ""
    turned = " turned" * item.turned
    source = f" from {side(item.source)}{turned}" if item.source is not None else ""
    fresh = " fresh" * item.fresh
    return f"matmul{words} {side(item.a)}{block}, b{item.b.id}{source} ->{fresh} b{item.c.id}"


def side(operand: Buffer | Direct) -> str:
    return f"b{operand.id}" if isinstance(operand, Buffer) else "memory"


def print_items(items: list[Item], indent: str) -> list[str]:
    lines: list[str] = []
    for item in items:
        if isinstance(item, Nest):
            lines.append(f"{indent}nest" + (f" sharing {item.shared}" if item.shared else ""))
            for body in item.bodies:
                lines += [f"{indent}  {'| ' if i else '- '}{s}" for i, s in enumerate(body)]
        elif isinstance(item, Matmul):
            lines.append(f"{indent}{matmul_text(item)}")
        elif isinstance(item, Sort):
            lines.append(f"{indent}sort b{item.buffer.id}")
        elif isinstance(item, Scalar):
            lines.append(f"{indent}scalar {item.op.name}")
        else:
            lines.append(f"{indent}{item.op.name}")
            for region in item.regions:
                lines += [f"{indent}  region", *print_items(region, indent + "    ")]
    return lines


