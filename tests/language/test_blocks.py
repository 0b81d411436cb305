"""Block pointers: every block of an array, at its edges too, compiled and interpreted, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.errors import Diagnostic
from pypto.passes import optimize

RNG = np.random.default_rng(0)
BOTH = pytest.mark.parametrize("run", [lambda k: k, pto.interpret], ids=["compiled", "interpreted"])


def block_of(x: Any, start: tuple[int, ...], shape: tuple[int, ...], pad: float = 0) -> Any:
    """A block that may reach over all edges of an array."""
    result = np.full(shape, pad, x.dtype)
    index = np.indices(shape) + np.reshape(start, (-1, *[1] * len(shape)))
    inside = np.all([(i >= 0) & (i < n) for i, n in zip(index, x.shape, strict=True)], axis=0)
    result[inside] = x[tuple(i[inside] for i in index)]
    return result


@pto.jit
def copy_block(x, y, M, N, sx, tx, sy, ty, i, j, BM: pto.constexpr, BN: pto.constexpr, PAD: pto.constexpr = "zero"):  # noqa: PLR0913, PLR0917
    p = pto.make_block_ptr(x, (M, N), (sx, tx), (i, j), (BM, BN), (1, 0))
    q = pto.make_block_ptr(base=y, shape=(BM, BN), strides=(sy, ty), offsets=(0, 0), block_shape=(BM, BN), order=(0, 1))
    pto.store(q, pto.load(p, boundary_check=(0, 1), padding_option=PAD).to(q.dtype.element_ty))


@pytest.mark.covering(quick=1, slow=2)
@BOTH
@pytest.mark.parametrize("place", [(0, 0), (3, 5), (9, 12), (-2, -3), (-40, 0), (0, 400), (2, -1)])
@pytest.mark.parametrize("shape", [(4, 8), (5, 7), (1, 16), (16, 1)])
def test_blocks_at_all_edges(run: Any, place: tuple[int, int], shape: tuple[int, int]) -> None:
    x = RNG.standard_normal((11, 13)).astype(np.float32)
    for source in (x, np.asfortranarray(x)):
        y = np.full(shape, 7, np.float32)
        steps = [s // 4 for s in (*source.strides, *y.strides)]
        run(copy_block)[1](source, y, 11, 13, *steps, *place, *shape)
        np.testing.assert_array_equal(y, block_of(x, place, shape))


@BOTH
def test_padding_with_nan(run: Any) -> None:
    x, y = np.ones((3, 3), np.float16), np.zeros((4, 4), np.float32)
    run(copy_block)[1](x, y, 3, 3, 3, 1, 4, 1, 1, -1, 4, 4, "nan")
    np.testing.assert_array_equal(y, block_of(x.astype(np.float32), (1, -1), (4, 4), np.nan))


@pto.jit
def store_block(x, y, M, N, i, j, CHECK: pto.constexpr):
    t = pto.load(x + pto.arange(0, 4)[:, None] * 4 + pto.arange(0, 4)[None, :])
    pto.store(pto.make_block_ptr(y, (M, N), (N, 1), (i, j), (4, 4), (1, 0)), t, boundary_check=CHECK)


@BOTH
@pytest.mark.parametrize(("place", "check"), [((4, 6), (0, 1)), ((-1, 2), (0,)), ((3, -2), (1,)), ((2, 2), ())])
def test_stores_are_clipped_where_they_are_checked(run: Any, place: tuple[int, int], check: tuple[int, ...]) -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    y, expected = np.full((7, 9), -1, np.float32), np.full((15, 17), -1, np.float32)
    run(store_block)[1](x, y, 7, 9, *place, check)
    expected[4 + place[0] : 8 + place[0], 4 + place[1] : 8 + place[1]] = x
    np.testing.assert_array_equal(y, expected[4:11, 4:13])


@pto.jit
def row_sums(x, y, n, STEP: pto.constexpr, COUNT: pto.constexpr):
    p = pto.make_block_ptr(x, shape=(n,), strides=(1,), offsets=(n,), block_shape=(STEP,), order=(0,))
    total = 0.0
    for _ in range(COUNT):
        p = pto.advance(p, (-STEP,))
        total += pto.sum(pto.load(p, boundary_check=(0,)))
    while total > 1e6:
        p = p.advance([1])
    pto.store(y, total)


@BOTH
def test_a_loop_may_go_backwards_over_the_edge(run: Any) -> None:
    x, y = np.arange(10, dtype=np.float32), np.zeros(1, np.float32)
    run(row_sums)[1](x, y, 10, 3, 4)
    assert y[0] == 45


@pto.jit
def choose(a, b, out, which, n):
    p = pto.make_block_ptr(a, (4, 4), (4, 1), (0, 0), (2, 2), (1, 0))
    if which > 0:
        p = pto.make_block_ptr(b, (4, 4), (1, 4), (0, 0), (2, 2), (1, 0))
    for k in range(n):
        if k % 2 == which:
            p = pto.advance(p, (0, 1))
    q = pto.make_block_ptr(out, (2, 2), (2, 1), (0, 0), (2, 2), (1, 0))
    q.store(p.load())


@BOTH
@pytest.mark.parametrize("which", [0, 1])
def test_branches_and_loops_carry_them(run: Any, which: int) -> None:
    a, b, out = np.arange(16.0), 100 + np.arange(16.0), np.zeros((2, 2))
    run(choose)[1](a, b, out, which, 3)
    array = b.reshape(4, 4).T if which else a.reshape(4, 4)
    column = 1 if which else 2
    np.testing.assert_array_equal(out, array[:2, column : column + 2])


@pto.jit
def batched(x, y, s0, s1, s2, B: pto.constexpr):
    p = pto.make_block_ptr(x, (3, 4, 5), (s0, s1, s2), (1, 2, 3), B, (2, 1, 0))
    q = pto.make_block_ptr(y, B, (B[1] * B[2], B[2], 1), (0, 0, 0), B, (2, 1, 0))
    pto.store(q, pto.load(p, boundary_check=(2, 0)))


@BOTH
def test_three_dimensions(run: Any) -> None:
    x, y = np.arange(60, dtype=np.int32).reshape(3, 4, 5), np.zeros((3, 2, 4), np.int32)
    run(batched)[1](x, y, 20, 5, 1, (3, 2, 4))
    np.testing.assert_array_equal(y, block_of(x, (1, 2, 3), (3, 2, 4)))


@pto.jit
def matmul(a, b, c, M, N, K, sa, ta, sb, tb, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):  # noqa: PLR0913, PLR0917
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    pa = pto.make_block_ptr(a, (M, K), (sa, ta), (i, 0), (BM, BK), (1, 0))
    pb = pto.make_block_ptr(b, (K, N), (sb, tb), (0, j), (BK, BN), (1, 0))
    acc = pto.zeros((BM, BN), pto.float32)
    for _ in range(0, K, BK):
        x = pto.load(pa, boundary_check=(0, 1), padding_option="zero")
        acc = pto.dot(x, pto.load(pb, boundary_check=(0, 1)), acc)
        pa, pb = pto.advance(pa, (0, BK)), pto.advance(pb, (BK, 0))
    pto.store(pto.make_block_ptr(c, (M, N), (N, 1), (i, j), (BM, BN), (1, 0)), acc, boundary_check=(0, 1))


SIZES = st.integers(1, 40)


@settings(max_examples=25, deadline=None)
@given(st.tuples(SIZES, SIZES, SIZES), st.sampled_from([(8, 8, 8), (5, 16, 3)]), st.booleans())
def test_matmul(sizes: tuple[int, int, int], tile: tuple[int, int, int], transposed: bool) -> None:
    m, n, k = sizes
    a, b = RNG.standard_normal((m, k)).astype(np.float32), RNG.standard_normal((k, n)).astype(np.float32)
    b = np.asfortranarray(b) if transposed else b
    c = np.zeros((m, n), np.float32)
    steps = [s // 4 for x in (a, b) for s in x.strides]
    matmul[-(-m // tile[0]), -(-n // tile[1])](a, b, c, m, n, k, *steps, *tile)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_a_loop_carries_offsets_alone() -> None:
    """What does not change goes around the loop, and accesses stay structured: they are as fast as slices."""
    a = np.zeros((64, 64), np.float32)
    made = matmul.compile(a, a, a, 64, 64, 64, 64, 1, 64, 1, 16, 16, 16)
    function = optimize(made.program.function)
    (loop,) = [op for op in function.walk() if op.name == "for"]
    assert sorted(str(v.type) for v in loop.results) == ["i64", "i64", "tile<16x16xf32>"]
    assert [op.name for op in function.walk() if op.name in ("load", "store", "addptr")] == []
    bases = [op.operands[0].op for op in function.walk() if op.name == "tile_load"]
    assert [op.name for op in bases if op] == ["array_ptr", "array_ptr"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pto.make_block_ptr(x, (4, 4), (4,), (0, 0), (2, 2), (1, 0))", "one entry per dimension, here 2"),
        ("pto.make_block_ptr(x, (4, 4.0), (4, 1), (0, 0), (2, 2), (1, 0))", "`shape` must be an integer"),
        ("pto.advance(pto.make_block_ptr(x, (4,), (1,), (0,), (2,), (0,)), (1, 1))", "one offset per dimension"),
        ("pto.load(pto.make_block_ptr(x, (4,), (1,), (0,), (2,), (0,)), boundary_check=(1,))", "1 is no dimension"),
        ("pto.load(pto.make_block_ptr(x, (4,), (1,), (0,), (2,), (0,)), padding_option='one')", "none of zero and nan"),
        ("pto.load(pto.make_block_ptr(x, (4,), (1,), (0,), (2,), (0,)), mask=True)", "takes `boundary_check` in place"),
        ("pto.load(pto.make_block_ptr(x, (4,), (1,), (0,), (pto.program_id(0),), (0,)))", "must be known at compile"),
    ],
)
def test_mistakes(text: str, problem: str, tmp_path: Any) -> None:
    import importlib.util

    path = tmp_path / "mistaken.py"
    path.write_text(f"import pypto as pto\n@pto.jit\ndef kernel(x):\n    v = {text}\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mistaken", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(Diagnostic) as caught:
        module.kernel[1](np.zeros(16, np.float32))
    assert problem in str(caught.value)
    assert "mistaken.py:4" in str(caught.value)
