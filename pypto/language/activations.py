"""Functions between the layers of neural networks, written in the language itself.

At 0, where `relu` has no derivative, its gradient is 0, as torch's is.
"""

from __future__ import annotations

from typing import Any

from pypto.language import ops
from pypto.language.reducing import as_float, in_type_of

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = ["gelu", "relu", "silu", "softplus"]

_SQRT_HALF = 0.7071067811865476
_TWICE_SQRT_2_BY_PI = 1.5957691216057308


def relu(x: Tile) -> Tile:
    """Rectified linear unit: x where it is greater than 0, else 0. NaN stays NaN.

    Gradient: 0 at 0.

    Parameters
    ----------
    x : tile or number

    Returns
    -------
    tile
        Of the dtype of x.

    Examples
    --------
        pto.relu(x)
    """
    return ops.maximum(x, 0, True)


def _relu_of_positive(x: Tile) -> Tile:
    """`relu`, as a choice: at 0 the constant is chosen."""
    return ops.where(x <= 0, 0, x)


WITH_GRADIENTS = ((relu, _relu_of_positive),)


def silu(x: Tile) -> Tile:
    """Sigmoid linear unit, also called swish: x * sigmoid(x).

    Parameters
    ----------
    x : tile or number
        Floats narrower than 32 bits and integers are computed in float32.

    Returns
    -------
    tile
        Of the dtype of x if that is a float; float32 for integers.

    Examples
    --------
        pto.silu(x)
    """
    floats = as_float(x)
    return in_type_of(floats * ops.sigmoid(floats), x)


def softplus(x: Tile) -> Tile:
    """log(1 + exp(x)), a smooth form of `relu`, without overflow and with all its digits where it is small.

    Parameters
    ----------
    x : tile or number
        Floats narrower than 32 bits and integers are computed in float32.

    Returns
    -------
    tile
        Of the dtype of x if that is a float; float32 for integers.

    Examples
    --------
        pto.softplus(x)
    """
    floats = as_float(x)
    return in_type_of(ops.maximum(floats, 0, True) + ops.log1p(ops.exp(-abs(floats))), x)


def gelu(x: Tile, approximate: str = "none") -> Tile:
    """Gaussian error linear unit: x times the probability that a standard normal number is less than x.

    Parameters
    ----------
    x : tile or number
        Floats narrower than 32 bits and integers are computed in float32.
    approximate : str
        "none" is exact, by `erfc`; "tanh" is the usual approximation by a hyperbolic tangent.

    Returns
    -------
    tile
        Of the dtype of x if that is a float; float32 for integers.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.

    Examples
    --------
        pto.gelu(x, approximate="tanh")
    """
    assert approximate in ("none", "tanh"), '`approximate` of gelu is "none" or "tanh"'
    floats = as_float(x)
    if approximate == "tanh":
        inner = _TWICE_SQRT_2_BY_PI * (floats + 0.044715 * floats * floats * floats)
        return in_type_of(floats * ops.sigmoid(inner), x)
    return in_type_of(0.5 * floats * ops.erfc(-_SQRT_HALF * floats), x)
