"""The forward pass of one Llama layer in numpy words, shared by evaluation, calibration and decoding.

The callers differ in two functions. `Linear` computes linear layers: each by a function whose inputs can be observed,
or by one launch for all that have the same inputs. `Attend` computes attention over the tokens of a call, or over a
cache that the caller keeps. A decoder has `pto.fuse` trace the pass for a token and for the rows of a prompt; elsewhere
each word of it is a fused function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from pypto import fuse, library
from pypto.arrays import Dim
from pypto.quant.arrays import Array
from pypto.quant.formats.cache import BlockCache

BEFORE: Final = "attn_norm"
AFTER: Final = "ffn_norm"
NORMS: Final = (BEFORE, AFTER)
ROWS: Final = Dim("rows")
Linear = Callable[[Sequence[str], Array], Sequence[Array]]  # layers, as `LINEAR` names them, and their inputs
Attend = Callable[[Sequence[Array]], Array]
KeysAndValues = Callable[[Array, Array], tuple[Array, Array]]


def forward(x: Array, linear: Linear, attend: Attend, norms: Mapping[str, Array], eps: float) -> Array:
    """Computes one layer: attention and a gated feed-forward, each on the RMS norm of its inputs and added to them.

    Parameters
    ----------
    x : ndarray of shape (…, width)
    linear : callable
        Computes linear layers with the same inputs. It returns their results, or one array with all side by side.
    attend : callable
        Computes attention on what `linear` gave for queries, keys and values.
    norms : mapping of str to ndarray
        The weights of the norms.
    eps : float
        The epsilon of the norms.
    """
    x = x + linear(("output",), attend(linear(("q", "k", "v"), rms_norm(x, norms[BEFORE], eps))))[0]
    return x + linear(("down",), swiglu(*linear(("gate", "up"), rms_norm(x, norms[AFTER], eps))))[0]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Computes the RMS norm of the last axis."""
    return norm_of_rows(x.reshape(-1, x.shape[-1]), weight, eps).reshape(x.shape)


def swiglu(gate: Array, up: Array | None = None) -> Array:
    """Computes ``silu(gate) * up``; without `up`, of the halves of one array."""
    if up is None:
        return swiglu_of_halves(gate)
    width = gate.shape[-1]
    return swiglu_of_rows(gate.reshape(-1, width), up.reshape(-1, width)).reshape(gate.shape)


@fuse(dims={"x": (ROWS, None)})
def norm_of_rows(x: Array, weight: Array, eps: float) -> Array:
    """Computes the RMS norm of rows."""
    return x * (1 / np.sqrt(np.square(x).sum(axis=1, keepdims=True) * np.float32(1 / len(weight)) + eps)) * weight


@fuse(dims={"gate": (ROWS, None), "up": (ROWS, None)})
def swiglu_of_rows(gate: Array, up: Array) -> Array:
    """Computes ``silu(gate) * up`` of rows."""
    return gate / (1 + np.exp(-gate)) * up


@fuse(dims={"x": (ROWS, None)})
def swiglu_of_halves(x: Array) -> Array:
    """Computes SwiGLU of rows that have the gates and the factors side by side."""
    width = x.shape[1] // 2
    gate = x[:, :width]
    return gate / (1 + np.exp(-gate)) * x[:, width:]


def rotated(first: Array, second: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Applies rotary embedding: turns pairs of coordinates by angles."""
    return first * cos - second * sin, first * sin + second * cos


def rotation(frequencies: Array, positions: Array) -> tuple[Array, Array]:
    """Computes cosines and sines of positions and pairs of a head, both (positions, depth / 2), float32."""
    angles = np.outer(positions, frequencies)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotate_pairs(x: Array, rotary: Sequence[Array]) -> Array:
    """Applies rotary embedding to pairs of neighbours, because GGUF stores the weights of this family so."""
    cos, sin = (t[:, None] for t in rotary)
    return np.stack(rotated(x[..., 0::2], x[..., 1::2], cos, sin), axis=-1).reshape(x.shape)


def attention(parts: Sequence[Array], rotary: Sequence[Array], cache: KeysAndValues | None = None) -> Array:
    """Computes causal attention of queries, keys and values (batch, tokens, heads * depth).

    Several query heads may share a key head (GQA). `cache` maps keys and values to those that attention reads.
    """
    depth = 2 * rotary[0].shape[1]
    q, k, v = (t.reshape(*t.shape[:2], t.shape[2] // depth, depth) for t in parts)
    q, k = rotate_pairs(q, rotary), rotate_pairs(k, rotary)
    if cache is not None:
        k, v = cache(k, v)
    q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
    y = library.attention(q, k, v, causal=1).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], y.shape[2] * depth)


TOKENS: Final = Dim("tokens", hint=512)


@fuse(dims={"x": (Dim("batch", hint=8), TOKENS, None), "rotary.0": (TOKENS, None), "rotary.1": (TOKENS, None)})
def fused_sequences(
    x: Array, products: Mapping[str, Callable[[Array], Array]], norms: Mapping[str, Array], rotary: Sequence[Array],
    eps: float, is_observed: bool, cache: BlockCache | None,
) -> tuple[Array, dict[str, Array], dict[str, Array]]:  # fmt: skip
    """Computes one layer for whole sequences (batch, tokens, width).

    It also returns observed inputs of its linear layers, and what a cache has seen of the keys and values.
    """
    inputs: dict[str, Array] = {}
    seen: dict[str, Array] = {}

    def linear(parts: Sequence[str], x: Array) -> list[Array]:
        inputs.update(dict.fromkeys(parts, x))
        rows = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
        results = [products[part](rows) for part in parts]
        return [y.reshape(*x.shape[:2], y.shape[1]) for y in results]

    def stored(k: Array, v: Array) -> tuple[Array, Array]:
        assert cache is not None
        k, v, largest = cache(k, v)
        seen.update(largest)
        return k, v

    attend = partial(attention, rotary=rotary, cache=None if cache is None else stored)
    x = forward(x, linear, attend, norms, eps)
    return x, inputs if is_observed else {}, seen
