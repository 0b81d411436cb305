"""Triton's own tutorials, of four versions, as published but for the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.sources import Repository
from tests.compat.world import Trial, attention, close, gradients

COMMITS = {
    "2.1": "da40a1e984bf57c4708daf603eb427442025f99b",
    "3.0": "a7e3476e86757780c2528d1100eb7aabe58d8c19",
    "3.4": "bacc8126cc1a8992a224faed053ee80f51b96284",
    "3.7": "ed24f4cff6cd4e9207d6d4eae2d09d87ca65a945",
}
TUTORIALS = {
    version: Repository("triton-lang/triton", commit, f"tutorials_{version.replace('.', '_')}", "python/tutorials")
    for version, commit in COMMITS.items()
}
randn = torch.randn


def vector_add(m: Any, version: str) -> None:
    x, y = torch.rand(98432), torch.rand(98432)
    close(m.add(x, y), x + y, 0.0)


def fused_softmax(m: Any, version: str) -> None:
    x = randn(1823, 781)
    close(m.softmax(x), x.double().softmax(1), 1e-6)


def matrix_multiplication(m: Any, version: str) -> None:
    a, b = randn(512, 512).half(), randn(512, 512).half()
    product = a.double() @ b.double()
    close(m.matmul(a, b), product, 1e-3)
    product = product + 1 if version == "2.1" else product  # as its `leaky_relu` has it
    close(m.matmul(a, b, activation="leaky_relu"), torch.where(product >= 0, product, 0.01 * product), 1e-3)


def dropout(m: Any, version: str) -> None:
    x, p = randn(1000), 0.5
    keep = (torch.rand(1000) > p).to(torch.int32)
    close(m.dropout(x, x_keep=keep, p=p), torch.where(keep.bool(), x / (1 - p), 0.0), 1e-6)
    first, again, other = (m.seeded_dropout(x, p=p, seed=seed) for seed in (123, 123, 512))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    close(first, torch.where(first != 0, x / (1 - p), 0.0), 1e-6)


def layer_norm(m: Any, version: str) -> None:
    def reference(x: Any, w: Any, b: Any) -> Any:
        return F.layer_norm(x, (8192,), w, b, 1e-5)

    inputs = -2.3 + 0.5 * randn(151, 8192).half(), torch.rand(8192).half(), torch.rand(8192).half()
    gradients(lambda x, w, b: m.layer_norm(x, (8192,), w, b, 1e-5), reference, *inputs, tolerance=3e-3)


def fused_attention(m: Any, version: str) -> None:
    more = () if version in ("2.1", "3.0") else (False,)
    inputs = [(randn(1, 2, 256, 64) * 0.5).half() for _ in range(3)]
    gradients(
        lambda q, k, v: m.attention(q, k, v, True, 0.5, *more), lambda q, k, v: attention(q, k, v, 0.5, causal=True),
        *inputs, tolerance=2e-2,
    )  # fmt: skip


def grouped_gemm(m: Any, version: str) -> None:
    sizes = (256, 128, 384, 128)  # tiles of 128 without masks
    group_a, group_b = [randn(n, n).half() for n in sizes], [randn(n, n).half() for n in sizes]
    for a, b, c in zip(group_a, group_b, m.group_gemm_fn(group_a, group_b), strict=True):
        close(c, a.double() @ b.double(), 1e-3)


FILES: dict[str, Callable[[Any, str], None]] = {
    "01-vector-add.py": vector_add, "02-fused-softmax.py": fused_softmax,
    "03-matrix-multiplication.py": matrix_multiplication, "04-low-memory-dropout.py": dropout,
    "05-layer-norm.py": layer_norm, "06-fused-attention.py": fused_attention, "08-grouped-gemm.py": grouped_gemm,
}  # fmt: skip


def named(check: Callable[[Any, str], None], version: str) -> Callable[[Any], None]:
    made: Any = partial(check, version=version)
    made.__name__ = check.__name__
    bound: Callable[[Any], None] = made
    return bound


TRIALS = tuple(
    Trial(repository, path, named(check, version))
    for version, repository in TUTORIALS.items()
    for path, check in FILES.items()
    if not (version == "2.1" and path == "08-grouped-gemm.py")  # written later
)
