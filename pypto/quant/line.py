"""A line of a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A quantised layer: its name and scheme, SQNR of weight and outputs in decibels, bytes before and after."""

    layer: str
    scheme: str
    weight_sqnr: float
    output_sqnr: float
    bytes_before: int
    bytes_after: int
