"""Rows of quantisation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.library.kernels import quant as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import SCALES

Q8: Final = (
    "`m = max|x|` over the row, `scale = m / 127`, `q = round(x * (127 / m))`, halves to even. A row of zeros "
    "has `q = 0` and `scale = 0`."
)


def quantize(t: Any, axis: int) -> tuple[Any, Any]:
    """Symmetric int8 along an axis, in float64, with scales that give it back."""
    most = np.abs(t).max(axis=axis, keepdims=True, initial=0)
    q = np.rint(np.divide(127 * t, most, out=np.zeros_like(t), where=most > 0))
    return q, most.squeeze(axis) / 127


def quantize_per_token(x: Any, smooth: Any) -> tuple[Any, Any]:
    """The reference."""
    return quantize(f64(x) * (1.0 if smooth is None else f64(smooth)), 1)


def zero_row(rng: np.random.Generator) -> dict[str, Any]:
    """A row of zeros, and one whose largest element is at either end."""
    x = rng.standard_normal((3, 50)).astype(np.float32)
    x[1] = 0
    x[2, 0] = x[2, -1] = -9
    return {"x": x}


def by_torch(torch: Any, v: Any) -> Any:
    """The same by torch."""
    t = v.x.float()
    most = t.abs().amax(1, keepdim=True)
    return (t * (127 / most)).round().to(torch.int8), (most / 127).squeeze(1)


ROWS: Final = (
    Operator(
        name="quantize_per_token",
        doc="Symmetric int8 quantisation with one scale per row",
        text="x[t, d] bf16|f16|f32, smooth[d]? f32 -> q[t, d] i8, scale[t] f32",
        formula=f"{Q8} With `smooth`, `x * smooth` takes the place of `x`.",
        source="DeepSeek-V3.2's MLA prolog",
        reference=quantize_per_token,
        implementations=(Implementation("rows", kernels.quantize_per_token),),
        sizes={"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}},
        edges={"zero row": zero_row},
        tolerance={"scale": SCALES},
        flops=lambda n: 4.0 * n.t * n.d,
        bytes=lambda n: 3.0 * n.t * n.d,
        peer=by_torch,
    ),
)
