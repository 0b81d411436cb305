"""Int8 convolutions: weights have a scale for each output channel, and inputs one static scale from calibration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pypto import library
from pypto.arguments import BOUNDARY
from pypto.errors.quant import WrongCalibration, WrongScheme
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_finite
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.calibrate.quantize import quantize_layer
from pypto.quant.checks import check_layers, check_patterns
from pypto.quant.config import Config
from pypto.quant.layer import Layer
from pypto.quant.schemes import CHANNEL, TENSOR, Scheme
from pypto.quant.solvers.algorithm import find

NO_FACTORS: Final = "its channels have no factors, no order and no Gram matrix"
PLAIN: Final = "use minmax or percentile, or an algorithm of your own with gram=False"


@dataclass(frozen=True, slots=True, repr=False)
class Convolution(Summary):
    """A convolution of images (n, channels, height, width) in float32.

    Parameters
    ----------
    name : str
    weight : ndarray of shape (outputs, channels / groups, kh, kw)
    bias : ndarray of shape (outputs,), optional
    strides : tuple of int
        The strides in rows and columns.
    pads : tuple of int
        The padding above, to the left, below and to the right, in ONNX's order.
    groups : int
        1, or the number of channels (a depthwise convolution).

    Raises
    ------
    WrongScheme
        If a group has several channels.
    NotFinite

    Examples
    --------
    >>> layer = Convolution("0", np.ones((1, 1, 2, 2), np.float32))
    >>> layer(np.ones((1, 1, 3, 3), np.float32)).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """

    name: str
    weight: Array
    bias: Array | None = None
    strides: tuple[int, ...] = (1, 1)
    pads: tuple[int, ...] = (0, 0, 0, 0)
    groups: int = 1

    def __post_init__(self) -> None:
        check_finite(self.name, "its weight", self.weight)
        if self.groups != 1 and not self.is_depthwise:
            what = f"convolution {self.name}: {self.groups} groups of {self.weight.shape[1]} channels are not offered"
            raise WrongScheme(what=what, way="use one group, or one for each channel and output")

    @property
    def is_depthwise(self) -> bool:
        """Says whether each output has its own channel."""
        return self.groups > 1 and self.weight.shape[:2] == (self.groups, 1)

    def __call__(self, x: Array) -> Array:
        """Computes the layer in float32: (n, channels, height, width) to (n, outputs, rows, columns)."""
        top, left, bottom, right = self.pads
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.weight.shape[2:], (2, 3))
        windows = windows[:, :, :: self.strides[0], :: self.strides[1]]
        if self.is_depthwise:
            y = np.einsum("nchwij,cij->nchw", windows, self.weight[:, 0], optimize=True)
        else:
            y = np.tensordot(windows, self.weight, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        return y if self.bias is None else y + self.bias[:, None, None]


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedConvolution(Summary):
    """A convolution on the int8 kernels of the library; ``layer(x)`` computes it in float32.

    Parameters
    ----------
    name : str
    codes : ndarray of shape (kh, kw, channels, outputs), int8
        The codes; a depthwise convolution has no last dimension.
    scales : ndarray of shape (outputs,), float32
        The scales of the weights.
    input_scale : ndarray of shape (1,), float32
    bias : ndarray of shape (outputs,), float32
    strides, pads : tuple of int
    """

    name: str
    codes: Array
    scales: Array
    input_scale: Array
    bias: Array
    strides: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of codes and scales."""
        return int(self.codes.nbytes + self.scales.nbytes)

    def __call__(self, x: Array) -> Array:
        """Computes (n, channels, height, width) to (n, outputs, rows, columns), both float32."""
        top, left, bottom, right = self.pads
        image = np.ascontiguousarray(x, np.float32)
        q = library.quantize_image(image, 1 / self.input_scale, top=top, left=left, bottom=bottom, right=right)
        row: Any = library.conv_int8 if self.codes.ndim == 4 else library.depthwise_conv_int8
        strides = {"stride_h": self.strides[0], "stride_w": self.strides[1]}
        result: Array = row(q, self.codes, self.scales * self.input_scale, self.bias, **strides)
        return result


