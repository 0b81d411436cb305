"""Runs an algorithm on a layer and its statistics (`quantize_layer`), or on one weight without a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.quant import FewSamples, WrongCalibration
from pypto.quant.arrays import Array, as_array
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.config import Config
from pypto.quant.layer import Layer, QuantizedLayer
from pypto.quant.metrics import row_sqnr
from pypto.quant.schemes import TENSOR, Scheme
from pypto.quant.solvers.algorithm import Algorithm, find
from pypto.quant.tensor import QuantizedTensor
from pypto.quant.warning import warn

ROWS_PER_COLUMN = 4


def quantize_layer(layer: Layer, statistics: Statistics, config: Config) -> QuantizedLayer:
    """Quantises one layer from the statistics of its inputs.

    If the outputs with quantised inputs have an SQNR below `Config.least_sqnr` on a sample of the calibration data, the
    inputs stay in floats. Smoothing factors are then left out, because they serve the rounding of inputs.

    Raises
    ------
    WrongCalibration
        If the algorithm, or a static scheme of inputs, needs data and there is none.
    NotFinite, WrongResult
    """
    algorithm = find(config.algorithm)
    is_static = config.inputs is not None and config.inputs.per == TENSOR
    if (algorithm.data or is_static) and not statistics.rows:
        reader = f"algorithm {algorithm.name}" if algorithm.data else "a static scale of inputs"
        what = f"layer {layer.name}: {reader} needs inputs, and there are none"
        raise WrongCalibration(what=what, way="run the model on calibration data")
    weight = algorithm.run(layer, statistics, config.weights)
    inputs = config.inputs
    if (
        inputs is not None
        and config.least_sqnr > 0
        and sampled_sqnr(layer, weight, statistics, inputs) < config.least_sqnr
    ):
        last = algorithm.steps[-1] if algorithm.steps else algorithm
        return QuantizedLayer(layer.name, last.run(layer, statistics, config.weights), layer.bias)
    if not is_static:
        return QuantizedLayer(layer.name, weight, layer.bias, config.inputs)
    assert config.inputs is not None
    solved = transformed(statistics, weight).static_grid(config.inputs)
    return QuantizedLayer(layer.name, weight, layer.bias, config.inputs, *solved)


def few_samples(statistics: Iterable[Statistics], config: Config) -> FewSamples | None:
    """Warns, for the layer with the most columns, that the algorithm reads a Gram matrix of too few rows."""
    few = [one for one in statistics if 0 < one.rows < ROWS_PER_COLUMN * one.columns]
    if not few or not find(config.algorithm).gram:
        return None
    worst = max(few, key=lambda one: one.columns)
    needed = ROWS_PER_COLUMN * worst.columns
    more = f" and {len(few) - 1} beside it" if len(few) > 1 else ""
    return FewSamples(layer=worst.layer, more=more, rows=worst.rows, columns=worst.columns, needed=needed)


def sampled_sqnr(layer: Layer, weight: QuantizedTensor, statistics: Statistics, inputs: Scheme) -> float:
    """Computes the SQNR of the outputs on a sample of the inputs, row by row, with quantised inputs."""
    rows = statistics.sample.rows
    exact = rows @ layer.weight.T.astype(np.float32)
    static = transformed(statistics, weight).static_grid(inputs) if inputs.per == TENSOR else (None, None)
    return row_sqnr(exact, QuantizedLayer(layer.name, weight, None, inputs, *static)(rows))


def transformed(statistics: Statistics, weight: QuantizedTensor) -> Statistics:
    """Returns the statistics of the inputs after the order and factors of a quantised weight."""
    return statistics if weight.transform is None else statistics.scaled(weight.transform)


@BOUNDARY
def quantize_weight(
    weight: Array,
    inputs: Array | None = None,
    scheme: Scheme | None = None,
    algorithm: Algorithm | str | Sequence[Algorithm | str] = "minmax",
    name: str = "weight",
) -> QuantizedTensor:
    """Quantises one weight.

    Parameters
    ----------
    weight : ndarray or torch.Tensor of shape (outputs, inputs)
    inputs : ndarray or torch.Tensor of shape (…, inputs), optional
        Calibration data, for algorithms that read any.
    scheme : Scheme
        The scheme; by default, int8 per channel.
    algorithm : Algorithm, str, or sequence of them
    name : str
        The name of the layer, for errors.

    Returns
    -------
    QuantizedTensor

    Raises
    ------
    WrongScheme, WrongCalibration, NotFinite, NoSuchAlgorithm, WrongSequence

    Warns
    -----
    FewSamples

    Examples
    --------
    >>> w = np.array([[1.0, -0.5], [0.0, 0.0]], np.float32)
    >>> q = quantize_weight(w)
    >>> q.codes.tolist(), q.scales.tolist()
    ([[127, -64], [0, 0]], [[0.007874015718698502], [1.0]])
    """
    config = Config(Scheme() if scheme is None else scheme, algorithm=algorithm)
    layer = Layer(name, as_array(weight))
    statistics = Statistics(name, layer.weight.shape[1], find(algorithm).gram)
    if inputs is not None:
        statistics.add(as_array(inputs))
        few = few_samples([statistics], config)
        if few is not None:
            warn(few)
    return quantize_layer(layer, statistics, config).weight
