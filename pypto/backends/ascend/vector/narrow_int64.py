"""Words of 32 bits out of numbers of 64: the lower ones are what a cast to int32 or uint32 gives."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.ir import Record, View, fold
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.values import AnyTile, Deferred, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import int32, int64, uint32, uint64

EVEN, ODD = 1, 2  # patterns of GatherMask: every second element, from the first one on or from the second
_WORD: Final = 0xFFFFFFFF
_LANES, _REPEATS = 64, 255


def words32_of(view: View) -> View:
    """The words of 64-bit numbers."""
    return View(view.of, fold("*", view.offset, 2), view.stage, int32)


def select_words(low: Lowering, to: View, source: View, count: int, pattern: int) -> None:
    """Every second one of twice as many words."""
    kept = low.variable("kept", uint64, 0)
    for at in range(0, 2 * count, _REPEATS * _LANES):
        repeats = min(_REPEATS, -(-(2 * count - at) // _LANES))
        how = Record((1, repeats, 8, 0))
        low.instr("GatherMask", moved(to, at // 2), moved(source, at), pattern, False, 0, how, kept)


def low_words(low: Lowering, op: Op) -> Tile | None:
    """A cast of 64-bit integers in memory to integers of 32 bits, or None where it is none."""
    if op.name != "cast" or op.result.dtype not in (int32, uint32) or op.operands[0].dtype not in (int64, uint64):
        return None
    held = without_mask(low.held(op.operands[0]))
    if not isinstance(held, Tile):
        return None
    made = low.result(op.result)
    to = View(made.view.of, made.view.offset, made.view.stage, int32)
    select_words(low, to, words32_of(held.view), held.layout.count, EVEN)
    return made


def without_mask(held: AnyTile) -> AnyTile:
    """Numbers before all but their lower words, or less, were masked out."""
    while isinstance(held, Deferred) and held.op.name == "and_":
        kept = [x for x in held.operands if not (isinstance(x, Splat) and _keeps(x))]
        if len(kept) != 1:
            break
        held = kept[0]
    return held


def _keeps(mask: Splat) -> bool:
    return isinstance(mask.value, int) and mask.value & _WORD == _WORD
