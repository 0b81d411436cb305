"""A layer before and after quantisation, and rounding between numbers and codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.quant import NotFinite, WrongCalibration, WrongResult
from pypto.markup.summary import Summary
from pypto.quant.floats import powers
from pypto.quant.schemes import TENSOR, Scheme

Array = Any
TINY: Final = float(np.finfo(np.float32).tiny)


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
class QuantizedWeight(Summary):
    """Codes of a weight, and how numbers come back: ``(codes - zeros) * scales``, group by group.

    Parameters
    ----------
    codes : ndarray of shape (outputs, inputs), int8
        Also those of four bits, within the range of the scheme.
    scales : ndarray of shape (outputs, groups), float32
    scheme : Scheme
    zeros : ndarray of shape (outputs, groups), int8, optional
        Zero points of an asymmetric scheme.
    order : ndarray of shape (inputs,), int32, optional
        Column j of `codes` belongs to input ``order[j]``.
    transform : ndarray of shape (inputs,), float32, optional
        Factors of the inputs, in the order of the model: the layer computes with ``x * transform``.
    """

    codes: Array
    scales: Array
    scheme: Scheme
    zeros: Array | None = None
    order: Array | None = None
    transform: Array | None = None

    def headline(self) -> str:
        """Its size and scheme."""
        outputs, inputs = self.codes.shape
        return f"{outputs:,} outputs of {inputs:,} inputs, {self.scheme}, {self.bytes / 1e6:.3g} MB"

    def dequantize(self) -> Array:
        """The float32 weight (outputs, inputs) for inputs as the model has them: order and factors undone."""
        numbers = dequantize(self.codes, self.scales, self.zeros, self.scheme)
        if self.order is not None:
            numbers[:, self.order] = numbers.copy()
        return numbers if self.transform is None else numbers * self.transform

    @property
    def bytes(self) -> int:
        """Bytes of codes, scales, zero points and factors, as they are stored."""
        outputs, inputs = self.codes.shape
        parts = (self.scales, self.zeros, self.order, self.transform)
        return int(outputs * -(-inputs * self.scheme.bits // 8) + sum(a.nbytes for a in parts if a is not None))

    def check(self, layer: Layer) -> QuantizedWeight:
        """Refuse what no kernel could compute with."""
        return self.check_shape(layer.name, layer.weight.shape)

    def check_shape(self, layer: str, shape: tuple[int, ...]) -> QuantizedWeight:
        """The same for a layer's name, and the shape of its weight."""
        outputs, inputs = shape
        groups = self.scheme.groups(inputs)
        shapes = {
            "codes": (outputs, inputs), "scales": (outputs, groups), "zeros": (outputs, groups), "order": (inputs,),
            "transform": (inputs,),
        }  # fmt: skip
        for name, expected in shapes.items():
            value = getattr(self, name)
            if value is not None and np.shape(value) != expected:
                raise WrongResult(layer=layer, what=f"`{name}` has shape {np.shape(value)}, expected {expected}")
        low, high = self.codes.min(initial=0), self.codes.max(initial=0)
        if self.codes.dtype != np.int8 or low < self.scheme.low or high > self.scheme.high:
            what = f"codes are {self.codes.dtype} from {low} to {high}, expected int8"
            raise WrongResult(layer=layer, what=f"{what} from {self.scheme.low} to {self.scheme.high}")
        for name in ("scales", "transform"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value).all() and (value > 0).all()):
                raise WrongResult(layer=layer, what=f"`{name}` has numbers that are not positive and finite")
        return self


def check_finite(layer: str, what: str, numbers: Array) -> None:
    """Refuse NaN and infinity, with the place of the first."""
    finite = np.isfinite(numbers)
    if not finite.all():
        place = np.unravel_index(int(np.argmin(finite)), finite.shape)
        raise NotFinite(layer=layer, what=what, place=f" at {[int(i) for i in place]}")


def check_columns(layer: str, inputs: Array, columns: int) -> None:
    """Refuse inputs whose last dimension is not that of a weight."""
    shape = tuple(np.shape(inputs))
    if not shape or shape[-1] != columns:
        what = f"layer {layer}: inputs have the shape {shape}, and its weight has {columns} columns"
        raise WrongCalibration(what=what, way=f"give inputs of the shape (…, {columns})")


