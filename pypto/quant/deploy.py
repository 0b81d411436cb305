"""Deployment puts quantised layers onto kernels of the library: W8A8, W8A16, W4A16 and MXFP8 products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from pypto import library
from pypto.arguments import BOUNDARY
from pypto.errors.quant import WrongScheme
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.checks import check_columns
from pypto.quant.formats.gguf import MIDDLE, GroupedWeight
from pypto.quant.layer import QuantizedLayer
from pypto.quant.microscaled import doubled, is_microscaled, microscaled, refuse
from pypto.quant.schemes import GROUP, TOKEN
from pypto.quant.tensor import QuantizedWeight

TILE: Final = 128  # inputs that share a repeated scale, where a whole channel has one


@dataclass(frozen=True, slots=True, repr=False)
class DeployedLayer(Summary):
    """A layer whose weights lie as kernels read them; ``layer(x)`` computes it.

    Parameters
    ----------
    name : str
    kind : str
        ``"W8A8"``, ``"W8A16"``, ``"W4A16"`` or ``"MXFP8"``.
    bytes : int
        Of codes, scales and zero points as they lie.
    run : callable
        From rows (t, inputs) to (t, outputs), both float32.
    shape : tuple of int
        Outputs and inputs.
    """

    name: str
    kind: str
    bytes: int
    run: Callable[[Array], Array]
    shape: tuple[int, int]

    def __call__(self, x: Array) -> Array:
        """Compute the layer: x of shape (…, inputs) to (…, outputs), float32.

        Raises
        ------
        WrongCalibration
            For inputs with another number of columns.
        """
        check_columns(self.name, x, self.shape[1])
        y = self.run(np.ascontiguousarray(x, np.float32).reshape(-1, np.shape(x)[-1]))
        return y.reshape(*np.shape(x)[:-1], y.shape[1])


@BOUNDARY
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
        For int8 inputs and weights that have zero points or groups, or four bits, for groups that do not divide the
        inputs, and for floats of eight bits but MXFP8: no kernel computes with them. MXFP4 weights run as integers of
        eight bits, which hold them.

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
    if is_microscaled(layer):
        run = microscaled(layer)
        return DeployedLayer(name, "MXFP8", run.codes.nbytes + run.scales.nbytes, run, layer.weight.codes.shape)
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
    stored = codes.nbytes + scales.nbytes + (0 if low is None else low.nbytes)
    run = Floats(Inputs(), weight.bits, codes, scales, low=low)
    return DeployedLayer(name, f"W{weight.bits}A16", stored, run, weight.codes.shape)


@dataclass(frozen=True, slots=True, repr=False)
class Inputs(Summary):
    """The order and factors of a layer's inputs."""

    order: Array | None = None
    factors: Array | None = None

    @classmethod
    def of(cls, weight: QuantizedWeight) -> Inputs:
        """Factors in the order of the codes."""
        transform = weight.transform
        if transform is not None and weight.order is not None:
            transform = np.ascontiguousarray(transform[weight.order])
        return cls(weight.order, transform)

    def ordered(self, x: Array) -> Array:
        """Inputs in the order of the codes."""
        return x if self.order is None else np.ascontiguousarray(x[:, self.order])


