"""What an Ascend chip makes of a kernel, where that is slow or not what was wanted: found in the Block IR."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.ascend.blockir.effects import scalars
from pypto.backends.ascend.blockir.ir import Assign, BlockKernel, Expr, If, Instr, Item, Let, Loop, Read, Scalar, While
from pypto.backends.ascend.blockir.ir import parts as inside
from pypto.backends.ascend.blockir.softfloat64 import parts

ONE_CORE = "one core does all programs: the copy engines have no such atomic change, the scalar unit makes it"
DOUBLES = "float64 by integer operations of the scalar unit, one element at a time; float32 would use the vector unit"
NUMBERS = "one element at a time, by the scalar unit"
BY_UNITS = "sums leave L0C unit by unit, while the products before and behind are at work"
BY_EVENTS = "sums leave L0C without unit flags: {}"


def remarks(kernel: BlockKernel) -> Iterator[tuple[str, int, str]]:
    """Topic, the user's line (0: the kernel's first one), and words."""
    if kernel.one_core:
        yield "form", 0, ONE_CORE
    if kernel.unit_flags is not None:
        reason = kernel.unit_flags.reason
        yield "unit_flags", kernel.unit_flags.line, BY_EVENTS.format(reason) if reason else BY_UNITS
    for line, words in dict.fromkeys(of_items(kernel)):
        yield "scalar", line, words


def of_items(kernel: BlockKernel) -> Iterator[tuple[int, str]]:
    slow = dict.fromkeys(line for body in (kernel.body, kernel.cube_body) for line in by_numbers(body, False))
    wide = {line for body in (kernel.body, kernel.cube_body) for line in with_doubles(body)}
    yield from ((line, DOUBLES if line in wide else NUMBERS) for line in [*slow, *sorted(wide - slow.keys())])


def by_numbers(items: tuple[Item, ...], in_loop: bool) -> Iterator[int]:
    """Lines that write numbers into tiles in a loop of their own."""
    for item in items:
        if in_loop and isinstance(item, Instr) and item.name == "SetValue":
            yield item.line
        mine = isinstance(item, Loop) and item.name != "program"
        for body in inside(item):
            yield from by_numbers(body, in_loop or mine)


def with_doubles(items: tuple[Item, ...]) -> Iterator[int]:
    for item in items:
        if isinstance(item, Instr | Let | Assign | If | While | Loop) and any(map(calls, scalars(item))):
            yield item.line
        for body in inside(item):
            yield from with_doubles(body)


def calls(value: Scalar) -> bool:
    """Whether a number comes from a function of `doubles`."""
    if isinstance(value, Read):
        return calls(value.view.offset)
    return isinstance(value, Expr) and (value.op in parts() or any(map(calls, value.args)))
