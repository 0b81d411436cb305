"""SmoothQuant (Xiao et al., 2023) moves outliers of the inputs into the weights, by a factor for each input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from pypto.quant.arrays import Array
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.calibrate.quantize import sampled_sqnr
from pypto.quant.layer import Layer
from pypto.quant.schemes import Scheme, int8
from pypto.quant.solvers.algorithm import Algorithm
from pypto.quant.solvers.rtn import minmax
from pypto.quant.solvers.scaling import scaled
from pypto.quant.tensor import QuantizedTensor

ALPHAS: Final = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def smoothquant(layer: Layer, statistics: Statistics, scheme: Scheme, alpha: float | None = 0.5) -> QuantizedTensor:
    """Divides input j by ``max|x_j| ** alpha / max|w_j| ** (1 - alpha)``, multiplies its weights by it, and rounds.

    Inputs or weights that are all 0 have the factor 1. With `alpha` None, it searches several exponents, and either the
    maximum or the root mean square of each input, for the largest output SQNR on a sample of the inputs, which are
    rounded to int8 per token.
    """
    if alpha is not None:
        return scaled(layer, statistics, scheme, factors(layer, statistics.largest, alpha), minmax)
    inputs = int8("token")
    return max(
        (scaled(layer, statistics, scheme, factor, minmax) for factor in candidates(layer, statistics)),
        key=lambda weight: sampled_sqnr(layer, weight, statistics, inputs),
    )


def factors(layer: Layer, inputs: Array, alpha: float) -> Array:
    """Computes the divisors of the inputs from a magnitude of each."""
    weights = np.abs(layer.weight.astype(np.float64)).max(axis=0, initial=0)
    usable = (inputs > 0) & (weights > 0)
    scale: Array = np.where(usable, inputs, 1) ** alpha / np.where(usable, weights, 1) ** (1 - alpha)
    return scale


def candidates(layer: Layer, statistics: Statistics) -> Iterator[Array]:
    """Yields candidate divisors; the first are all 1."""
    yield np.ones(statistics.columns)
    rows = statistics.sample.rows.astype(np.float64)
    for inputs in (statistics.largest, np.sqrt(np.square(rows).sum(axis=0) / max(len(rows), 1))):
        for alpha in ALPHAS:
            yield factors(layer, inputs, alpha)


SMOOTHQUANT = Algorithm("smoothquant", smoothquant, gram=False, factors=True)
