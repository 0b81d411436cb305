"""Scaling divides the inputs by factors and multiplies the weights by them, which changes only the rounding error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pypto.quant.arrays import Array
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.schemes import Scheme
from pypto.quant.tensor import QuantizedTensor

Rounding = Callable[[Layer, Statistics, Scheme], QuantizedTensor]


def scaled(layer: Layer, statistics: Statistics, scheme: Scheme, factors: Array, rounding: Rounding) -> QuantizedTensor:
    """Quantises ``weight * factors``; the inputs are multiplied by the reciprocals.

    The weight is divided by the float32 reciprocals that the deployed layer uses.
    """
    transform = (1 / factors).astype(np.float32)
    weight = layer.weight.astype(np.float64) / transform
    return replace(rounding(Layer(layer.name, weight, layer.bias), statistics, scheme), transform=transform)


def output_error(layer: Layer, weight: QuantizedTensor, gram: Array) -> float:
    """Computes the squared output error over all calibration data: ``tr(D G Dᵀ)``."""
    difference = layer.weight.astype(np.float64) - weight.dequantize()
    return float(np.einsum("nk,nk->", difference @ gram, difference))
