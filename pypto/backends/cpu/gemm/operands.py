"""Matrices as emitted code reads and writes them: addresses and valid ranges."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import DType


@dataclass(frozen=True, slots=True)
class ValidRange:
    """The part of a dimension that exists: from `start` to before `stop`."""

    start: VectorValue
    stop: VectorValue


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory or scratch, whose rows are contiguous."""

    address: VectorValue
    pitch: VectorValue  # bytes from row to row
    rows: ValidRange
    columns: ValidRange
    dtype: DType  # as memory holds it


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a result is stored in place of scratch."""

    matrix: Matrix
    in_bounds: VectorValue  # whether it is stored there: all of it exists, in the last step of its loop
    is_epilogue: bool = False  # whether a fused epilogue stores it
