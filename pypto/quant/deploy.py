"""Deployment maps quantised layers to kernels of the library: W8A8, W8A16, W4A16 and MXFP8 products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pypto import fuse, library
from pypto.arguments import BOUNDARY
from pypto.arrays import Dim
from pypto.errors.quant import WrongScheme
from pypto.ir.types import float8_e4m3fn
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_columns
from pypto.quant.layer import FloatProduct, QuantizedLayer
from pypto.quant.schemes import GROUP, TOKEN, Scheme
from pypto.quant.tensor import MX, QuantizedTensor

CHANNEL_GROUP: Final = 128  # group size of a repeated scale, if a whole channel has one scale
PAIR: Final = 2  # groups of MXFP8 whose scales are stored side by side
# Arrays of a product: their names in state dicts, and the fields that hold them.
PARTS: Final[Mapping[str, str]] = {
    "codes": "weight.codes", "scales": "weight.scales", "zeros": "weight.zeros", "bias": "bias",
    "low": "weight.offset", "scale": "scale", "up": "up", "add": "add", "offset": "correction",
    "order": "weight.order", "factors": "weight.transform",
}  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class DeployedLayer(Summary):
    """A layer whose weights have the layout that kernels read; ``layer(x)`` computes it.

    Parameters
    ----------
    name : str
    kind : str
        ``"W8A8"``, ``"W8A16"``, ``"W4A16"`` or ``"MXFP8"``.
    bytes : int
        The bytes of codes, scales and zero points in this layout.
    run : callable
        Computes (t, outputs) from rows (t, inputs), both float32.
    shape : tuple of int
        Outputs and inputs.
    """

    name: str
    kind: str
    bytes: int
    run: Callable[[Array], Array]
    shape: tuple[int, int]

    def __call__(self, x: Array) -> Array:
        """Computes the layer: x of shape (…, inputs) to (…, outputs), float32.

        Raises
        ------
        WrongCalibration
            If x has another number of columns.
        """
        check_columns(self.name, x, self.shape[1])
        y = self.run(np.ascontiguousarray(x, np.float32).reshape(-1, np.shape(x)[-1]))
        return y.reshape(*np.shape(x)[:-1], y.shape[1])


@BOUNDARY
def deploy(layers: Mapping[str, QuantizedLayer | QuantizedTensor]) -> dict[str, DeployedLayer]:
    """Maps quantised layers to kernels.

    Parameters
    ----------
    layers : mapping of str to QuantizedLayer or QuantizedTensor
        The layers, as `Calibration.convert` and `GGUF.weight` return them.

    Returns
    -------
    dict of str to DeployedLayer
        The deployed layers by name; they compute the same results, up to the rounding of float32 sums.

    Raises
    ------
    WrongScheme
        If no kernel computes the product: int8 inputs with weights that have zero points, groups or four bits, groups
        that do not divide the inputs, and 8-bit floats other than MXFP8. MXFP4 weights run as int8, which represents
        them exactly.

    Examples
    --------
    >>> from pypto import quant
    >>> layer = quant.QuantizedLayer("up", quant.quantize(np.eye(2, dtype=np.float32)))
    >>> quant.deploy({"up": layer})["up"](np.array([[3.0, -1.0]])).tolist()
    [[3.0, -1.0]]
    """
    return {name: deployed(name, layer) for name, layer in layers.items()}


def deployed(name: str, layer: QuantizedLayer | QuantizedTensor) -> DeployedLayer:
    """Maps one layer to a kernel."""
    if isinstance(layer, QuantizedTensor):
        layer = QuantizedLayer(name, layer)
    if is_microscaled(layer):
        kind, product = "MXFP8", Product("Microscaled", microscaled(layer), layer.bias)
    elif layer.inputs:
        kind, product = "W8A8", of_bytes(layer)
    else:
        product = of_floats(layer)
        kind = f"W{product.weight.bits}A16"
    return DeployedLayer(layer.name, kind, product.weight.bytes, product, layer.weight.codes.shape)


@dataclass(frozen=True, slots=True, repr=False)
class Product(Summary):
    """A product of rows of inputs with a quantised weight on kernels of the library.

    Parameters
    ----------
    form : str
        The inputs that the kernel reads: ``"Floats"``, int8 with a scale for each row (``"Bytes"``), for each group of
        a row (``"GroupBytes"``) or for all rows (``"StaticBytes"``), or MXFP8 (``"Microscaled"``). State dicts of torch
        modules contain these words.
    weight : QuantizedTensor
        The weight, packed by columns; MXFP8 has the packing ``"mx"``.
    bias : ndarray of shape (outputs,), optional
    groups : int
        The number of groups in a row of inputs; each has a scale.
    scale, up, add, correction : ndarray, optional
        For static int8 inputs: the common scale, the factor and the offset of each column, and the correction that the
        zero point adds to each output.
    """

    form: str
    weight: QuantizedTensor
    bias: Array | None
    groups: int = 1
    scale: Array | None = None
    up: Array | None = None
    add: Array | None = None
    correction: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Computes the product."""
        weight, bias = self.weight, self.bias
        factors = weight.transform
        t = weight.ordered(x)
        match self.form:
            case "Floats":
                given = t if factors is None else t * factors, weight.codes, weight.scales, weight.zeros, bias
                return library.w8a16_matmul(*given) if weight.bits == 8 else library.w4a16_matmul(*given, weight.offset)
            case "Microscaled":
                floats, exponents = library.quantize_mx(t if factors is None else t * factors)
                return library.mx_matmul(floats, exponents, weight.codes, weight.scales, bias)
            case "GroupBytes":
                q, scales = rounding_of(t)(t, factors, self.groups)
                return library.w8a8_group_linear(q, weight.codes, scales, weight.scales, bias)
            case "StaticBytes":
                q, scales = static_codes(t, self.up, self.add, self.scale)
                return library.w8a8_linear(q, weight.codes, scales, weight.scales, self.correction, bias)
        q, scales = rounding_of(t)(t, factors, 1)
        return library.w8a8_linear(q, weight.codes, scales[:, 0], weight.scales, None, bias)

    @property
    def constant(self) -> str:
        """The integer that the kernel gets besides its arrays, as state dicts store it."""
        return {"Floats": f" bits={self.weight.bits}", "GroupBytes": f" groups={self.groups}"}.get(self.form, "")

    def arrays(self) -> dict[str, Array]:
        """The arrays that the kernel reads, by their names in a state dict."""
        fields = {name: path.rpartition(".") for name, path in PARTS.items()}
        arrays = {name: getattr(self.weight if of else self, field) for name, (of, _, field) in fields.items()}
        return {name: value for name, value in arrays.items() if value is not None}

    def with_arrays(self, arrays: Mapping[str, Array | None]) -> Product:
        """Returns the product with other arrays."""
        direct: dict[str, Any] = {PARTS[name]: value for name, value in arrays.items() if "." not in PARTS[name]}
        weight: dict[str, Any] = {
            PARTS[n].removeprefix("weight."): v for n, v in arrays.items() if PARTS[n] not in direct
        }
        return replace(self, weight=self.weight.like(**weight), **direct)


