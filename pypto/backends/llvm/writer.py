"""Writes LLVM IR text: names, declarations, stack slots, loops, branches, and frames for loop-invariant code motion.

Each loop opens a frame. An instruction goes to the outermost frame in which all its operands are known, and a frame has
no second instruction with the same text (common subexpression elimination). So code is hoisted while it is written.

    frame 0: %p = getelementptr %base, %row          # the operands do not depend on the loop
    frame 1: for %i: %x = load (getelementptr %p, %i)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pypto.backends.llvm.value import VectorValue
from pypto.ir.builder import temporarily
from pypto.ir.types import DType, int64

_FRESH: Final = ("load", "call", "atomicrmw", "cmpxchg", "phi")  # instructions that are never shared


@dataclass(slots=True)
class Frame:
    """The straight-line code of one nesting level, with the values and instructions that it has already."""

    lines: list[str]
    memo: dict[Any, VectorValue] = field(default_factory=dict)  # values of tiles
    names: dict[str, str] = field(default_factory=dict)  # of results, by the text of their instruction


@dataclass(slots=True)
class Carried:
    """A value that a loop carries from one iteration to the next: a phi."""

    name: str
    kind: str
    init: str
    next: str = ""


class Writer:
    """The text of one LLVM module, function by function."""

    def __init__(self) -> None:
        self.frames: list[Frame] = [Frame([])]
        self.hoist_floor = 0  # code is never hoisted above this frame
        self.slots: list[str] = []
        self.blocks = ""  # the slot of `harmless`
        self.declarations: dict[str, str] = {}
        self.functions: list[str] = []
        self.begun: set[str] = set()  # names of helper functions that exist
        self.count = 0

    def name(self, prefix: str = "t") -> str:
        """A fresh name."""
        self.count += 1
        return f"{prefix}{self.count}"

    @property
    def depth(self) -> int:
        """Number of the innermost frame."""
        return len(self.frames) - 1

    def line(self, text: str, level: int | None = None) -> None:
        """Add a line to a frame: the innermost one, or that of `level`."""
        self.frames[self.depth if level is None else max(level, self.hoist_floor)].lines.append(f"  {text}")

    def raw(self, text: str, level: int | None = None) -> str:
        """Add an instruction with a result, and give its name; one that the frame has already is not repeated."""
        frame = self.frames[self.depth if level is None else max(level, self.hoist_floor)]
        if text not in frame.names or text.startswith(_FRESH):
            frame.names[text] = "%" + self.name()
            self.line(f"{frame.names[text]} = {text}", level)
        return frame.names[text]

    def instr(self, text: str, dtype: DType, width: int, level: int) -> VectorValue:
        """Add an instruction, and give its value."""
        level = max(level, self.hoist_floor)
        return VectorValue(self.raw(text, level), dtype, width, level)

    def label(self, name: str) -> None:
        """Begin a block."""
        self.frames[self.depth].lines.append(f"{name}:")

    def goto(self, name: str) -> None:
        """End the current block with a jump to a new one, and begin that."""
        self.line(f"br label %{name}")
        self.label(name)

    def slot(self, type_text: str, align: int = 64) -> str:
        """A stack slot, allocated at the entry of the function."""
        name = "%" + self.name("slot")
        self.slots.append(f"  {name} = alloca {type_text}, align {align}")
        return name

    def harmless(self) -> str:
        """Stack memory that masked accesses without valid lanes may point to."""
        if not self.blocks:
            self.blocks = self.slot("[4096 x i8]")
        return self.blocks

    def call(self, result: str, name: str, args: tuple[tuple[str, str], ...], level: int | None = None) -> str:
        """A call of an external function or intrinsic; `args` are pairs of type and text."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(t for t, _ in args)})"
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if result != "void":
            return self.raw(text, level)
        self.line(text, level)
        return ""

    @contextmanager
    def frame(self) -> Iterator[Frame]:
        """Open a frame. The caller places its lines, behind what was hoisted out of them."""
        inner = Frame([])
        self.frames.append(inner)
        try:
            yield inner
        finally:
            self.frames.pop()

    @contextmanager
    def loop(
        self,
        start: str,
        end: str,
        step: str,
        dtype: DType = int64,
        carried: tuple[Carried, ...] = (),
        forward: bool = False,
    ) -> Iterator[VectorValue]:
        """``for (i = start; i < end; i += step)``; ``i > end`` for a negative step.

        The induction variable is known in the frame inside. The sign of a run-time step is tested, unless it is known
        to be positive (`forward`), in which case the step may be computed in the loop. Each `Carried` is a phi, whose
        `next` is set before the body ends.
        """
        names = [self.name(p) for p in ("pre", "head", "body", "latch", "out")]
        index = "%" + self.name("i")
        kind = f"i{dtype.bits}"
        with self.frame() as inner:
            yield VectorValue(index, dtype, 1, self.depth)
        self.goto(names[0])
        more = self._more(index, end, "1" if forward else step, kind)
        enter = [*more, f"br i1 {index}.more, label %{names[2]}, label %{names[4]}"]
        lines = [*(f"  {text}" for text in enter), f"{names[2]}:", *inner.lines]
        counter = Carried(index, kind, start, f"{index}.next")
        self.while_loop(names, (counter, *carried), lines, [f"{index}.next = add {kind} {index}, {step}"])

    def while_loop(
        self, names: Sequence[str], carried: Sequence[Carried], lines: list[str], last: Sequence[str] = ()
    ) -> None:
        """A loop around lines that contain their exit; `last` is added at the end of an iteration."""
        pre, head, _, latch, out = names
        self.goto(head)
        for c in carried:
            self.line(f"{c.name} = phi {c.kind} [ {c.init}, %{pre} ], [ {c.next}, %{latch} ]")
        self.frames[-1].lines += lines
        self.goto(latch)
        for text in last:
            self.line(text)
        self.line(f"br label %{head}")
        self.label(out)

    def _more(self, index: str, end: str, step: str, kind: str) -> list[str]:
        """Instructions that compute ``index.more``, whether the loop goes on."""
        if not step.startswith("%"):
            return [f"{index}.more = icmp {'sgt' if step.startswith('-') else 'slt'} {kind} {index}, {end}"]
        down = self.raw(f"icmp slt {kind} {step}, 0")
        return [
            f"{index}.lt = icmp slt {kind} {index}, {end}",
            f"{index}.gt = icmp sgt {kind} {index}, {end}",
            f"{index}.more = select i1 {down}, i1 {index}.gt, i1 {index}.lt",
        ]

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Within, code is not hoisted out of the frame that is innermost now."""
        with temporarily(self, hoist_floor=self.depth):
            yield

    def branch(self, condition: str, sides: Sequence[Callable[[], Sequence[VectorValue]]]) -> list[VectorValue]:
        """An if with two sides; gives a phi for each pair of values that the sides return."""
        names = [self.name(p) for p in ("then", "else")]
        ends = [n + ".end" for n in names]
        out = self.name("out")
        bodies = []
        results = []
        for side in sides:
            with self.frame() as inner:
                results.append(side())
            bodies.append(inner.lines)
        self.line(f"br i1 {condition}, label %{names[0]}, label %{names[1]}")
        for name, end, body in zip(names, ends, bodies, strict=True):
            self.label(name)
            self.frames[-1].lines += body
            self.goto(end)
            self.line(f"br label %{out}")
        self.label(out)
        texts = [
            f"phi {a.type} [ {a.text}, %{ends[0]} ], [ {b.text}, %{ends[1]} ]" for a, b in zip(*results, strict=True)
        ]
        phis = [self.raw(text) for text in texts]
        return [replace(a, text=phi, hoist_depth=self.depth) for a, phi in zip(results[0], phis, strict=True)]

    @contextmanager
    def another_function(self, frames: int = 1, hoist_floor: int = 0) -> Iterator[None]:
        """Write another function meanwhile, with frames and stack slots of its own."""
        empty = [Frame([]) for _ in range(frames)]
        with temporarily(self, frames=empty, slots=[], blocks="", hoist_floor=hoist_floor):
            yield

    def finish_function(self, header: str, body: list[str]) -> None:
        """Add a function, with its stack slots."""
        self.functions.append("\n".join([f"define {header} {{", "entry:", *self.slots, *body, "}"]))
        self.slots = []

    def end_function(self, header: str) -> None:
        """End the function that is being written, and begin with an empty one."""
        self.finish_function(header, self.frames[0].lines)
        self.frames = [Frame([])]
        self.blocks = ""

    def text(self) -> str:
        """The text of the module."""
        return "\n".join([*self.functions, *(self.declarations[k] for k in sorted(self.declarations))]) + "\n"
