"""Strip mining: cuts a loop into strips of constant chunk width, from unrolled vectors down to a masked tail.

The lane loop becomes vectors, several per chunk, so that independent instructions hide latency; what does not fill a
chunk runs one register at a time, and the last partial register under a mask. With 16 lanes and 4 registers:

for i in 0..100: body(i) becomes for i in 0..64 step 64: body on 64 lanes for i in 64..96 step 16: body on 16 lanes i =
96: body on 16 lanes, of which 4 exist
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.cpu.loopir.ir import Stmt, item_bytes
from pypto.backends.cpu.target import CpuTarget


@dataclass(frozen=True, slots=True)
class Strip:
    """A range of a loop that runs in chunks of one width; `tail` is the number of elements of a partial chunk, or 0."""

    start: int
    stop: int
    width: int
    tail: int = 0


def strip_mine_lanes(body: list[Stmt], lanes: int, registers: int) -> list[Strip]:
    """The strips of the lane loop; a forced width, of packed panels, takes no narrower chunks."""
    size = body[0].domain[body[0].lanes]
    width = body[0].forced_width or lanes * registers
    main = size // width * width
    full = main + (size - main) // lanes * lanes
    if body[0].forced_width:  # a panel is written with its padding, which nobody reads
        return nonempty_strips(Strip(0, main, width), Strip(main, size, width, size - main))
    return nonempty_strips(Strip(0, main, width), Strip(main, full, lanes), Strip(full, size, lanes, size - full))


def strip_mine_rows(size: int, rows: int) -> list[Strip]:
    """The strips of a loop over rows that is taken `rows` at a time; the last block may have fewer rows."""
    main = size // rows * rows
    return nonempty_strips(Strip(0, main, rows), Strip(main, size, rows, size - main))


def nonempty_strips(*strips: Strip) -> list[Strip]:
    """The strips that have elements."""
    return [strip for strip in strips if strip.stop > strip.start]


def vector_width_of(target: CpuTarget, body: list[Stmt]) -> int:
    """Lanes of one register for the widest type of the body; fewer, where fewer hold all of its elements."""
    lanes = target.vector_bytes // max(4, *map(widest_element_bytes, body))
    while lanes > 1 and lanes // 2 >= body[0].domain[body[0].lanes]:
        lanes //= 2
    return lanes


def widest_element_bytes(stmt: Stmt) -> int:
    """Bytes of the widest element that a statement computes with."""
    values = [stmt.value] if stmt.value is not None else stmt.op.operands if stmt.op is not None else ()
    return max((item_bytes(v.tile.elem) for v in values if is_tile(v) and not v.tile.is_ptr), default=4)
