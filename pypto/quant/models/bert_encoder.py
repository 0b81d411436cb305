"""A quantised sentence encoder fuses all ops between two products into one kernel, which writes int8 inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from pypto import library
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.calibrate.blocks import float_layer
from pypto.quant.checks import check_layers
from pypto.quant.deploy import DeployedLayer, Product, deployed
from pypto.quant.layer import Layer, QuantizedLayer
from pypto.quant.models.bert import Bert, pooled
from pypto.quant.models.bert_layer import Norm, OnArrays, add_norm, forward, heads_of

INT8: Final = ("Bytes", "GroupBytes")  # forms of products whose inputs a fused kernel quantises
ROWS: Final = {
    "norm": "add_layer_norm_quantize", "gelu": "gelu_quantize", "rows": "quantize_per_group", "product": "w8a8_linear",
    "group_product": "w8a8_group_linear",
}  # fmt: skip
Kernels = Mapping[str, Callable[..., None]]  # rows of the library without checks, which the encoder does not need


@dataclass(frozen=True, slots=True, repr=False)
class Rounded(Summary):
    """Rows in int8 with their scales, and the original floats if they are kept."""

    q: Array
    scale: Array
    floats: Array = None


@dataclass(frozen=True, slots=True, repr=False)
class OnKernels(OnArrays):
    """Operations on kernels: the norm, activation or attention before a layer with int8 inputs writes int8.

    Parameters
    ----------
    products : mapping of str to Product
        The layers with int8 inputs, by name.
    kernels : mapping of str to callable
    """

    products: Mapping[str, Product]
    kernels: Kernels

    def rounded(self, kernel: str, product: Product, x: Array, floats: Array = None, **given: Any) -> Rounded:
        """Launches a kernel that quantises its result to int8, with a scale for each row or each group of a row."""
        rounded = Rounded(np.empty(x.shape, np.int8), np.empty((len(x), product.groups), np.float32), floats)
        given |= {"smooth": product.weight.transform, "groups": product.groups, "q": rounded.q, "scale": rounded.scale}
        self.kernels[kernel](x=x, **given)
        return rounded

    def linear(self, layer: Layer, x: Any) -> Array:
        """Multiplies int8 inputs and applies their scales; other layers read floats."""
        product = self.products.get(layer.name)
        if product is None:
            return self.run(layer.name, floats_of(x))
        given = x if isinstance(x, Rounded) else self.rounded("rows", product, x)
        weight, y = product.weight, np.empty((len(given.q), product.weight.codes.shape[1]), np.float32)
        operands = {"a": given.q, "b": weight.codes, "column_scale": weight.scales, "bias": product.bias, "y": y}
        if product.groups == 1:
            self.kernels["product"](**operands, row_scale=given.scale.reshape(-1), offset=None)
        else:
            self.kernels["group_product"](**operands, row_scale=given.scale)
        return y

    def attend(self, qkv: Array) -> Array:
        """Computes attention within the sentences."""
        q, k, v = heads_of(qkv, self.heads)
        out = np.empty((len(qkv), qkv.shape[1] // 3), np.float32)
        sizes = {"scale": 0.0, "causal": 0, "longest": self.longest}
        self.kernels["attention"](q=q, k=k, v=v, out=out.reshape(q.shape), starts=self.starts, **sizes)
        return out

    def gelu(self, x: Array, reader: Layer) -> Any:
        """Computes the activation."""
        product = self.products.get(reader.name)
        return library.gelu(x) if product is None else self.rounded("gelu", product, x)

    def add_norm(self, x: Array, residual: Any, norm: Norm, reader: Layer | None) -> Any:
        """Computes the layer norm of a sum."""
        residual, product = floats_of(residual), None if reader is None else self.products.get(reader.name)
        if product is None:
            return add_norm(x, residual, norm, self.eps)
        y = np.empty_like(x)
        given = {"residual": residual, "g": norm.weight, "b": norm.bias, "eps": self.eps, "y": y}
        return self.rounded("norm", product, x, y, **given)


def floats_of(x: Any) -> Array:
    """Returns the floats of rows."""
    return x.floats if isinstance(x, Rounded) else x


@dataclass(frozen=True, slots=True, repr=False)
class Encoder(Summary):
    """A quantised sentence encoder; ``encoder(ids, mask)`` gives embeddings. `Encoder.of` makes it.

    The norm, activation or attention before a layer with int8 inputs writes int8. Other layers read float32.

    Parameters
    ----------
    model : Bert
        The model, whose tables and norms are used.
    layers : mapping of str to DeployedLayer
        All linear layers by name.
    operations : callable
        Returns the operations of the layers for the positions at which sentences begin.
    """

    model: Bert
    layers: Mapping[str, DeployedLayer]
    operations: Callable[..., OnKernels]

    @classmethod
    def of(cls, model: Bert, layers: Mapping[str, QuantizedLayer | DeployedLayer]) -> Encoder:
        """Builds an encoder from layers by name, quantised or deployed; skipped layers stay float32.

        Raises
        ------
        NoSuchLayer
            For names of layers that the model has not.
        """
        check_layers(layers, model.layer_names)
        deployed = {
            one.name: deployed_layer(layers.get(one.name, one)) for layer in model.layers for one in layer.linear
        }
        kernels = {name: library.rows[row].unchecked() for name, row in ROWS.items()}
        kernels["attention"] = library.rows["varlen_attention"].unchecked("f32")
        products = {name: product for name, layer in deployed.items() if (product := int8_product(layer)) is not None}
        given: dict[str, Any] = {"heads": model.heads, "eps": model.eps, "products": products, "kernels": kernels}
        return cls(model, deployed, partial(OnKernels, lambda name, x: deployed[name](x), **given))

    def __call__(self, ids: Array, mask: Array) -> Array:
        """Computes embeddings (batch, width), float32 unit vectors, of sentences padded to (batch, length)."""
        model = self.model
        x, positions, starts = model.lookup(ids, mask)
        run = self.operations(starts)
        readers = [*(layer.qkv for layer in model.layers), None]
        x = run.add_norm(x, positions, model.norm, readers[0])
        for layer, reader in zip(model.layers, readers[1:], strict=True):
            x = forward(layer, x, run, reader)
        return pooled(floats_of(x), starts)


def deployed_layer(layer: Any) -> DeployedLayer:
    """Deploys a layer of the encoder."""
    if isinstance(layer, Layer):
        return DeployedLayer(layer.name, "float32", layer.weight.nbytes, float_layer(layer), layer.weight.shape)
    return layer if isinstance(layer, DeployedLayer) else deployed(layer.name, layer)


def int8_product(layer: DeployedLayer) -> Product | None:
    """Returns the product of a layer whose inputs are int8 in their own order, if it is one."""
    run = layer.run
    return run if isinstance(run, Product) and run.form in INT8 and run.weight.order is None else None
