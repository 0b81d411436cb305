"""The encoder as blocks for calibration, and its embeddings with some layers replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from minilm import numpy_encoder as plain
from minilm.model import Array, Batch, Layer, Weights
from pypto import quant

LAYERS: Final = ("qkv", "output", "up", "down")


def embedded(weights: Weights, batch: Batch) -> dict[str, Array]:
    """Inputs of the first block."""
    x = weights.words[batch.ids] + weights.positions[: batch.ids.shape[1]] + weights.segment
    bias = np.where(batch.mask != 0, 0, -np.inf).astype(np.float32)[:, None, None, :]
    return {"x": plain.layer_norm(x, weights.norm), "bias": bias, "mask": batch.mask}


def blocks(weights: Weights) -> list[quant.Block]:
    """One block for each transformer layer."""
    return [block(str(number), layer) for number, layer in enumerate(weights.layers)]


def block(name: str, layer: Layer) -> quant.Block:
    """A transformer layer; padding goes through no linear layer."""
    linears = [
        quant.Layer(f"{name}.{part}", getattr(layer, part).weight.T, getattr(layer, part).bias) for part in LAYERS
    ]

    def forward(values: Mapping[str, Array], linear: Callable[[str, Array], Array]) -> dict[str, Array]:
        x = values["x"]
        tokens = values["mask"] != 0

        def run(part: str, t: Array) -> Array:
            y = linear(f"{name}.{part}", t[tokens])
            padded = np.zeros((*t.shape[:-1], y.shape[-1]), np.float32)
            padded[tokens] = y
            return padded

        attended = run("output", plain.attention(run("qkv", x), values["bias"])) + x
        attended = plain.layer_norm(attended, layer.attention_norm)
        hidden = run("down", plain.gelu(run("up", attended))) + attended
        return {**values, "x": plain.layer_norm(hidden, layer.norm)}

    return quant.Block(name, linears, forward)


def embed(weights: Weights, batch: Batch, replaced: Mapping[str, Callable[[Array], Array]] | None = None) -> Array:
    """Embeddings (batch, 384), with some layers replaced."""
    values = embedded(weights, batch)
    for one in blocks(weights):
        values = one.run(values, replaced)
    return plain.pool(values["x"], batch.mask)
