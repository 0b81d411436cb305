"""Effects of Block IR: what an item reads, writes and computes, as allocation, synchronisation and verifier ask."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from pypto.backends.ascend.blockir.instructions import INSTRUCTIONS, RECORDS, Instruction
from pypto.backends.ascend.blockir.ir import (
    Argument,
    Assign,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Read,
    Record,
    Scalar,
    View,
    While,
    Word,
    parts,
)
from pypto.backends.ascend.target import FRACTAL_ROWS
from pypto.errors import CompilerBug

# Comparisons, and for each the one that holds where it does not; of floating-point numbers, both may fail.
COMPLEMENTS = MappingProxyType({"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"})


def row_of(instr: Instr) -> Instruction:
    """The row of the table for an instruction."""
    if instr.name not in INSTRUCTIONS:
        raise CompilerBug(f"Block IR calls {instr.name}, of which the table of instructions knows nothing")
    return INSTRUCTIONS[instr.name]


def views(instr: Instr) -> tuple[View, ...]:
    """The views among the arguments."""
    return tuple(x for x in instr.args if isinstance(x, View))


def pipe_of(instr: Instr) -> str:
    """The unit that runs an instruction."""
    row = row_of(instr)
    if row.pipe:
        return row.pipe
    if instr.name == "InitConstValue":
        return "MTE2" if views(instr)[0].space == "L1" else "MTE1"
    to, source = (view.space for view in views(instr)[:2])
    if source == "GM":
        return "MTE2"
    if to == "GM" or (source == "UB" and to != "UB"):
        return "MTE3"
    return "V" if source == "UB" else "MTE1"


def form_of(instr: Instr) -> tuple[str, ...]:
    """The form of a call: the kinds of its arguments, of the forms in the instruction's row."""
    for form in row_of(instr).forms:
        kinds = tuple(form.split())
        if len(kinds) == len(instr.args) and all(map(_fits, kinds, instr.args)):
            return kinds
    known = " | ".join(row_of(instr).forms)
    raise CompilerBug(f"{instr.name} is not called with {instr.args}; its forms are {known}")


def _fits(kind: str, value: Argument) -> bool:
    """Whether an argument is of a kind."""
    if kind in RECORDS:
        return isinstance(value, Record) and len(value.fields) == len(RECORDS[kind].fields)
    if kind == "v":
        return isinstance(value, View)
    if kind in ("w", "event", "pipe", "dtype"):
        return not isinstance(value, View | Record)
    return not isinstance(value, View | Record)


def writes(instr: Instr) -> tuple[View, ...]:
    """The views that an instruction's unit writes."""
    return views(instr)[: row_of(instr).writes]


def product_fractals(instr: Instr) -> int | None:
    """Return the fractals of a matrix product's result, 0 where its size is not known, None for other instructions."""
    if instr.name != "Mmad":
        return None
    sizes = instr.args[-1]
    assert isinstance(sizes, Record)
    rows, cols = sizes.fields[:2]
    if not isinstance(rows, int) or not isinstance(cols, int):
        return 0
    return (rows // FRACTAL_ROWS) * (cols // FRACTAL_ROWS)


def unit_flag(instr: Instr) -> Scalar:
    """Return `unitFlag` of a matrix product or of the way out of L0C, 0 for other instructions."""
    if instr.name not in ("Mmad", "Fixpipe"):
        return 0
    value = instr.args[-1]
    assert isinstance(value, Record)
    flag = value.fields[unit_flag_index(instr)]
    assert not isinstance(flag, Word)
    return flag


def unit_flag_index(instr: Instr) -> int:
    """Return the place of `unitFlag` in the parameters of such an instruction."""
    return [field.name for field in RECORDS[form_of(instr)[-1]].fields].index("unitFlag")


def starts_from_zero(instr: Instr) -> bool:
    """Whether a matrix product always overwrites its result."""
    sizes = instr.args[-1]
    return instr.name == "Mmad" and isinstance(sizes, Record) and sizes.fields[4] is True


def reads(instr: Instr) -> tuple[View, ...]:
    """The views that an instruction's unit reads."""
    row = row_of(instr)
    return views(instr) if row.accumulates and not starts_from_zero(instr) else views(instr)[row.writes :]


def scalars(item: Item) -> Iterator[Scalar]:
    """The numbers that the scalar unit computes for an item, without those of nested items."""
    match item:
        case Instr():
            for argument in item.args:
                yield from of_argument(argument)
        case Let() | Assign():
            yield item.value
        case Loop():
            yield from (item.start, item.stop, item.step)
        case While() | If():
            yield item.condition


def of_argument(argument: Argument) -> Iterator[Scalar]:
    """The numbers in an argument."""
    if isinstance(argument, View):
        yield from (argument.stage, argument.offset)
    elif isinstance(argument, Record):
        yield from (x for x in argument.fields if isinstance(x, int | float | bool | str | Expr | Read))
    elif isinstance(argument, int | float | bool | str | Expr | Read):
        yield argument


def names_in(value: Scalar) -> Iterator[str]:
    """The names that a number is computed from."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Expr):
        for x in value.args:
            yield from names_in(x)
    elif isinstance(value, Read):
        for x in of_argument(value.view):
            yield from names_in(x)


def memory_reads(value: Scalar) -> Iterator[View]:
    """The places in memory that the scalar unit reads for a number, innermost first."""
    if isinstance(value, Expr):
        for x in value.args:
            yield from memory_reads(x)
    elif isinstance(value, Read):
        for x in of_argument(value.view):
            yield from memory_reads(x)
        yield value.view


def items_of(items: tuple[Item, ...]) -> Iterator[Item]:
    """Every item at every depth, in program order."""
    for item in items:
        yield item
        for inside in parts(item):
            yield from items_of(inside)


def condition_of(loop: Loop) -> Expr | None:
    """The condition of a loop that stands for an `if`: it runs once or not at all."""
    stop = loop.stop
    if (loop.start, loop.step) != (0, 1) or not isinstance(stop, Expr) or stop.op != "i32":
        return None
    return x if isinstance(x := stop.args[0], Expr) and x.op in COMPLEMENTS else None


def assigned(items: tuple[Item, ...]) -> frozenset[str]:
    """Names that are assigned after their definition."""
    return frozenset(name for item in items_of(items) for name in _changed(item))


def _changed(item: Item) -> Iterator[str]:
    """Names that an item assigns."""
    if isinstance(item, Assign):
        yield item.name
    elif isinstance(item, Instr) and item.name == "GatherMask":  # its last argument becomes the number of what it took
        yield from (x for x in item.args[-1:] if isinstance(x, str))


def live_names(items: tuple[Item, ...]) -> frozenset[str]:
    """Liveness of names: those that an instruction, or the definition of a live name, reads."""
    live: set[str] = set()
    found: dict[str, set[str]] = {}
    for item in items_of(items):
        names = {name for value in scalars(item) for name in names_in(value)}
        if isinstance(item, Let | Assign):
            found.setdefault(item.name, set()).update(names)
        else:
            live |= names
    todo = list(live)
    while todo:
        more = found.get(todo.pop(), set()) - live
        live |= more
        todo += more
    return frozenset(live)


def buffers_in(items: tuple[Item, ...]) -> frozenset[str]:
    """The names of buffers and arrays that items touch."""
    touched = (view for item in items_of(items) for view in all_views(item))
    return frozenset(view.of.name for view in touched)


def all_views(item: Item) -> Iterator[View]:
    """The views of an item, with those that the scalar unit reads."""
    if isinstance(item, Instr):
        yield from views(item)
    for value in scalars(item):
        yield from memory_reads(value)
