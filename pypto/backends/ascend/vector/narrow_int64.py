"""Narrowing of 64-bit integers: a cast to 32 bits takes every second word by one vector instruction."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.ir import View, fold
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.strided_select import select_strided
from pypto.backends.ascend.vector.values import AnyTile, Deferred, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import int32, int64, uint32, uint64

EVEN = 0
ODD = 1  # which of two words
_WORD: Final = 0xFFFFFFFF


def words32_of(view: View) -> View:
    """Return a view of 64-bit numbers as 32-bit words."""
    return View(view.of, fold("*", view.offset, 2), view.stage, int32)


def select_words(low: Lowering, to: View, source: View, count: int, which: int) -> None:
    """Select every second word."""
    select_strided(low, to, source, 2 * count, 2, which)


def narrow_cast(low: Lowering, op: Op) -> Tile | None:
    """Lower a cast of 64-bit integers in UB to 32 bits; None where the op is no such cast."""
    if op.name != "cast" or op.result.dtype not in (int32, uint32) or op.operands[0].dtype not in (int64, uint64):
        return None
    source = strip_mask(low.tile_value(op.operands[0]))
    if not isinstance(source, Tile):
        return None
    result = low.result(op.result)
    to = View(result.view.of, result.view.offset, result.view.stage, int32)
    select_words(low, to, words32_of(source.view), source.layout.count, EVEN)
    return result


def strip_mask(value: AnyTile) -> AnyTile:
    """Drop a deferred mask that keeps the low word."""
    while isinstance(value, Deferred) and value.op.name == "and_":
        unmasked = [x for x in value.operands if not (isinstance(x, Splat) and _keeps_low_word(x))]
        if len(unmasked) != 1:
            break
        value = unmasked[0]
    return value


def _keeps_low_word(mask: Splat) -> bool:
    """Whether a mask keeps all bits of the low word."""
    return isinstance(mask.value, int) and mask.value & _WORD == _WORD
