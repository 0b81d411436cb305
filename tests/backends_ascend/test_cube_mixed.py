"""Kernels whose work is shared by the cube core and the vector cores of a block, on the simulated device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.race_checker import races
from pypto.backends.ascend.blockir.effects import items_of
from pypto.backends.ascend.blockir.ir import Expr, Instr, Loop, Word
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import ascend_target
from tests.backends_ascend.simulated import function_of, run
from tests.conformance.networks import matmul_wrapped
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(4)


@pto.jit
def with_epilogue(a, b, bias, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    acc = pto.maximum(acc + bias[j : j + BN][None, :], 0.0)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def attention(q, k, v, out, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    h, i = pto.program_id(0), pto.program_id(1) * BM
    n, d = q.shape[1], q.shape[2]
    queries = (q[h, i : i + BM, :] * (1 / math.sqrt(d))).to(q.dtype)
    rows = i + pto.arange(0, BM)
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    for j in range(0, min(n, i + BM) if CAUSAL else n, BN):
        s = pto.dot(queries, pto.trans(k[h, j : j + BN, :]))
        cols = j + pto.arange(0, BN)
        seen = cols[None, :] < n
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = pto.where(seen, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = pto.dot(p.to(q.dtype), v[h, j : j + BN, :], acc * scale[:, None])
        m = new
    out[h, i : i + BM, :] = acc / total[:, None]


@pto.jit
def plain_attention(q, k, v, out, scale, BM: pto.constexpr, BN: pto.constexpr):
    i, n = pto.program_id(0) * BM, q.shape[0]
    queries = q[i : i + BM, :]
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, q.shape[1]), pto.float32)
    for j in range(0, n, BN):
        s = pto.dot(queries, pto.trans(k[j : j + BN, :])) * scale
        s = pto.where((j + pto.arange(0, BN))[None, :] < n, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        alpha = pto.exp(m - new)
        total = total * alpha + pto.sum(p, axis=1)
        acc = acc * alpha[:, None] + pto.dot(p.to(q.dtype), v[j : j + BN, :])
        m = new
    out[i : i + BM, :] = acc / total[:, None]


@pto.jit
def rows_times_all(a, b, c, M: pto.constexpr, N: pto.constexpr, K: pto.constexpr):
    i = pto.program_id(0) * M
    x = a[i : i + M, 0:K]
    for j in range(0, b.shape[1], N):
        c[i : i + M, j : j + N] = pto.dot(x, b[0:K, j : j + N])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_epilogues(dtype: Any) -> None:
    a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((70, 100), (100, 50)))
    bias, c = RNG.standard_normal(50).astype(np.float32), np.full((70, 50), 7, dtype)
    run(with_epilogue, (3, 2), lower_kernel, kind="mix", a=a, b=b, bias=bias, c=c, BM=32, BN=32, BK=32)
    wanted = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    near = 1e-2 if dtype == np.float16 else 1e-4
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=near, atol=near)


def test_single_numbers_stay_where_they_are() -> None:
    a, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (4, 3)))
    bias, c = RNG.standard_normal(3).astype(np.float32), np.full((5, 3), 7, np.float32)
    run(with_epilogue, (5, 3), lower_kernel, kind="vector", a=a, b=b, bias=bias, c=c, BM=1, BN=1, BK=1)
    np.testing.assert_allclose(c, np.maximum(a @ b + bias, 0), rtol=1e-5, atol=1e-5)


def test_both_stages_of_a_step_in_one_loop() -> None:
    """Scores leave L0C in eight columns, and the product with the weights of the step before comes between them."""
    n, d = 1100, 16
    q, k, v = (RNG.standard_normal((n, d)).astype(np.float16) for _ in range(3))
    out = np.full((n, d), 7, np.float32)
    run(plain_attention, (-(-n // 108),), lower_kernel, kind="mix", q=q, k=k, v=v, out=out, scale=0.25, BM=108, BN=512)
    scores = q.astype(np.float64) @ k.astype(np.float64).T / 4
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-3)


def test_columns_of_results_stay_where_they_are() -> None:
    """The scalar unit would take them one by one, and no flag between cores orders what that reads."""
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((57, 24), (24, 3)))
    bias, c = RNG.standard_normal(3).astype(np.float32), np.full((57, 3), 7, np.float32)
    run(with_epilogue, (4, 3), lower_kernel, kind="vector", a=a, b=b, bias=bias, c=c, BM=16, BN=1, BK=24)
    wanted = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    np.testing.assert_allclose(c, wanted, rtol=1e-3, atol=1e-3)


def test_operands_that_are_gathered() -> None:
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((40, 70), (70, 30)))
    c = np.full((40, 30), 7, np.float16)
    sizes = {"M": 40, "N": 30, "K": 70, "sam": 70, "sak": 1, "sbk": 30, "sbn": 1, "scm": 30, "scn": 1}
    run(matmul_wrapped, (2, 2), lower_kernel, kind="mix", a=a, b=b, c=c, **sizes, BM=32, BN=24, BK=32)
    np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=1e-2)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "n", "d", "block"), [(np.float16, 100, 32, 32), (np.float32, 100, 32, 32),
                                                        pytest.param(np.float16, 300, 128, 128,
                                                                     marks=pytest.mark.slow)])  # fmt: skip
def test_attention(dtype: Any, n: int, d: int, block: int, causal: bool) -> None:
    heads = 2 if n < 200 else 1
    q, k, v = (RNG.standard_normal((heads, n, d)).astype(dtype) for _ in range(3))
    out = np.full_like(q, 7)
    grid = (heads, -(-n // block))
    run(attention, grid, lower_kernel, kind="mix", q=q, k=k, v=v, out=out, CAUSAL=causal, BM=block, BN=block)
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / math.sqrt(d)
    s = np.where(np.tri(n, dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)
    near = 4e-3 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=near, atol=near)


@pytest.mark.parametrize(
    ("n", "d", "BM", "BN"),
    [(70, 32, 32, 32), pytest.param(200, 128, 96, 256, marks=pytest.mark.slow),
     pytest.param(40, 16, 32, 16, marks=pytest.mark.slow), (90, 16, 25, 16)],
)  # fmt: skip
def test_queries_that_the_cube_core_keeps(n: int, d: int, BM: int, BN: int) -> None:
    """The last block of queries has missing rows."""
    q, k, v = (RNG.standard_normal((n, d)).astype(np.float16) for _ in range(3))
    out, scale = np.full_like(q, 7), 1 / math.sqrt(d)
    run(plain_attention, (-(-n // BM),), lower_kernel, kind="mix", q=q, k=k, v=v, out=out, scale=scale, BM=BM, BN=BN)
    s = q.astype(np.float64) @ k.astype(np.float64).T * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 96, 48), (50, 70, 33), (33, 64, 32)])
def test_an_operand_that_stays_in_l1(m: int, n: int, k: int) -> None:
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.full((m, n), 7, np.float32)
    run(rows_times_all, (-(-m // 32),), lower_kernel, kind="cube", a=a, b=b, c=c, M=32, N=32, K=48)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("n", "BN"), [(500, 256), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((100, 256), (1100, 512)))]
)
def test_attention_in_columns_of_scores_and_parts_of_rows(n: int, BN: int) -> None:
    """Blocks whose scores fit neither twice in L0C nor at once in UB, in fewer and in more steps than are under way.

    With so many columns, products with values are woven in.
    """
    q, k, v = (RNG.standard_normal((1, n, 128)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, 7)
    run(attention, (1, -(-n // 128)), lower_kernel, kind="mix", q=q, k=k, v=v, out=out, CAUSAL=False, BM=128, BN=BN)
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / math.sqrt(128)
    p = np.exp(s - s.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)
    near = 4e-3
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=near, atol=near)


@pto.jit
def side_by_side(a, b, c, x, y):
    c[:, :] = pto.dot(a[:, :], b[:, :])
    y[:, :] = x[:, :] + 1


def test_two_sides_that_have_nothing_to_say_to_each_other_need_no_workspace() -> None:
    a, b = np.ones((32, 48), np.float16), np.full((48, 64), 2, np.float16)
    x = np.arange(64, dtype=np.float32).reshape(2, 32)
    c, y = np.zeros((32, 64), np.float32), np.zeros((2, 32), np.float32)
    with pto.device("ascend-sim"):
        side_by_side[1](a, b, c, x, y)
    np.testing.assert_array_equal(c, 96)
    np.testing.assert_array_equal(y, x + 1)


def test_scores_and_products_with_values_take_turns_in_one_loop() -> None:
    """Panels of both are copied to two places each, by events of their own, although a step may have no scores."""
    q, k, v, out = (np.empty((1, 4096, 128), np.float16) for _ in range(4))
    target = ascend_target("ascend910b2")
    arguments = {"q": q, "k": k, "v": v, "out": out, "CAUSAL": False, "BM": 128, "BN": 512}
    made = sync(lower_kernel(function_of(attention, arguments), target), target)
    assert races(made, target) == []
    columns = [x for x in items_of(made.cube_body) if isinstance(x, Loop) and x.name.startswith("column")]
    (inside,) = [list(items_of(x.body)) for x in columns]
    assert sum(isinstance(x, Instr) and x.name == "Mmad" for x in inside) >= 2
    ready = [x for x in inside if isinstance(x, Instr) and x.name == "SetFlag" and x.args[0] == Word("MTE1_MTE2")]
    assert len(ready) == 2
    assert all(isinstance(x.args[1], Expr) for x in ready)


def test_operands_that_may_be_missing_are_zeros() -> None:
    """Keys and values have one head fewer than queries: scores are 0 then, and so is the mean of no values."""
    n, d = 100, 32
    q, (k, v) = RNG.standard_normal((2, n, d)).astype(np.float16), RNG.standard_normal((2, 1, n, d)).astype(np.float16)
    out = np.full_like(q, 7)
    run(attention, (2, 4), lower_kernel, kind="mix", q=q, k=k, v=v, out=out, CAUSAL=False, BM=32, BN=32)
    s = q[0].astype(np.float64) @ k[0].astype(np.float64).T / math.sqrt(d)
    p = np.exp(s - s.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v[0].astype(np.float64)
    np.testing.assert_allclose(out[0].astype(np.float64), wanted, rtol=4e-3, atol=4e-3)
    assert not out[1].any()
