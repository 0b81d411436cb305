"""Rows of rotary position embedding, in the forms that models use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pypto.library.gradients import rope as gradients
from pypto.library.kernels.attention import rope as kernels
from pypto.library.row import Implementation, Operator, f64

TEXT: Final = (
    "x[t..., h, d] bf16|f16|f32, cos[t..., d] bf16|f16|f32, sin[t..., d] bf16|f16|f32 -> y[t..., h, d] where d % 2 == 0"
)
SOURCE: Final = "Su and others, RoFormer, 2021"
SIZES: Final = {"small": {"t": 3, "h": 4, "d": 32}, "model": {"t": 1024, "h": 128, "d": 64}}


def heads(cos: Any, sin: Any) -> tuple[Any, Any]:
    """Repeats cosines and sines for all heads."""
    return f64(cos)[:, None], f64(sin)[:, None]


def rope_half(x: Any, cos: Any, sin: Any) -> Any:
    """Reference implementation of `rope_half` in numpy."""
    (c, s), t, h = heads(cos, sin), f64(x), x.shape[2] // 2
    return t * c + np.concatenate([-t[..., h:], t[..., :h]], axis=2) * s


def rope_partial(x: Any, cos: Any, sin: Any) -> Any:
    """Reference implementation of `rope_partial` in numpy."""
    (c, s), t, h = heads(cos, sin), f64(x), cos.shape[1]
    a, b = t[..., :h], t[..., h : 2 * h]
    return np.concatenate([a * c - b * s, b * c + a * s, t[..., 2 * h :]], axis=2)


def rope_interleaved(x: Any, cos: Any, sin: Any) -> Any:
    """Reference implementation of `rope_interleaved` in numpy."""
    (c, s), t = heads(cos, sin), f64(x)
    rotated = np.stack([-t[..., 1::2], t[..., 0::2]], axis=3).reshape(t.shape)
    return t * c + rotated * s


def rope_interleaved_inverse(x: Any, cos: Any, sin: Any) -> Any:
    """Reference implementation of `rope_interleaved_inverse` in numpy."""
    return rope_interleaved(x, cos, -f64(sin))


def rope_interleaved_to_half(x: Any, cos: Any, sin: Any) -> Any:
    """Reference implementation of `rope_interleaved_to_half` in numpy."""
    t = f64(x)
    return rope_half(np.concatenate([t[..., 0::2], t[..., 1::2]], axis=2), cos, sin)


def half_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, as model libraries write it."""
    a, b = v.x.chunk(2, -1)
    return v.x * v.cos[:, None] + torch.cat([-b, a], -1) * v.sin[:, None]


def interleaved_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, as model libraries write it."""
    rotated = torch.stack([-v.x[..., 1::2], v.x[..., 0::2]], -1).flatten(2)
    return v.x * v.cos[:, None] + rotated * v.sin[:, None]


def to_half_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, as model libraries write it."""
    t = v.x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    a, b = t.chunk(2, -1)
    return t * v.cos[:, None] + torch.cat([-b, a], -1) * v.sin[:, None]


def partial_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, as model libraries write it."""
    r, c, s = v.cos.shape[1], v.cos[:, None], v.sin[:, None]
    a, b = v.x[..., :r], v.x[..., r : 2 * r]
    return torch.cat([a * c - b * s, b * c + a * s, v.x[..., 2 * r :]], -1)


def inverse_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, as model libraries write it."""
    rotated = torch.stack([-v.x[..., 1::2], v.x[..., 0::2]], -1).flatten(2)
    return v.x * v.cos[:, None] - rotated * v.sin[:, None]


def row(name: str, doc: str, formula: str, peer: Callable[[Any, Any], Any], **changes: Any) -> Operator:
    """Builds the row of one form."""
    facts: dict[str, Any] = {"text": TEXT, "source": SOURCE, "sizes": SIZES, "flops": lambda n: 3.0 * n.t * n.h * n.d,
                             "items": "t"}  # fmt: skip
    run = (Implementation("tokens", getattr(kernels, name)),)
    return Operator(
        name=name, doc=doc, formula=formula, reference=globals()[name], implementations=run, peer=peer,
        **{**facts, **changes},
    )  # fmt: skip


ROWS: Final = (
    row("rope_half", "Rotary embedding by halves of a row", "With `x = [a|b]`: `y = x*cos + [-b|a]*sin`, in float32.",
        half_by_torch,
        gradient=gradients.rope_half),
    row("rope_partial", "Rotary embedding of the first columns by halves; others pass",
        "With `[a|b|rest] = x`, a and b as wide as cos: `y = [a*cos - b*sin | b*cos + a*sin | rest]`.",
        partial_by_torch,
        text="x[t..., h, d] bf16|f16|f32, cos[t..., r] bf16|f16|f32, sin[t..., r] bf16|f16|f32 -> y[t..., h, d] "
        "where 1 <= r, 2*r <= d",
        source="GLM-4.5's attention",
        sizes={"small": {"t": 3, "h": 4, "d": 32, "r": 8}, "model": {"t": 1024, "h": 96, "d": 128, "r": 32}},
        gradient=gradients.rope_partial),
    row("rope_interleaved", "Rotary embedding of neighbours, which stay neighbours",
        "`y[2i] = x[2i]*cos[2i] - x[2i+1]*sin[2i]`, `y[2i+1] = x[2i+1]*cos[2i+1] + x[2i]*sin[2i+1]`.",
        interleaved_by_torch,
        gradient=gradients.rope_interleaved),
    row("rope_interleaved_inverse", "Rotary embedding of neighbours, by the opposite angle",
        "`rope_interleaved` with `-sin`.", inverse_by_torch,
        gradient=gradients.rope_interleaved_inverse),
    row("rope_interleaved_to_half", "Rotary embedding of neighbours, which become halves of the row",
        "With e and o the even and the odd elements, h = d/2: `y[i] = e[i]*cos[i] - o[i]*sin[i]`, "
        "`y[h+i] = o[i]*cos[h+i] + e[i]*sin[h+i]`.", to_half_by_torch, source="DeepSeek-V3.2's MLA",
        gradient=gradients.rope_interleaved_to_half),
)  # fmt: skip
