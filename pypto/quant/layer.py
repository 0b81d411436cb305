"""A linear layer in floats, and the quantised layer that replaces it.

A quantised layer computes in numpy the same as its deployed form on kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_columns, check_finite
from pypto.quant.rounding import dequantize, grid, quantize, ranges
from pypto.quant.schemes import TENSOR, Scheme
from pypto.quant.tensor import QuantizedTensor


@dataclass(frozen=True, slots=True, repr=False)
class Layer(Summary):
    """A linear layer ``y = x @ weight.T + bias``.

    Parameters
    ----------
    name : str
    weight : ndarray of shape (outputs, inputs)
    bias : ndarray of shape (outputs,), optional
    """

    name: str
    weight: Array
    bias: Array | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.weight)
        if len(shape) != 2 or (self.bias is not None and np.shape(self.bias) != shape[:1]):
            what = f"layer {self.name} has a weight of the shape {shape}"
            what += "" if self.bias is None else f" and a bias of the shape {np.shape(self.bias)}"
            raise WrongCalibration(what=what, way="give a weight (outputs, inputs), and a bias (outputs,)")
        check_finite(self.name, "its weight", self.weight)
        if self.bias is not None:
            check_finite(self.name, "its bias", self.bias)


@dataclass(frozen=True, slots=True, repr=False)
class FloatProduct(Summary):
    """A product of rows of inputs with a weight in floats, as an array expression.

    Parameters
    ----------
    weight : ndarray of shape (outputs, inputs)
    bias : ndarray of shape (outputs,), optional
    """

    weight: Array
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Computes the product."""
        y = x @ self.weight.T.astype(x.dtype, copy=False)
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedLayer(Summary):
    """A linear layer with quantised weights, and with quantised inputs if there is a scheme for them.

    Parameters
    ----------
    name : str
    weight : QuantizedTensor
    bias : ndarray of shape (outputs,), float32, optional
    inputs : Scheme, optional
        The scheme of the inputs; by default, they stay in floats.
    input_scale : ndarray of shape (1,), float32, optional
        The scale of a static scheme of inputs.
    input_zero : ndarray of shape (1,), int8, optional
        The zero point of an asymmetric static scheme.
    """

    name: str
    weight: QuantizedTensor
    bias: Array | None = None
    inputs: Scheme | None = None
    input_scale: Array | None = None
    input_zero: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Computes the layer as its deployed form does, in numpy float32: x of shape (…, inputs) to (…, outputs).

        Raises
        ------
        WrongCalibration
            If x has another number of columns.
        """
        weight = self.weight
        check_columns(self.name, x, weight.codes.shape[1])
        rows = np.asarray(x, np.float32).reshape(-1, weight.codes.shape[1])
        if weight.transform is not None:
            rows = rows * weight.transform
        y = self.rounded(weight.ordered(rows)) @ weight.of_rows().T
        if self.bias is not None:
            y += self.bias
        return y.reshape(*np.shape(x)[:-1], y.shape[1])

    def rounded(self, rows: Array) -> Array:
        """Quantises and dequantises inputs."""
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
    """Quantises and dequantises rows as int8 with a scale for each group; the last group may be smaller."""
    rounded = np.empty_like(rows)
    for start in range(0, rows.shape[1], size):
        part = rows[:, start : start + size]
        most = np.abs(part).max(axis=1, keepdims=True, initial=0)
        up = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
        rounded[:, start : start + size] = np.rint(part * up) * (most / 127)
    return rounded
