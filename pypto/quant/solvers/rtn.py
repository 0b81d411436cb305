"""Rounding to nearest needs no data: `minmax` takes the whole range of the weights, `percentile` clips outliers."""

from __future__ import annotations

from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.rounding import grid, quantize, ranges
from pypto.quant.schemes import Scheme
from pypto.quant.solvers.algorithm import Algorithm
from pypto.quant.tensor import QuantizedTensor


def minmax(layer: Layer, statistics: Statistics, scheme: Scheme) -> QuantizedTensor:
    """Rounds to nearest on the grid of each group's range."""
    scales, zeros = grid(*ranges(layer.weight, scheme), scheme)
    return QuantizedTensor(quantize(layer.weight, scales, zeros, scheme), scales, scheme, zeros)


def percentile(layer: Layer, statistics: Statistics, scheme: Scheme, percent: float = 99.9) -> QuantizedTensor:
    """Rounds to nearest on the grid of the inner `percent` of each group."""
    scales, zeros = grid(*ranges(layer.weight, scheme, percent), scheme)
    return QuantizedTensor(quantize(layer.weight, scales, zeros, scheme), scales, scheme, zeros)


MINMAX = Algorithm("minmax", minmax, gram=False, data=False)
PERCENTILE = Algorithm("percentile", percentile, gram=False, data=False)
