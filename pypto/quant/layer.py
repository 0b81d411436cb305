"""A quantised layer: its weight, the scheme of its inputs, and what it computes, in numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.quant import FewSamples, WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.algorithm import Algorithm, find
from pypto.quant.config import Config
from pypto.quant.metrics import row_sqnr
from pypto.quant.observers import Statistics
from pypto.quant.schemes import TENSOR, Scheme
from pypto.quant.structure import as_array
from pypto.quant.warning import warn
from pypto.quant.weight import Array, Layer, QuantizedWeight, check_columns, dequantize, grid, quantize, ranges

ROWS_PER_COLUMN = 4


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedLayer(Summary):
    """A linear layer with quantised weights, and quantised inputs where there is a scheme for them.

    Parameters
    ----------
    name : str
    weight : QuantizedWeight
    bias : ndarray of shape (outputs,), float32, optional
    inputs : Scheme, optional
        Without, inputs stay as they are.
    input_scale : ndarray of shape (1,), float32, optional
        The scale of a static scheme of inputs.
    input_zero : ndarray of shape (1,), int8, optional
        The zero point of an asymmetric one.
    """

    name: str
    weight: QuantizedWeight
    bias: Array | None = None
    inputs: Scheme | None = None
    input_scale: Array | None = None
    input_zero: Array | None = None

    def __call__(self, x: Array) -> Array:
        """The layer as it will be deployed, in numpy float32: x of shape (…, inputs) to (…, outputs).

        Raises
        ------
        WrongCalibration
            For inputs with another number of columns.
        """
        weight = self.weight
        check_columns(self.name, x, weight.codes.shape[1])
        rows = np.asarray(x, np.float32).reshape(-1, weight.codes.shape[1])
        if weight.transform is not None:
            rows = rows * weight.transform
        if weight.order is not None:
            rows = rows[:, weight.order]
        y = self.rounded(rows) @ dequantize(weight.codes, weight.scales, weight.zeros, weight.scheme).T
        if self.bias is not None:
            y += self.bias
        return y.reshape(*np.shape(x)[:-1], y.shape[1])

    def rounded(self, rows: Array) -> Array:
        """Inputs as their codes give them back."""
        if self.inputs is None:
            return rows
        if self.inputs.per != TENSOR and self.inputs.format is not None:
            scales, _ = grid(*ranges(rows, self.inputs), self.inputs)
            return dequantize(quantize(rows, scales, None, self.inputs), scales, None, self.inputs)
        if self.inputs.per != TENSOR:
            return rounded_groups(rows, self.inputs.group or rows.shape[1])
        assert self.input_scale is not None
        scale = self.input_scale.reshape(1, 1)
        zero = None if self.input_zero is None else self.input_zero.reshape(1, 1)
        return dequantize(quantize(rows, scale, zero, self.inputs), scale, zero, self.inputs)


def rounded_groups(rows: Array, size: int) -> Array:
    """Rows as int8 gives them back, with a scale for each group of so many neighbours; a last group may be smaller."""
    found = np.empty_like(rows)
    for start in range(0, rows.shape[1], size):
        part = rows[:, start : start + size]
        most = np.abs(part).max(axis=1, keepdims=True, initial=0)
        up = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
        found[:, start : start + size] = np.rint(part * up) * (most / 127)
    return found


def quantize_layer(layer: Layer, statistics: Statistics, config: Config) -> QuantizedLayer:
    """Quantise one layer from the statistics of its inputs.

    Where the outputs with quantised inputs have an SQNR below `Config.least_sqnr` on a sample of the calibration data,
    the inputs stay as they are; factors, which were made for the rounding of inputs, are left out then.

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
    found = transformed(statistics, weight).static_grid(config.inputs)
    return QuantizedLayer(layer.name, weight, layer.bias, config.inputs, *found)


def few_samples(statistics: Iterable[Statistics], config: Config) -> FewSamples | None:
    """A warning of the layer with the most columns, where the algorithm reads the Gram matrix of too few rows."""
    few = [one for one in statistics if 0 < one.rows < ROWS_PER_COLUMN * one.columns]
    if not few or not find(config.algorithm).gram:
        return None
    worst = max(few, key=lambda one: one.columns)
    needed = ROWS_PER_COLUMN * worst.columns
    more = f" and {len(few) - 1} beside it" if len(few) > 1 else ""
    return FewSamples(layer=worst.layer, more=more, rows=worst.rows, columns=worst.columns, needed=needed)


def is_noisy(layer: Layer, weight: QuantizedWeight, statistics: Statistics, config: Config) -> bool:
    """Whether the outputs with quantised inputs are further from the exact ones than the configuration allows."""
    if config.inputs is None or config.least_sqnr <= 0:
        return False
    return sampled_sqnr(layer, weight, statistics, config.inputs) < config.least_sqnr


def sampled_sqnr(layer: Layer, weight: QuantizedWeight, statistics: Statistics, inputs: Scheme) -> float:
    """SQNR of the outputs on a sample of the inputs, row by row, with inputs quantised too."""
    rows = statistics.sample.rows
    exact = rows @ layer.weight.T.astype(np.float32)
    static = transformed(statistics, weight).static_grid(inputs) if inputs.per == TENSOR else (None, None)
    return row_sqnr(exact, QuantizedLayer(layer.name, weight, None, inputs, *static)(rows))


def transformed(statistics: Statistics, weight: QuantizedWeight) -> Statistics:
    """Statistics of the inputs as a quantised weight takes them."""
    return statistics if weight.transform is None else statistics.scaled(weight.transform)


@BOUNDARY
def quantize_weight(
    weight: Array,
    inputs: Array | None = None,
    scheme: Scheme | None = None,
    algorithm: Algorithm | str | Sequence[Algorithm | str] = "minmax",
    name: str = "weight",
) -> QuantizedWeight:
    """Quantise one weight.

    Parameters
    ----------
    weight : ndarray or torch.Tensor of shape (outputs, inputs)
    inputs : ndarray or torch.Tensor of shape (…, inputs), optional
        Calibration data; algorithms that read none do without.
    scheme : Scheme
        Eight bits per channel without.
    algorithm : Algorithm, str, or sequence of them
    name : str
        The layer's, for errors.

    Returns
    -------
    QuantizedWeight

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
