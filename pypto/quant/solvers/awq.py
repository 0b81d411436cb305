"""AWQ (Lin et al., 2024) scales up the weights of large inputs, by the factors that give the least output error."""

from __future__ import annotations

import numpy as np

from pypto.quant.arrays import Array
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.rounding import dequantize, grid, quantize, ranges
from pypto.quant.schemes import TENSOR, Scheme
from pypto.quant.solvers.algorithm import Algorithm
from pypto.quant.solvers.rtn import minmax
from pypto.quant.solvers.scaling import output_error, scaled
from pypto.quant.tensor import QuantizedTensor


def awq(layer: Layer, statistics: Statistics, scheme: Scheme, steps: int = 20, clip_steps: int = 0) -> QuantizedTensor:
    """Multiplies the weights of input j by ``mean|x_j| ** alpha``, with the best of `steps` exponents from 0 to 1.

    The exponent 0 is rounding to nearest, so the error over the calibration data is never above it.

    With `clip_steps`, it also searches so many clipping ranges for each group, from the whole range down to half of it,
    for the least output error. This is the second step of the paper.
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
    if not clip_steps:
        return best
    transform = np.ones(statistics.columns, np.float32) if best.transform is None else best.transform
    weight = layer.weight.astype(np.float64) / transform
    gram = statistics.gram * transform[:, None] * transform
    codes, scales, zeros = clipped(weight, gram, scheme, clip_steps)
    return QuantizedTensor(codes, scales, scheme, zeros, transform=best.transform)


def clipped(weight: Array, gram: Array, scheme: Scheme, steps: int) -> tuple[Array, Array, Array | None]:
    """Returns codes, scales and zero points for the clipping ranges with the least output error, group by group."""
    low, high = ranges(weight, scheme)
    best = np.full(low.shape, np.inf)
    share = np.ones(low.shape)
    for step in range(steps):
        tried = 1 - step / (2 * steps)
        scales, zeros = grid(tried * low, tried * high, scheme)
        number = dequantize(quantize(weight, scales, zeros, scheme), scales, zeros, scheme)
        error = group_errors(weight - number, gram, scheme)
        share = np.where(error < best, tried, share)
        best = np.minimum(error, best)
    scales, zeros = grid(share * low, share * high, scheme)
    return quantize(weight, scales, zeros, scheme), scales, zeros


def group_errors(difference: Array, gram: Array, scheme: Scheme) -> Array:
    """Returns the squared output error that each group makes by itself: (outputs, groups)."""
    outputs, columns = difference.shape
    size = scheme.group or max(columns, 1)
    errors = np.zeros((outputs, scheme.groups(columns)))
    for number, start in enumerate(range(0, columns, size)):
        part = difference[:, start : start + size]
        errors[:, number] = np.einsum("nk,nk->n", part @ gram[start : start + size, start : start + size], part)
    return np.broadcast_to(errors.sum(), errors.shape) if scheme.per == TENSOR else errors


AWQ = Algorithm("awq", awq, factors=True)
