"""SmoothQuant (Xiao et al., 2023): factors move outliers of the inputs into the weights."""

from __future__ import annotations

import numpy as np

from pypto.quant.algorithm import Algorithm
from pypto.quant.observers import Statistics
from pypto.quant.schemes import Scheme
from pypto.quant.solvers.minmax import minmax
from pypto.quant.solvers.scaling import scaled
from pypto.quant.weight import Layer, QuantizedWeight


def smoothquant(layer: Layer, statistics: Statistics, scheme: Scheme, alpha: float = 0.5) -> QuantizedWeight:
    """Divide input j by ``max|x_j| ** alpha / max|w_j| ** (1 - alpha)``, multiply its weights by it, and round.

    Inputs or weights that are all 0 have the factor 1.
    """
    inputs = statistics.largest
    weights = np.abs(layer.weight.astype(np.float64)).max(axis=0, initial=0)
    usable = (inputs > 0) & (weights > 0)
    inputs = np.where(usable, inputs, 1)
    weights = np.where(usable, weights, 1)
    return scaled(layer, statistics, scheme, inputs**alpha / weights ** (1 - alpha), minmax)


ALGORITHM = Algorithm("smoothquant", smoothquant, gram=False, factors=True)
