"""The forward pass of one BERT layer in numpy words, shared by evaluation, calibration and deployed encoders.

An encoder has `pto.fuse` trace it on products whose arrays are arguments, so one plan serves all layers of a kind; the
rounding for int8 products becomes a part of the kernels before them. With other functions as linear layers, each word
runs by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from pypto import arrays, fuse, library
from pypto.arrays import Dim
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.layer import Layer

TOKENS: Final = Dim("tokens", hint=512)
ENDS: Final = Dim("ends", low=2, hint=33)  # where sentences begin, and the end of the last one
LONGEST: Final = Dim("longest", hint=64)
PARTS: Final = ("qkv", "output", "up", "down")  # linear layers, in the order in which they compute


@dataclass(frozen=True, slots=True, repr=False)
class Norm(Summary):
    """Weight and bias of a layer normalisation."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True, repr=False)
class BertLayer(Summary):
    """A transformer layer: attention and feed-forward, each followed by its residual and norm.

    The linear layers are weights, or functions of rows that compute them.
    """

    qkv: Any
    output: Any
    attention_norm: Norm
    up: Any
    down: Any
    norm: Norm

    @property
    def linear(self) -> tuple[Layer, ...]:
        """The linear layers in the order in which they compute."""
        return self.qkv, self.output, self.up, self.down


def forward(layer: BertLayer, x: Array, starts: Array, longest: int, heads: int, eps: float) -> Array:
    """Computes one layer: attention and a feed-forward, each added to its inputs and normalised.

    Parameters
    ----------
    layer : BertLayer
        The linear layers as functions of rows.
    x : ndarray of shape (tokens, width)
        Tokens of all sentences, one after the other.
    starts : ndarray of shape (batch + 1,), int32
        The positions at which the sentences begin, and the number of tokens.
    longest : int
        The length of the longest sentence.
    heads : int
    eps : float
        The epsilon of the norms.
    """
    x = add_norm(x, layer.output(attention(layer.qkv(x), starts, longest, heads)), layer.attention_norm, eps)
    return add_norm(x, layer.down(gelu(layer.up(x))), layer.norm, eps)


@fuse(dims={"x": (TOKENS, None), "starts": (ENDS,), "longest": LONGEST})
def fused_forward(
    layer: BertLayer, x: Array, starts: Array, longest: int, heads: int, eps: float, is_observed: bool = False
) -> tuple[Array, dict[str, Array]]:
    """Computes one layer, and returns the inputs of its linear layers as well if they are observed."""
    inputs: dict[str, Array] = {}

    def observed(part: str, x: Array) -> Array:
        inputs[part] = x
        y: Array = getattr(layer, part)(x)
        return y

    functions: dict[str, Any] = {part: partial(observed, part) for part in PARTS}
    return forward(replace(layer, **functions), x, starts, longest, heads, eps), inputs if is_observed else {}


@fuse(dims={"x": (TOKENS, None), "residual": (TOKENS, None)})
def add_norm(x: Array, residual: Array, norm: Norm, eps: float) -> Array:
    """Computes the layer norm of a sum."""
    y: Array = arrays.layer_norm(x + residual, norm.weight, norm.bias, eps=eps)
    return y


@fuse(dims={"x": (TOKENS, None)})
def gelu(x: Array) -> Array:
    """Computes the activation."""
    y: Array = arrays.gelu(x)
    return y


def attention(qkv: Array, starts: Array, longest: int, heads: int) -> Array:
    """Computes attention within the sentences: (tokens, 3 width) to (tokens, width)."""
    count, width = qkv.shape[0], qkv.shape[1] // 3
    parts = qkv.reshape(count, 3, heads, width // heads)
    q, k, v = parts[:, 0], parts[:, 1], parts[:, 2]
    out = np.empty_like(q, np.float32, "C", False, q.shape)
    attend = library.rows["varlen_attention"].unchecked("f32")
    attend(q=q, k=k, v=v, starts=starts, out=out, scale=0.0, causal=0, longest=longest)
    return out.reshape(count, width)
