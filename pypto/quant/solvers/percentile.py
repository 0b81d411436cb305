"""`percentile` rounds weights to nearest and clips outliers, so that the other weights have finer steps."""

from __future__ import annotations

from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.rounding import grid, quantize, ranges
from pypto.quant.schemes import Scheme
from pypto.quant.solvers.algorithm import Algorithm
from pypto.quant.tensor import QuantizedWeight


def percentile(layer: Layer, statistics: Statistics, scheme: Scheme, percent: float = 99.9) -> QuantizedWeight:
    """The nearest codes on the grid of the inner `percent` of each group."""
    scales, zeros = grid(*ranges(layer.weight, scheme, percent), scheme)
    return QuantizedWeight(quantize(layer.weight, scales, zeros, scheme), scales, scheme, zeros)


ALGORITHM = Algorithm("percentile", percentile, gram=False, data=False)
