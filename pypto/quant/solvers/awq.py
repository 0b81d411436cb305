"""AWQ (Lin et al., 2024): factors that protect the weights of large inputs, searched by the error of the outputs."""

from __future__ import annotations

import numpy as np

from pypto.quant.algorithm import Algorithm
from pypto.quant.observers import Statistics
from pypto.quant.schemes import Scheme
from pypto.quant.solvers.minmax import minmax
from pypto.quant.solvers.scaling import output_error, scaled
from pypto.quant.weight import Layer, QuantizedWeight


def awq(layer: Layer, statistics: Statistics, scheme: Scheme, steps: int = 20) -> QuantizedWeight:
    """Multiply the weights of input j by ``mean|x_j| ** alpha``, with the best of `steps` exponents from 0 to 1.

    The exponent 0 is rounding to nearest, so the error over the calibration data is never above it.
    """
    magnitude = statistics.mean_magnitude
    magnitude = np.where(magnitude > 0, magnitude, 1)
    best = minmax(layer, statistics, scheme)
    least = output_error(layer, best, statistics.gram)
    for step in range(1, steps + 1):
        factors = magnitude ** (step / steps)
        factors /= np.sqrt(factors.max() * factors.min())
        weight = scaled(layer, statistics, scheme, factors, minmax)
        error = output_error(layer, weight, statistics.gram)
        if error < least:
            best = weight
            least = error
    return best


ALGORITHM = Algorithm("awq", awq, factors=True)
