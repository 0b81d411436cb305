"""compressed-tensors packs eight int4 codes into one int32."""

from __future__ import annotations

from typing import Final

import numpy as np

from pypto.quant.arrays import Array

NIBBLES: Final = 8  # codes of four bits in an int32


def packed(codes: Array) -> Array:
    """Codes of four bits, eight neighbours of a row in an int32, the first in its lowest bits; a nibble is code + 8."""
    rows, columns = codes.shape
    nibbles = np.pad((codes + 8).astype(np.uint32), ((0, 0), (0, -columns % NIBBLES))).reshape(rows, -1, NIBBLES)
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return np.bitwise_or.reduce(nibbles << shifts, axis=2).astype(np.uint32).view(np.int32)


def unpacked(words: Array, columns: int) -> Array:
    """What `packed` packs."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    nibbles = np.ascontiguousarray(words).view(np.uint32)[:, :, None] >> shifts & 15
    return nibbles.reshape(len(words), -1)[:, :columns].astype(np.int8) - np.int8(8)
