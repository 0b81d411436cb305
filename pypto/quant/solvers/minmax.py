"""Round to nearest, with scales from the whole range of the weights: no data is needed."""

from __future__ import annotations

from pypto.quant.algorithm import Algorithm
from pypto.quant.observers import Statistics
from pypto.quant.schemes import Scheme
from pypto.quant.weight import Layer, QuantizedWeight, grid, quantize, ranges


def minmax(layer: Layer, statistics: Statistics, scheme: Scheme) -> QuantizedWeight:
    """The nearest codes on the grid of each group's range."""
    scales, zeros = grid(*ranges(layer.weight, scheme), scheme)
    return QuantizedWeight(quantize(layer.weight, scales, zeros, scheme), scales, scheme, zeros)


ALGORITHM = Algorithm("minmax", minmax, gram=False, data=False)
