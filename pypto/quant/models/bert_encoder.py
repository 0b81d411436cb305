"""A deployed sentence encoder runs each layer as one plan, in which norms and activations write int8 inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.checks import check_layers
from pypto.quant.deploy import DeployedLayer, deployed, is_array_expression
from pypto.quant.layer import FloatProduct, Layer, QuantizedLayer
from pypto.quant.models.bert import Bert, pooled
from pypto.quant.models.bert_layer import PARTS, BertLayer, add_norm, forward, fused_forward


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
    blocks : sequence of BertLayer
        The layers of the model, whose linear layers are products.
    """

    model: Bert
    layers: Mapping[str, DeployedLayer]
    blocks: Sequence[BertLayer]

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

        def block(layer: BertLayer) -> BertLayer:
            products: dict[str, Any] = {part: deployed[getattr(layer, part).name].run for part in PARTS}
            return replace(layer, **products)

        return cls(model, deployed, [block(layer) for layer in model.layers])

    def __call__(self, ids: Array, mask: Array) -> Array:
        """Computes embeddings (batch, width), float32 unit vectors, of sentences padded to (batch, length)."""
        model = self.model
        if not len(ids):
            return model.no_embeddings
        x, positions, starts = model.lookup(ids, mask)
        longest = int(np.diff(starts).max())
        x = add_norm(x, positions, model.norm, model.eps)
        for block in self.blocks:
            given = block, x, starts, longest, model.heads, model.eps
            is_plan = all(is_array_expression(getattr(block, part)) for part in PARTS)
            x = fused_forward(*given)[0] if is_plan else forward(*given)
        return pooled(x, starts)


def deployed_layer(layer: Any) -> DeployedLayer:
    """Deploys a layer of the encoder."""
    if isinstance(layer, Layer):
        product = FloatProduct(layer.weight, layer.bias)
        return DeployedLayer(layer.name, "float32", layer.weight.nbytes, product, layer.weight.shape)
    return layer if isinstance(layer, DeployedLayer) else deployed(layer.name, layer)
