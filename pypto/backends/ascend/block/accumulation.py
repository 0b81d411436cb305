"""Accumulation analysis: how an accumulator in L0C is summed up and taken away, in a sequence of Block IR.

A sum is one product in nested loops, and one Fixpipe behind them that takes all of it at once. `find_sum` finds both,
and the condition under which they surely fit each other: each loop runs, no branch for a rare case does, and as many
rows and columns leave L0C as the product has. The condition is known before the first product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.ascend.block.dependences import is_fenced
from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.effects import assigned, items_of, memory_reads, names_in, views
from pypto.backends.ascend.blockir.ir import (
    Assign,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Record,
    Scalar,
    While,
    Word,
    fold,
    parts,
)
from pypto.backends.ascend.target import FRACTAL_ROWS

SEVERAL: Final = "the sums are used in several places"
TWICE: Final = "the sums are read more than once"
UNKNOWN: Final = "only what runs after the products tells how much of the sums is stored"


class NotOneSum(Exception):
    """The reason why an accumulator is no single sum that leaves at once."""


@dataclass(frozen=True)
class Sum:
    """A sum in a sequence of items."""

    first: int  # index of the item with the product
    second: int  # index of the item with the Fixpipe
    loops: tuple[Loop, ...]  # those around the product, outermost first
    condition: Scalar  # under which all that is computed is stored at once
    definitions: tuple[Let, ...]  # what the condition needs, to be placed before the products
    moved: frozenset[str]  # names of those that stand between the products and the Fixpipe

    @property
    def is_last(self) -> Scalar:
        """Whether a product is the last one, in the innermost loop."""
        return conjunction(*(compared(">=", x.name, fold("-", x.stop, x.step)) for x in self.loops))


def find_sum(items: tuple[Item, ...], sums: str, taken: set[str]) -> Sum:
    """Find the sum in a sequence of which two items use the accumulator; no new name is one of those `taken`.

    Raises
    ------
    NotOneSum
        With the reason.
    """
    users = [i for i, item in enumerate(items) if touches(item, sums)]
    if len(users) > 2:
        raise NotOneSum(SEVERAL)
    first, second = users
    loops, product = product_in(items[first], sums)
    out = fixpipe_in(items[second], sums)
    copies, runs = nonempty(loops, taken)
    more, fits = copied(out.definitions, conjunction(*out.path, same_size(product, out.instr)), taken)
    rare = [x.condition for x in items[first:second] if isinstance(x, If) and is_fenced(x) and uses((x,), sums)]
    never = [negated(x) for x in rare if not is_cleared(x, items[first], loops)]
    condition = conjunction(runs, *never, fits)
    between = [x for x in items[first + 1 : second] if isinstance(x, Let)]
    definitions = needed((*between, *copies, *more), condition)
    moved = frozenset(x.name for x in between if x in definitions)
    check_known(condition, definitions, items[first : second + 1], moved)
    return Sum(first, second, loops, condition, definitions, moved)


def check_known(
    condition: Scalar, definitions: tuple[Let, ...], items: tuple[Item, ...], moved: frozenset[str]
) -> None:
    """Check that a condition has the same value before a sequence as inside of it."""
    values = (condition, *(x.value for x in definitions))
    names = {name for value in values for name in names_in(value)} - {x.name for x in definitions}
    defined = {x.name for x in items_of(items) if isinstance(x, Let | Loop)} - moved
    if names & defined or (names | moved) & assigned(items) or any(True for x in values for _ in memory_reads(x)):
        raise NotOneSum(UNKNOWN)


def uses(items: Iterable[Item], sums: str) -> bool:
    """Whether some item uses an accumulator."""
    return any(
        any(view.of.name == sums for view in views(x)) if isinstance(x, Instr) else any(uses(y, sums) for y in parts(x))
        for x in items
    )


def touches(item: Item, sums: str) -> bool:
    """Whether an item uses an accumulator, other than in a branch that barriers keep apart from everything else."""
    if isinstance(item, Instr):
        return uses((item,), sums)
    return not is_fenced(item) and any(touches(x, sums) for body in parts(item) for x in body)


def negated(condition: Scalar) -> Scalar:
    """Return the opposite of a condition."""
    if isinstance(condition, bool):
        return not condition
    is_negation = isinstance(condition, Expr) and condition.op == "not"
    return condition.args[0] if is_negation and isinstance(condition, Expr) else Expr("not", (condition,))


# --- the products -----------------------------------------------------------------------------------------------------


def product_in(item: Item, sums: str) -> tuple[tuple[Loop, ...], Instr]:
    """Return the only product of an item, with the loops around it."""
    loops: list[Loop] = []
    while isinstance(item, Loop):
        loops.append(item)
        if not isinstance(item.step, int) or item.step <= 0:
            raise NotOneSum("a loop over products has a step that only the launch knows")
        users = [x for x in item.body if uses((x,), sums)]
        if len(users) > 1:
            raise NotOneSum("several products are added up")
        item = users[0]
    if not isinstance(item, Instr) or item.name != "Mmad":
        raise NotOneSum("a condition decides about a product of the sum")
    return tuple(loops), item


def nonempty(loops: tuple[Loop, ...], taken: set[str]) -> tuple[list[Let], Scalar]:
    """Return the condition that nested loops run, each in the last iteration of those around, and names for it."""
    copies: list[Let] = []
    last: dict[str, Scalar] = {}
    conditions: list[Scalar] = []
    for number, loop in enumerate(loops, 1):
        start, stop = (substituted(x, last) for x in (loop.start, loop.stop))
        conditions.append(compared("<", start, stop))
        if number == len(loops):
            break
        steps = fold("//", fold("-", fold("-", stop, start), 1), loop.step)
        last[loop.name] = fold("+", start, fold("*", steps, loop.step))
        for item in loop.body[: loop.body.index(loops[number])]:
            if isinstance(item, Let):
                copy = Let(unused(f"{item.name}_last", taken), item.dtype, substituted(item.value, last), item.line)
                last[item.name] = copy.name
                copies.append(copy)
    return copies, conjunction(*conditions)


def is_cleared(condition: Scalar, item: Item, loops: tuple[Loop, ...]) -> bool:
    """Whether a condition is a variable that every round of a loop over products leaves false."""
    assigns = [x for x in items_of((item,)) if isinstance(x, Assign) and x.name == condition]
    return bool(assigns) and all(x.value is False and any(x in loop.body for loop in loops) for x in assigns)


def copied(definitions: Iterable[Let], value: Scalar, taken: set[str]) -> tuple[list[Let], Scalar]:
    """Return definitions under new names, and a number with these."""
    names: dict[str, Scalar] = {}
    copies: list[Let] = []
    for item in definitions:
        copies.append(Let(unused(f"{item.name}_out", taken), item.dtype, substituted(item.value, names), item.line))
        names[item.name] = copies[-1].name
    return copies, substituted(value, names)


def substituted(value: Scalar, names: dict[str, Scalar]) -> Scalar:
    """Return a number with other values for names."""
    if isinstance(value, str):
        return names.get(value, value)
    return Expr(value.op, tuple(substituted(x, names) for x in value.args)) if isinstance(value, Expr) else value


def unused(name: str, taken: set[str]) -> str:
    """Return a new name, which is taken from now on."""
    number = 0
    while (found := f"{name}_{number}" if number else name) in taken:
        number += 1
    taken.add(found)
    return found


def needed(definitions: Iterable[Let], value: Scalar) -> tuple[Let, ...]:
    """Return the definitions, in order, that a number depends on."""
    names = set(names_in(value))
    kept: list[Let] = []
    for item in reversed(list(definitions)):
        if item.name in names:
            names.update(names_in(item.value))
            kept.append(item)
    return tuple(reversed(kept))


# --- the way out ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AccumulatorUse:
    """An instruction that uses an accumulator, inside of an item."""

    instr: Instr
    path: tuple[Scalar, ...] = ()  # its conditions
    definitions: tuple[Let, ...] = ()  # those in branches around it
    is_repeated: bool = False  # whether a loop repeats it


def fixpipe_in(item: Item, sums: str) -> AccumulatorUse:
    """Return the Fixpipe that takes all rows at once; others exclude it."""
    found = list(accumulator_uses((item,), sums, (), ()))
    at_once = [x for x in found if not x.is_repeated]
    if any(x.instr.name != "Fixpipe" for x in found):
        raise NotOneSum(SEVERAL)
    if len(at_once) != 1:
        raise NotOneSum(TWICE if at_once else "rows leave L0C one by one")
    (only,) = at_once
    if any(x is not only and not {negated(c) for c in only.path} & set(x.path) for x in found):
        raise NotOneSum(TWICE)
    return only


def accumulator_uses(
    items: tuple[Item, ...], sums: str, path: tuple[Scalar, ...], definitions: tuple[Let, ...]
) -> Iterator[AccumulatorUse]:
    """Yield the instructions in some items that use an accumulator."""
    for item in items:
        if isinstance(item, Let):
            definitions = (*definitions, item)
        elif isinstance(item, Instr):
            if uses((item,), sums):
                yield AccumulatorUse(item, path, definitions)
        elif isinstance(item, If) and not is_fenced(item):
            yield from accumulator_uses(item.body, sums, (*path, item.condition), definitions)
            yield from accumulator_uses(item.orelse, sums, (*path, negated(item.condition)), definitions)
        elif isinstance(item, Loop | While):
            yield from (
                replace(x, is_repeated=True) for x in accumulator_uses(parts(item)[-1], sums, path, definitions)
            )


def same_size(product: Instr, fixpipe: Instr) -> Scalar:
    """Whether a Fixpipe takes all fractals of a product, from the first one on."""
    rows, cols, *_ = fields_of(product)
    stored_cols, stored_rows, height, *_ = fields_of(fixpipe)
    if not isinstance(rows, int) or not isinstance(cols, int) or rows % FRACTAL_ROWS or cols % FRACTAL_ROWS:
        raise NotOneSum("a block has no known number of fractals")
    if height != rows:
        raise NotOneSum("the Fixpipe takes another number of rows than products have")
    starts = views(product)[0].offset, views(fixpipe)[1].offset
    sizes = compared("==", stored_rows, rows), compared("==", stored_cols, cols)
    return conjunction(*sizes, *(compared("==", x, 0) for x in starts))


def fields_of(instr: Instr) -> list[Scalar]:
    """Return the numbers among an instruction's parameters."""
    record = instr.args[-1]
    assert isinstance(record, Record)
    return [x for x in record.fields if not isinstance(x, Word)]
