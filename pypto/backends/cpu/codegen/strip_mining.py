"""How loops are cut: the lanes' loop into chunks of several registers, one register, and a masked rest."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.cpu.loopir.ir import Stmt, item_bytes
from pypto.backends.cpu.target import CpuTarget


@dataclass(frozen=True, slots=True)
class Strip:
    """A stretch of a loop that runs with one width; `tail` says how much of the last step exists, 0 for all."""

    start: int
    stop: int
    width: int
    tail: int = 0


def strip_mine_lanes(body: list[Stmt], lanes: int, registers: int) -> list[Strip]:
    """The lanes' loop, with so many lanes in one register."""
    size, wide = body[0].domain[body[0].lanes], body[0].forced_width or lanes * registers
    main = size // wide * wide
    full = main + (size - main) // lanes * lanes
    if body[0].forced_width:  # panels are written whole; what lies past the tile is never read
        return nonempty_strips(Strip(0, main, wide), Strip(main, size, wide, size - main))
    return nonempty_strips(Strip(0, main, wide), Strip(main, full, lanes), Strip(full, size, lanes, size - full))


def strip_mine_rows(size: int, rows: int) -> list[Strip]:
    """A loop in blocks of rows, the last of which may be lower."""
    whole = size // rows * rows
    return nonempty_strips(Strip(0, whole, rows), Strip(whole, size, rows, size - whole))


def nonempty_strips(*parts: Strip) -> list[Strip]:
    return [p for p in parts if p.stop > p.start]


def vector_width_of(target: CpuTarget, body: list[Stmt]) -> int:
    """Lanes of one register for the widest values that the body computes with, no more than it has use for."""
    lanes = target.vector_bytes // max(4, *map(widest_element_bytes, body))
    while lanes > 1 and lanes // 2 >= body[0].domain[body[0].lanes]:
        lanes //= 2
    return lanes


def widest_element_bytes(stmt: Stmt) -> int:
    values = [stmt.value] if stmt.value is not None else stmt.op.operands if stmt.op is not None else ()
    return max((item_bytes(v.tile.elem) for v in values if is_tile(v) and not v.tile.is_ptr), default=4)
