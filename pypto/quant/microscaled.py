"""Microscaled (MX) floats run on the kernels of the library: MXFP8 as it is, and MXFP4 as integers of eight bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pypto import library
from pypto.errors.quant import WrongScheme
from pypto.ir.types import float8_e4m3fn
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.layer import QuantizedLayer

PAIR: Final = 2  # groups whose scales lie side by side


@dataclass(frozen=True, slots=True, repr=False)
class Microscaled(Summary):
    """Inputs and weights in MXFP8."""

    codes: Array
    scales: Array
    bias: Array | None
    factors: Array | None

    def __call__(self, x: Array) -> Array:
        """Compute the layer."""
        q, scales = library.quantize_mx(x if self.factors is None else x * self.factors)
        return library.mx_matmul(q, scales, self.codes, self.scales, self.bias)


def is_microscaled(layer: QuantizedLayer) -> bool:
    """Whether inputs and weights are MXFP8 in E4M3, which has a product of its own."""
    both = (layer.weight.scheme, layer.inputs)
    return all(scheme is not None and scheme.powers and scheme.form == "e4m3" for scheme in both)


def microscaled(layer: QuantizedLayer) -> Microscaled:
    """Codes as the product reads them, and scales in E8M0: the exponent and 127."""
    weight = layer.weight
    if weight.order is not None:
        refuse(layer, "an order of its columns")
    exponents = (np.frexp(weight.scales)[1] - 1 + 127).astype(np.uint8)
    exponents = np.pad(exponents, ((0, 0), (0, -exponents.shape[1] % PAIR)))
    codes = weight.codes.view(float8_e4m3fn.numpy)
    return Microscaled(codes, exponents.reshape(len(codes), -1, PAIR), layer.bias, weight.transform)


def doubled(layer: QuantizedLayer) -> tuple[Array, Array]:
    """Codes and scales of integers for numbers of E2M1: twice such a number is one from -12 to 12.

    Raises
    ------
    WrongScheme
        For floats of eight bits, which are no integers of few bits.
    """
    form = layer.weight.scheme.format
    if form is None or form.bits != 4:
        refuse(layer, "inputs as they are" if layer.inputs is None else f"`{layer.inputs.name}` of inputs")
    assert form is not None
    return (2 * form.numbers(layer.weight.codes)).astype(np.int8), layer.weight.scales / 2


def refuse(layer: QuantizedLayer, what: str) -> None:
    raise WrongScheme(
        what=f"layer {layer.name}: a product of weights `{layer.weight.scheme.name}` with {what} is not offered",
        way="products take quant.mxfp8() of both, or quant.mxfp4() of weights alone",
    )
