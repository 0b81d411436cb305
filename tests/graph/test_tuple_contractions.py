"""Contraction over a tuple of axes: the outer axes are loops, the innermost a tile of K, and all is one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.graph import trace
from pypto.graph.ir.dims import Dim
from pypto.graph.ir.node import Node
from pypto.graph.plan.pipeline import groups_of, surroundings_of
from pypto.graph.rewrite.pipeline import rewritten
from pypto.graph.schedule.product_tiling import Contraction, contraction_loops
from pypto.graph.schedule.tiling import Program

Array = np.ndarray[Any, Any]
F4: Final = np.float32


def dequantised(x: Array, codes: Array, scales: Array) -> Array:
    n, k = codes.shape
    groups = scales.shape[1]
    w = (codes.reshape(n, groups, k // groups).astype(x.dtype) * scales[:, :, None]).reshape(n, k)
    found: Array = x @ w.T
    return found


def scaled_after(x: Array, codes: Array, scales: Array) -> Array:
    n, groups = scales.shape
    size = x.shape[1] // groups
    grouped = x.reshape(x.shape[0], groups, size)
    found: Array = np.einsum("mgk,ngk,ng->mn", grouped, codes.reshape(n, groups, size), scales)
    return found


def packed(x: Array, codes: Array, scales: Array, offsets: Array) -> Array:
    """Two codes of a byte are K's two halves of a group."""
    n, groups = scales.shape
    halves = np.stack([codes & 15, codes >> 4], axis=2)
    w = (halves.reshape(n, groups, -1).astype(F4) - offsets[:, :, None]) * scales[:, :, None]
    return x @ w.reshape(n, -1).T


def both_quantised(x: Array, sx: Array, codes: Array, scales: Array) -> Array:
    """Integers are added up within a group, and floats across groups."""
    m, groups = sx.shape
    left = x.reshape(m, groups, -1).transpose(1, 0, 2).astype(np.int32)
    right = codes.reshape(codes.shape[0], groups, -1).transpose(1, 2, 0).astype(np.int32)
    each = (left @ right).astype(F4)
    found: Array = (each * sx.T[:, :, None] * scales.T[:, None, :]).sum(0)
    return found


def arrays(m: int, n: int, groups: int, size: int, dtype: Any = F4) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(m * n + groups)
    x = rng.standard_normal((m, groups * size)).astype(dtype)
    codes = rng.integers(-127, 128, (n, groups * size)).astype(np.int8)
    return x, codes, (rng.random((n, groups)) * 0.1).astype(dtype)


def programs(function: Callable[..., Any], *given: Any) -> list[Program]:
    """The tilings of a function's kernels."""
    traced = trace(function, *given)
    traced = replace(traced, graph=rewritten(traced.graph))
    layouts, _ = surroundings_of(traced)
    return [g.program for g in groups_of(traced.graph, layouts).groups if g.program is not None]


def exact(x: Array, codes: Array, scales: Array) -> Array:
    n, groups = scales.shape
    w = codes.astype(float).reshape(n, groups, -1) * scales.astype(float)[:, :, None]
    found: Array = x.astype(float) @ w.reshape(n, -1).T
    return found


def assert_near(found: Array, wanted: Array, tolerance: float) -> None:
    assert found.shape == wanted.shape
    if wanted.size:
        assert np.abs(found.astype(float) - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1e-30)


@pytest.mark.parametrize("form", [dequantised, scaled_after])
@pytest.mark.parametrize(
    ("m", "n", "groups", "size"),
    [(64, 96, 8, 32), (3, 5, 7, 3), (17, 33, 3, 50), (64, 40, 5, 8), (2, 300, 2, 300), (9, 70, 4, 64), (64, 8, 40, 1)],
)
def test_grouped_product_is_one_kernel(form: Callable[..., Array], m: int, n: int, groups: int, size: int) -> None:
    given = arrays(m, n, groups, size)
    fused = pto.fuse(form)
    assert_near(fused(*given), exact(*given), 3e-6)
    if size <= 256:
        assert len(fused.plan(*given).kernels) == 1


