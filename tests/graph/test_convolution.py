"""Convolutions of `pypto.arrays`: right for any geometry, one kernel, and no patches in memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)


def reference(x: Array, w: Array, stride: Sequence[int], pads: Any, dilation: Sequence[int], groups: int) -> Array:
    """A convolution in float64 whose channels are second, tap by tap."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    filters = len(w)
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    spans = [d * (n - 1) + 1 for n, d in zip(w.shape[2:], dilation, strict=True)]
    counts = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, stride, strict=True)]
    w = w.reshape(groups, filters // groups, *w.shape[1:])
    total = np.zeros((len(x), groups, filters // groups, *counts))
    for tap in itertools.product(*map(range, w.shape[3:])):
        at = [
            slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(tap, dilation, counts, stride, strict=True)
        ]
        part = x[:, :, *at].reshape(len(x), groups, w.shape[2], *counts)
        total += np.einsum("ngc...,goc->ngo...", part, w[(slice(None),) * 3 + tap])
    return total.reshape(len(x), filters, *counts)


GEOMETRIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3 x 3": ((2, 12, 9, 8), (6, 12, 3, 3), {"padding": 1}),
    "stride 2": ((2, 12, 9, 8), (6, 12, 3, 3), {"padding": 1, "stride": 2}),
    "colours, 7 x 7, stride 2": ((1, 3, 17, 16), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    "5 x 5, stride 3": ((1, 2, 17, 11), (3, 2, 5, 5), {"padding": 2, "stride": 3}),
    "groups, dilation 2": ((2, 6, 9, 11), (4, 3, 3, 3), {"padding": 2, "dilation": 2, "groups": 2}),
    "depthwise": ((2, 6, 9, 11), (6, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 6}),
    "two filters for each channel": ((2, 6, 9, 11), (12, 1, 5, 5), {"padding": 2, "stride": 3, "groups": 6}),
    "1 x 1": ((2, 8, 7, 7), (9, 8, 1, 1), {}),
    "1 x 1, stride 2, groups": ((2, 8, 7, 7), (8, 2, 1, 1), {"stride": 2, "groups": 4}),
    "patch embedding": ((1, 3, 16, 16), (5, 3, 4, 4), {"stride": 4}),
    "no image": ((0, 3, 8, 8), (4, 3, 3, 3), {"padding": 1}),
    "one pixel": ((1, 2, 5, 5), (2, 2, 5, 5), {}),
    "two steps": ((2, 9, 13, 9), (4, 9, 3, 5), {"padding": (1, 2), "stride": (2, 1), "dilation": (1, 2)}),
    "even, dilation 2": ((1, 4, 8, 8), (8, 4, 4, 4), {"padding": 3, "dilation": 2}),
    "more taps than one product has": ((1, 2, 1, 80), (3, 2, 1, 70), {"padding": (0, 4)}),
    "a side of padding": ((1, 4, 6, 6), (8, 4, 2, 2), {"padding": ((1, 0), (0, 2))}),
    "cropped": ((1, 4, 9, 9), (8, 4, 2, 2), {"padding": ((-1, 0), (0, -2))}),
    "a sequence": ((2, 4, 30), (6, 4, 5), {"padding": 2, "stride": 2}),
    "a volume": ((1, 2, 5, 6, 7), (4, 2, 3, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
}


def pairs(value: Any, rank: int) -> list[tuple[int, int]]:
    each = [value] * rank if isinstance(value, int) else value
    return [(p, p) if isinstance(p, int) else p for p in each]


def geometry(name: str, dtype: Any = np.float64) -> tuple[Array, Array, dict[str, Any], Array]:
    """Images and filters whose channels are second, the options of the convolution, and its result."""
    shape, filters, options = GEOMETRIES[name]
    x, w = RNG.standard_normal(shape).astype(dtype), RNG.standard_normal(filters).astype(dtype)
    rank = len(shape) - 2
    steps = [tuple(a for a, _ in pairs(options.get(key, 1), rank)) for key in ("stride", "dilation")]
    pads = pairs(options.get("padding", 0), rank)
    cropped = x[:, :, *(slice(-min(0, a), n + min(0, b)) for n, (a, b) in zip(shape[2:], pads, strict=True))]
    pads = [(max(0, a), max(0, b)) for a, b in pads]
    return x, w, options, reference(cropped, w, steps[0], pads, steps[1], options.get("groups", 1))


def channels_last(x: Array, w: Array) -> tuple[Array, Array]:
    order = range(2, x.ndim)
    return np.ascontiguousarray(x.transpose(0, *order, 1)), np.ascontiguousarray(w.transpose(*order, 1, 0))


CONVOLUTIONS = {1: pt.conv1d, 2: pt.conv2d, 3: pt.conv3d}


@pytest.mark.covering(quick=6, slow=19)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolutions_are_right_in_both_orders(name: str) -> None:
    x, w, options, wanted = geometry(name)
    convolution, tolerance = CONVOLUTIONS[x.ndim - 2], 1e-11
    bias = RNG.standard_normal(len(w))
    wanted = wanted + bias.reshape(-1, *(1,) * (x.ndim - 2))
    found = convolution(x, w, bias, **options)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    found = convolution(*channels_last(x, w), bias, **options, data_format="channels_last")
    np.testing.assert_allclose(np.moveaxis(found, -1, 1), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2)])
@pytest.mark.parametrize("name", ["3 x 3", "depthwise", "groups, dilation 2"])
def test_narrow_floats_are_added_up_in_float32(name: str, dtype: Any, tolerance: float) -> None:
    x, w, options, wanted = geometry(name, dtype)
    for layout in ("NCHW", "NHWC"):
        given = (x, w) if layout == "NCHW" else channels_last(x, w)
        found = pt.conv2d(*given, **options, data_format=layout)
        assert found.dtype == dtype
        found = found if layout == "NCHW" else np.moveaxis(found, -1, 1)
        assert np.abs(found.astype(float) - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["3 x 3", "stride 2", "depthwise", "1 x 1"])
def test_integers_of_8_bits_are_added_up_in_32(name: str) -> None:
    x, w, options, _ = geometry(name)
    codes: list[Any] = [RNG.integers(-128, 128, a.shape).astype(np.int8) for a in (x, w)]
    exact = pt.conv2d(codes[0].astype(np.float64), codes[1].astype(np.float64), **options)
    found = pt.conv2d(codes[0], codes[1], **options)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, exact)


def block(options: dict[str, Any], x: Array, w: Array, scale: Array, shift: Array, residual: Array) -> Any:
    """Batch normalisation, a residual and an activation behind a convolution, and a scale in front of it."""
    y = pt.conv2d(x, w, **options, data_format="NHWC") * scale + shift
    return pt.relu(y + residual)


@pytest.mark.covering(quick=4, slow=16)
@pytest.mark.parametrize("name", [n for n, (shape, _, _) in GEOMETRIES.items() if len(shape) == 4 and shape[0]])
def test_a_block_is_one_kernel_without_patches(name: str) -> None:
    x, w, options, wanted = geometry(name, np.float32)
    x, w = channels_last(x, w)
    wanted = np.moveaxis(wanted, 1, -1)
    scale, shift = RNG.standard_normal((2, w.shape[-1]), np.float32)
    residual = RNG.standard_normal(wanted.shape, np.float32)
    fused = pto.fuse(lambda *given: block(options, *given))
    given = (x, w, scale, shift, residual)
    exact = np.maximum(wanted * scale + shift + residual, 0)
    np.testing.assert_allclose(fused(*given), exact, rtol=1e-3, atol=1e-3)
    plan = fused.plan(*given)
    by_rows = options.get("groups", 1) == 1 and x.shape[-1] <= 8  # the padded image is stored, as its rows overlap
    assert len(plan.steps) <= 1 + by_rows + (name == "one pixel")
    assert plan.arena_bytes <= by_rows * (4 * x.nbytes + 4096)
    with pto.interpreter():
        np.testing.assert_allclose(pto.fuse(lambda *given: block(options, *given))(*given), exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (((1, 2, 5, 5), (3, 4, 3, 3), {}), "do not fit 2 channels"),
        (((1, 4, 5, 5), (3, 2, 3, 3), {"groups": 2}), "3 filters of 2 channels in 2 groups"),
        (((1, 2, 2, 2), (3, 2, 3, 3), {}), "a window of 3 elements does not fit 2"),
        (((1, 2, 5), (3, 2, 3, 3), {}), "have 4 dimensions, not 3 and 4"),
        (((1, 2, 5, 5), (3, 2, 3, 3), {"stride": (1, 2, 3)}), "one number for each of 2 dimensions"),
        (((1, 2, 5, 5), (3, 2, 3, 3), {"stride": 0}), "are 1 or more"),
        (((1, 2, 5, 5), (3, 2, 3, 3), {"padding": "full"}), "'valid' or 'same'"),
        (((1, 2, 5, 5), (3, 2, 3, 3), {"data_format": "CHWN"}), "'NCHW' or 'NHWC'"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_line(given: Any, problem: str) -> None:
    shape, filters, options = given
    with pytest.raises(pto.errors.graph.WrongShapes, match=problem) as refused:
        pt.conv2d(np.ones(shape, np.float32), np.ones(filters, np.float32), **options)
    assert refused.value.loc is not None
    assert refused.value.loc.file == __file__


def test_same_padding_keeps_the_size() -> None:
    x, w = np.ones((1, 1, 7, 6), np.float32), np.ones((1, 1, 4, 3), np.float32)
    assert pt.conv2d(x, w, padding="same").shape == (1, 1, 7, 6)
    assert pt.conv2d(x, w, padding="same", stride=2).shape == (1, 1, 4, 3)
    np.testing.assert_array_equal(pt.conv2d(x, w, padding="same")[0, 0, 3], [8, 12, 12, 12, 12, 8])


# --- transposed -------------------------------------------------------------------------------------------------------


def scattered(x: Array, w: Array, stride: Any, padding: Any, added: Any, groups: int, dilation: Any) -> Array:
    """A transposed convolution of (images, channels, rows, columns): each element adds a window to the result."""
    channels, filters = x.shape[1] // groups, w.shape[1]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    sizes = [(n - 1) * s + span + a for n, s, span, a in zip(x.shape[2:], stride, spans, added, strict=True)]
    total = np.zeros((len(x), groups, filters, *sizes))
    parts, w = x.reshape(len(x), groups, channels, *x.shape[2:]), w.reshape(groups, channels, filters, *w.shape[2:])
    for i, j in itertools.product(*map(range, x.shape[2:])):
        window = np.einsum("ngc,gcfkl->ngfkl", parts[..., i, j], w)
        rows, columns = (
            slice(at * s, at * s + span, d) for at, s, span, d in zip((i, j), stride, spans, dilation, strict=True)
        )
        total[..., rows, columns] += window
    rows, columns = (slice(p, n - p) for p, n in zip(padding, sizes, strict=True))
    total = total[..., rows, columns]
    return total.reshape(len(x), groups * filters, *total.shape[3:])


@pytest.mark.covering(quick=3, slow=9)
@pytest.mark.parametrize(
    ("sizes", "stride", "padding", "added", "groups", "dilation"),
    [
        ((2, 4, 5, 6, 3, 3, 3), (1, 1), (1, 1), (0, 0), 1, (1, 1)),
        ((2, 4, 5, 6, 3, 3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1)),
        ((2, 4, 5, 6, 3, 2, 2), (2, 2), (0, 0), (0, 0), 1, (1, 1)),
        ((1, 4, 5, 6, 3, 4, 4), (2, 2), (1, 1), (0, 0), 2, (1, 1)),
        ((1, 6, 3, 4, 1, 3, 3), (3, 3), (0, 0), (0, 0), 6, (1, 1)),
        ((1, 4, 5, 6, 3, 3, 3), (3, 3), (1, 1), (2, 2), 1, (2, 2)),
        ((1, 4, 5, 6, 3, 2, 2), (3, 3), (0, 0), (1, 1), 1, (1, 1)),
        ((1, 4, 5, 6, 3, 3, 2), (2, 1), (1, 0), (1, 0), 1, (1, 2)),
        ((0, 4, 5, 6, 3, 3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1)),
    ],
)
def test_transposed_convolutions(
    sizes: tuple[int, ...], stride: Any, padding: Any, added: Any, groups: int, dilation: Any
) -> None:
    n, c, height, width, o, rows, columns = sizes
    x, w = RNG.standard_normal((n, c, height, width)), RNG.standard_normal((c, o, rows, columns))
    bias = RNG.standard_normal(o * groups)
    wanted = scattered(x, w, stride, padding, added, groups, dilation) + bias[:, None, None]
    found = pt.conv_transpose(x, w, bias, stride, padding, added, groups, dilation)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
    x, w = channels_last(x, w)
    found = pt.conv_transpose(x, w, bias, stride, padding, added, groups, dilation, "NHWC")
    np.testing.assert_allclose(np.moveaxis(found, -1, 1), wanted, rtol=1e-11, atol=1e-11)


def test_what_is_no_transposed_convolution_is_refused() -> None:
    x, w = np.ones((1, 2, 5, 5), np.float32), np.ones((2, 3, 3, 3), np.float32)
    wrong = pto.errors.graph.WrongShapes
    with pytest.raises(wrong, match="filters for 2 channels in 1 groups do not fit 3"):
        pt.conv_transpose(np.ones((1, 3, 5, 5), np.float32), w)
    with pytest.raises(wrong, match="leave no result"):
        pt.conv_transpose(x, w, output_padding=1)
