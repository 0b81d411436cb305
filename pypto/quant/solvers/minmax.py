"""`minmax` rounds weights to nearest with scales from their whole range, and needs no data."""

from __future__ import annotations

from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.rounding import grid, quantize, ranges
from pypto.quant.schemes import Scheme
from pypto.quant.solvers.algorithm import Algorithm
from pypto.quant.tensor import QuantizedWeight


def minmax(layer: Layer, statistics: Statistics, scheme: Scheme) -> QuantizedWeight:
    """The nearest codes on the grid of each group's range."""
    scales, zeros = grid(*ranges(layer.weight, scheme), scheme)
    return QuantizedWeight(quantize(layer.weight, scales, zeros, scheme), scales, scheme, zeros)


ALGORITHM = Algorithm("minmax", minmax, gram=False, data=False)
