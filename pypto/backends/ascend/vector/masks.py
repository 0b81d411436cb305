"""Tiles of bools: bits in UB, bytes in arrays."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Word
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.values import AnyTile, Splat, Tile
from pypto.ir.core import Value
from pypto.ir.types import DType, float16, uint8


def from_bytes(low: Lowering, raw: Tile, v: Value) -> Tile:
    """Convert bytes to bits: nonzero bytes are true."""
    halves = low.new_tile(raw.shape, float16, "halves")
    bits = low.result(v)
    low.instr("Cast", halves.view, raw.view, Word("CAST_NONE"), raw.layout.count)
    return compare_nonzero(low, halves, bits)


def compare_nonzero(low: Lowering, tile: Tile, bits: Tile) -> Tile:
    """Set a bit for each element that is not 0."""
    low.instr("CompareScalar", bits.view, tile.view, 0.0, Word("NE"), tile.layout.count)
    return bits


def select_ones(low: Lowering, bits: Tile, dtype: DType) -> Tile:
    """Convert bits to floats: 1 or 0."""
    ones = low.materialize(Splat((bits.layout.count,), dtype, 1.0)).view
    result = low.new_tile(bits.shape, dtype)
    low.instr("Select", result.view, bits.view, ones, 0.0, Word("VSEL_TENSOR_SCALAR_MODE"), bits.layout.count)
    return result


def to_bytes(low: Lowering, bits: AnyTile) -> Tile:
    """Convert bits to bytes of 0 or 1."""
    halves = select_ones(low, low.materialize(bits), float16)
    result = low.new_tile(bits.shape, uint8)
    low.instr("Cast", result.view, halves.view, Word("CAST_RINT"), halves.layout.count)
    return result
