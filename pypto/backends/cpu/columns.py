"""Products whose left side lies with its columns side by side: a block's numbers are neighbours for each step of K.

They are broadcast from where they lie. Where some do not exist, the block is copied, with zeros in their place; a block
of which none exists adds nothing.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.backends.cpu.kernel import most_rows
from pypto.backends.cpu.lanes import Lanes

if TYPE_CHECKING:
    from pypto.backends.cpu.dot import DotEmitter, Sides


def blocks(rows: int, most: int) -> list[tuple[int, int, int]]:
    """First row, rows and number of the blocks: the largest first, so that what exists fills few of them."""
    whole, rest = divmod(rows, most)
    found = (0, most, whole), (whole * most, rest, 1)
    return [(first, size, count) for first, size, count in found if size and count]


def multiply(dots: DotEmitter, sides: Sides) -> None:
    """All blocks of the result."""
    item, m, e, w = sides.item, sides.left, dots.e, dots.w
    most = most_rows(dots.target, item.b.panel // dots.lanes(item))
    for first, rows, count in blocks(item.c.shape[-2], most):
        with w.loop(str(first), str(first + rows * count), str(rows)) as i:
            end = e.add(i, dots.number(rows - 1))
            some = e.and_(e.cmp("ge", end, m.columns.start), e.cmp("lt", i, m.columns.stop))
            some = e.and_(some, e.cmp("gt", m.rows.stop, m.rows.start))
            if item.fresh:
                some = e.or_(some, e.cmp("eq", i, i))
            w.branch(some.text, [functools.partial(block, dots, sides, i, rows), list])


def block(dots: DotEmitter, sides: Sides, i: Lanes, rows: int) -> list[Lanes]:
    m, e, size = sides.left, dots.e, dots.number(dots.word(sides.item))
    last = e.add(i, dots.number(rows - 1))
    inside = e.and_(dots.packs.within(m.rows, dots.number(0), e.sub(sides.depth, dots.number(1))),
        dots.packs.within(m.columns, i, last))
    direct = [e.add(m.address, e.mul(i, size)), e.binary("udiv", m.pitch, size)]
    a, pitch = dots.w.branch(inside.text, [lambda: direct, lambda: copied(dots, sides, i)])
    dots.panelwise(sides, i, replace(dots.block(sides.item, rows), across=True), a, a, pitch)
    return []


def copied(dots: DotEmitter, sides: Sides, i: Lanes) -> list[Lanes]:
    item, m, e = sides.item, sides.left, dots.e
    assert item.block is not None
    base, lanes = sides.base_of[item.block.id], item.block.pitch
    with dots.w.loop("0", sides.depth.text, "1") as k:
        place = e.add(base, e.mul(k, dots.number(lanes * m.dtype.itemsize)))
        dots.packs.store(dots.packs.masked(m, k, i, lanes), dots.packs.at(place), m.dtype.itemsize)
    return [base, dots.number(lanes)]
