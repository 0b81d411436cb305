"""Products with few rows: B is read where it lies, since packing it would cost more than the product.

Such a product is as fast as B comes from memory. With very few rows, whole rows of B are read one after the other; with
more, blocks of C stay in registers, and the first of them ask for whole rows of B some time before they read them, so
that the others find them in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pypto.backends.cpu.kernel import row_blocks
from pypto.backends.cpu.matmul import Matmul
from pypto.backends.cpu.operands import Direct, is_streamed
from pypto.backends.cpu.prefetch import LINE
from pypto.backends.cpu.target import CpuTarget

_MOST_ROWS: Final = 16
_ROWS: Final = 8  # of a block
_VECTORS: Final = 8
_MOST_LINES: Final = 32  # of a row, that are asked for


def is_thin(item: Matmul, target: CpuTarget) -> bool:
    """True when a product has few rows, and columns that are read as they are: whole registers, or all in a stream."""
    source = item.source
    rows, columns, bits = item.c.shape[-2], item.c.shape[-1], 8 * item_bytes(item)
    plain = isinstance(source, Direct) and not item.turned and not item.words and source.rows is not None
    few = is_streamed(item.op, target) or (rows <= _MOST_ROWS and columns * bits % (8 * target.vector_bytes) == 0)
    return plain and few


def item_bytes(item: Matmul) -> int:
    return item.c.elem.itemsize  # type: ignore[union-attr]  # results of dots are numbers


def thin_blocks(item: Matmul, target: CpuTarget) -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
    """Rows of a block, how many such blocks, and their groups of registers: first, how many, how often."""
    registers = item.c.shape[-1] * item_bytes(item) // target.vector_bytes
    for rows, count in row_blocks(item.c.shape[-2], _ROWS):
        groups, first = [], 0
        for vectors, times in row_blocks(registers, max(1, min(_VECTORS, (target.registers - 4) // rows))):
            groups.append((first, vectors, times))
            first += vectors * times
        yield rows, count, groups


def fetched_lines(item: Matmul) -> int:
    return min(_MOST_LINES, -(-item.c.shape[-1] * item_bytes(item) // LINE))
