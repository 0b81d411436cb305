"""A quantised weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pypto.errors.quant import WrongResult
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.rounding import dequantize
from pypto.quant.schemes import Scheme


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

    def check(self, layer: str, shape: tuple[int, ...]) -> QuantizedWeight:
        """Refuse what no kernel could compute with, as the result for a layer whose weight has a shape."""
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
