"""Strided selection: every second or fourth element of a run, by the patterns of `GatherMask`."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Record, View
from pypto.backends.ascend.rules.operand import as_dtype
from pypto.backends.ascend.vector.builder import Index, Lowering, advance_view
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.types import int32, uint16, uint64

FIRST_PATTERN: Final = MappingProxyType({2: 1, 4: 3})  # by the step: the pattern that takes the first of so many
WORDS: Final = MappingProxyType({2: uint16, 4: int32})  # types that stand for elements of so many bytes
_REPEAT: Final = 256  # bytes
_MOST: Final = 255  # repeats of one instruction


def select_strided(low: Lowering, to: View, source: View, count: int, step: int, start: int) -> None:
    """Select the elements at `start` and each `step` behind it, of `count`; whole repeats are written."""
    size = source.elem.itemsize
    lanes = _REPEAT // size
    to, source = as_dtype(to, WORDS[size]), as_dtype(source, WORDS[size])
    kept = low.variable("kept", uint64, 0)
    for at in range(0, count, _MOST * lanes):
        repeats = Record((1, min(_MOST, -(-(count - at) // lanes)), 8, 0))
        chosen = FIRST_PATTERN[step] + start
        low.instr("GatherMask", advance_view(to, at // step), advance_view(source, at), chosen, False, 0, repeats, kept)


def is_strided(tile: Tile, result: Tile, starts: Index, steps: Index, last: int) -> bool:
    """Whether a slice takes every second or fourth element of all rows, and rows have no padding between them."""
    step, start, others = steps[last], starts[last], [d for d in range(len(tile.shape)) if d != last]
    if step not in FIRST_PATTERN or tile.dtype.is_bool or tile.dtype.itemsize not in WORDS:
        return False
    assert isinstance(step, int) and isinstance(start, int)
    is_whole = start < step and result.shape[last] * step == tile.shape[last]
    is_whole &= all(steps[d] == 1 and tile.shape[d] == result.shape[d] for d in others)
    return is_whole and tile.layout.is_dense and result.layout.is_dense
