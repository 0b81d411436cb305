"""Where items touch memory, and whether two of them meet there: in one iteration of a loop, or so many apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.affine import AffineExpr, affine_of, upper_bound
from pypto.backends.ascend.blockir.effects import (
    assigned,
    form_of,
    items_of,
    memory_reads,
    names_in,
    pipe_of,
    row_of,
    scalars,
    views,
)
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Record,
    Scalar,
    View,
    Word,
    fold,
    parts,
)

BLOCK = 32
MEANING = 48  # parts of an expression that a name stands for; a longer one is as good as unknown
ATOMIC = ("SetAtomicAdd", "SetAtomicMax", "SetAtomicMin")
_BY_COUNT = (
    " Add Sub Max Min Mul Div And Or Not MulAddDst Axpy Adds Muls Maxs Mins LeakyRelu ShiftLeft ShiftRight Exp Ln Sqrt"
    " Rsqrt Reciprocal Abs Relu Duplicate Cast Gather "
)
_REPEATED = ("BinaryRepeatParams", "UnaryRepeatParams", "CopyRepeatParams")


@dataclass(frozen=True)
class Touch:
    """A read or a write of a unit.

    `stage` and `start` (in bytes from the stage's begin) are None where they are not known, `bytes` where it is all
    that follows. `place` is the stage as the text has it. What is done `at_once`, nothing needs to wait for.
    `by` is the instruction. With `teeth`, it is nothing but so many bytes (the second number) at each multiple of the
    first one.
    """

    pipe: str
    writes: bool
    of: Buffer | Param
    stage: AffineExpr | None
    start: AffineExpr | None
    bytes: int | None
    place: Scalar = 0
    atomic: bool = False
    at_once: bool = False
    by: str = ""
    teeth: tuple[int, int] | None = None

    def bare(self, bound: frozenset[str]) -> Touch:
        """The same seen from outside of what binds some names: what depends on them is not known there."""
        stage = None if self.stage is None or self.stage.names() & bound else self.stage
        start = None if self.start is None or self.start.names() & bound else self.start
        if stage is self.stage and start is self.start:
            return self
        return replace(self, stage=stage, start=start, bytes=None if start is None else self.bytes)

    def over(self, name: str, first: int, step: int, times: int) -> Touch:
        """All that it touches while a name goes through its values."""
        if self.start is None or self.bytes is None or not self.start.of(name):
            return self
        each = self.start.of(name)
        rest = self.start.plus(AffineExpr(0, ((name, 1),)), -each)
        if name in rest.names() or times == 0:  # it is also part of what is no sum
            return self
        ends = [each * value for value in (first, first + step * (times - 1))]
        size = self.bytes + max(ends) - min(ends)
        return replace(self, start=rest.plus(AffineExpr(min(ends))), bytes=size, teeth=None)


@dataclass
class Reader:
    """Finds what items touch. `meanings` are what immutable names stand for, `moving` the names that change."""

    moving: frozenset[str]
    meanings: dict[str, Scalar]
    atomic: bool = False

    @staticmethod
    def of(kernel: BlockKernel) -> Reader:
        everything = kernel.body + kernel.cube_body
        moving = assigned(everything)
        lets: dict[str, list[Scalar]] = {}
        for item in items_of(everything):
            if isinstance(item, Let):
                lets.setdefault(item.name, []).append(item.value)
        single = {name: v[0] for name, v in lets.items() if len(v) == 1 and name not in moving}
        moving |= {name for name, values in lets.items() if len(values) > 1}
        return Reader(moving, dict(_small({n: v for n, v in single.items() if not any(True for _ in memory_reads(v))})))

    def meaning(self, value: Scalar) -> Scalar:
        """A number with the definitions of its names in their place."""
        if isinstance(value, str) and value in self.meanings:
            return self.meaning(self.meanings[value])
        if isinstance(value, Expr):
            args = tuple(self.meaning(x) for x in value.args)
            return fold(value.op, *args) if value.op in ("+", "-", "*") else Expr(value.op, args)
        return value

    def number(self, value: Scalar) -> AffineExpr | None:
        found = affine_of(self.meaning(value))
        return None if found is None or found.names() & self.moving else found

    def touches(self, item: Item) -> list[Touch]:
        """What an item touches, all that is inside of it included; names that it binds are not known outside."""
        found = [self._touch("S", False, view, view.elem.itemsize) for x in scalars(item) for view in memory_reads(x)]
        if parts(item):  # no way is taken before its condition is known
            found = [replace(touch, at_once=True) for touch in found]
        if is_sealed(item):
            return found
        if isinstance(item, Instr):
            self.atomic = item.name in ATOMIC or (self.atomic and item.name != "SetAtomicNone")
            found += self._instruction(item)
        inside = [x for side in parts(item) for x in side]
        steps = self.steps(item) if isinstance(item, Loop) else None
        bound = {x.name for x in items_of(tuple(inside)) if isinstance(x, Let | Loop | Assign)}
        bound |= {item.name} if isinstance(item, Loop) else set()
        bound = {name for name in bound if name not in self.meanings}
        for touch in (touch for x in inside for touch in self.touches(x)):
            whole = touch if steps is None or not isinstance(item, Loop) else touch.over(item.name, *steps)
            found.append(self._outside(whole, frozenset(bound)))
        return list(dict.fromkeys(found)) if inside else found

    def steps(self, loop: Loop) -> tuple[int, int, int] | None:
        """The first value of a loop's variable, its step, and the most iterations, if they are known."""
        first, stop, step = loop.start, upper_bound(self.meaning(loop.stop)), loop.step
        if not isinstance(first, int) or not isinstance(step, int) or step <= 0 or stop is None:
            return None
        return first, step, max(0, -(-(stop - first) // step))

    def _outside(self, touch: Touch, bound: frozenset[str]) -> Touch:
        return replace(touch.bare(bound), place=self.meaning(touch.place))

    def _instruction(self, instr: Instr) -> Iterator[Touch]:
        row, pipe = row_of(instr), ""
        for i, view in enumerate(views(instr)):
            pipe = pipe or pipe_of(instr)
            size, teeth = extent(instr, i, self), teeth_of(instr, i)
            if i < row.writes:
                yield replace(self._touch(pipe, True, view, size, instr.name), teeth=teeth)
            if i >= row.writes or row.accumulates:
                yield replace(self._touch(pipe, False, view, size, instr.name), teeth=teeth)

    def _touch(self, pipe: str, writes: bool, view: View, size: int | None, by: str = "") -> Touch:
        offset = self.number(view.offset)
        start = None if offset is None else offset.times(view.elem.itemsize)
        stages = view.of.stages if isinstance(view.of, Buffer) else 1
        stage = self.number(view.stage) if stages > 1 else AffineExpr()
        return Touch(
            pipe, writes, view.of, stage, start, None if start is None else size, view.stage, self.atomic, by=by
        )


def _small(values: dict[str, Scalar]) -> Iterator[tuple[str, Scalar]]:
    """The definitions, in program order, that stay small with those of their names in their place."""
    sizes: dict[str, int] = {}

    def size(value: Scalar) -> int:
        if isinstance(value, Expr):
            return 1 + sum(map(size, value.args))
        return sizes.get(value, 1) if isinstance(value, str) else 1

    for name, value in values.items():
        if (nodes := size(value)) <= MEANING:
            sizes[name] = nodes
            yield name, value


def extent(instr: Instr, number: int, reader: Reader) -> int | None:
    """Bytes that an instruction touches at most from the begin of a view on, None for all that follow."""
    view = views(instr)[number]
    if instr.name == "SetValue":
        return view.elem.itemsize
    if instr.name == "DataCopyPad":
        return _copied(instr, view, reader)
    if instr.name == "Gather" and number == 1:
        return None
    if instr.name in ("Sort32", "MrgSort"):
        return _pairs(instr, number)
    if f" {instr.name} " in _BY_COUNT and form_of(instr)[-1] in ("int32_t", "uint32_t"):
        count = upper_bound(reader.meaning(_scalar(instr.args[-1])))
        return None if count is None else count * view.elem.itemsize
    return _strided(instr, number, reader)


def _pairs(instr: Instr, number: int) -> int | None:
    """Of what puts pairs of 8 bytes in order, 32 in a repeat or as many as its lists have."""
    how = instr.args[-1]
    if not isinstance(how, Record):
        each = 8 if number == 0 else views(instr)[number].elem.itemsize
        return 32 * each * how if isinstance(how, int) else None
    *lengths, _, _, repeats = how.fields
    if not isinstance(repeats, int) or not all(isinstance(x, int) for x in lengths):
        return None
    sizes = [8 * x for x in lengths if isinstance(x, int)]
    return sum(sizes) * repeats if number == 0 else sum(sizes) * (repeats - 1) + sizes[number - 1]


def _strided(instr: Instr, number: int, reader: Reader) -> int | None:
    """Of an instruction on so many elements in each of so many repeats, at distances in blocks."""
    record = instr.args[-1]
    if form_of(instr)[-1] not in _REPEATED or len({v.elem.itemsize for v in views(instr)}) > 1:
        return None
    assert isinstance(record, Record)
    half = len(record.fields) // 2
    numbers = (*instr.args[-3:-1], record.fields[number], record.fields[half + number])
    mask, repeats, block, step = (upper_bound(reader.meaning(_scalar(x))) for x in numbers)
    if mask is None or repeats is None or block is None or step is None:
        return None
    blocks = -(-mask * views(instr)[number].elem.itemsize // BLOCK)
    return ((blocks - 1) * block + (repeats - 1) * step + 1) * BLOCK


def teeth_of(instr: Instr, number: int) -> tuple[int, int] | None:
    """The bytes from one repeat to the next, and those that a repeat works on, of an operand in whole blocks."""
    form = form_of(instr)
    if form[-1] not in ("BinaryRepeatParams", "UnaryRepeatParams") or form[-3:-1] != ("uint64_t", "uint8_t"):
        return None
    *_, mask, _, how = instr.args
    assert isinstance(how, Record)
    step, size = how.fields[len(how.fields) // 2 + number], views(instr)[number].elem.itemsize
    if how.fields[number] != 1 or not isinstance(step, int) or not isinstance(mask, int):
        return None
    return step * BLOCK, -(-mask * size // BLOCK) * BLOCK


def _scalar(value: object) -> Scalar:
    return value if isinstance(value, int | str | Expr) else "?"


def _copied(instr: Instr, view: View, reader: Reader) -> int | None:
    sizes = instr.args[2]
    assert isinstance(sizes, Record)
    count, length, *gaps = (upper_bound(reader.meaning(_scalar(x))) for x in sizes.fields[:4])
    gap = gaps[1] if view is views(instr)[0] else gaps[0]
    if count is None or length is None or (gap is None and count > 1):
        return None
    if view.space == "GM":
        return length + (count - 1) * (length + (gap or 0))
    row = -(-length // BLOCK) * BLOCK
    return row + (count - 1) * (row + (gap or 0) * BLOCK)


@dataclass(frozen=True)
class Meeting:
    """How two touches find out whether they meet. `noalias`: arrays of different names never do."""

    noalias: bool

    def same_memory(self, a: Touch, b: Touch) -> bool:
        """Whether the two buffers or arrays have memory in common."""
        if a.of.name == b.of.name:
            return True
        if isinstance(a.of, Param) or isinstance(b.of, Param):
            return isinstance(a.of, Param) and isinstance(b.of, Param) and not self.noalias
        if a.of.space != b.of.space or a.of.address is None or b.of.address is None:
            return False
        return a.of.address < b.of.address + b.of.bytes and b.of.address < a.of.address + a.of.bytes

    def now(self, a: Touch, b: Touch) -> bool:
        """Whether they may meet in one run of a sequence, where all names stand for the same."""
        if not self.same_memory(a, b):
            return False
        if a.of.name != b.of.name:
            return True
        return not (_stages_differ(a, b) or apart(a, b))

    def later(self, a: Touch, b: Touch, loop: Loop, bound: frozenset[str]) -> int | None:
        """After how many iterations of a loop `b` may first meet what `a` touched; None for never."""
        if not self.same_memory(a, b):
            return None
        if a.of.name != b.of.name or a.stage is None or b.stage is None:
            return 1
        a, b = a.bare(bound), b.bare(bound)
        if _leaves(a, b, loop):
            return None
        stages = a.of.stages if isinstance(a.of, Buffer) else 1
        return _stage_distance(a, b, loop, stages) if stages > 1 else 1


def _stages_differ(a: Touch, b: Touch) -> bool:
    """Whether two touches of one buffer are surely in different stages."""
    if a.stage is None or b.stage is None:
        return False
    ours, theirs = phase(a.stage), phase(b.stage)
    apart_by = ours[0].plus(theirs[0], -1)
    modulus = ours[1] if ours[1] == theirs[1] else 0
    if apart_by.terms:
        return False
    return apart_by.constant % modulus != 0 if modulus else apart_by.constant != 0 and not ours[1] and not theirs[1]


def phase(stage: AffineExpr) -> tuple[AffineExpr, int]:
    """What a stage is the remainder of, and by how much it is divided: 0 where it is no remainder."""
    if len(stage.terms) == 1 and stage.constant == 0:
        ((atom, times),) = stage.terms
        if times == 1 and isinstance(atom, Expr) and atom.op == "%" and isinstance(atom.args[1], int):
            inner = affine_of(atom.args[0])
            return (inner, atom.args[1]) if inner is not None else (stage, 0)
    return stage, 0


def apart(a: Touch, b: Touch) -> bool:
    """Whether the bytes of two touches of one memory are surely apart."""
    if a.start is None or b.start is None:
        return False
    between = b.start.plus(a.start, -1)
    if between.terms:
        return False
    if a.teeth and b.teeth and a.teeth[0] == b.teeth[0]:
        step, width = a.teeth
        if step and width <= between.constant % step <= step - b.teeth[1]:
            return True
    return _beyond(between.constant, a.bytes, a) or _beyond(-between.constant, b.bytes, b)


def _beyond(distance: int, size: int | None, touch: Touch) -> bool:
    """Whether what begins so many bytes further is behind a touch; local memory is kept in whole blocks."""
    if size is None:
        return False
    return distance >= (-(-size // BLOCK) * BLOCK if isinstance(touch.of, Buffer) else size)


def _leaves(a: Touch, b: Touch, loop: Loop) -> bool:
    """Whether `b` moves on with every iteration of a loop, and never back to what `a` touched."""
    if a.start is None or b.start is None or not isinstance(loop.step, int):
        return False
    moved, between = b.start.of(loop.name) * loop.step, b.start.plus(a.start, -1)
    if between.terms:
        return False
    if moved > 0:
        return _beyond(between.constant + moved, a.bytes, a)
    return moved < 0 and _beyond(-between.constant - moved, b.bytes, b)


def _stage_distance(a: Touch, b: Touch, loop: Loop, stages: int) -> int | None:
    """After how many iterations a stage is the same again."""
    if a.stage is None or b.stage is None:
        return 1
    (ours, n), (theirs, m) = phase(a.stage), phase(b.stage)
    between = ours.plus(theirs, -1)
    if n != m or between.terms:
        return 1
    if n == 0:
        fixed = loop.name not in ours.names()
        return (1 if between.constant == 0 else None) if fixed else 1
    advance = _advance(ours, loop)
    if advance is None or n != stages:
        return 1
    found = (d for d in range(1, n + 1) if (between.constant - advance * d) % n == 0)
    return next(found, None)


def _advance(value: AffineExpr, loop: Loop) -> int | None:
    """By how much a sum grows from one iteration to the next, None where that is not known."""
    total = 0
    for atom, times in value.terms:
        if loop.name not in set(names_in(atom)):
            continue
        if atom == loop.name and isinstance(loop.step, int):
            total += times * loop.step
        elif atom == Expr("//", (loop.name, loop.step)):
            total += times
        else:
            return None
    return total


def is_sealed(item: Item) -> bool:
    """Whether a branch waits for all units before it does anything, and again when it is done."""
    barrier = ("PipeBarrier", (Word("PIPE_ALL"),))
    ends = (item.body[0], item.body[-1]) if isinstance(item, If) and item.body and not item.orelse else ()
    return bool(ends) and all(isinstance(x, Instr) and (x.name, x.args) == barrier for x in ends)
