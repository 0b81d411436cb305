"""The sizes of tiles of generated kernels and of the library: one record of a core, from which all sizes follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSizes:
    """The tile sizes of generated kernels and of kernels of the library, derived from the caches of one core.

    All sizes follow from three facts, so that none of them stands in a kernel or a pass. The defaults are the least
    core that they are meant for: AVX-512, 32 KiB of L1 and 1 MiB of L2, as in Intel's Skylake server cores. They do
    not follow the machine, so that a plan has the same text on every machine; the blocking of a product within a tile
    does (`Blocking`). Elements have 4 bytes.

    Examples
    --------
    >>> TileSizes().depth, TileSizes().even_columns
    (128, (384, 256))
    >>> TileSizes(l1_bytes=64 << 10, l2_bytes=2 << 20).depth
    256
    """

    vector_bytes: int = 64
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20

    @property
    def lanes(self) -> int:
        """Elements of a vector register: the least depth of a product, and the unit of its depth."""
        return self.vector_bytes // 4

    @property
    def panel(self) -> int:
        """Columns of a micro-panel of B, two vector registers."""
        return 2 * self.lanes

    @property
    def depth(self) -> int:
        """Elements of K in a tile: a micro-panel of B fills half of L1."""
        return self.l1_bytes // 2 // (4 * self.panel)

    @property
    def row_blocks(self) -> tuple[int, ...]:
        """Rows of a tile of a product, from two depths down to a vector."""
        return tuple(2 * self.depth >> n for n in range((2 * self.depth // self.lanes).bit_length()))

    @property
    def most_columns(self) -> int:
        """Columns of a tile, at most: with the most rows its accumulator fills half of L2."""
        return self.l2_bytes // 2 // (4 * self.row_blocks[0])

    @property
    def even_columns(self) -> tuple[int, ...]:
        """Columns of a tile of a product, of which the one that divides the matrix best is taken."""
        return 12 * self.panel, 8 * self.panel

    @property
    def int8_columns(self) -> tuple[int, ...]:
        """Columns of a tile for few rows of 8 bits, which read long parts of the rows of B; the best comes first."""
        return self.most_columns, 6 * self.panel, 8 * self.panel

    @property
    def sum_tile(self) -> int:
        """Elements of a product that is added to a sum: one of the two tiles fills half of L1."""
        return self.l1_bytes // 2 // 4

    @property
    def most_whole(self) -> int:
        """Elements of a tile that is no operand of a product, at most: eight of them fill L2."""
        return self.l2_bytes // 8 // 4


TILES: Final = TileSizes()
