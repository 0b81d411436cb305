"""Gradients of kernels at kinks: functions of the language, and idioms whose derivative is put together of parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.jit.generated import kernel_of

INF = float("inf")
NAN = float("nan")
HEAD = "import pypto as pto\nfrom pypto.language import libdevice\n\n\n@pto.jit\ndef kernel(x, w, y):\n"


@dataclass(frozen=True)
class Idiom:
    """A function of the tiles `t` and `u`; where, with which gradient by `t`; the same in torch, or ""."""

    text: str
    at: tuple[float, ...]
    wanted: tuple[float, ...]
    torch: str = ""

    def gradient(self) -> Any:
        lines = f"    t, u = x[:], w[:]\n    y[:] = {self.text}\n"
        x = np.array(self.at, np.float32)
        w, slopes, d_x = np.full_like(x, 1.0), weights(len(x)).astype(np.float32), np.full_like(x, 7.0)
        with np.errstate(all="ignore"):
            pto.adjoint(kernel_of(HEAD + lines, "kernel"), ["x"])[1](x, w, np.zeros_like(x), d_y=slopes, d_x=d_x)
        return d_x


def weights(n: int) -> Any:
    """The gradient of the results: powers of two, so that one tells where each part of a gradient is from."""
    return 2.0 ** np.arange(n)


Z = (0.0, 0.0)
IDIOMS = (
    Idiom("pto.relu(t)", (0.0, -1.0, 1.0), (0, 0, 4), "torch.relu(t)"),
    Idiom("t.relu()", (0.0, -0.0), (0, 0), "torch.relu(t)"),
    Idiom("pto.clamp(t, 0.0, 1.0)", (0.0, 1.0, 2.0), (1, 2, 0), "torch.clamp(t, 0, 1)"),
    Idiom("pto.clamp(t, 0.0, 1.0, propagate_nan=True)", (0.0, 1.0, -1.0), (1, 2, 0), "torch.clamp(t, 0, 1)"),
    Idiom("libdevice.saturatef(t)", (0.0, 1.0, 2.0), (1, 2, 0), "torch.clamp(t, 0, 1)"),
    Idiom("pto.softplus(t)", Z, (0.5, 1), "torch.nn.functional.softplus(t)"),
    Idiom("pto.maximum(t, 0.0)", Z, (0.5, 1), "torch.maximum(t, torch.zeros_like(t))"),
    Idiom("max(t, u)", (1.0, 2.0), (0.5, 2), "torch.maximum(t, u)"),
    Idiom("pto.minimum(u, t)", (1.0, 2.0), (0.5, 0), "torch.minimum(u, t)"),
    Idiom("pto.maximum(t, t)", Z, (1, 2), "torch.maximum(t, t)"),
    Idiom("pto.maximum(t, -t)", Z, (0, 0), "torch.maximum(t, -t)"),
    Idiom("abs(t)", Z, (0, 0), "torch.abs(t)"),
    Idiom("pto.where(t > 0.0, t, 0.0)", Z, (0, 0), "torch.where(t > 0, t, 0)"),
    Idiom("pto.where(t >= 0.0, t, 0.0)", Z, (1, 2), "torch.where(t >= 0, t, 0)"),
    Idiom("pto.maximum(t, u) + pto.log1p(pto.exp(-pto.abs(t - u)))", (1.0, 1.0), (0.5, 1), "torch.logaddexp(t, u)"),
    Idiom("pto.sqrt(t)", Z, (INF, INF), "torch.sqrt(t)"),
    Idiom("t * t", Z, (0, 0), "t ** 2"),
    *(Idiom(f"pto.pow(t, {p})", Z, (g, 2 * g), f"t ** {p}") for p, g in ((0.0, 0), (1.0, 1), (2.0, 0), (3.0, 0))),
    Idiom("pto.pow(t, 0.5)", Z, (INF, INF), "t ** 0.5"),
    Idiom("pto.pow(t, u)", Z, (1, 2), "t ** u"),
    Idiom("pto.pow(t + 2.0, t)", Z, (0.6931472, 1.3862944), "(t + 2) ** t"),
    Idiom("libdevice.norm3d(t, t, t)", Z, (0, 0), "torch.linalg.vector_norm(torch.stack([t, t, t]), dim=0)"),
    Idiom("libdevice.hypot(t, 0.0)", Z, (0, 0)),
    Idiom("pto.sqrt(pto.sum(t * t, keep_dims=True)) * u", Z, (NAN, NAN), "(t * t).sum().sqrt() * u"),
    Idiom("pto.std(t, axis=0, keep_dims=True) * u", (2.0,) * 3, (0, 0, 0), "torch.std(t, correction=0) * u"),
    Idiom("pto.max(t, axis=0, keep_dims=True) * u", (1.0, 3.0, 3.0), (0, 7, 0), "torch.max(t, 0).values * u"),
    Idiom("pto.min(t, axis=0, keep_dims=True) * u", (1.0, 0.0, 0.0), (0, 7, 0), "torch.min(t, 0).values * u"),
    Idiom("pto.max(t, 0, return_indices=True, keep_dims=True)[0] * u", (3.0, 3.0), (3, 0), "torch.max(t, 0)[0] * u"),
    Idiom("pto.cummax(t, 0)", (1.0, 3.0, 3.0, 2.0), (1, 2, 12, 0), "torch.cummax(t, 0).values"),
    Idiom("pto.cumprod(t, 0)", (2.0, 0.0, 3.0, 0.0), (1, 28, 0, 0), "torch.cumprod(t, 0)"),
    Idiom("pto.prod(t, 0, keep_dims=True) * u", (2.0, 0.0, 3.0), (0, 42, 0), "torch.prod(t) * u"),
    Idiom("pto.sort(t)", (1.0, 0.0, 1.0), (2, 1, 4), "torch.sort(t, stable=True).values"),
    Idiom("pto.sort(t, descending=True)", (1.0, 2.0, 1.0), (2, 1, 4), "torch.sort(t, descending=True, stable=True)[0]"),
    Idiom("pto.topk(t, 1) * u", (1.0, 1.0), (3, 0), "torch.topk(t, 1).values * u"),
    Idiom("pto.logsumexp(t, 0, keep_dims=True) * u", (1.0, 1.0), (1.5, 1.5), "torch.logsumexp(t, 0, True) * u"),
    Idiom("libdevice.remainder(t, 3.0)", Z, (1, 2)),
    Idiom("libdevice.fmod(t, u)", (2.0, -2.0), (1, 2), "torch.fmod(t, u)"),
    Idiom("libdevice.copysign(t, -u)", Z, (0, 0), "torch.copysign(t, -u)"),
    Idiom("libdevice.fdim(t, u)", (1.0, 2.0), (0, 2), "torch.relu(t - u)"),
    Idiom("pto.atan2(t, 0.0)", Z, (0, 0), "torch.atan2(t, torch.zeros_like(t))"),
)  # fmt: skip


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.text)
def test_gradients_at_kinks(idiom: Idiom) -> None:
    np.testing.assert_allclose(idiom.gradient(), np.array(idiom.wanted, np.float32), rtol=1e-6)


@pytest.mark.parametrize("idiom", [x for x in IDIOMS if x.torch], ids=lambda idiom: idiom.text)
def test_torch_has_the_same_gradients(idiom: Idiom) -> None:
    torch = pytest.importorskip("torch")
    t = torch.tensor(idiom.at, dtype=torch.float64, requires_grad=True)
    result = eval(idiom.torch, {"torch": torch, "t": t, "u": torch.ones_like(t)})
    result.backward(torch.tensor(weights(len(idiom.at))))
    np.testing.assert_allclose(t.grad.numpy(), np.array(idiom.wanted, np.float64), rtol=1e-6)
