"""Whole kernels in both styles, against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pypto.language as pto
from pypto.frontend import ConstSpec
from tests.frontend.evaluate import run

RNG = np.random.default_rng(0)


def random(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def attention(q, k, v, out, BM: pto.constexpr, BN: pto.constexpr, CAUSAL: pto.constexpr):
    n, d = q.shape
    start = pto.program_id(0) * BM
    rows = start + pto.arange(0, BM)
    qt = q[start : start + BM, :] * (1 / math.sqrt(d))
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = 0.0
    acc = 0.0
    for j in range(0, min(n, start + BM) if CAUSAL else n, BN):
        s = pto.dot(qt, k[j : j + BN, :].T)
        cols = j + pto.arange(0, BN)
        valid = cols[None, :] < n
        if CAUSAL:
            valid = valid & (rows[:, None] >= cols[None, :])
        s = pto.where(valid, s, -float("inf"))
        new = pto.maximum(m, s.max(axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + p.sum(axis=1)
        acc = acc * scale[:, None] + pto.dot(p, v[j : j + BN, :])
        m = new
    out[start : start + BM, :] = acc / total[:, None]


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v, out = (random(10, 8) for _ in range(4))
    run(attention, q=q, k=k, v=v, out=out, BM=ConstSpec(16), BN=ConstSpec(4), CAUSAL=ConstSpec(causal))
    s = (q @ k.T) / math.sqrt(8)
    if causal:
        s = np.where(np.tri(10, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, (p / p.sum(axis=1, keepdims=True)) @ v, rtol=1e-4, atol=1e-5)


def matmul_pointers(  # noqa: PLR0913, PLR0917
    a, b, c, M, N, K, sa, sb, sc, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, ACT: pto.constexpr
):
    pid = pto.program_id(0)
    grid_n = pto.cdiv(N, BN)
    rows = (pid // grid_n) * BM + pto.arange(0, BM)
    cols = (pid % grid_n) * BN + pto.arange(0, BN)
    offs = pto.arange(0, BK)
    pa = a + (rows[:, None] * sa + offs[None, :])
    pb = b + (offs[:, None] * sb + cols[None, :])
    acc = pto.zeros((BM, BN), dtype=pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        left = K - k * BK
        ta = pto.load(pa, mask=(rows[:, None] < M) & (offs[None, :] < left), other=0.0)
        tb = pto.load(pb, mask=(offs[:, None] < left) & (cols[None, :] < N), other=0.0)
        acc += pto.dot(ta, tb)
        pa += BK
        pb += BK * sb
    acc = ACT(acc) if ACT is not None else acc
    pto.store(c + rows[:, None] * sc + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def relu(x):
    return pto.maximum(x, 0)


@pytest.mark.parametrize("activation", [None, relu, lambda x: pto.where(x > 0, x, 0.01 * x)])
def test_matmul_with_pointers(activation: Any) -> None:
    a, b, c = random(5, 6), random(6, 7), random(5, 7)
    blocks = {"BM": ConstSpec(8), "BN": ConstSpec(8), "BK": ConstSpec(4), "ACT": ConstSpec(activation)}
    run(matmul_pointers, a=a, b=b, c=c, M=5, N=7, K=6, sa=6, sb=7, sc=7, **blocks)
    expected = a @ b
    if activation:
        expected = np.where(expected > 0, expected, 0 if activation is relu else 0.01 * expected)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-6)


def layer_norm(x, w, b, y, eps: pto.constexpr):
    row = pto.program_id(0)
    t = x[row, :]
    n = x.shape[1]
    mean = pto.sum(t) / n
    centred = t - mean
    variance = pto.sum(centred * centred) / n
    y[row, :] = centred / pto.sqrt(variance + eps) * w[:] + b[:]


def test_layer_norm() -> None:
    x, w, b, y = random(1, 9), random(9), random(9), random(1, 9)
    run(layer_norm, x=x, w=w, b=b, y=y, eps=ConstSpec(1e-5))
    expected = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w + b
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
