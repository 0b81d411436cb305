"""Gradients of the rotary embeddings, which are embeddings by the opposite angle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.library.gradients.rule import Tensors, called, described, widened


def halves(torch: Any, x: Any) -> Any:
    """Rotates the halves of rows by a quarter turn: `[-b | a]` for `[a | b]`."""
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def neighbours(torch: Any, x: Any) -> Any:
    """Rotates pairs of neighbours by a quarter turn: (-b, a) for (a, b)."""
    return torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)


def swapped(sin: Any) -> Any:
    """Swaps neighbours within pairs."""
    return sin.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def rotated(torch: Any, name: str, quarter: Callable[[Any, Any], Any], v: Any, sin: Any) -> Any:
    """Applies an embedding to the incoming gradient, by its row if that takes the dtype."""
    results = called(torch, name, x=v.d_y, cos=v.cos, sin=sin.contiguous())
    if results:
        return results["y"]
    dy = widened(torch, v.d_y)
    return dy * widened(torch, v.cos)[:, None] + quarter(torch, dy) * widened(torch, sin)[:, None]


def of_angles(dy: Any, x: Any, rotated_x: Any) -> Tensors:
    """Returns the gradients of cosines and sines, which all heads share."""
    return {"cos": (dy * x).sum(1), "sin": (dy * rotated_x).sum(1)}


@described("x by the row with the opposite angle; cosines and sines by sums over heads")
def rope_half(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `rope_half`."""
    x, dy = widened(torch, v.x), widened(torch, v.d_y)
    dx = rotated(torch, "rope_half", halves, v, -v.sin.roll(v.sin.shape[1] // 2, 1))
    return {"x": dx, **of_angles(dy, x, halves(torch, x))}


@described("x by the row with the opposite angle; cosines and sines by sums over heads")
def rope_interleaved(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `rope_interleaved`."""
    x, dy = widened(torch, v.x), widened(torch, v.d_y)
    dx = rotated(torch, "rope_interleaved", neighbours, v, -swapped(v.sin))
    return {"x": dx, **of_angles(dy, x, neighbours(torch, x))}


@described("x by `rope_interleaved`; cosines and sines by sums over heads")
def rope_interleaved_inverse(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `rope_interleaved_inverse`."""
    x, dy = widened(torch, v.x), widened(torch, v.d_y)
    dx = rotated(torch, "rope_interleaved", neighbours, v, swapped(v.sin))
    return {"x": dx, **of_angles(dy, x, -neighbours(torch, x))}


@described("x by `rope_half` with the opposite angle; cosines and sines by sums over heads")
def rope_interleaved_to_half(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `rope_interleaved_to_half`: it rotates the halves, and then interleaves them."""
    x, dy = widened(torch, v.x), widened(torch, v.d_y)
    first = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    dx = rotated(torch, "rope_half", halves, v, -v.sin.roll(v.sin.shape[1] // 2, 1))
    dx = dx.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    return {"x": dx, **of_angles(dy, first, halves(torch, first))}


@described("x by the row with the opposite angle; cosines and sines by sums over heads")
def rope_partial(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `rope_partial`."""
    r = v.cos.shape[1]
    x, dy = widened(torch, v.x)[..., : 2 * r], widened(torch, v.d_y)
    results = called(torch, "rope_partial", x=v.d_y, cos=v.cos, sin=-v.sin)
    if results:
        dx = results["y"]
    else:
        c, s = (widened(torch, t)[:, None].repeat(1, 1, 2) for t in (v.cos, v.sin))
        dx = torch.cat([dy[..., : 2 * r] * c - halves(torch, dy[..., : 2 * r]) * s, dy[..., 2 * r :]], -1)
    angles = of_angles(dy[..., : 2 * r], x, halves(torch, x))
    return {"x": dx, **{name: t.unflatten(-1, (2, -1)).sum(-2) for name, t in angles.items()}}
