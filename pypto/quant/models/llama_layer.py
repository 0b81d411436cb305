"""The forward pass of one Llama layer, shared by evaluation, calibration and decoding.

The callers differ in two functions. `Linear` computes linear layers: on arrays, where a layer may be any function whose
inputs can be observed, or as launches of kernels that fuse a norm, SwiGLU and the residual. `Attend` computes attention
over the tokens of a call, or over a cache that the caller keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from pypto import library
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array

BEFORE: Final = "attn_norm"
AFTER: Final = "ffn_norm"
NORMS: Final = (BEFORE, AFTER)
Attend = Callable[[Any], Array]


class Linear(Protocol):
    """Computes linear layers that have the same inputs."""

    def __call__(
        self, parts: Sequence[str], x: Any, norm: str | None = None, gated: bool = False, add: Array | None = None
    ) -> Any:
        """Computes some linear layers of a transformer layer.

        Parameters
        ----------
        parts : sequence of str
            The linear layers, as `LINEAR` names them.
        x : array, or what a call for two parts gave
        norm : str, optional
            If given, the inputs are the RMS norm of x with the weight of this name.
        gated : bool
            Whether the inputs are SwiGLU of both results in x.
        add : ndarray, optional
            The residual to which the result is added.

        Returns
        -------
        ndarray
            The result; for several parts, in the form that `Attend` or a gated call takes.
        """


def forward(x: Array, linear: Linear, attend: Attend) -> Array:
    """Computes one layer: attention and a gated feed-forward, each on the RMS norm of its inputs and added to them."""
    x = linear(("output",), attend(linear(("q", "k", "v"), x, norm=BEFORE)), add=x)
    return linear(("down",), linear(("gate", "up"), x, norm=AFTER), gated=True, add=x)


@dataclass(frozen=True, slots=True, repr=False)
class OnArrays(Summary):
    """Computes linear layers on arrays, one after the other, each by a function of its name and its inputs.

    Parameters
    ----------
    layer : str
        The number of the layer, which is the prefix of names.
    run : callable
        Computes a linear layer, ``run(name, x)``. Calibration observes x there.
    norms : mapping of str to ndarray
        The weights of the norms.
    eps : float
        The epsilon of the norms.
    """

    layer: str
    run: Callable[[str, Array], Array]
    norms: Mapping[str, Array]
    eps: float

    def __call__(
        self, parts: Sequence[str], x: Any, norm: str | None = None, gated: bool = False, add: Array | None = None
    ) -> Any:
        if norm is not None:
            x = rms_norm(x, self.norms[norm], self.eps)
        if gated:
            x = swiglu(*x)
        results = [self.run(f"{self.layer}.{part}", x) for part in parts]
        if add is not None:
            return add + results[0]
        return results if len(results) > 1 else results[0]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Computes the RMS norm of the last axis."""
    return library.rms_norm(x.reshape(-1, len(weight)), weight, eps=eps).reshape(x.shape)


def swiglu(gate: Array, up: Array) -> Array:
    """Computes ``silu(gate) * up``."""
    return library.silu(gate.reshape(-1, gate.shape[-1])).reshape(gate.shape) * up


def rotated(first: Array, second: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Applies rotary embedding: turns pairs of coordinates by angles."""
    return first * cos - second * sin, first * sin + second * cos


def rotation(frequencies: Array, positions: Array) -> tuple[Array, Array]:
    """Computes cosines and sines of positions and pairs of a head, both (positions, depth / 2), float32."""
    angles = np.outer(positions, frequencies)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def attention(q: Array, k: Array, v: Array) -> Array:
    """Computes causal attention: heads (batch, tokens, heads, depth) to (batch, tokens, heads * depth)."""
    q, k, v = (np.ascontiguousarray(t.transpose(0, 2, 1, 3)) for t in (q, k, v))
    y = library.attention(q, k, v, causal=1)
    return y.transpose(0, 2, 1, 3).reshape(len(y), y.shape[2], -1)
