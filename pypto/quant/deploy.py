"""Quantised layers on the kernels of the library: W8A8, W8A16 and W4A16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto import library
from pypto.errors.quant import WrongScheme
from pypto.quant.gguf import MIDDLE, GroupedWeight
from pypto.quant.layer import QuantizedLayer
from pypto.quant.schemes import TOKEN
from pypto.quant.weight import Array

TILE: Final = 128  # inputs that share a repeated scale, where a whole channel has one


@dataclass(frozen=True, slots=True)
class DeployedLayer:
    """A layer whose weights lie as kernels read them; ``layer(x)`` computes it.

    Parameters
    ----------
    name : str
    kind : str
        ``"W8A8"``, ``"W8A16"`` or ``"W4A16"``.
    bytes : int
        Of codes, scales and zero points as they lie.
    run : callable
        From rows (t, inputs) to (t, outputs), both float32.
    """

    name: str
    kind: str
    bytes: int
    run: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        """Compute the layer: x of shape (…, inputs) to (…, outputs), float32."""
        y = self.run(np.ascontiguousarray(x, np.float32).reshape(-1, np.shape(x)[-1]))
        return y.reshape(*np.shape(x)[:-1], y.shape[1])


def deploy(layers: Mapping[str, QuantizedLayer | GroupedWeight]) -> dict[str, DeployedLayer]:
    """Put quantised layers onto kernels.

    Parameters
    ----------
    layers : mapping of str to QuantizedLayer or GroupedWeight
        As `Calibration.convert` and `GGUF.weight` give them.

    Returns
    -------
    dict of str to DeployedLayer
        Their results are those of the layers, up to the rounding of sums in float32.

    Raises
    ------
    WrongScheme
        For int8 inputs and weights that have zero points or groups, or four bits: no kernel computes with them.

    Examples
    --------
    >>> from pypto import quant
    >>> layer = quant.QuantizedLayer("up", quant.quantize(np.eye(2, dtype=np.float32)))
    >>> quant.deploy({"up": layer})["up"](np.array([[3.0, -1.0]])).tolist()
    [[3.0, -1.0]]
    """
    return {name: deployed(name, layer) for name, layer in layers.items()}


def deployed(name: str, layer: QuantizedLayer | GroupedWeight) -> DeployedLayer:
    """One layer."""
    if isinstance(layer, GroupedWeight):
        return of_blocks(name, layer)
    return of_bytes(layer) if layer.inputs else of_floats(layer)


def of_blocks(name: str, weight: GroupedWeight) -> DeployedLayer:
    """Inputs as they are, and blocks of 32 weights of four or eight bits as GGUF has them."""
    groups = weight.scales.shape[1]
    scales = np.ascontiguousarray(weight.scales.T)
    low = None
    if weight.bits == 8:
        codes = np.ascontiguousarray(weight.codes.T)
    elif weight.minima is None:
        codes = packed(weight.codes.T, groups)
    else:
        codes = packed(weight.codes.T - np.int8(MIDDLE), groups)
        low = np.ascontiguousarray((MIDDLE * weight.scales + weight.minima).T)

    def run(x: Array) -> Array:
        if weight.bits == 8:
            return library.w8a16_matmul(x, codes, scales)
        return library.w4a16_matmul(x, codes, scales, low=low)

    stored = codes.nbytes + scales.nbytes + (0 if low is None else low.nbytes)
    return DeployedLayer(name, f"W{weight.bits}A16", stored, run)


def of_bytes(layer: QuantizedLayer) -> DeployedLayer:
    """Int8 inputs and weights."""
    weight = layer.weight
    if weight.scheme.bits != 8 or weight.zeros is not None or weight.scheme.group:
        what = f"layer {layer.name}: weights `{weight.scheme.name}` with int8 inputs are not offered"
        raise WrongScheme(what=what, way="use quant.int8() or quant.int8('tensor') for them, or inputs=None")
    codes = np.ascontiguousarray(weight.codes.T)
    scales = np.ascontiguousarray(weight.scales[:, 0])
    if layer.inputs is not None and layer.inputs.per == TOKEN:

        def run(x: Array) -> Array:
            q, row_scale = library.quantize_per_token(ordered(x, layer), factors(layer))
            return library.w8a8_linear(q, codes, row_scale, scales, None, layer.bias)

    else:
        assert layer.input_scale is not None
        zero = np.int32(0 if layer.input_zero is None else layer.input_zero[0])
        up = np.full(len(codes), 1 / layer.input_scale[0], np.float32)
        if weight.transform is not None:
            up *= factors(layer)
        add = np.full(len(codes), zero, np.float32)
        offset = -zero * codes.sum(axis=0, dtype=np.int32) if zero else None

        def run(x: Array) -> Array:
            q = library.quantize_static(ordered(x, layer), up, add)
            row_scale = np.full(len(x), layer.input_scale, np.float32)
            return library.w8a8_linear(q, codes, row_scale, scales, offset, layer.bias)

    return DeployedLayer(layer.name, "W8A8", codes.nbytes + scales.nbytes, run)


def of_floats(layer: QuantizedLayer) -> DeployedLayer:
    """Inputs as they are, and weights of four or eight bits."""
    weight = layer.weight
    inputs = weight.codes.shape[1]
    size = weight.scheme.group or min(TILE, inputs + inputs % 2)
    if size % 2 and weight.scheme.bits == 4:
        raise WrongScheme(what=f"layer {layer.name}: groups of {size} are not offered", way="use an even `group`")
    groups = -(-inputs // size)
    scales = of_groups(weight.scales, groups)
    zeros = None if weight.zeros is None else of_groups(weight.zeros, groups)
    codes = np.ascontiguousarray(np.pad(weight.codes, ((0, 0), (0, groups * size - inputs))).T)
    row: Any = library.w8a16_matmul
    if weight.scheme.bits == 4:
        row = library.w4a16_matmul
        codes = packed(codes, groups)
    multipliers = factors(layer)

    def run(x: Array) -> Array:
        t = ordered(x, layer)
        return row(t if multipliers is None else t * multipliers, codes, scales, zeros, layer.bias)

    stored = codes.nbytes + scales.nbytes + (0 if zeros is None else zeros.nbytes)
    return DeployedLayer(layer.name, f"W{weight.scheme.bits}A16", stored, run)


def ordered(x: Array, layer: QuantizedLayer) -> Array:
    """Inputs in the order of the codes."""
    order = layer.weight.order
    return x if order is None else np.ascontiguousarray(x[:, order])


def factors(layer: QuantizedLayer) -> Array:
    """Factors of the inputs in the order of the codes, or None."""
    transform = layer.weight.transform
    if transform is None or layer.weight.order is None:
        return transform
    return np.ascontiguousarray(transform[layer.weight.order])


def of_groups(values: Array, groups: int) -> Array:
    """Scales or zero points as (groups, outputs); those of whole channels are repeated."""
    return np.ascontiguousarray(np.broadcast_to(values, (len(values), groups)).T)


def packed(codes: Array, groups: int) -> Array:
    """Codes of four bits (inputs, outputs) as bytes (inputs / 2, outputs), group by group.

    The low nibbles of a group are its first half, the high ones its second; a nibble is ``code + 8``.
    """
    halves = (codes + 8).astype(np.uint8).reshape(groups, 2, -1, codes.shape[1])
    return np.ascontiguousarray((halves[:, 0] | halves[:, 1] << 4).reshape(-1, codes.shape[1]))