def is_array_expression(product: Any) -> bool:
    """Says whether a fused function may compute a product."""
    return isinstance(product, FloatProduct | Product)


@fuse(dims={"x": (Dim("rows"), None)})
def rounded_groups(x: Array, factors: Array | None, groups: int, kind: str = "int8") -> tuple[Array, Array]:
    """Quantises rows in groups of columns; returns the codes and a scale for each group, which is NaN if it has one.

    In a fused function, the rounding becomes a part of the kernel that computes the rows.
    """
    x = x if factors is None else x * factors
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups)
    most = np.abs(parts).max(axis=2, keepdims=True)
    codes = np.rint(parts * np.where(most > 0, 127 / most, 0)).astype(kind)
    return codes.reshape(x.shape), most[:, :, 0] / 127


def static_codes(x: Array, up: Array, add: Array, scale: Array) -> tuple[Array, Array]:
    """Quantises rows by factors and offsets of columns; returns the codes, and the common scale for each row.

    NaN has no code. In an array it is an error; in a fused function, which reads no element, its row has the scale NaN.
    """
    if type(x) is np.ndarray:
        return library.quantize_static(x, up, add), np.full(len(x), scale, np.float32)
    t = x * up + add
    codes = np.clip(np.rint(t), -128, 127).astype(np.int8)
    return codes, np.where(np.isnan(t).any(axis=1), np.float32(np.nan), scale)


def rounding_of(x: Array) -> Callable[..., tuple[Array, Array]]:
    """Returns what rounds rows: numpy's own form for no rows, which plans with named dimensions do not take."""
    return rounded_groups.function if type(x) is np.ndarray and not len(x) else rounded_groups


