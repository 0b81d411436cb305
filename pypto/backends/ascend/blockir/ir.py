"""Block IR: what one core does. Instructions on buffers with a place, a layout and an address, which a unit runs.

Its text is a listing in Python's syntax, one instruction a line, which `listing` prints and reads:

    def add(x: GM[float32, ND], y: GM[float32, ND], n: int32) -> vector:
        a = UB(float32, ND, 2048, at=0, stages=2)
        for i in range(block, tiles, blocks):
            count: int64 = min(2048, n - i * 2048)
            WaitFlag('V_MTE2', i % 2)
            DataCopyPad(a[i % 2, 0], x[i * 2048], (1, count * 4, 0, 0, 0), (0, 0, 0, 0))  # 7

A comment behind an instruction is the user's line that it comes from. What lowers Tile IR makes instructions on buffers
without addresses and without events; `plan` gives the addresses, `sync` the events and barriers, and then it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto.backends.ascend.target import PLAIN
from pypto.backends.base import Slot
from pypto.ir.types import DType, int64


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression that the scalar unit computes.

    `op` is one of C++'s binary operators (``//`` divides integers, towards zero), ``min``, ``max``, ``not``, ``?:``,
    the name of a dtype for a conversion, or a function of `softfloat64`.
    """

    op: str
    args: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A scalar load of one element of a buffer or array."""

    view: View


# A str names a parameter, a loop's variable, a `Let`, or what a core knows of itself: ``block`` and ``blocks`` (in a
# mixed kernel, a block is a cube core with its vector cores), and ``sub_block``, a vector core's number in its block.
Scalar = int | float | bool | str | Expr | Read


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer in a memory of a core: `stages` copies of `elements` of a dtype.

    `layout` is one of those that a chip's record has for the `space`. `address` is in bytes, and None before
    allocation. A buffer with `ahead` is prefetched: it is filled for the next iteration during this one. It has its
    stages from the start, so that `double_buffering` adds none.
    """

    name: str
    space: str
    dtype: DType
    elements: int
    stages: int = 1
    address: int | None = None
    ahead: bool = False
    layout: str = PLAIN

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage, in whole blocks of 32."""
        bits = self.elements * self.dtype.bits
        return -(-bits // 256) * 32

    @property
    def bytes(self) -> int:
        return self.stages * self.stage_bytes


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the kernel: an array in GM, or a number.

    With a `place`, it is no parameter of its own but an array in the workspace, at this offset in bytes from the start
    of the block's part.
    """

    name: str
    dtype: DType
    is_array: bool
    place: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A reference to a buffer or an array: from element `offset` of one stage, as another dtype where that is set.

    The offset counts elements of that other dtype.
    """

    of: Buffer | Param
    offset: Scalar = 0
    stage: Scalar = 0
    dtype: DType | None = None

    @property
    def space(self) -> str:
        return self.of.space if isinstance(self.of, Buffer) else "GM"

    @property
    def layout(self) -> str:
        return self.of.layout if isinstance(self.of, Buffer) else PLAIN

    @property
    def elem(self) -> DType:
        return self.dtype or self.of.dtype


@dataclass(frozen=True, slots=True)
class Word:
    """An enumerator of the API without its enumeration, such as ``CAST_RINT``, ``MTE2_V`` or ``PIPE_V``; or a dtype."""

    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """A parameter structure, with its fields in the order of `instructions.RECORDS`."""

    fields: tuple[Scalar | Word, ...]


Argument = View | Scalar | Word | Record


@dataclass(frozen=True, slots=True)
class Instr:
    """A call of the basic API. `line` is the user's, 0 where there is none."""

    name: str
    args: tuple[Argument, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Let:
    """The definition of a named number; `Assign` may change it."""

    name: str
    dtype: DType
    value: Scalar
    line: int = 0


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment to a `Let`'s name."""

    name: str
    value: Scalar
    line: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """A counted loop: `body` for each `name` from `start` to `stop`, which is excluded."""

    name: str
    start: Scalar
    stop: Scalar
    step: Scalar
    body: tuple[Item, ...]
    line: int = 0
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class While:
    """A `while` loop: runs `test`, ends if `condition` is false, else runs `body` and repeats."""

    test: tuple[Item, ...]
    condition: Scalar
    body: tuple[Item, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class If:
    """A branch: `body` if the condition holds, else `orelse`."""

    condition: Scalar
    body: tuple[Item, ...]
    orelse: tuple[Item, ...] = ()
    line: int = 0


Item = Instr | Let | Assign | Loop | While | If


@dataclass(frozen=True, slots=True)
class CubeRefusal:
    """The user's line of a product that vector cores compute, and why the cube core does not."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnitFlags:
    """Whether unit flags order the way out of L0C; if not, the reason why events do. `line` is that of the product."""

    line: int
    reason: str = ""


@dataclass(frozen=True)
class BlockKernel:
    """A kernel on one core. `kind` is ``vector``, ``cube`` or ``mix``, where `body` is the vector cores' part.

    `slots` are the arguments of the launch that fill the first parameters, in order. Then come the three sizes of the
    grid as int32 and, if `workspace` is not 0, an array in GM with that many bytes for each block of the launch. `file`
    is the user's source, whose lines the instructions name. With `noalias`, written arrays overlap no other. Copies
    from the arrays in `streams` bypass L2 if the grid has at least `streams_from` programs. With `one_core`, one core
    runs all programs in sequence. `off_cube` is the reason why products run on vector cores, and `unit_flags`
    what was decided about the way out of L0C.
    """

    name: str
    kind: str
    params: tuple[Param, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Item, ...]
    cube_body: tuple[Item, ...] = field(default=())
    slots: tuple[Slot, ...] = ()
    workspace: int = 0
    file: str = ""
    noalias: bool = True
    streams: tuple[str, ...] = ()
    streams_from: int = 0
    one_core: bool = False
    off_cube: CubeRefusal | None = field(default=None, compare=False)  # a remark, which the text of a kernel has not
    unit_flags: UnitFlags | None = field(default=None, compare=False)  # another one

    def instructions(self) -> Iterator[Instr]:
        yield from walk(self.body)
        yield from walk(self.cube_body)


def parts(item: Item) -> tuple[tuple[Item, ...], ...]:
    """The nested sequences of items of an item."""
    match item:
        case Loop():
            return (item.body,)
        case While():
            return item.test, item.body
        case If():
            return item.body, item.orelse
    return ()


def walk(items: tuple[Item, ...]) -> Iterator[Instr]:
    """All instructions, in program order."""
    for item in items:
        if isinstance(item, Instr):
            yield item
        for inside in parts(item):
            yield from walk(inside)


def fold(op: str, *args: Scalar) -> Scalar:
    """Constant folding of an expression, without neutral operands.

    Examples
    --------
    >>> fold("+", fold("*", "i", 1), 0)
    'i'
    >>> fold("min", 3, 8)
    3
    """
    if all(isinstance(x, int) for x in args):
        return evaluate(Expr(op, args), {})
    if len(args) == 2 and ((op in "+-" and args[1] == 0) or (op in ("*", "//") and args[1] == 1)):
        return args[0]
    if len(args) == 2 and ((op == "+" and args[0] == 0) or (op == "*" and args[0] == 1)):
        return args[1]
    if isinstance(args[0], str) and args[0] == args[-1] and op in ("-", "min", "max"):
        return 0 if op == "-" else args[0]
    return 0 if (op == "*" and 0 in args) or (op == "%" and args[1] == 1) else Expr(op, args)


def evaluate(value: Scalar, names: dict[str, int]) -> int:
    """The value of an expression whose names are known."""
    if isinstance(value, str):
        return names[value]
    if isinstance(value, Read):
        raise TypeError("what is in memory is not known before a kernel runs")
    if not isinstance(value, Expr):
        return int(value)
    args = [evaluate(x, names) for x in value.args]
    if value.op in ("min", "max"):
        return min(args) if value.op == "min" else max(args)
    a, b = args
    if value.op in ("//", "%"):  # towards zero, as in C++
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if value.op == "//" else a - quotient * b
    return int({"+": a + b, "-": a - b, "*": a * b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b,
                "!=": a != b}[value.op])  # fmt: skip