@dataclass(frozen=True, slots=True, repr=False)
class Floats(Summary):
    """Inputs as they are, and weights of four or eight bits."""

    inputs: Inputs
    bits: int
    codes: Array
    scales: Array
    zeros: Array | None = None
    bias: Array | None = None
    low: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Compute the layer."""
        t = self.inputs.ordered(x)
        if self.inputs.factors is not None:
            t = t * self.inputs.factors
        if self.bits == 8:
            return library.w8a16_matmul(t, self.codes, self.scales, self.zeros, self.bias)
        return library.w4a16_matmul(t, self.codes, self.scales, self.zeros, self.bias, self.low)


@dataclass(frozen=True, slots=True, repr=False)
class Bytes(Summary):
    """Inputs in int8 with a scale for each row, and weights in int8."""

    inputs: Inputs
    codes: Array
    scales: Array
    bias: Array | None

    def __call__(self, x: Array) -> Array:
        """Compute the layer."""
        q, row_scale = library.quantize_per_token(self.inputs.ordered(x), self.inputs.factors)
        return library.w8a8_linear(q, self.codes, row_scale, self.scales, None, self.bias)


@dataclass(frozen=True, slots=True, repr=False)
class GroupBytes(Summary):
    """Inputs in int8 with a scale for each group of a row, and weights in int8."""

    inputs: Inputs
    codes: Array
    scales: Array
    bias: Array | None
    groups: int

    def __call__(self, x: Array) -> Array:
        """Compute the layer."""
        q, row_scale = library.quantize_per_group(self.inputs.ordered(x), self.inputs.factors, self.groups)
        return library.w8a8_group_linear(q, self.codes, row_scale, self.scales, self.bias)


@dataclass(frozen=True, slots=True, repr=False)
class StaticBytes(Summary):
    """The same with one scale, and zero point, that are known before."""

    inputs: Inputs
    codes: Array
    scales: Array
    bias: Array | None
    scale: Array
    up: Array
    add: Array
    offset: Array | None

    def __call__(self, x: Array) -> Array:
        """Compute the layer."""
        q = library.quantize_static(self.inputs.ordered(x), self.up, self.add)
        row_scale = np.full(len(x), self.scale, np.float32)
        return library.w8a8_linear(q, self.codes, row_scale, self.scales, self.offset, self.bias)


def of_bytes(layer: QuantizedLayer) -> DeployedLayer:
    """Int8 inputs and weights."""
    weight = layer.weight
    if layer.inputs is not None and (weight.scheme.format or layer.inputs.format):
        refuse(layer, f"inputs `{layer.inputs.name}`")
    if weight.scheme.bits != 8 or weight.zeros is not None or weight.scheme.group:
        what = f"layer {layer.name}: weights `{weight.scheme.name}` with int8 inputs are not offered"
        raise WrongScheme(what=what, way="use quant.int8() or quant.int8('tensor') for them, or inputs=None")
    codes = np.ascontiguousarray(weight.codes.T)
    scales = np.ascontiguousarray(weight.scales[:, 0])
    inputs = Inputs.of(weight)
    run: Bytes | GroupBytes | StaticBytes = Bytes(inputs, codes, scales, layer.bias)
    if layer.inputs is not None and layer.inputs.per == GROUP:
        groups, remainder = divmod(len(codes), layer.inputs.group)
        if remainder:
            what = f"layer {layer.name}: {len(codes)} inputs in groups of {layer.inputs.group} are not offered"
            raise WrongScheme(what=what, way="use a `group` that divides the inputs")
        run = GroupBytes(inputs, codes, scales, layer.bias, groups)
    elif layer.inputs is not None and layer.inputs.per != TOKEN:
        assert layer.input_scale is not None
        zero = np.int32(0 if layer.input_zero is None else layer.input_zero[0])
        up = np.full(len(codes), 1 / layer.input_scale[0], np.float32)
        if inputs.factors is not None:
            up *= inputs.factors
        add = np.full(len(codes), zero, np.float32)
        offset = -zero * codes.sum(axis=0, dtype=np.int32) if zero else None
        run = StaticBytes(inputs, codes, scales, layer.bias, layer.input_scale, up, add, offset)
    return DeployedLayer(layer.name, "W8A8", codes.nbytes + scales.nbytes, run, weight.codes.shape)


def of_floats(layer: QuantizedLayer) -> DeployedLayer:
    """Inputs as they are, and weights of four or eight bits."""
    weight = layer.weight
    bits = weight.scheme.bits
    numbers, steps = weight.codes, weight.scales
    if weight.scheme.format is not None:
        numbers, steps = doubled(layer)
        bits = 8
    inputs = numbers.shape[1]
    size = weight.scheme.group or min(TILE, inputs + inputs % 2)
    if size % 2 and bits == 4:
        raise WrongScheme(what=f"layer {layer.name}: groups of {size} are not offered", way="use an even `group`")
    groups = -(-inputs // size)
    scales = of_groups(steps, groups)
    zeros = None if weight.zeros is None else of_groups(weight.zeros, groups)
    codes = np.ascontiguousarray(np.pad(numbers, ((0, 0), (0, groups * size - inputs))).T)
    if bits == 4:
        codes = packed(codes, groups)
    run = Floats(Inputs.of(weight), bits, codes, scales, zeros, layer.bias)
    stored = codes.nbytes + scales.nbytes + (0 if zeros is None else zeros.nbytes)
    return DeployedLayer(layer.name, f"W{bits}A16", stored, run, weight.codes.shape)


def parts_of(layer: DeployedLayer) -> dict[str, Array]:
    """The arrays that a kernel reads, by the names of their fields."""
    run: Any = layer.run
    every = {part.name: getattr(run, part.name) for part in fields(run)}
    inputs = every.pop("inputs", None)
    if inputs is not None:
        every |= {part.name: getattr(inputs, part.name) for part in fields(inputs)}
    return {name: value for name, value in every.items() if isinstance(value, np.ndarray)}


def of_parts(layer: DeployedLayer, parts: Mapping[str, Array | None]) -> DeployedLayer:
    """The layer with other arrays."""
    run: Any = layer.run
    own = {part.name for part in fields(run)}
    changed: dict[str, Any] = {name: value for name, value in parts.items() if name in own}
    if len(changed) < len(parts):
        others = {name: value for name, value in parts.items() if name not in own}
        changed["inputs"] = replace(run.inputs, **others)
    return replace(layer, run=replace(run, **changed))


def constants_of(run: Any) -> list[str]:
    """Whole numbers that a kernel is told besides its arrays, as texts."""
    numbers = {part.name: getattr(run, part.name) for part in fields(run)}
    return [f"{name}={value}" for name, value in numbers.items() if isinstance(value, int)]


def of_groups(values: Array, groups: int) -> Array:
    """Scales or zero points as (groups, outputs); those of whole channels are repeated."""
    return np.ascontiguousarray(np.broadcast_to(values, (len(values), groups)).T)


def packed(codes: Array, groups: int) -> Array:
    """Codes of four bits (inputs, outputs) as bytes (inputs / 2, outputs), group by group.

    The low nibbles of a group are its first half, the high ones its second; a nibble is ``code + 8``.
    """
    halves = (codes + 8).astype(np.uint8).reshape(groups, 2, -1, codes.shape[1])
    return np.ascontiguousarray((halves[:, 0] | halves[:, 1] << 4).reshape(-1, codes.shape[1]))
