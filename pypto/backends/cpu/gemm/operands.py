"""Matrices as emitted code reads and writes them: addresses and valid ranges; and the width of a micro-panel."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.core import Value
from pypto.ir.types import DType
from pypto.passes.dot_facts import dot_dtype
from pypto.passes.target_facts import TargetFacts


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


def choose_nr(v: Value, target: TargetFacts, in_place: bool) -> int:
    """NR: columns of a micro-panel, in one, two or four registers.

    With four registers by six rows there is a load for every 2.4 multiply-adds. With two by eight, which is what fits
    where A is read in place, there is one for every 1.6. Alone on a core both wait for the multiply-adds; with another
    thread on it, they wait for the loads.
    """
    lanes = target.vector_bytes // dot_dtype(v.dtype).itemsize
    if in_place and target.vector_bytes >= 64 and v.shape[-1] % (4 * lanes) == 0:
        return 4 * lanes
    return lanes * (2 if v.shape[-1] > lanes else 1)