def of_bytes(layer: QuantizedLayer) -> Product:
    """Builds the product of int8 inputs and weights."""
    weight, inputs = layer.weight, layer.inputs
    assert inputs is not None
    if weight.scheme.format or inputs.format:
        refuse(layer, f"inputs `{inputs.name}`")
    if weight.scheme.bits != 8 or weight.zeros is not None or weight.scheme.group:
        what = f"layer {layer.name}: weights `{weight.scheme.name}` with int8 inputs are not offered"
        raise WrongScheme(what=what, way="use quant.int8() or quant.int8('tensor') for them, or inputs=None")
    size = weight.codes.shape[1]
    columns = weight.to_columns(size)
    columns = columns.like(scales=columns.scales[0])
    if inputs.per == GROUP:
        groups, remainder = divmod(size, inputs.group)
        if remainder:
            what = f"layer {layer.name}: {size} inputs in groups of {inputs.group} are not offered"
            raise WrongScheme(what=what, way="use a `group` that divides the inputs")
        return Product("GroupBytes", columns, layer.bias, groups)
    return Product("Bytes", columns, layer.bias) if inputs.per == TOKEN else with_static_inputs(layer, columns)


def with_static_inputs(layer: QuantizedLayer, columns: QuantizedTensor) -> Product:
    """Builds the product of int8 inputs with a static scale, and zero point, from calibration."""
    assert layer.input_scale is not None
    zero = np.int32(0 if layer.input_zero is None else layer.input_zero[0])
    size = len(columns.codes)
    up = np.full(size, 1 / layer.input_scale[0], np.float32)
    if columns.transform is not None:
        up *= columns.transform
    add = np.full(size, zero, np.float32)
    correction = -zero * columns.codes.sum(axis=0, dtype=np.int32) if zero else None
    return Product("StaticBytes", columns, layer.bias, 1, layer.input_scale, up, add, correction)


def of_floats(layer: QuantizedLayer) -> Product:
    """Builds the product of float inputs and weights of four or eight bits."""
    weight = layer.weight if layer.weight.scheme.format is None else doubled(layer)
    inputs = weight.codes.shape[1]
    size = weight.scheme.group or min(CHANNEL_GROUP, inputs + inputs % 2)
    if size % 2 and weight.bits == 4:
        raise WrongScheme(what=f"layer {layer.name}: groups of {size} are not offered", way="use an even `group`")
    return Product("Floats", weight.to_columns(size), layer.bias)


def is_microscaled(layer: QuantizedLayer) -> bool:
    """Says whether inputs and weights are MXFP8 in E4M3, which has its own product."""
    both = (layer.weight.scheme, layer.inputs)
    return all(scheme is not None and scheme.powers and scheme.form == "e4m3" for scheme in both)


def microscaled(layer: QuantizedLayer) -> QuantizedTensor:
    """Packs codes for the MXFP8 product, and scales in E8M0: the exponent plus 127."""
    weight = layer.weight
    if weight.order is not None:
        refuse(layer, "an order of its columns")
    exponents = (np.frexp(weight.scales)[1] - 1 + 127).astype(np.uint8)
    exponents = np.pad(exponents, ((0, 0), (0, -exponents.shape[1] % PAIR))).reshape(len(exponents), -1, PAIR)
    return weight.like(codes=weight.codes.view(float8_e4m3fn.numpy), scales=exponents, packing=MX)


def doubled(layer: QuantizedLayer) -> QuantizedTensor:
    """Converts E2M1 numbers to int8: twice such a number is an integer from -12 to 12.

    Raises
    ------
    WrongScheme
        If the weight has 8-bit floats, which int8 cannot represent.
    """
    weight = layer.weight
    form = weight.scheme.format
    if form is None or form.bits != 4:
        refuse(layer, "inputs as they are" if layer.inputs is None else f"`{layer.inputs.name}` of inputs")
    assert form is not None
    scheme = Scheme(8, per=weight.scheme.per, group=weight.scheme.group)
    return weight.like(codes=(2 * form.numbers(weight.codes)).astype(np.int8), scales=weight.scales / 2, scheme=scheme)


def refuse(layer: QuantizedLayer, what: str) -> None:
    raise WrongScheme(
        what=f"layer {layer.name}: a product of weights `{layer.weight.scheme.name}` with {what} is not offered",
        way="products take quant.mxfp8() of both, or quant.mxfp4() of weights alone",
    )
