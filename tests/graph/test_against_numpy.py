"""Small functions of numpy with values at the edges: each gives what numpy gives, or is refused with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NotTraced, WrongShapes

RNG = np.random.default_rng(0)
A = RNG.standard_normal((7, 9)).astype(np.float32)
NAN = np.where(RNG.random((6, 8)) < 0.2, np.nan, RNG.standard_normal((6, 8)))
EDGES = np.array([-np.inf, -5.5, -2.5, -1, -0.0, 0.0, 0.5, 1, 7, np.inf, np.nan])
PAIRS = tuple(x.copy() for x in np.meshgrid(EDGES, EDGES))
BYTES = np.arange(256).astype(np.uint8)
SHORT = np.arange(-300, 300).astype(np.int16)
LONG = RNG.integers(0, 200, 300_000)
COLUMNS = RNG.integers(-9000, 9000, (50_000, 3)).astype(np.int16)
SEVEN = np.arange(7)


def masked_copy(x: Any) -> Any:
    y = x.copy()
    np.copyto(y, 3, where=y > 0)
    five = SEVEN[:5]
    y[five, five] = 0
    return y


def diagonals(x: Any) -> Any:
    y = x[:, :7].copy()
    np.fill_diagonal(y, 5)
    return y, np.diag(x[0], 2), np.diag(x[0], -1), np.diag(x, 1), x.diagonal(-1), x.trace()


def pieces(x: Any) -> Any:
    v = x[0]
    return (
        np.fliplr(x), np.flipud(x), np.rot90(x), np.rot90(x, 3), np.rot90(x, 2), np.dstack([x, x]), np.atleast_2d(v),
        np.column_stack([v, v * 2]), *np.hsplit(x, 3), *np.vsplit(x, [2, 3]), np.append(x, v), np.append(x, x, axis=0),
        np.atleast_3d(v), np.atleast_3d(x),
    )  # fmt: skip


def without_nan(x: Any) -> Any:
    functions = (np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin)
    return *(f(x) for f in functions), *(f(x, axis=1, keepdims=True) for f in functions), np.median(x, axis=0)


def statistics(x: Any) -> Any:
    rows = np.median(x), np.median(x, axis=1, keepdims=True), np.median(x[:, :4], axis=1), np.ptp(x, axis=0)
    return *rows, *np.average(x, axis=1, weights=np.arange(9.0), returned=True), np.average(x), *np.gradient(x, 0.5)


def compared(x: Any) -> Any:
    y = np.select([x > 1, x < -1], [x, -x], 0)
    return y, np.isclose(x, x + 1e-9), np.isclose(x, x + 1e-3), np.allclose(x, y), np.array_equal(x, x)


CASES: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "positions of NaN": (lambda x: (x.argmax(axis=1), x.argmin(axis=0), x.argmax()), (NAN,)),
    "positions of one": (lambda x: (x[:, :1].argmax(axis=1), x[0, 0].argmin()), (A,)),
    "long positions": (lambda x: (x.argmax(), x.argmin(), x.reshape(3, -1).argmax(axis=1)), (LONG,)),
    "long positions of floats": (lambda x: (x.argmax(), (-x).argmin()), (LONG.astype(np.float32),)),
    "long positions of NaN": (lambda x: x.argmin(), (np.where(np.arange(200_003) == 150_000, np.nan, 1.0),)),
    "long positions of bytes": (lambda x: (x.argmax(), (x > 9).argmax()), (LONG.astype(np.uint8)[:40_000],)),
    "positions along columns": (lambda x: x.argmax(axis=0), (COLUMNS,)),
    "long extremes of bytes": (lambda x: (x.max(), x.min()), (LONG.astype(np.uint8),)),
    "extremes of columns": (lambda x: x.min(axis=0), (COLUMNS,)),
    "extremes wrap around": (lambda x: x.max(axis=1) + np.uint8(1) > 0, (np.full((3, 5), 255, np.uint8),)),
    "quotients": (lambda x, y: (x // y, x % y), PAIRS),
    "logaddexp": (np.logaddexp, PAIRS),
    "quotients in float32": (lambda x, y: (x // y, x % y), tuple(x.astype(np.float32) for x in PAIRS)),
    "numbers for NaN": (lambda x: (np.nan_to_num(x), np.nan_to_num(x, nan=1, posinf=2, neginf=3)), (EDGES,)),
    "wide numbers": (lambda x: (x < 300, x == -1, x >= -5, x != 2**40), (BYTES,)),
    "wide numbers before": (lambda x: (40_000 > x, -40_000 >= x), (SHORT,)),  # noqa: SIM300
    "rounded integers": (lambda x: (np.round(x, -1), x.round(2), np.floor(x), np.rint(x)), (LONG[:40],)),
    "take with a mode": (lambda x: (np.take(x, [1, 20, -3], axis=1, mode="wrap"), x.take([50, -9], mode="clip")), (A,)),
    "array_split": (lambda x: np.array_split(x, 4), (A,)),
    "one array for two axes": (lambda x, i: x[i, i], (A, SEVEN)),
    "written by one array for two axes": (masked_copy, (A,)),
    "no elements": (lambda x: (x.any(), x.all(), x.any(axis=1), x.all(axis=0)), (A[:0],)),
    "differences of bools": (lambda x: np.diff(x > 0), (A,)),
    "diagonals": (diagonals, (A,)),
    "pieces": (pieces, (A,)),
    "without NaN": (without_nan, (NAN,)),
    "statistics": (statistics, (A,)),
    "statistics of integers": (lambda x: (np.median(x), np.nanmax(x), np.gradient(x), np.ptp(x)), (LONG[:41],)),
    "compared": (compared, (EDGES[1:-2],)),
    "corrections": (lambda x: (np.std(x, correction=1), x.var(0, None, None, 1)), (A,)),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_numpy_gives(name: str) -> None:
    function, given = CASES[name]
    with np.errstate(all="ignore"):
        wanted = function(*given)
    found = pto.fuse(function)(*given)
    several = isinstance(wanted, tuple | list)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=1e-6 if np.asarray(b).dtype == np.float64 else 1e-5, atol=1e-12)
        if np.asarray(b).dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a)[b == 0], np.signbit(b)[b == 0])


@pytest.mark.parametrize(
    "function, problem",
    [
        (lambda x: np.split(x, 2), "7 elements do not make 2 equal parts"),
        (lambda x: x.astype(np.uint8) + 300, "300 is no number of uint8"),
        (lambda x: x.astype(np.uint32) // -2, "-2 is no number of uint32"),
        (lambda x: np.reciprocal(x.astype(np.int32)), "np.reciprocal"),
        (lambda x: x + np.random.rand(9), "those of the first call"),
    ],
)
def test_what_would_differ_is_refused(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises((NotTraced, WrongShapes), match=problem):
        pto.fuse(function)(A)


@pytest.mark.parametrize("shape", [(0, 2, -1), (-1, 5), (0, -1), (-1, -1), (5, 2)])
def test_a_shape_that_numpy_refuses_is_refused(shape: tuple[int, ...]) -> None:
    x = np.zeros((0, 4) if shape[1] == 2 else (3, 4), np.float32)
    with pytest.raises(ValueError, match=r"reshape|unknown"):
        x.reshape(shape)
    with pytest.raises(WrongShapes, match="cannot be reshaped to"):
        pto.fuse(lambda x: x.reshape(shape) + 1)(x)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5), (1100, 1000), (0, 3)])
def test_rolls(shape: tuple[int, ...], dtype: str) -> None:
    """Small ones inside of kernels, large ones as copies of blocks; over all elements, one axis, or several."""
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    rolls: list[tuple[Any, Any]] = [(3, None), (-2, 0), (9, -1), ((1, -2), (0, -1)), ((1, 4), (0, 0)), (0, 0)]
    for by, axis in rolls:
        found = pto.fuse(lambda x, by=by, axis=axis: (np.roll(x, by, axis), np.roll(x, by, axis) + x))(x)
        for a, b in zip(found, (np.roll(x, by, axis), np.roll(x, by, axis) + x), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_large_roll_along_several_axes_is_one_step() -> None:
    plan = pto.fuse(lambda x: np.roll(x, (1, 2), (0, 1))).plan(np.ones((1100, 1000)))
    assert [step.nodes[-1].op for step in plan.steps] == ["roll"]
