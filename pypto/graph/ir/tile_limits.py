"""Tile limits: the scheduler chooses tiles within them, and the tracer splits long axes into pieces that fit."""

from __future__ import annotations

from typing import Final

MOST_WHOLE: Final = 32_768  # elements of a tile that is no operand of a product
COLUMNS_BLOCK: Final = 512  # columns that a program reduces at a time
