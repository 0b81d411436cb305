"""The forward pass of one layer of a Llama model, for all who compute one: evaluation, calibration and decoding.

They differ in two functions. `Linear` computes linear layers: on arrays at once, where a layer may be any function and
its inputs can be observed, or as launches of kernels, which take a norm, SwiGLU and the residual into the same kernels.
`Attend` computes attention over the tokens of a call, or over a cache which the caller keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from pypto import library
from pypto.quant.arrays import Array

BEFORE: Final = "attn_norm"
AFTER: Final = "ffn_norm"
NORMS: Final = (BEFORE, AFTER)
Attend = Callable[[Any], Array]


class Linear(Protocol):
    """Linear layers that have the same inputs."""

    def __call__(
        self, parts: Sequence[str], x: Any, norm: str | None = None, gated: bool = False, add: Array | None = None
    ) -> Any:
        """Compute some parts of a layer.

        Parameters
        ----------
        parts : sequence of str
            The linear layers, as `LINEAR` names them.
        x : array, or what a call for two parts gave
        norm : str, optional
            Inputs are the RMS norm of x, with the weight of this name.
        gated : bool
            Inputs are SwiGLU of both results in x.
        add : ndarray, optional
            What the result is added to.

        Returns
        -------
        ndarray
            For several parts, what `Attend` or a gated call takes.
        """


def forward(x: Array, linear: Linear, attend: Attend) -> Array:
    """One layer: attention and a gated feed-forward, each on the RMS norm of its inputs and added to them."""
    x = linear(("output",), attend(linear(("q", "k", "v"), x, norm=BEFORE)), add=x)
    return linear(("down",), linear(("gate", "up"), x, norm=AFTER), gated=True, add=x)


@dataclass(frozen=True, slots=True)
class OnArrays:
    """Linear layers on arrays: one after the other, each by a function of its name and its inputs.

    Parameters
    ----------
    layer : str
        The number of the layer, with which names begin.
    run : callable
        Computes a linear layer, ``run(name, x)``. Calibration observes x there.
    norms : mapping of str to ndarray
        Weights of the norms.
    eps : float
        Of the norms.
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
        found = [self.run(f"{self.layer}.{part}", x) for part in parts]
        if add is not None:
            return add + found[0]
        return found if len(found) > 1 else found[0]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """The RMS norm of the last axis."""
    return library.rms_norm(x.reshape(-1, len(weight)), weight, eps=eps).reshape(x.shape)


def swiglu(gate: Array, up: Array) -> Array:
    """``silu(gate) * up``."""
    return library.silu(gate.reshape(-1, gate.shape[-1])).reshape(gate.shape) * up


def rotated(first: Array, second: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Rotary positions: pairs of coordinates, turned by angles."""
    return first * cos - second * sin, first * sin + second * cos


def rotation(frequencies: Array, positions: Array) -> tuple[Array, Array]:
    """Cosines and sines of positions and pairs of a head, both (positions, depth / 2), float32."""
    angles = np.outer(positions, frequencies)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def attention(q: Array, k: Array, v: Array) -> Array:
    """Causal attention: heads (batch, tokens, heads, depth) to (batch, tokens, heads * depth)."""
    q, k, v = (np.ascontiguousarray(t.transpose(0, 2, 1, 3)) for t in (q, k, v))
    y = library.attention(q, k, v, causal=1)
    return y.transpose(0, 2, 1, 3).reshape(len(y), y.shape[2], -1)
