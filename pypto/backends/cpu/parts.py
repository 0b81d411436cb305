"""How loops are cut: the lanes' loop into chunks of several registers, one register, and a masked rest."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.loopir import Stmt, item_bytes
from pypto.backends.cpu.pull import is_tile
from pypto.backends.cpu.target import CpuTarget


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a loop that runs with one width; `tail` says how much of the last step exists, 0 for all."""

    start: int
    stop: int
    width: int
    tail: int = 0


def lane_parts(body: list[Stmt], lanes: int, registers: int) -> list[Part]:
    """The lanes' loop, with so many lanes in one register."""
    size, wide = body[0].domain[body[0].lanes], body[0].width or lanes * registers
    main = size // wide * wide
    full = main + (size - main) // lanes * lanes
    if body[0].width:  # panels are written whole; what lies past the tile is never read
        return some(Part(0, main, wide), Part(main, size, wide, size - main))
    return some(Part(0, main, wide), Part(main, full, lanes), Part(full, size, lanes, size - full))


def block_parts(size: int, rows: int) -> list[Part]:
    """A loop in blocks of rows, the last of which may be lower."""
    whole = size // rows * rows
    return some(Part(0, whole, rows), Part(whole, size, rows, size - whole))


def some(*parts: Part) -> list[Part]:
    return [p for p in parts if p.stop > p.start]


def lanes_of(target: CpuTarget, body: list[Stmt]) -> int:
    """Lanes of one register for the widest values that the body computes with, no more than it has use for."""
    lanes = target.vector_bytes // max(4, *map(widest, body))
    while lanes > 1 and lanes // 2 >= body[0].domain[body[0].lanes]:
        lanes //= 2
    return lanes


def widest(stmt: Stmt) -> int:
    values = [stmt.value] if stmt.value is not None else stmt.op.operands if stmt.op is not None else ()
    return max((item_bytes(v.tile.elem) for v in values if is_tile(v) and not v.tile.is_ptr), default=4)
