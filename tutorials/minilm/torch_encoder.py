"""The encoder in eager torch with the library's own fused functions; needs the extra `torch`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from minilm.model import EPS, HEADS, Array, Batch, Layer, Linear, Norm, Weights

Pair = tuple[torch.Tensor, torch.Tensor]


class TorchEncoder:
    """The encoder on the CPU in float32.

    Parameters
    ----------
    weights : Weights
    """

    def __init__(self, weights: Weights) -> None:
        self.words, self.positions, self.segment = map(
            torch.from_numpy, (weights.words, weights.positions, weights.segment)
        )
        self.norm = _norm(weights.norm)
        self.layers = [_layer(layer) for layer in weights.layers]

    def embed(self, batch: Batch) -> Array:
        """Unit vectors of shape (batch, 384) for `ids` and `mask` of shape (batch, length)."""
        with torch.inference_mode():
            return self.forward(torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)).numpy()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = F.embedding(ids, self.words) + self.positions[: ids.shape[1]] + self.segment
        x = F.layer_norm(x, x.shape[-1:], *self.norm, EPS)
        keep = mask.bool()[:, None, None, :]
        for layer in self.layers:
            x = layer(x, keep)
        kept = mask.to(x.dtype)[:, :, None]
        return F.normalize((x * kept).sum(1) / kept.sum(1), dim=1)


def _layer(layer: Layer) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    qkv, output, up, down = map(_linear, (layer.qkv, layer.output, layer.up, layer.down))
    attention_norm, norm = _norm(layer.attention_norm), _norm(layer.norm)

    def run(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        attended = F.linear(_attention(F.linear(x, *qkv), keep), *output)
        x = F.layer_norm(attended + x, x.shape[-1:], *attention_norm, EPS)
        hidden = F.linear(F.gelu(F.linear(x, *up)), *down)
        return F.layer_norm(hidden + x, x.shape[-1:], *norm, EPS)

    return run


def _attention(qkv: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    return attended.transpose(1, 2).reshape(batch, length, width)


def _linear(layer: Linear) -> Pair:
    # torch's own layout is (outputs, inputs).
    return torch.from_numpy(np.ascontiguousarray(layer.weight.T)), torch.from_numpy(layer.bias)


def _norm(norm: Norm) -> Pair:
    return torch.from_numpy(norm.weight), torch.from_numpy(norm.bias)
