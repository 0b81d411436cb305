"""Loops that are turned: the same numbers with their rows along the lanes, and only where every reader can do so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from pypto.backends.cpu.pipeline import legalize
from pypto.ir.core import Function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.analysis.dot_facts import InPlaceOperand
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]
WIDE = replace(fixed_target(), vector_bytes=64, registers=32)


@pto.jit
def attention(q, k, v, out, sums, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    i = pto.program_id(0) * BM
    n, d = k.shape
    queries, rows = q[i : i + BM, :], i + pto.arange(0, BM)
    m, total = pto.full((BM,), -float("inf"), pto.float32), pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    for j in range(0, n, BN):
        cols = j + pto.arange(0, BN)
        s = pto.dot(queries, pto.trans(k[j : j + BN, :])) * (1 / math.sqrt(d))
        seen = cols[None, :] < n
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = pto.where(seen, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = acc * scale[:, None] + pto.dot(p.to(v.dtype), v[j : j + BN, :])
        m = new
    out[i : i + BM, :] = acc / total[:, None]
    sums[i : i + BM] = m + pto.log(total)


@pto.jit
def kept(q, k, out, BM: pto.constexpr, BN: pto.constexpr):
    """Sums that keep their dimension, and scores that the next step reads."""
    i = pto.program_id(0) * BM
    queries = q[i : i + BM, :]
    before = pto.zeros((BM, BN), pto.float32)
    total = pto.zeros((BM, 1), pto.float32)
    for j in range(0, k.shape[0], BN):
        s = pto.dot(queries, pto.trans(k[j : j + BN, :]))
        total += pto.sum(pto.minimum(s, 20.0) - before, axis=1, keep_dims=True)
        before = s
    out[i : i + BM, :] = before * total


@pto.jit
def biased(q, k, bias, out, BM: pto.constexpr, BN: pto.constexpr):
    """What comes from memory row by row would have to be turned itself."""
    i = pto.program_id(0) * BM
    queries, total = q[i : i + BM, :], pto.zeros((BM,), pto.float32)
    for j in range(0, k.shape[0], BN):
        s = pto.dot(queries, pto.trans(k[j : j + BN, :])) + bias[i : i + BM, j : j + BN]
        total += pto.sum(s, axis=1)
    out[i : i + BM] = total


@pto.jit
def stored(q, k, out, total, BM: pto.constexpr, BN: pto.constexpr):
    """Scores that are stored lie as they are stored."""
    i = pto.program_id(0) * BM
    queries, sums = q[i : i + BM, :], pto.zeros((BM,), pto.float32)
    for j in range(0, k.shape[0], BN):
        s = pto.dot(queries, pto.trans(k[j : j + BN, :]))
        out[i : i + BM, j : j + BN] = s
        sums += pto.sum(s, axis=1)
    total[i : i + BM] = sums


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def legal(kernel: Any, **arguments: Any) -> Function:
    return legalize(optimized(Launch(kernel, (1, 1, 1), arguments, {})), WIDE)


def is_turned(function: Function) -> bool:
    reductions = [op for op in function.walk() if op.name in ("sum", "max")]
    return all(op.attrs["axes"] == (0,) for op in reductions)


def arguments(rows: int = 64, keys: int = 96, d: int = 32) -> dict[str, Any]:
    q, k, v = numbers(rows, d), numbers(keys, d), numbers(keys + 1, d)[1:]
    return {"q": q, "k": k, "v": v, "out": np.zeros((rows, d), np.float32), "sums": np.zeros(rows, np.float32)}


def expected(a: dict[str, Any], causal: bool) -> tuple[Array, Array]:
    q, k, v = (a[name].astype(np.float64) for name in "qkv")
    s = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        s[np.arange(len(k)) > np.arange(len(q))[:, None]] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    return (p / p.sum(1, keepdims=True)) @ v, np.log(p.sum(1)) + s.max(1)


BLOCKS = [(64, 96, 32, 64, 32), (70, 77, 40, 48, 24), (33, 130, 17, 96, 64), (1, 5, 64, 32, 16), (130, 64, 80, 33, 50)]


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", BLOCKS)
def test_attention(sizes: tuple[int, ...], causal: bool, level: str) -> None:
    rows, keys, d, bm, bn = sizes
    given = arguments(rows, keys, d)
    with Fences() as fences:
        inside = {name: fences.around(array) for name, array in given.items()}
        pto.jit(level=level)(attention.function)[-(-rows // bm)](*inside.values(), causal, bm, bn)
        for name, wanted in zip(("out", "sums"), expected(given, causal), strict=True):
            np.testing.assert_allclose(inside[name], wanted, rtol=2e-5, atol=2e-6)


def test_bfloat16(level: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    given = arguments(70, 100, 32)
    low = {name: array.astype(ml_dtypes.bfloat16) for name, array in given.items() if name in "qkv"}
    pto.jit(level=level)(attention.function)[2](*low.values(), given["out"], given["sums"], False, 48, 32)
    exact = {**given, **{name: array.astype(np.float32) for name, array in low.items()}}
    for name, wanted in zip(("out", "sums"), expected(exact, False), strict=True):
        np.testing.assert_allclose(given[name], wanted, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_turned(causal: bool) -> None:
    given = {**arguments(), "CAUSAL": causal, "BM": 64, "BN": 32}
    function = legal(attention, **given)
    verify(function, TABLE)
    assert is_turned(function)
    assert {op.result.shape for op in function.walk() if op.name == "dot"} == {(32, 64)}
    schedule = lowered(Launch(attention, (1, 1, 1), given, {}), WIDE).schedule
    scores, values = [item for item in walk(schedule.items) if isinstance(item, Gemm)]
    assert isinstance(scores.a, InPlaceOperand) and not scores.a.transposed and scores.b_source is None
    assert isinstance(values.a, InPlaceOperand) and values.a.transposed
    assert not any(item is scores for item in schedule.items)


def test_what_loops_share_is_packed_before_them() -> None:
    given = {**arguments(), "CAUSAL": False, "BM": 64, "BN": 32}
    schedule = lowered(Launch(attention, (1, 1, 1), given, {}), WIDE).schedule
    scores = next(item for item in walk(schedule.items) if isinstance(item, Gemm))
    writers = [s for item in schedule.items for s in getattr(item, "stmts", ()) if s.buffer is scores.b]
    assert len(writers) == 1


@pytest.mark.parametrize("rows", [64, 50])
def test_dimensions_that_are_kept(rows: int, level: str) -> None:
    given = {"q": numbers(rows, 32), "k": numbers(96, 32), "out": np.zeros((rows, 32), np.float32), "BM": 32, "BN": 32}
    assert is_turned(legal(kept, **given))
    pto.jit(level=level)(kept.function)[2](**given)
    s = given["q"].astype(np.float64) @ given["k"].T
    parts = [s[:, j : j + 32] for j in (0, 32, 64)]
    total = sum((np.minimum(x, 20) - y).sum(1) for x, y in zip(parts, [0, *parts], strict=False))
    np.testing.assert_allclose(given["out"], parts[-1] * total[:, None], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("kernel", "more"), [(biased, ("bias", (64, 96))), (stored, ("out", (64, 96)))])
def test_loops_that_stay(kernel: Any, more: tuple[str, tuple[int, int]]) -> None:
    arrays = {"q": numbers(64, 32), "k": numbers(96, 32), more[0]: numbers(*more[1])}
    arrays["out" if kernel is biased else "total"] = np.zeros(64, np.float32)
    given = {**arrays, "BM": 32, "BN": 32}
    assert not is_turned(legal(kernel, **given))
    kernel[2](**given)
    s = arrays["q"].astype(np.float64) @ arrays["k"].T
    wanted = (s + arrays["bias"]).sum(1) if kernel is biased else s.sum(1)
    np.testing.assert_allclose(given["out" if kernel is biased else "total"], wanted, rtol=1e-4, atol=1e-4)


def test_few_rows_stay() -> None:
    assert not is_turned(legal(attention, **arguments(16), CAUSAL=False, BM=16, BN=32))


def test_threads_do_not_matter() -> None:
    results = []
    for threads in (1, 2):
        given = arguments(400, 200, 64)
        pto.jit(num_threads=threads)(attention.function)[7](*given.values(), True, 64, 64)
        results.append(given["out"])
    np.testing.assert_array_equal(*results)
