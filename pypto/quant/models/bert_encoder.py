"""A quantised sentence encoder fuses all ops between two products into one kernel, which writes int8 inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto import library
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.calibrate.blocks import float_layer
from pypto.quant.checks import check_layers
from pypto.quant.deploy import DeployedLayer, Product, deployed
from pypto.quant.layer import Layer, QuantizedLayer
from pypto.quant.models.bert import Bert, Norm, longest_of, pooled

INT8: Final = ("Bytes", "GroupBytes")  # forms of products whose inputs a fused kernel rounds
ROWS: Final = {
    "norm": "add_layer_norm_quantize", "gelu": "gelu_quantize", "rows": "quantize_per_group", "product": "w8a8_linear",
    "group_product": "w8a8_group_linear",
}  # fmt: skip
Kernels = Mapping[str, Callable[..., None]]  # rows of the library without their checks, which the encoder needs not


@dataclass(frozen=True, slots=True, repr=False)
class FloatLinear(Summary):
    """Any deployed layer: inputs are float32."""

    layer: DeployedLayer

    def of_norm(self, x: Array, residual: Array, norm: Norm, eps: float) -> tuple[Array, Any]:
        """The norm of a sum, twice."""
        y = library.add_layer_norm(x, residual, norm.weight, norm.bias, eps=eps)[0]
        return y, y

    def of_gelu(self, x: Array) -> Any:
        """The activation."""
        return library.gelu(x)

    def of_rows(self, x: Array) -> Any:
        """Rows as they are."""
        return x

    def product(self, given: Any) -> Array:
        """The layer."""
        return self.layer(given)


@dataclass(frozen=True, slots=True, repr=False)
class Int8Linear(Summary):
    """A layer whose inputs are int8 with scales for each row, or each group of a row."""

    layer: Product
    kernels: Kernels

    @property
    def rounding(self) -> dict[str, Any]:
        """Factors of the inputs, and the number of groups of a row."""
        return {"smooth": self.layer.weight.transform, "groups": self.layer.groups}

    def memory(self, x: Array) -> dict[str, Array]:
        """Memory for rows in int8, and their scales."""
        return {"q": np.empty(x.shape, np.int8), "scale": np.empty((len(x), self.layer.groups), np.float32)}

    def of_norm(self, x: Array, residual: Array, norm: Norm, eps: float) -> tuple[Array, Any]:
        """The norm of a sum, and that in int8."""
        given, y = self.memory(x), np.empty_like(x)
        weights = {"g": norm.weight, "b": norm.bias, **self.rounding}
        self.kernels["norm"](x=x, residual=residual, **weights, eps=eps, y=y, **given)
        return y, given

    def of_gelu(self, x: Array) -> Any:
        """The activation in int8."""
        given = self.memory(x)
        self.kernels["gelu"](x=x, **self.rounding, **given)
        return given

    def of_rows(self, x: Array) -> Any:
        """Rows in int8."""
        given = self.memory(x)
        self.kernels["rows"](x=x, **self.rounding, **given)
        return given

    def product(self, given: Any) -> Array:
        """Products of int8, and what gives back their scales."""
        a, scale = given["q"], given["scale"]
        weight = self.layer.weight
        y = np.empty((len(a), weight.codes.shape[1]), np.float32)
        operands = {"a": a, "b": weight.codes, "column_scale": weight.scales, "bias": self.layer.bias, "y": y}
        if self.layer.groups == 1:
            self.kernels["product"](**operands, row_scale=scale.reshape(-1), offset=None)
        else:
            self.kernels["group_product"](**operands, row_scale=scale)
        return y


FusedLinear = FloatLinear | Int8Linear


@dataclass(frozen=True, slots=True, repr=False)
class EncoderLayer(Summary):
    """A transformer layer on kernels."""

    qkv: FusedLinear
    output: FusedLinear
    attention_norm: Norm
    up: FusedLinear
    down: FusedLinear
    norm: Norm


@dataclass(frozen=True, slots=True, repr=False)
class Encoder(Summary):
    """A quantised sentence encoder; ``encoder(ids, mask)`` gives embeddings. `Encoder.of` makes it.

    Layers with int8 inputs read int8: the norm, the activation or the attention before them writes it. The others read
    float32.

    Parameters
    ----------
    model : Bert
        Of which tables and norms are used.
    layers : tuple of EncoderLayer
    kernels : mapping of str to callable
    """

    model: Bert
    layers: tuple[EncoderLayer, ...]
    kernels: Kernels

    @classmethod
    def of(cls, model: Bert, layers: Mapping[str, QuantizedLayer | DeployedLayer]) -> Encoder:
        """Layers by name, quantised or deployed; those that were skipped stay float32.

        Raises
        ------
        NoSuchLayer
            For names of layers that the model has not.
        """
        check_layers(layers, model.layer_names)
        kernels = {name: library.rows[row].unchecked() for name, row in ROWS.items()}
        kernels["attention"] = library.rows["varlen_attention"].unchecked("f32")

        def fused(layer: Any) -> FusedLinear:
            return fused_linear(layers.get(layer.name, layer), kernels)

        found = [
            EncoderLayer(fused(x.qkv), fused(x.output), x.attention_norm, fused(x.up), fused(x.down), x.norm)
            for x in model.layers
        ]
        return cls(model, tuple(found), kernels)

    def __call__(self, ids: Array, mask: Array) -> Array:
        """Embeddings (batch, width), unit vectors in float32, of sentences padded to (batch, length)."""
        model = self.model
        x, residual, starts = model.lookup(ids, mask)
        longest = longest_of(starts)
        norm = model.norm
        for layer in self.layers:
            x, given = layer.qkv.of_norm(x, residual, norm, model.eps)
            attended = self.attention(layer.qkv.product(given), starts, longest)
            made = layer.output.product(layer.output.of_rows(attended))
            residual, given = layer.up.of_norm(made, x, layer.attention_norm, model.eps)
            x = layer.down.product(layer.down.of_gelu(layer.up.product(given)))
            norm = layer.norm
        return pooled(model.add_norm(x, residual, norm), starts)

    def attention(self, qkv: Array, starts: Array, longest: int) -> Array:
        """Attention within the sentences: (tokens, 3 width) to (tokens, width)."""
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        parts = qkv.reshape(tokens, 3, self.model.heads, width // self.model.heads)
        out = np.empty((tokens, width), np.float32)
        heads = {"q": parts[:, 0], "k": parts[:, 1], "v": parts[:, 2], "out": out.reshape(parts[:, 0].shape)}
        self.kernels["attention"](**heads, starts=starts, scale=0.0, causal=0, longest=longest)
        return out


def fused_linear(layer: Any, kernels: Kernels) -> FusedLinear:
    """A layer of the encoder: of int8, where its inputs are int8 in their own order."""
    if isinstance(layer, Layer):
        layer = DeployedLayer(layer.name, "float32", layer.weight.nbytes, float_layer(layer), layer.weight.shape)
    if not isinstance(layer, DeployedLayer):
        layer = deployed(layer.name, layer)
    run = layer.run
    if isinstance(run, Product) and run.form in INT8 and run.weight.order is None:
        return Int8Linear(run, kernels)
    return FloatLinear(layer)
