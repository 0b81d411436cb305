"""Even block sizes: choose blocks that divide an axis, or nearly do, because a partial last block is slow."""

from __future__ import annotations

from typing import Final

COLUMN_BLOCKS: Final = (384, 256)


def even_piece(size: int, piece: int) -> int:
    """Return a piece near the wanted one that divides a size if possible: a partial last piece is slow to pack."""
    candidates = sorted(range(3 * piece // 4, 3 * piece // 2 + 1, 16), key=lambda n: abs(n - piece))
    return next((n for n in candidates if size % n == 0), piece)


def even_block(size: int) -> int:
    """Return the block of columns that wastes least in the last, partial block, which is slow as well.

    Examples
    --------
    >>> even_block(768), even_block(1024), even_block(900)
    (384, 256, 256)
    """
    return min(COLUMN_BLOCKS, key=lambda block: -(-size // block) * block)