def expand(per_group: Array, columns: int, scheme: Scheme) -> Array:
    """Values of groups, repeated for all columns."""
    return np.repeat(per_group, scheme.group, axis=1)[:, :columns] if scheme.group else per_group


@BOUNDARY
def grid(low: Array, high: Array, scheme: Scheme) -> tuple[Array, Array | None]:
    """Scales, and zero points of an asymmetric scheme, for ranges of numbers.

    The range is widened to contain 0, so that padding with zeros changes nothing. A range of 0 has the scale 1, and no
    scale is below the least normal float32: scales are never 0, infinite or NaN.

    Parameters
    ----------
    low, high : ndarray
        The least and the largest number of each group.
    scheme : Scheme

    Returns
    -------
    scales : ndarray of float32
    zeros : ndarray of int8, or None

    Examples
    --------
    >>> grid(np.array([-1.0, 0.0]), np.array([2.0, 0.0]), Scheme())[0].tolist()
    [0.015748031437397003, 1.0]
    """
    least = np.minimum(np.asarray(low, np.float64), 0)
    most = np.maximum(np.asarray(high, np.float64), 0)
    if scheme.powers and scheme.format is not None:
        size = np.maximum(most, -least)
        return np.where(size > 0, powers(size, scheme.format), 1).astype(np.float32), None
    width = 2 * np.maximum(most, -least) if scheme.symmetric else most - least
    scales = np.where(width > 0, np.maximum(width / scheme.steps, TINY), 1).astype(np.float32)
    if scheme.symmetric:
        return scales, None
    zeros = np.rint(scheme.low - least / scales.astype(np.float64))
    return scales, np.clip(zeros, scheme.low, scheme.high).astype(np.int8)


@BOUNDARY
def ranges(numbers: Array, scheme: Scheme, percentile: float = 100) -> tuple[Array, Array]:
    """The least and the largest number of each group: (outputs, groups) both.

    Below 100, `percentile` leaves out a share of the numbers of each group, half of it at either end.
    """
    if scheme.per == TENSOR:
        low, high = extremes(numbers.reshape(1, -1), percentile)
        return np.full((len(numbers), 1), low), np.full((len(numbers), 1), high)
    size = scheme.group or numbers.shape[1]
    parts = [extremes(numbers[:, k : k + size], percentile) for k in range(0, numbers.shape[1], max(size, 1))]
    parts = parts or [extremes(numbers, percentile)]
    return np.stack([p[0] for p in parts], 1), np.stack([p[1] for p in parts], 1)


def extremes(numbers: Array, percentile: float) -> tuple[Array, Array]:
    """The least and the largest number of each row; 0 for empty rows."""
    if percentile >= 100 or not numbers.size:
        return numbers.min(axis=1, initial=0), numbers.max(axis=1, initial=0)
    low, high = np.quantile(numbers.astype(np.float64), [0.5 - percentile / 200, 0.5 + percentile / 200], axis=1)
    return low, high


@BOUNDARY
def quantize(numbers: Array, scales: Array, zeros: Array | None, scheme: Scheme) -> Array:
    """Codes of numbers: rounded to nearest, halves to even, and clipped to the range of the scheme.

    Codes of floats are their bits, in int8.
    """
    columns = numbers.shape[1]
    t = np.asarray(numbers, np.float64) / expand(scales, columns, scheme)
    if scheme.format is not None:
        return scheme.format.codes(t)
    t = np.rint(t)
    if zeros is not None:
        t += expand(zeros, columns, scheme)
    return np.clip(t, scheme.low, scheme.high).astype(np.int8)


def dequantize(codes: Array, scales: Array, zeros: Array | None, scheme: Scheme) -> Array:
    """Numbers of codes, in float32."""
    columns = codes.shape[1]
    t = codes.astype(np.float32) if scheme.format is None else scheme.format.numbers(codes)
    if zeros is not None:
        t -= expand(zeros, columns, scheme)
    t *= expand(scales, columns, scheme)
    return t
