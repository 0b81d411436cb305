"""The forward pass of one BERT layer, shared by evaluation, calibration in floats, and int8 encoders.

The callers differ in their `Operations`. A norm and an activation know which linear layer reads their result, so that
one kernel can compute them and quantise for that layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pypto import library
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.layer import Layer


@dataclass(frozen=True, slots=True, repr=False)
class Norm(Summary):
    """Weight and bias of a layer normalisation."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True, repr=False)
class BertLayer(Summary):
    """A transformer layer: attention and feed-forward, each followed by its residual and norm."""

    qkv: Layer
    output: Layer
    attention_norm: Norm
    up: Layer
    down: Layer
    norm: Norm

    @property
    def linear(self) -> tuple[Layer, ...]:
        """The linear layers in the order in which they compute."""
        return self.qkv, self.output, self.up, self.down


class Operations(Protocol):
    """The operations of a layer; a value is an array, possibly with its quantised form for the next linear layer."""

    def linear(self, layer: Layer, x: Any) -> Array:
        """Computes a linear layer."""

    def attend(self, qkv: Array) -> Array:
        """Computes attention within the sentences: (tokens, 3 width) to (tokens, width)."""

    def gelu(self, x: Array, reader: Layer) -> Any:
        """Computes the activation, which the layer `reader` reads."""

    def add_norm(self, x: Array, residual: Any, norm: Norm, reader: Layer | None) -> Any:
        """Computes the layer norm of a sum, which the layer `reader` reads."""


def forward(layer: BertLayer, x: Any, run: Operations, reader: Layer | None = None) -> Any:
    """Computes one layer: attention and a feed-forward, each added to its inputs and normalised, for `reader`."""
    attended = run.attend(run.linear(layer.qkv, x))
    x = run.add_norm(run.linear(layer.output, attended), x, layer.attention_norm, layer.up)
    hidden = run.gelu(run.linear(layer.up, x), layer.down)
    return run.add_norm(run.linear(layer.down, hidden), x, layer.norm, reader)


@dataclass(frozen=True, slots=True, repr=False)
class OnArrays(Summary):
    """Operations on arrays; each linear layer is a function of its name and inputs, which calibration observes.

    Parameters
    ----------
    run : callable
        Computes a linear layer, ``run(name, x)``.
    starts : ndarray of shape (batch + 1,), int32
        The positions at which the sentences begin.
    heads : int
    eps : float
        The epsilon of the norms.
    """

    run: Callable[[str, Array], Array]
    starts: Array
    heads: int
    eps: float
    longest: int = field(init=False)  # the length of the longest sentence; 1 if there are none

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", int(np.diff(self.starts).max(initial=1)))

    def linear(self, layer: Layer, x: Any) -> Array:
        """Computes a linear layer."""
        return self.run(layer.name, x)

    def attend(self, qkv: Array) -> Array:
        """Computes attention within the sentences."""
        q, k, v = heads_of(qkv, self.heads)
        y: Array = library.varlen_attention(q, k, v, self.starts, longest=self.longest)
        return y.reshape(len(y), qkv.shape[1] // 3)

    def gelu(self, x: Array, reader: Layer) -> Array:
        """Computes the activation."""
        y: Array = library.gelu(x)
        return y

    def add_norm(self, x: Array, residual: Any, norm: Norm, reader: Layer | None) -> Array:
        """Computes the layer norm of a sum."""
        return add_norm(x, residual, norm, self.eps)


def add_norm(x: Array, residual: Array, norm: Norm, eps: float) -> Array:
    """The layer normalisation of a sum."""
    y: Array = library.add_layer_norm(x, residual, norm.weight, norm.bias, eps=eps)[0]
    return y


def heads_of(qkv: Array, heads: int) -> tuple[Array, Array, Array]:
    """Splits rows into queries, keys and values (tokens, heads, depth)."""
    parts = qkv.reshape(len(qkv), 3, heads, qkv.shape[1] // (3 * heads))
    return parts[:, 0], parts[:, 1], parts[:, 2]
