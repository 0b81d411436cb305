"""Rows of the Walsh-Hadamard transform."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pypto.library.gradients import activations as gradients
from pypto.library.kernels import hadamard as kernels
from pypto.library.row import Implementation, Operator, f64


def sylvester(d: int) -> Any:
    """Builds the matrix: the sign is the parity of the bits that the row and column numbers share."""
    common = np.arange(d)[:, None] & np.arange(d)
    return np.array([[1.0 - 2.0 * (int(c).bit_count() & 1) for c in row] for row in common])


def hadamard(x: Any) -> Any:
    """Reference implementation of `hadamard` in numpy."""
    return f64(x) @ sylvester(x.shape[1]) / math.sqrt(x.shape[1])


ROWS: Final = (
    Operator(
        name="hadamard",
        doc="Normalised Walsh-Hadamard transform of rows whose width is a power of two",
        text="x[t..., d] bf16|f16|f32 -> y[t..., d] where d & (d - 1) == 0",
        formula="`y = x @ H / sqrt(d)`, with `H = [[1, 1], [1, -1]]` for d = 2 and `[[H, H], [H, -H]]` for twice as "
        "many, summed in float32. The transform is its own inverse.",
        source="DeepSeek-V3.2's indexer",
        reference=hadamard,
        implementations=(
            Implementation("dense", kernels.dense),
            Implementation("fast", kernels.fast, platforms=("cpu",)),
        ),
        sizes={"small": {"t": 5, "d": 32}, "model": {"t": 8192, "d": 128}},
        edges={
            "one": lambda rng: {"x": np.array([[1], [-2]], np.float32)},
            "two": lambda rng: {"x": np.array([[3, 5]], np.float32)},
        },
        flops=lambda n: n.t * n.d * math.log2(n.d),
        peer=lambda torch, v: gradients.transformed(torch, v.x).to(v.x.dtype),
        items="t",
        gradient=gradients.hadamard,
    ),
)
