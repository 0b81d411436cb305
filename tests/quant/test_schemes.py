"""Schemes, rounding and metrics against numbers that are worked out by hand or by plain numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pypto import quant
from pypto.errors.quant import NoSuchAlgorithm, NotFinite, WrongCalibration, WrongOption, WrongResult, WrongScheme

SCHEMES = [
    quant.int8(),
    quant.int8("tensor"),
    quant.int8(symmetric=False),
    quant.int4(),
    quant.int4(symmetric=False),
    quant.int4(group=3),
    quant.int4(group=3, symmetric=False),
]
NUMBERS = st.floats(-(2.0**90), 2.0**90, width=32)


@pytest.mark.parametrize("bits", [8, 4])
def test_ranges_of_codes(bits: int) -> None:
    symmetric = quant.Scheme(bits)
    assert (symmetric.low, symmetric.high) == {8: (-127, 127), 4: (-8, 7)}[bits]
    asymmetric = quant.Scheme(bits, symmetric=False)
    assert (asymmetric.low, asymmetric.high, asymmetric.steps) == {8: (-128, 127, 255), 4: (-8, 7, 15)}[bits]


@pytest.mark.parametrize(
    "make",
    [
        lambda: quant.Scheme(bits=3),
        lambda: quant.Scheme(per="row"),
        lambda: quant.Scheme(per="group"),
        lambda: quant.Scheme(group=8),
        lambda: quant.int4(group=-1),
        lambda: quant.int8("tensor", observer="largest"),
        lambda: quant.int8("tensor", percentile=30),
        lambda: quant.Config(quant.int8("token")),
        lambda: quant.Config(inputs=quant.int4()),
        lambda: quant.Config(inputs=quant.int8("token", symmetric=False)),
    ],
)
def test_what_does_not_go_together_is_refused(make: Any) -> None:
    with pytest.raises(WrongScheme, match="is not offered"):
        make()


def test_names_of_algorithms_and_options_are_checked() -> None:
    with pytest.raises(NoSuchAlgorithm, match="did you mean gptq"):
        quant.Config(algorithm="gtpq")
    with pytest.raises(WrongOption, match="did you mean damp"):
        quant.gptq(dampp=1)
    with pytest.raises(AttributeError):
        _ = quant.nothing
    assert "gptq" in dir(quant)


@settings(deadline=None, max_examples=60)
@given(
    arrays(
        np.float32, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=st.floats(-(2.0**90), 2.0**90, width=32)
    ),
    st.sampled_from(SCHEMES),
)
def test_the_error_is_at_most_half_a_step_within_the_range(w: Any, scheme: quant.Scheme) -> None:
    q = quant.quantize(w, scheme=scheme)
    assert np.isfinite(q.scales).all() and (q.scales > 0).all()
    columns = np.arange(w.shape[1]) // (scheme.group or w.shape[1])
    # A whole step where the symmetric grid of four bits has no code for the largest number, or a zero point is rounded.
    most = 1 if scheme.bits == 4 or not scheme.symmetric else 0.5
    assert (np.abs(w.astype(np.float64) - q.dequantize()) <= most * q.scales[:, columns] * (1 + 1e-5)).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_zeros_stay_zeros_and_padding_changes_nothing(scheme: quant.Scheme) -> None:
    w = np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)
    w[1] = 0
    q = quant.quantize(w, scheme=scheme)
    assert not q.dequantize()[1].any()
    padded = quant.quantize(np.pad(w, ((0, 0), (0, 2))), scheme=scheme)
    np.testing.assert_array_equal(padded.dequantize()[:, :7], q.dequantize())
    assert not padded.dequantize()[:, 7:].any()


def test_halves_go_to_even_and_ends_are_clipped() -> None:
    x = np.array([[-1e9, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9]], np.float32)
    one = np.ones((1, 1), np.float32)
    assert quant.codes(x, one, None, quant.int8()).tolist() == [[-127, -2, 0, 0, 2, 2, 127]]
    assert quant.codes(x, one, None, quant.int4()).tolist() == [[-8, -2, 0, 0, 2, 2, 7]]
    zero = np.full((1, 1), 5, np.int8)
    assert quant.codes(x, one, zero, quant.int4(symmetric=False)).tolist() == [[-8, 3, 5, 5, 7, 7, 7]]


def test_a_constant_channel_is_exact_where_the_grid_has_its_number() -> None:
    w = np.full((2, 4), 0.5, np.float32)
    for scheme in (quant.int8(), quant.int8(symmetric=False), quant.int4(symmetric=False)):
        np.testing.assert_allclose(quant.quantize(w, scheme=scheme).dequantize(), w, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_layer_of_a_number_that_is_not_finite_is_named(bad: float) -> None:
    w = np.ones((2, 3), np.float32)
    broken = w.copy()
    broken[1, 2] = bad
    with pytest.raises(NotFinite, match=r"layer up: its weight .* at \[1, 2\]"):
        quant.quantize(broken, name="up")
    with pytest.raises(NotFinite, match=r"layer up: its input .* at \[1, 2\]"):
        quant.quantize(w, broken, name="up")


def test_algorithms_that_need_data_say_so() -> None:
    for name in ("gptq", "awq", "smoothquant"):
        with pytest.raises(WrongCalibration, match=f"layer weight: algorithm {name} needs inputs"):
            quant.quantize(np.ones((2, 3), np.float32), algorithm=name)


@pytest.mark.parametrize("scales", [np.nan, 0, np.inf, -1])
def test_what_an_algorithm_gives_is_checked(scales: float) -> None:
    def wrong(layer: quant.Layer, statistics: quant.Statistics, scheme: quant.Scheme) -> quant.QuantizedWeight:
        n, k = layer.weight.shape
        return quant.QuantizedWeight(np.zeros((n, k), np.int8), np.full((n, 1), scales, np.float32), scheme)

    with pytest.raises(WrongResult, match="positive and finite"):
        quant.quantize(np.ones((2, 3), np.float32), algorithm=quant.Algorithm("wrong", wrong, False, False))


def test_metrics() -> None:
    assert quant.sqnr(np.ones(3), np.ones(3)) == math.inf
    assert quant.sqnr(np.zeros(3), np.ones(3)) == -math.inf
    assert quant.sqnr(np.array([10.0, 0]), np.array([10.0, 1])) == pytest.approx(20)
    assert quant.relative_error(np.array([10.0, 0]), np.array([10.0, 1])) == pytest.approx(0.1)
    assert quant.cosine(np.array([[1.0, 0], [0, 0], [0, 0]]), np.array([[1.0, 1], [0, 0], [1, 1]])).tolist() == [
        pytest.approx(math.sqrt(0.5)), 1, 0,
    ]  # fmt: skip
    assert quant.rank_correlation(np.array([1, 2, 2, 3]), np.array([0.0, 5, 5, 9])) == pytest.approx(1)
    assert quant.rank_correlation(np.array([1, 2, 3]), np.array([3, 2, 1])) == pytest.approx(-1)


@pytest.mark.parametrize(("bits", "expected"), [(8, 49.9), (4, 25.3)])
def test_sqnr_of_uniform_numbers_is_what_theory_says(bits: int, expected: float) -> None:
    """A uniform number over the whole range has 6.02 dB for each bit; here of 254 and of 15 steps."""
    w = np.random.default_rng(0).uniform(-1, 1, (4, 20000))
    scheme = quant.Scheme(bits)
    assert quant.sqnr(w, quant.quantize(w, scheme=scheme).dequantize()) == pytest.approx(expected, abs=2.0)
    assert 20 * math.log10(scheme.steps) == pytest.approx(
        quant.sqnr(w, quant.quantize(w, scheme=scheme).dequantize()), abs=1.5
    )
