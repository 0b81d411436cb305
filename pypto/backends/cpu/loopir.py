"""Loop IR: a kernel as an ordered tree of fused loop nests over planned scratch, printed for people and golden files.

A statement computes one thing over a domain, which is a tile's shape; loops of a domain are named by their dimension.
What is no statement of its own is computed where it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

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
    dense: bool = False  # rows may not be padded: the buffer is also seen under another shape
    start: int = 0
    end: int = 0
    offset: int = 0
    dropped: int = 0  # leading dimensions that are not stored, since writer and readers share their loops
    unused: bool = False  # every reader is in the nest that computes it
    view_of: Buffer | None = None  # the same memory under another shape

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.shape[self.dropped :]

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
        return math.prod(self.sizes[self.dropped :])

    def __str__(self) -> str:
        form = f" panels of {self.panel}" if self.panel else ""
        sizes = "x".join(map(str, self.stored_shape)) or "1"
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


@dataclass(eq=False, slots=True)
class Matmul:
    """A dot on buffers; `c` is read and written. With `words`, `a` and `b` hold that many numbers per element."""

    op: Op
    a: Buffer
    b: Buffer
    c: Buffer
    words: int = 0


@dataclass(eq=False, slots=True)
class Words:
    """A dot's operand with `per` neighbours along K joined into one element: the left one, or the other's panels."""

    source: Buffer
    target: Buffer
    per: int
    left: bool


@dataclass(eq=False, slots=True)
class Pack:
    """A row-major buffer, transposed into panels."""

    source: Buffer
    target: Buffer


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


Item = Nest | Matmul | Pack | Words | Sort | Scalar | Control


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


def print_items(items: list[Item], indent: str) -> list[str]:
    lines: list[str] = []
    for item in items:
        if isinstance(item, Nest):
            lines.append(f"{indent}nest" + (f" sharing {item.shared}" if item.shared else ""))
            for body in item.bodies:
                lines += [f"{indent}  {'| ' if i else '- '}{s}" for i, s in enumerate(body)]
        elif isinstance(item, Matmul):
            lines.append(f"{indent}matmul b{item.a.id} b{item.b.id} -> b{item.c.id}")
        elif isinstance(item, Pack):
            lines.append(f"{indent}pack b{item.source.id} -> b{item.target.id}")
        elif isinstance(item, Words):
            lines.append(f"{indent}words of {item.per} b{item.source.id} -> b{item.target.id}")
        elif isinstance(item, Sort):
            lines.append(f"{indent}sort b{item.buffer.id}")
        elif isinstance(item, Scalar):
            lines.append(f"{indent}scalar {item.op.name}")
        else:
            lines.append(f"{indent}{item.op.name}")
            for region in item.regions:
                lines += [f"{indent}  region", *print_items(region, indent + "    ")]
    return lines


