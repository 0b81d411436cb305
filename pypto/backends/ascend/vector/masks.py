"""Tiles of bools: bits in UB, bytes in arrays."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Word
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.values import AnyTile, Splat, Tile
from pypto.ir.core import Value
from pypto.ir.types import DType, float16, uint8


def from_bytes(low: Lowering, raw: Tile, v: Value) -> Tile:
    """Bits of bytes that are 0 or not."""
    halves, made = low.new(raw.shape, float16, "halves"), low.result(v)
    low.instr("Cast", halves.view, raw.view, Word("CAST_NONE"), raw.layout.count)
    return nonzero(low, halves, made)


def nonzero(low: Lowering, tile: Tile, made: Tile) -> Tile:
    low.instr("CompareScalar", made.view, tile.view, 0.0, Word("NE"), tile.layout.count)
    return made


def as_numbers(low: Lowering, bits: Tile, dtype: DType) -> Tile:
    """1 where a bit is set, else 0, as floats."""
    ones = low.made(Splat((bits.layout.count,), dtype, 1.0)).view
    made = low.new(bits.shape, dtype)
    low.instr("Select", made.view, bits.view, ones, 0.0, Word("VSEL_TENSOR_SCALAR_MODE"), bits.layout.count)
    return made


def to_bytes(low: Lowering, held: AnyTile) -> Tile:
    """Bytes of 0 or 1, as arrays have them."""
    halves = as_numbers(low, low.made(held), float16)
    made = low.new(held.shape, uint8)
    low.instr("Cast", made.view, halves.view, Word("CAST_RINT"), halves.layout.count)
    return made