@dataclass(slots=True)
class ConvolutionCalibration:
    """A calibration in progress; ``run(name, x)`` computes a convolution and observes its input."""

    layers: dict[str, Convolution]
    config: Config
    statistics: dict[str, Statistics] = field(default_factory=dict)

    def __call__(self, name: str, x: Array) -> Array:
        """Computes the convolution in float32.

        Raises
        ------
        NoSuchLayer
        WrongCalibration
            If x has another number of channels.
        """
        check_layers([name], self.layers)
        channels = int(self.layers[name].weight.shape[1]) * self.layers[name].groups
        statistics = self.statistics.setdefault(name, Statistics(name, channels, with_gram=False))
        statistics.add(x.transpose(0, 2, 3, 1))
        return self.layers[name](x)

    def convert(self) -> dict[str, Convolution | QuantizedConvolution]:
        """Returns all convolutions by name; skipped ones stay in float32.

        Raises
        ------
        WrongCalibration
            If a convolution was never called.
        """
        return {
            name: layer if self.config.skips(name) else self.quantized(layer) for name, layer in self.layers.items()
        }

    def quantized(self, layer: Convolution) -> QuantizedConvolution:
        """Quantises one convolution; its weight is rounded as the weight of a linear layer over its windows."""
        statistics = self.statistics.get(layer.name)
        if statistics is None:
            raise WrongCalibration(what=f"convolution {layer.name} was not called", way="run the network on an image")
        outputs = len(layer.weight)
        flat = Layer(layer.name, layer.weight.reshape(outputs, -1), layer.bias)
        quantized = quantize_layer(flat, statistics, self.config)
        if quantized.weight.transform is not None or quantized.weight.order is not None:
            raise WrongScheme(what=f"convolution {layer.name}: {NO_FACTORS}", way=PLAIN)
        codes = quantized.weight.codes.reshape(layer.weight.shape).transpose(2, 3, 1, 0)
        codes = codes[:, :, 0] if layer.is_depthwise else codes
        bias = np.zeros(outputs, np.float32) if layer.bias is None else np.asarray(layer.bias, np.float32)
        assert quantized.input_scale is not None
        return QuantizedConvolution(
            layer.name, np.ascontiguousarray(codes), quantized.weight.scales[:, 0], quantized.input_scale,
            bias, layer.strides, layer.pads,
        )  # fmt: skip


@BOUNDARY
def calibrate_convolutions(layers: Iterable[Convolution], config: Config) -> ConvolutionCalibration:
    """Begins a calibration of a network of convolutions.

    Parameters
    ----------
    layers : iterable of Convolution
    config : Config
        Int8 weights per channel or tensor, and int8 inputs per tensor. All are symmetric, so that padding zeros stay
        zeros. The algorithm may read ranges of inputs, but not their Gram matrix.

    Returns
    -------
    ConvolutionCalibration
        A function of a name and an input, which the network calls to compute its convolutions.

    Raises
    ------
    WrongScheme
        If the scheme is another one, or the algorithm scales the inputs.

    Examples
    --------
    >>> from pypto import quant
    >>> layer = Convolution("0", np.ones((1, 1, 2, 2), np.float32))
    >>> run = calibrate_convolutions([layer], quant.Config(inputs=quant.int8("tensor")))
    >>> x = np.ones((1, 1, 3, 3), np.float32)
    >>> float(run("0", x)[0, 0, 0, 0]), float(run.convert()["0"](x)[0, 0, 0, 0])
    (4.0, 4.0)
    """
    weights, inputs = config.weights, config.inputs
    if not is_offered(weights, (CHANNEL, TENSOR)) or inputs is None or not is_offered(inputs, (TENSOR,)):
        what = "convolutions have symmetric int8 weights per channel or tensor, and symmetric int8 inputs per tensor"
        raise WrongScheme(what=what, way="use quant.Config(quant.int8(), inputs=quant.int8('tensor'))")
    algorithm = find(config.algorithm)
    if algorithm.factors or algorithm.gram or any(step.factors for step in algorithm.steps):
        raise WrongScheme(what=f"{algorithm.name} is not offered for convolutions: {NO_FACTORS}", way=PLAIN)
    if config.least_sqnr > 0 or config.cache:
        raise WrongScheme(what="convolutions have no `least_sqnr` and no `cache`", way="leave them out, and use `skip`")
    by_name = {layer.name: layer for layer in layers}
    check_patterns(config.skip, by_name)
    return ConvolutionCalibration(by_name, config)


def is_offered(scheme: Scheme, per: tuple[str, ...]) -> bool:
    return scheme.bits == 8 and scheme.symmetric and scheme.format is None and scheme.per in per
