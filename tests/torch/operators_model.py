"""A model with operators of the library and of the user, for programs that other processes run."""

from __future__ import annotations

from typing import Any

import torch

import pypto as pto
import pypto.torch
from pypto import library as lib


@pto.jit
def gelu_custom(x, out, BLOCK: pto.constexpr = 64):
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    out[i : i + BLOCK] = t * 0.5 * (1 + pto.erf(t * 0.7071067811865476))


gelu = pypto.torch.op(
    gelu_custom,
    grid=lambda values: pto.cdiv(values["x"].numel(), values["BLOCK"]),
    outputs={"out": "x"},
    name="model_ops::gelu_custom",
)


class Model(torch.nn.Module):
    """Normalises, gates, and applies a kernel of the user: three operators of ours among those of torch."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.linspace(0.5, 1.5, size))
        self.inner = torch.nn.Linear(size, 2 * size)
        self.outer = torch.nn.Linear(size, size)

    def forward(self, x: Any) -> Any:
        y = lib.swiglu(self.inner(lib.rms_norm(x, self.gain)))
        return x + self.outer(gelu(y.flatten()).view_as(y))


def model() -> Model:
    torch.manual_seed(1)
    return Model()


def sample(rows: int = 6) -> Any:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(0))
