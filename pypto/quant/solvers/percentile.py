"""Round to nearest, without the largest weights: outliers are clipped, the others have finer steps."""

from __future__ import annotations

from pypto.quant.algorithm import Algorithm
from pypto.quant.observers import Statistics
from pypto.quant.schemes import Scheme
from pypto.quant.weight import Layer, QuantizedWeight, grid, quantize, ranges


def percentile(layer: Layer, statistics: Statistics, scheme: Scheme, percent: float = 99.9) -> QuantizedWeight:
    """The nearest codes on the grid of the inner `percent` of each group."""
    scales, zeros = grid(*ranges(layer.weight, scheme, percent), scheme)
    return QuantizedWeight(quantize(layer.weight, scales, zeros, scheme), scales, scheme, zeros)


ALGORITHM = Algorithm("percentile", percentile, gram=False, data=False)
