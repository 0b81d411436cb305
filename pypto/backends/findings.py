"""Explanations of backends: findings about places of a kernel, pictures, and figures for its lines.

`access_findings` looks at Tile IR alone, so that all backends share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.loc import UNKNOWN, Loc
from pypto.markup import Markup, Shown, card
from pypto.ops.memory import Access
from pypto.passes.analysis.affine import RULES
from pypto.passes.pattern import constant_of
from pypto.passes.program_order import order_text

_NOUNS: Final = {"tile_load": "a load", "tile_store": "a store"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One decision of the compiler."""

    topic: str
    loc: Loc
    text: str  # what was decided, and why
    way: str = ""  # what would change it


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings of a backend for a kernel."""

    items: tuple[Finding, ...] = ()
    scratch_bytes: int = 0  # for each `scratch_of`
    scratch_of: str = "thread"


@dataclass(frozen=True, slots=True)
class Picture(Shown):
    """A picture with a caption, as SVG. Shapes have the line of the source as `data-line`."""

    name: str
    text: str
    svg: str

    def _repr_html_(self) -> str:
        return card(self.name, Markup(self.svg), note=self.text)


@dataclass(frozen=True, slots=True)
class LineDetails:
    """Figures for the lines of a kernel.

    Attributes
    ----------
    widths : mapping of int to str
        How many elements one pass over a line computes.
    cycles : mapping of int to float
        Cycles that a timing model predicts for a line.
    pictures : tuple of Picture
    """

    widths: Mapping[int, str] = field(default_factory=dict)
    cycles: Mapping[int, float] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()


def byte_text(count: int) -> str:
    """A number of bytes as text.

    Examples
    --------
    >>> byte_text(12), byte_text(4096), byte_text(3 << 19)
    ('12 bytes', '4 KB', '1.5 MB')
    """
    for unit, n in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= n:
            return f"{count / n:.3g} {unit}"
    return f"{count} bytes"


def op_text(op: Op) -> str:
    """An op, with its line."""
    name = _NOUNS.get(op.name, f"`{op.name}`")
    return f"{name} in line {op.loc.user.line}" if op.loc != UNKNOWN else name


def order_findings(function: Function) -> Iterator[Finding]:
    """The order of programs, where the option `affinity` asks for one."""
    text = order_text(function)
    if text:
        yield Finding("order", function.loc, text)


def access_findings(function: Function) -> Iterator[Finding]:
    """Findings about loads and stores that are not contiguous, or have a mask."""
    for op in function.walk():
        if op.name not in ("tile_load", "tile_store"):
            continue
        access = Access.of(op)
        verb = op.name.removeprefix("tile_")
        text, way = lane_text(access, f"{verb}ed" if verb == "load" else "stored")
        if text:
            yield Finding("access", op.loc, text, way)
        if access.mask is not None:
            text = "its mask is no bound of an index: every element is tested"
            yield Finding("access", op.loc, text, "a mask such as `offsets < n` becomes the end of the tile")


def lane_text(access: Access, done: str) -> tuple[str, str]:
    """How elements of an access lie that are not contiguous along its lanes, and what changes that."""
    last = max((d for d, n in enumerate(access.shape) if n > 1), default=-1)
    if last < 0:
        return "", ""
    if has_shape(access.base):
        cause = nonlinear_op(access.base)
        why = f" that comes of {cause}" if cause else ""
        if access.base.shape[last] == 1:
            return f"rows are found by an index{why}; each row is contiguous", ""
        way = "make the index a sum of `arange`s times numbers, if it is one"
        return f"gather: every element has an address of its own{why}", way
    stride = constant_of(access.strides[last])
    if stride is None:
        way = "pass an array whose last dimension is contiguous, or let the tile's last dimension follow it"
        return f"its elements lie apart by a stride known at run time: each is {done} alone", way
    if stride not in (0, 1):
        return f"its elements lie {stride} apart: registers are put together from several places", ""
    return "", ""


def nonlinear_op(base: Value) -> str:
    """The op, with its line, for which a tile of pointers is not affine."""
    seen: set[Value] = set()
    waiting = [base]
    while waiting:
        v = waiting.pop(0)
        if v.op is None or v in seen:
            continue
        seen.add(v)
        if v.op.name not in RULES and has_shape(v):
            return op_text(v.op)
        waiting += v.op.operands
    return ""


def has_shape(v: Value) -> bool:
    """Whether a value has elements to loop over."""
    return bool(getattr(v.type, "shape", ()))