def test_decisions_are_data() -> None:
    (program,) = programs(dequantised, *arrays(64, 512, 32, 32))
    assert [program.sizes[a] for a in program.outer] == [32]
    assert program.loop is None
    assert sorted(program.sizes[a] for a in program.full_axes) == [32]
    (program,) = programs(scaled_after, *arrays(64, 512, 32, 32))
    assert [program.sizes[a] for a in program.outer] == [32]
    assert sorted(program.blocks.values()) == [64, 64]
    (program,) = programs(dequantised, *arrays(64, 512, 2, 1024))  # K of a group goes by tiles
    assert [program.sizes[a] for a in program.outer] == [2]
    assert program.loop is not None
    assert program.chunk == 128


@pytest.mark.parametrize(
    ("sizes", "outer", "loop", "chunk", "depth"),
    [
        ((64, 32), (0,), None, 0, (1,)),  # a group is a tile of K
        ((64, 8), (), 0, 16, (0, 1)),  # several groups are one
        ((4, 32), (), None, 0, (0, 1)),  # K is short
        ((8, 1024), (0,), 1, 128, (1,)),  # a group is cut
        ((7, 5, 3), (), None, 0, (0, 1, 2)),
        ((100, 5, 3), (), 0, 5, (0, 1, 2)),
        ((101, 5, 3), (), 0, 8, (0, 1, 2)),
        ((100, 9, 48), (0, 1), None, 0, (2,)),
        ((1024,), (), 0, 128, (0,)),
        ((256,), (), None, 0, (0,)),
    ],
)
def test_loops_of_contracted_axes(
    sizes: tuple[int, ...], outer: tuple[int, ...], loop: int | None, chunk: int, depth: tuple[int, ...]
) -> None:
    contraction = Contraction(None, None, (), tuple(range(len(sizes))))
    found = contraction_loops(contraction, dict(enumerate(sizes)))
    assert (found.outer, found.axis, found.chunk, found.depth) == (outer, loop, chunk, depth)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 3e-3), (ml_dtypes.bfloat16, 3e-2)])
def test_narrow_floats(dtype: Any, tolerance: float) -> None:
    x, codes, scales = arrays(33, 48, 6, 32, dtype)
    wanted = dequantised(x.astype(F4), codes, scales.astype(F4))
    assert_near(pto.fuse(dequantised)(x, codes, scales), wanted, tolerance)


@pytest.mark.parametrize(("m", "n", "groups", "size"), [(64, 48, 8, 16), (5, 7, 3, 3), (1, 30, 4, 16)])
def test_packed_codes_with_offsets(m: int, n: int, groups: int, size: int) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 256, (n, groups, size)).astype(np.uint8)
    scales, offsets = rng.random((n, groups)).astype(F4), rng.integers(0, 16, (n, groups)).astype(F4)
    x = rng.standard_normal((m, groups * size * 2)).astype(F4)
    assert_near(pto.fuse(packed)(x, codes, scales, offsets), packed(x.astype(float), codes, scales, offsets), 1e-5)


@pytest.mark.parametrize(("m", "n", "groups", "size"), [(64, 80, 8, 32), (5, 7, 3, 3), (30, 64, 4, 128)])
def test_both_sides_quantised(m: int, n: int, groups: int, size: int) -> None:
    rng = np.random.default_rng(2)
    x, codes = (rng.integers(-127, 128, (rows, groups * size)).astype(np.int8) for rows in (m, n))
    sx, scales = rng.random((m, groups)).astype(F4), rng.random((n, groups)).astype(F4)
    fused = pto.fuse(both_quantised)
    assert_near(fused(x, sx, codes, scales), both_quantised(x, sx, codes, scales).astype(float), 1e-6)
    assert len(fused.plan(x, sx, codes, scales).kernels) == 1
    if size >= 32:
        (program,) = programs(both_quantised, x, sx, codes, scales)
        assert "dot" in [node.op for node in program.space.nodes]
        assert dot_types(program.space.nodes) == ["i8"]


