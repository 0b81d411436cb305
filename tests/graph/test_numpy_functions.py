"""Functions of numpy without a kernel of their own: compositions, and steps that numpy runs between kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NeedsValue, NotTraced, OtherShape
from pypto.graph import trace

RNG = np.random.default_rng(0)
LINE = RNG.random(100).astype(np.float32)
GRID = RNG.standard_normal((6, 7))
COUNTS = RNG.integers(0, 9, 50)
GAPS = GRID.copy()
GAPS[1, 2] = GAPS[4] = np.nan
LONG = RNG.random(50_001)

STEPS = {  # run by numpy between kernels
    "convolve": (lambda x: np.convolve(x, x[:5]), LINE),
    "convolve same": (lambda x: np.convolve(x, np.ones(3) / 3, mode="same"), LINE),
    "bincount": (lambda k: np.bincount(k, minlength=9), COUNTS),
    "bincount weights": (lambda k: np.bincount(k, weights=k * 0.5, minlength=9), COUNTS),
    "histogram": (lambda x: np.histogram(x, 10), LINE),
    "histogram edges": (lambda x: np.histogram(x, bins=np.linspace(0, 1, 4), density=True), LINE),
    "histogram range": (lambda x: np.histogram(x, bins=4, range=(x.min(), x.max()))[0], LINE),
    "digitize": (lambda x: np.digitize(x, np.array([0.1, 0.5])), LINE),
    "interp": (lambda x: np.interp(x, np.array([0.0, 1]), np.array([2.0, 3])), LINE),
    "quantile": (lambda x: np.quantile(x, 0.3), LINE),
    "percentile": (lambda x: np.percentile(x, [25, 50, 75], axis=0), GRID),
    "nanpercentile": (lambda x: np.nanpercentile(x, 30, axis=1), GAPS),
    "nanmedian": (lambda x: np.nanmedian(x, axis=1), GAPS),
    "nanargmax": (lambda x: np.nanargmax(x[:4], axis=1), GAPS),
    "cov": (np.cov, GRID),
    "cov of two": (lambda x: np.cov(x, x * 2), LINE),
    "corrcoef": (np.corrcoef, GRID),
    "correlate": (lambda x: np.correlate(x, x[:5], "full"), LINE),
    "accumulate": (lambda x: np.maximum.accumulate(x, axis=1), GRID),
    "reduceat": (lambda x: np.add.reduceat(x, [0, 3, 7]), LINE),
    "frexp": (np.frexp, LINE),
    "gcd": (lambda k: np.gcd(k, 6), COUNTS),
    "spacing": (np.spacing, LINE),
    "polyfit": (lambda x: np.polyfit(np.arange(100.0), x, 2), LINE),
    "isin": (lambda k: np.isin(k, [1, 2]), COUNTS),
    "lexsort": (lambda k: np.lexsort((k, k % 3)), COUNTS),
    "partition": (lambda x: np.sort(np.partition(x, 4)[:4]), LINE),
    "argpartition": (lambda x: np.sort(x[np.argpartition(x, 4)][:4]), LINE),
    "unwrap": (lambda x: np.unwrap(x * 4), GRID),
    "lstsq": (lambda x: np.linalg.lstsq(x, x[:, 0], rcond=None)[0], GRID),
    "multi_dot": (lambda x: np.linalg.multi_dot([x, x.T, x]), GRID),
    "cond": (lambda x: np.linalg.cond(x @ x.T + np.eye(6)), GRID),
    "a long sort": (np.sort, LONG),
    "a long argsort": (np.argsort, LONG),
    "a long median": (np.median, LONG),
}
COMPOSITIONS = {
    "outer": (lambda x: np.multiply.outer(x, x[:3]), LINE),
    "subtract outer": (lambda x: np.subtract.outer(x, x), LINE),
    **{f"pad {m}": (lambda x, m=m: np.pad(x, ((1, 2), (3, 0)), mode=m), GRID) for m in ("edge", "reflect", "wrap")},
    "pad symmetric": (lambda x: np.pad(x, 4, "symmetric"), LINE),
    "divmod": (lambda x: divmod(x, np.float32(0.3)), LINE),
    "divmod of integers": (lambda k: np.divmod(k, 4), COUNTS),
    "modf": (lambda x: np.modf(x * 9), GRID),
    "repeat counts": (lambda x: np.repeat(x[:3], [1, 2, 3]), LINE),
    "repeat": (lambda x: np.repeat(x, 2, axis=1), GRID),
    "delete rows": (lambda x: np.delete(x, [1, 3], axis=0), GRID),
    "delete one": (lambda x: np.delete(x, 5), LINE),
    "delete slice": (lambda x: np.delete(x, slice(2, 9)), LINE),
    "insert": (lambda x: np.insert(x, 3, 7), LINE),
    "insert several": (lambda x: np.insert(x, 0, [1, 2]), LINE),
    "insert a column": (lambda x: np.insert(x, 1, 5.0, axis=1), GRID),
    "insert a row": (lambda x: np.insert(x, -2, x[0], axis=0), GRID),
    "piecewise": (lambda x: np.piecewise(x, [x < 0.3, x > 0.6], [lambda v: v * 2, lambda v: -v, 5]), LINE),
    "piecewise mean": (lambda x: np.piecewise(x, [x < 0.5, x >= 0.5], [0, lambda v: v - v.mean()]), LINE),
    "choose": (lambda k: np.choose(k % 3, [k, k * 2, k * 3]), COUNTS),
    "trapezoid": (lambda x: np.trapezoid(x, dx=0.1), LINE),
    "trapezoid places": (lambda x: np.trapezoid(x, x=np.arange(6.0), axis=0), GRID),
    "polyval": (lambda x: np.polyval([1.0, 2, 3], x), LINE),
    "vander": (lambda x: np.vander(x[:4]), LINE),
    "vander rising": (lambda k: np.vander(k[:4], 3, increasing=True), COUNTS),
    "ediff1d": (lambda x: np.ediff1d(x, to_begin=[0], to_end=x[:2]), LINE),
    "kron": (lambda x: np.kron(x, np.eye(2)), GRID),
    "kron of ranks": (lambda x: np.kron(np.arange(3), x), GRID),
    "nancumsum": (lambda x: np.nancumsum(x, axis=1), GAPS),
    "nancumprod": (lambda x: np.nancumprod(x, axis=0), GAPS),
    "fix": (lambda x: np.fix(x * 3), GRID),
    "sinc": (lambda x: np.sinc(np.concatenate([x, np.zeros((1, 7))])), GRID),
    "sinc of integers": (np.sinc, COUNTS),
    "block": (lambda x: np.block([[x, x], [x, np.zeros((6, 7))]]), GRID),
    "block of a list": (lambda x: np.block([x, x]), LINE),
    "real and imag": (lambda x: np.real(x) + np.imag(x), GRID),
    "rollaxis": (lambda x: np.rollaxis(x[None], 2), GRID),
    "diagflat": (lambda x: np.diagflat(x[:3], 1), LINE),
    "tril_indices_from": (lambda x: x[np.tril_indices_from(x)], GRID),
    "fftshift": (np.fft.fftshift, GRID),
    "ifftshift": (np.fft.ifftshift, LINE),
    "compress": (lambda x: np.compress([True, False, True], x, axis=0), GRID),
    "extract": (lambda x: np.extract(x > 0.5, x).sum(), LINE),
    "isposinf": (lambda x: np.isposinf(1 / (x - x[0])) | np.isneginf(x), LINE),
    "logaddexp2": (lambda x: np.logaddexp2(x, x * 2), GRID),
}


KEYWORDS = {  # numpy's names of arguments
    "transpose": (lambda x: np.transpose(x[None], axes=(1, 0, 2)), GRID),
    "swapaxes": (lambda x: np.swapaxes(x, axis1=0, axis2=1), GRID),
    "clip": (lambda x: np.clip(x, a_min=-0.5, a_max=0.5), GRID),
    "full_like": (lambda x: np.full_like(x, fill_value=3) + x, GRID),
    "split": (lambda x: tuple(np.split(x, indices_or_sections=2)), GRID),
    "hsplit": (lambda x: tuple(np.hsplit(x, indices_or_sections=[2, 5])), GRID),
    "diff": (lambda x: np.diff(x, prepend=0, append=x[-1:]), LINE),
    "diff of rows": (lambda x: np.diff(x, axis=0, prepend=1.5), GRID),
    "size": (lambda x: x * np.size(x, axis=1), GRID),
}


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
        return
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", STEPS | COMPOSITIONS)
def test_functions_of_numpy_are_as_in_numpy(name: str) -> None:
    function, x = (STEPS | COMPOSITIONS)[name]
    same(pto.fuse(function)(x.copy()), function(x.copy()))


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_have_the_names_of_numpy(name: str) -> None:
    function, x = KEYWORDS[name]
    same(pto.fuse(function)(x.copy()), function(x.copy()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_only_steps_run_in_numpy() -> None:
    for name, (function, x) in (STEPS | COMPOSITIONS).items():
        calls = [node for node in trace(function, x).graph.live() if node.op == "call"]
        assert bool(calls) == (name in STEPS), name


def test_a_step_names_its_function_in_the_plan() -> None:
    text = pt.explain(pto.fuse(lambda x: np.quantile(x * 2, 0.5) + 1), LINE)
    assert "3 steps, 2 kernels, 1 run by numpy" in text
    assert "quantile, run by numpy" in text


def test_a_result_of_another_shape_is_an_error_of_the_call() -> None:
    f = pto.fuse(lambda k: np.bincount(k, minlength=4))
    np.testing.assert_array_equal(f(np.array([1, 3])), [0, 1, 0, 1])
    with pytest.raises(OtherShape, match="minlength"):
        f(np.array([1, 9]))


def test_a_step_that_raises_leaves_arguments_as_they_were() -> None:
    def f(x: Any, m: Any) -> Any:
        x += 1
        return np.linalg.inv(m)

    x = np.zeros(3)
    with pytest.raises(np.linalg.LinAlgError):
        pto.fuse(f)(x, np.zeros((2, 2)))
    np.testing.assert_array_equal(x, np.zeros(3))


REFUSED = {
    "bincount": (NotTraced, np.bincount, "minlength"),
    "histogram": (NotTraced, lambda k: np.histogram(k, bins="auto"), "number of bins"),
    "repeat": (NeedsValue, lambda k: np.repeat(k, k), "as a constant"),
    "pad": (NotTraced, lambda k: np.pad(k, 1, mode=lambda *_: None), "concatenate"),
    "insert": (NotTraced, lambda k: np.insert(k, [1, 2], 5), "concatenate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_values_or_is_not_offered_says_the_way_out(name: str) -> None:
    kind, function, way = REFUSED[name]
    with pytest.raises(kind, match=way):
        trace(function, COUNTS)


@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 3, 0), (0, 2, 3)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums_of_no_elements(shape: tuple[int, ...], axis: int) -> None:
    x = np.ones(shape)
    for function in (np.cumsum, np.cumprod, np.sort, np.diff):
        found, wanted = pto.fuse(lambda x, f=function: f(x, axis=axis))(x), function(x, axis=axis)
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
