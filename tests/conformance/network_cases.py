"""Launches of the kernels of neural networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from tests.conformance import kernels, networks
from tests.conformance.cases import Array, Cases, Launch, Make, empty, gelu, normal

CASES = Cases()


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


@CASES
def softmax_native(rng):
    x = 5 * normal(rng, 7, 333)
    return Launch(networks.softmax_native, 7, {"x": x, "y": empty(7, 333)}, {"y": softmax(x)}, 1e-6)


@CASES
def softmax_one_column(rng):
    """Tiles of one element, in scratch that held something else."""
    x = 50 * normal(rng, 9, 1)
    return Launch(networks.softmax_native, 9, {"x": x, "y": empty(9, 1)}, {"y": np.ones_like(x)})


@CASES
def softmax_f64(rng):
    x = normal(rng, 3, 100, dtype=np.float64)[:, ::2]
    return Launch(networks.softmax_native, 3, {"x": x, "y": empty(3, 50, dtype=np.float64)}, {"y": softmax(x)}, 1e-14)


@CASES
def softmax_pointers(rng):
    x, y = normal(rng, 11, 100), empty(11, 120)
    args = {"out": y, "x": x, "out_stride": 120, "x_stride": 100, "rows": 11, "cols": 90, "BLOCK": 97}
    expected = y.copy()
    expected[:, :90] = softmax(x[:, :90])
    return Launch(networks.softmax_pointers, 3, args, {"out": expected}, 1e-6)


@CASES
def softmax_online(rng):
    x = 3 * normal(rng, 5, 203)
    return Launch(networks.softmax_online, 5, {"x": x, "y": empty(5, 203), "BLOCK": 64}, {"y": softmax(x)}, 2e-6)


def norm_parts(x: Array) -> tuple[Array, Array, Array]:
    mean = x.mean(1, dtype=np.float64)
    rstd = 1 / np.sqrt(x.var(1, dtype=np.float64) + 1e-5)
    return mean, rstd, (x - mean[:, None]) * rstd[:, None]


@CASES
def layer_norm(rng):
    x, w, b = normal(rng, 9, 155), normal(rng, 155), normal(rng, 155)
    mean, rstd, xhat = norm_parts(x)
    args = {"x": x, "weight": w, "bias": b, "y": empty(9, 155), "mean": empty(9), "rstd": empty(9), "eps": 1e-5}
    expected = {"y": xhat * w + b, "mean": mean, "rstd": rstd}
    expected = {name: value.astype(np.float32) for name, value in expected.items()}
    return Launch(networks.layer_norm, 9, args, expected, 2e-6)


@CASES
def layer_norm_backward(rng):
    x, w, dy = normal(rng, 10, 45), normal(rng, 45), normal(rng, 10, 45)
    mean, rstd, xhat = norm_parts(x)
    wdy = w * dy
    c1, c2 = (xhat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    groups = [slice(i, i + 4) for i in range(0, 10, 4)]
    parts = {
        "dx": (wdy - xhat * c1 - c2) * rstd[:, None],
        "dw": np.stack([(dy * xhat)[g].sum(0) for g in groups]),
        "db": np.stack([dy[g].sum(0) for g in groups]),
    }
    expected = {name: value.astype(np.float32) for name, value in parts.items()}
    outputs = {name: np.empty_like(value) for name, value in expected.items()}
    known = {"mean": mean.astype(np.float32), "rstd": rstd.astype(np.float32)}
    args = {"x": x, "weight": w, "dy": dy, **known, **outputs, "GROUP": 4}
    return Launch(networks.layer_norm_backward, 3, args, expected, 5e-6)


@CASES
def masked_mean(rng):
    x, mask = normal(rng, 4, 13, 50), (np.arange(13) < np.array([13, 5, 1, 0])[:, None]).astype(np.int32)
    total = (x * mask[..., None]).sum(1, dtype=np.float64) / np.maximum(mask.sum(1), 1)[:, None]
    expected = total / np.sqrt((total**2).sum(1, keepdims=True) + 1e-12)
    args = {"x": x, "mask": mask, "out": empty(4, 50)}
    return Launch(networks.masked_mean, 4, args, {"out": expected.astype(np.float32)}, 1e-6)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def multiplied(m: int, n: int, k: int, dtype: Any, tolerance: float, transposed: bool = False) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        a, b = normal(rng, m, k, dtype=dtype), normal(rng, k, n, dtype=dtype)
        if transposed:
            a, b = normal(rng, k, m, dtype=dtype).T, normal(rng, n, k, dtype=dtype)[::-1].T
        bias = normal(rng, n)
        blocks = {"BM": 24, "BN": 40, "BK": 16}
        args = {"a": a, "b": b, "bias": bias, "c": empty(m, n), "ACTIVATION": kernels.gelu, **blocks}
        expected = gelu((product(a, b) + bias).astype(np.float32))
        return Launch(networks.matmul_native, (-(-m // 24), -(-n // 40)), args, {"c": expected}, tolerance)

    return make


CASES.make["matmul_native"] = multiplied(67, 95, 50, np.float32, 1e-5)
CASES.make["matmul_transposed"] = multiplied(33, 41, 35, np.float32, 1e-5, True)
CASES.make["matmul_bf16"] = multiplied(33, 41, 35, bfloat16, 1e-5)
CASES.make["matmul_f16"] = multiplied(25, 40, 16, np.float16, 1e-5)


@CASES
def matmul_pointers(rng):
    a, b = normal(rng, 70, 53), normal(rng, 81, 53).T
    c = empty(70, 81, dtype=np.float16)
    strides = dict(zip(("sam", "sak", "sbk", "sbn", "scm", "scn"), (53, 1, 1, 53, 81, 1), strict=True))
    sizes = {"M": 70, "N": 81, "K": 53, "BM": 32, "BN": 24, "BK": 20, "GROUP": 2}
    args = {"a": a, "b": b, "c": c, **strides, **sizes}
    return Launch(networks.matmul_pointers, 12, args, {"c": product(a, b).astype(np.float16)}, 2e-3)


@CASES
def matmul_wrapped(rng):
    a, b = normal(rng, 70, 53), normal(rng, 53, 81)
    c = empty(70, 81, dtype=np.float16)
    strides = dict(zip(("sam", "sak", "sbk", "sbn", "scm", "scn"), (53, 1, 81, 1, 81, 1), strict=True))
    args = {"a": a, "b": b, "c": c, **strides, "M": 70, "N": 81, "K": 53, "BM": 32, "BN": 24, "BK": 20}
    return Launch(networks.matmul_wrapped, (3, 4), args, {"c": product(a, b).astype(np.float16)}, 2e-3)


def batched(dtype: Any, out: Any, tolerance: float) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        a, b = (5 * normal(rng, 3, 9, 21)).astype(dtype), (5 * normal(rng, 3, 13, 21)).astype(dtype)
        wide = np.int64 if np.dtype(dtype).kind == "i" else np.float64
        expected = np.matmul(a.astype(wide), b.astype(wide).transpose(0, 2, 1)).astype(out)
        args = {"a": a, "b": b, "c": empty(3, 9, 13, dtype=out), "B": 2}
        return Launch(networks.batched_dot, 2, args, {"c": expected}, tolerance)

    return make


CASES.make["batched_dot_f32"] = batched(np.float32, np.float32, 1e-5)
CASES.make["batched_dot_f64"] = batched(np.float64, np.float64, 1e-13)
CASES.make["batched_dot_i8"] = batched(np.int8, np.int32, 0)
CASES.make["batched_dot_i16"] = batched(np.int16, np.int32, 0)


def attended(causal: bool) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        q, k, v = normal(rng, 3, 2, 45, 20)
        scale = 20**-0.5
        scores = np.einsum("hid,hjd->hij", q, k, dtype=np.float64) * scale
        if causal:
            scores = np.where(np.tril(np.ones((45, 45), bool)), scores, -np.inf)
        expected = softmax(scores) @ v
        args = {"q": q, "k": k, "v": v, "out": empty(2, 45, 20), "scale": scale, "CAUSAL": causal, "BM": 16, "BN": 12}
        return Launch(networks.attention, (3, 2), args, {"out": expected.astype(np.float32)}, 2e-6)

    return make


CASES.make["attention"] = attended(False)
CASES.make["attention_causal"] = attended(True)


@CASES
def transpose(rng):
    x = normal(rng, 50, 33)
    args = {"x": x, "y": empty(33, 50), "BM": 16, "BN": 24}
    return Launch(networks.transpose, (4, 2), args, {"y": x.T.copy()})


@CASES
def transpose_bool(rng):
    x = normal(rng, 50, 33) > 0
    args = {"x": x, "y": empty(33, 50, dtype=bool), "BM": 50, "BN": 33}
    return Launch(networks.transpose, (1, 1), args, {"y": x.T.copy()})