def dot_types(nodes: tuple[Node, ...]) -> list[str]:
    return [str(n.inputs[0].type.dtype) for n in nodes if n.op == "dot"]


def test_long_axis_of_several_is_not_cut_through_one_of_them() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((31, 64, 256)).astype(F4), rng.standard_normal((31, 256, 31)).astype(F4)
    found = pto.fuse(lambda x, y: np.einsum("bmk,bkn->mn", x, y))(x, y)
    assert_near(found, np.einsum("bmk,bkn->mn", x.astype(float), y.astype(float)), 3e-6)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 4, 64), (4, 0, 64), (4, 4, 0)])
def test_no_elements(m: int, n: int, k: int) -> None:
    x, codes, scales = np.ones((m, k), F4), np.ones((n, k), np.int8), np.ones((n, max(1, k // 32)), F4)
    for form in (dequantised, scaled_after):
        assert_near(pto.fuse(form)(x, codes, scales), form(x, codes, scales).astype(float), 0)


@pytest.mark.parametrize("axis", [2, 3])
@pytest.mark.parametrize(("m", "n", "groups", "size"), [(64, 48, 8, 32), (5, 7, 3, 3), (1, 30, 4, 16)])
def test_unpacked_codes_are_not_stored(m: int, n: int, groups: int, size: int, axis: int) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 256, (n, groups, size)).astype(np.uint8)
    scales = rng.random((n, groups)).astype(F4)
    x = rng.standard_normal((m, groups * size * 2)).astype(F4)

    def linear(x: Array, codes: Array, scales: Array) -> Array:
        w = np.stack([codes & 15, codes >> 4], axis=axis).reshape(n, groups, -1).astype(x.dtype) * scales[:, :, None]
        found: Array = x @ w.reshape(n, -1).T
        return found

    fused = pto.fuse(linear)
    assert_near(fused(x, codes, scales), linear(x.astype(float), codes, scales), 3e-6)
    assert len(fused.plan(x, codes, scales).steps) == 1


def test_only_parts_of_one_array_are_chosen_from() -> None:
    def joined(x: Array, y: Array) -> tuple[Array, ...]:
        return np.concatenate([x * 2, x + 1, -x]), np.stack([x, x * 2], 1), np.concatenate([x * 2, y + 1])

    x, y = np.arange(12, dtype=F4).reshape(3, 4), np.ones((2, 4), F4)
    for found, wanted in zip(pto.fuse(joined)(x, y), joined(x, y), strict=True):
        np.testing.assert_array_equal(found, wanted)
    graph = rewritten(trace(joined, x, y).graph)
    assert [node.op for node in graph.outputs] == ["reshape", "concat", "concat"]


def test_row_by_transposed_matrix_reads_its_rows() -> None:
    x, w = np.ones((1, 512), F4), np.random.default_rng(0).standard_normal((300, 512)).astype(F4)
    (program,) = programs(lambda x, w: x @ w.T, x, w)
    assert program.form == "rows"
    (program,) = programs(lambda x, w: x @ w, x, np.ascontiguousarray(w.T))
    assert program.form == "columns"
    assert_near(pto.fuse(lambda x, w: x @ w.T)(x, w), x.astype(float) @ w.T, 1e-6)


@pytest.mark.parametrize("form", [dequantised, scaled_after])
def test_rows_that_are_known_when_a_plan_runs(form: Callable[..., Array]) -> None:
    fused = pto.fuse(form, dims={"x": (Dim("rows", 1, 4096), None)})
    for m in (1, 3, 17, 64, 200):
        given = arrays(m, 80, 4, 32)
        assert_near(fused(*given), exact(*given), 3e-6)
    assert len(fused.plan(*given).kernels) == 1


@pytest.mark.parametrize("form", [dequantised, scaled_after])
@pytest.mark.parametrize(("m", "n", "groups", "size"), [(20, 24, 3, 32), (5, 7, 3, 5), (16, 16, 2, 300)])
def test_interpreter_agrees(form: Callable[..., Array], m: int, n: int, groups: int, size: int) -> None:
    given = arrays(m, n, groups, size)
    with pto.interpreter():
        found = pto.fuse(form)(*given)
    assert_near(found, exact(*given), 3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("form", [dequantised, scaled_after])
def test_simulated_device_agrees(form: Callable[..., Array]) -> None:
    given = arrays(20, 48, 3, 32)
    fused = pto.fuse(form)
    with pto.device("ascend-sim"):
        found = fused(*given)
    assert_near(found, exact(*given), 1e-5)


@pytest.mark.parametrize(("shape", "outputs"), [((20, 21, 16), 24), ((5, 4, 3), 2), ((3, 8, 9, 4), 5)])
def test_patches_as_rows_of_a_product_are_not_stored(shape: tuple[int, ...], outputs: int) -> None:
    def convolution(x: Array, w: Array) -> Array:
        *_, height, width, channels = x.shape
        windows = [x[..., i : i + height - 2, j : j + width - 2, :] for i in range(3) for j in range(3)]
        found: Array = np.concatenate(windows, axis=-1).reshape(-1, 9 * channels) @ w
        return found

    rng = np.random.default_rng(4)
    x, w = rng.standard_normal(shape).astype(F4), rng.standard_normal((9 * shape[-1], outputs)).astype(F4)
    fused = pto.fuse(convolution)
    assert_near(fused(x, w), convolution(x.astype(float), w.astype(float)), 3e-6)
    plan = fused.plan(x, w)
    assert (len(plan.steps), plan.arena_bytes) == (1, 0)


def windows_first(x: Array, w: Array) -> Array:
    (_, height, width), outputs = x.shape, w.shape[0]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2)).transpose(1, 2, 0, 3, 4)
    found: Array = windows.reshape((height - 2) * (width - 2), -1) @ w.reshape(outputs, -1).T
    return found


def windows_summed(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(1, 2))
    found: Array = np.einsum("chwij,ocij->ohw", windows, w)
    return found


@pytest.mark.parametrize("function", [windows_first, windows_summed])
@pytest.mark.parametrize(("channels", "height", "width", "outputs"), [(16, 20, 21, 24), (3, 5, 35, 2), (1, 9, 4, 5)])
def test_windows_of_channels_are_not_stored(
    function: Callable[..., Array], channels: int, height: int, width: int, outputs: int
) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((channels, height, width)).astype(F4)
    w = rng.standard_normal((outputs, channels, 3, 3)).astype(F4)
    fused = pto.fuse(function)
    assert_near(fused(x, w), function(x.astype(float), w.astype(float)), 3e-6)
    assert fused.plan(x, w).arena_bytes <= (w.nbytes + 511) // 512 * 512  # of the weights in another order


@pytest.mark.parametrize("window", [1, 3, (2,), (4, 2)])
def test_sliding_windows_are_those_of_numpy(window: Any) -> None:
    view = np.lib.stride_tricks.sliding_window_view
    axes = range(-1, -1 - np.size(window), -1)
    x = np.arange(60, dtype=F4).reshape(2, 5, 6)

    def windows(x: Array) -> Array:
        found: Array = view(x, window, axis=tuple(axes)) + 1
        return found

    np.testing.assert_array_equal(pto.fuse(windows)(x), windows(x))
    with pytest.raises(pto.errors.graph.WrongShapes, match="E343"):
        pto.fuse(lambda x: view(x, 7, axis=1))(x)


def test_joined_arrays_by_a_computed_matrix() -> None:
    a, w = np.ones((8, 16), F4), np.arange(384, dtype=F4).reshape(32, 12)
    functions: tuple[Callable[..., Array], ...] = (
        lambda a, w: np.concatenate([a, a[:, ::-1]], 1) @ (w * 2),
        lambda a, w: np.concatenate([a, a[:, ::-1]], 1) @ w.reshape(16, 2, 12).transpose(1, 0, 2).reshape(32, 12),
        lambda a, w: np.concatenate([a[:1], a[1:2]], 1) @ w,
    )
    for function in functions:
        np.testing.assert_allclose(pto.fuse(function)(a, w), function(a, w), rtol=1e-5)
