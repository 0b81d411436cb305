"""Arithmetic of a tile and a row or column that is repeated over it, without making the repeated tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Record, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.broadcast import REPEATS, clear_tail, element_blocks, is_column
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Tile
from pypto.ir.core import Op
from pypto.ir.types import float32

BROADCASTABLE: Final[Mapping[str, str]] = MappingProxyType({"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"})
_LANES: Final = 64
_MAX_REPEATS: Final = 255  # blocks from a repeat to the next


def broadcast_operand_op(low: Lowering, op: Op, held: Sequence[AnyTile], shape: tuple[int, ...]) -> Tile | None:
    """The result, or None where this is not of that kind."""
    if op.name not in BROADCASTABLE or op.result.dtype != float32 or not shape:
        return None
    k = next(
        (k for k, x in enumerate(held) if isinstance(x, Broadcast) and low.known(x) is None and is_row_or_column(x)),
        None,
    )
    if k is None:
        return None
    narrow, full = held[k], low.made(held[1 - k])
    assert isinstance(narrow, Broadcast)
    made = low.new(shape, float32, op.result.hint)
    column = is_column(narrow.of, made)
    run = BroadcastInstr(
        low,
        BROADCASTABLE[op.name],
        made,
        full.view,
        element_blocks(low, narrow.of) if column else narrow.of.view,
        k == 0,
    )
    if made.layout.rows > 1:
        clear_tail(low, made)
    (run.columns if column else run.rows)()
    return made


def is_row_or_column(held: Broadcast) -> bool:
    """Whether it is a column along rows, or a row again and again."""
    small, large = held.of.shape, held.shape
    repeated = [n != m for n, m in zip(small, large, strict=True) if m != 1]
    return (repeated[-1:] == [True] and not any(repeated[:-1])) or (all(repeated[:-1]) and repeated[-1:] == [False])


class BroadcastInstr:
    """An instruction over a tile and what is repeated, which comes first where `swapped`."""

    def __init__(self, low: Lowering, name: str, made: Tile, full: View, narrow: View, swapped: bool) -> None:
        self.low, self.name, self.made, self.full, self.narrow, self.swapped = low, name, made, full, narrow, swapped
        self.pitch = made.layout.pitch if made.layout.rows > 1 else made.layout.count
        self.blocks = self.pitch * 4 // BLOCK

    def instr(self, at: Scalar, other: View, how: tuple[int, ...], width: int, count: int) -> None:
        """`how` are the strides of the full tile from block to block and repeat to repeat, then those of the other."""
        step, blk, rep = how
        one, two = moved(self.full, at), other
        strides = (1, blk, 1, step, rep, step) if self.swapped else (1, 1, blk, step, step, rep)
        pair = (two, one) if self.swapped else (one, two)
        self.low.instr(self.name, moved(self.made.view, at), *pair, width, count, Record(strides))

    def columns(self) -> None:
        """Each row with the block of its element."""
        rows = self.made.layout.rows
        if self.blocks <= _MAX_REPEATS and rows * _LANES >= self.pitch:
            for first in range(0, rows, REPEATS):
                for c in range(0, self.pitch, _LANES):
                    width, count = min(_LANES, self.pitch - c), min(REPEATS, rows - first)
                    self.instr(first * self.pitch + c, moved(self.narrow, first * 8), (self.blocks, 0, 1), width, count)
            return
        with self.low.each((rows,)) as (r,):
            self.along(fold("*", r, self.pitch), moved(self.narrow, fold("*", r, 8)))

    def along(self, start: Scalar, block: View) -> None:
        """One row with one block."""
        full, rest = divmod(self.pitch, _LANES)
        for first in range(0, full, REPEATS):
            at = fold("+", start, first * _LANES)
            self.instr(at, block, (8, 0, 0), _LANES, min(REPEATS, full - first))
        if rest:
            self.instr(fold("+", start, full * _LANES), block, (8, 0, 0), rest, 1)

    def rows(self) -> None:
        """Each row with the same other one."""
        rows = self.made.layout.rows
        if self.blocks <= _MAX_REPEATS and rows * _LANES >= self.pitch:
            for first in range(0, rows, REPEATS):
                for c in range(0, self.pitch, _LANES):
                    width, count = min(_LANES, self.pitch - c), min(REPEATS, rows - first)
                    self.instr(first * self.pitch + c, moved(self.narrow, c), (self.blocks, 1, 0), width, count)
            return
        with self.low.each((rows,)) as (r,):
            at = fold("*", r, self.pitch)
            pair = (self.narrow, moved(self.full, at)) if self.swapped else (moved(self.full, at), self.narrow)
            self.low.instr(self.name, moved(self.made.view, at), *pair, self.pitch)
