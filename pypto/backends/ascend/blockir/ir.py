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
    """A number that the scalar unit computes.

    `op` is one of C++'s binary operators (``//`` divides integers, towards zero), ``min``, ``max``, ``not``, ``?:``,
    the name of a dtype, which converts, or that of a function of `doubles`.
    """

    op: str
    args: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """One element of a buffer or array, read by the scalar unit."""

    view: View


# A str names a parameter, a loop's variable, a `Let`, or what a core knows of itself: ``block`` and ``blocks`` (in a
# mixed kernel, a block is a cube core with its vector cores), and ``sub_block``, a vector core's number in its block.
Scalar = int | float | bool | str | Expr | Read


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a core: `elements` of a dtype, `stages` times one after the other.

    `layout` is one of those that a chip's record has for the `space`. `address` is in bytes, and None as long as
    nothing has planned it. What is filled `ahead`, for the next round while this one goes on, takes no turns with
    another one.
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

    With a `place`, it is no parameter of its own but an array in the workspace, so many bytes into the block's part.
    """

    name: str
    dtype: DType
    is_array: bool
    place: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A place in a buffer or in an array: from element `offset`, in one stage; as another dtype where that is set.

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
    """A name of the API without its enumeration: ``CAST_RINT``, ``LT``, ``MTE2_V``, ``PIPE_V``; or of a dtype."""

    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """A structure of parameters, field by field as `instructions.RECORDS` has them."""

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
    """A number of a dtype that gets a name; `Assign` may change it."""

    name: str
    dtype: DType
    value: Scalar
    line: int = 0


@dataclass(frozen=True, slots=True)
class Assign:
    """Another value for a `Let`'s name."""

    name: str
    value: Scalar
    line: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` for every value of `name` from `start` to below `stop` (above it, where the step is negative)."""

    name: str
    start: Scalar
    stop: Scalar
    step: Scalar
    body: tuple[Item, ...]
    line: int = 0
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class While:
    """`test`, then `body` if `condition` holds, again and again."""

    test: tuple[Item, ...]
    condition: Scalar
    body: tuple[Item, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class If:
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


@dataclass(frozen=True)
class BlockKernel:
    """A kernel on one core. `kind` is ``vector``, ``cube`` or ``mix``, where `body` is the vector cores' part.

    `slots` says where a launch gets the first parameters from, one for one. After them come the three sizes of the
    grid as int32, and, if `workspace` is not 0, an array in GM of so many bytes for each block of the launch.
    `file` is the user's, which the lines of instructions count in. With `noalias`, written arrays overlap no other.
    Copies from the arrays that `streams` names pass L2 by where the grid has at least `streams_from` programs.
    With `one_core`, one core alone does all programs, one after the other. `off_cube` says why products are not on the
    cube core.
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

    def instructions(self) -> Iterator[Instr]:
        yield from walk(self.body)
        yield from walk(self.cube_body)


def parts(item: Item) -> tuple[tuple[Item, ...], ...]:
    """The sequences of items inside of an item."""
    match item:
        case Loop():
            return (item.body,)
        case While():
            return item.test, item.body
        case If():
            return item.body, item.orelse
    return ()


def walk(items: tuple[Item, ...]) -> Iterator[Instr]:
    """Every instruction, in program order."""
    for item in items:
        if isinstance(item, Instr):
            yield item
        for inside in parts(item):
            yield from walk(inside)


def fold(op: str, *args: Scalar) -> Scalar:
    """An expression, computed where all is known and without what changes nothing.

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
    return 0 if (op == "*" and 0 in args) or (op == "%" and args[1] == 1) else Expr(op, args)


def evaluate(value: Scalar, names: dict[str, int]) -> int:
    """The number that an expression stands for."""
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
