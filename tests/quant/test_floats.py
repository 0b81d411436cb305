"""Floats of four and eight bits: codes against ml_dtypes and the definition of microscaling, in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pypto import library, quant
from pypto.errors.quant import WrongScheme
from pypto.quant.floats import FORMATS, magnitudes

DTYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": ml_dtypes.float4_e2m1fn}
FLOATS = [
    quant.fp8(), quant.fp8("e5m2"), quant.fp8(per="tensor"), quant.Scheme(8, per="group", group=16, form="e4m3"),
    quant.mxfp8(), quant.mxfp8("e5m2"), quant.mxfp4(),
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_codes_are_bits_of_the_format(name: str) -> None:
    """All codes there and back, all ties, and numbers on either side of each tie."""
    form = FORMATS[name]
    table = magnitudes(form)
    codes = np.arange(len(table), dtype=np.uint8)
    np.testing.assert_array_equal(table, codes.view(DTYPES[name]).astype(np.float64))
    np.testing.assert_array_equal(form.codes(table).view(np.uint8), codes)
    middle = (table[1:] + table[:-1]) / 2
    numbers = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), [0.0]])
    numbers = np.concatenate([numbers, -numbers])
    found = form.numbers(form.codes(numbers))
    least = np.abs(table[None] - np.abs(numbers)[:, None]).min(axis=1)
    np.testing.assert_array_equal(np.abs(np.abs(found) - np.abs(numbers)), least)
    np.testing.assert_array_equal(form.codes(middle) % 2, 0)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(numbers))
    assert form.numbers(form.codes(np.array([1e9, -1e9]))).tolist() == [form.largest, -form.largest]


@pytest.mark.parametrize("scheme", FLOATS)
def test_numbers_come_back_as_their_definition_says(scheme: quant.Scheme) -> None:
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((5, 96)) * np.exp2(rng.integers(-9, 9, (5, 96)))).astype(np.float32)
    w[1, :32] = 0
    w[2, 5] = 1e-30
    q = quant.quantize(w, scheme=scheme)
    size = {"tensor": None, "channel": 96}.get(scheme.per, scheme.group)
    groups = w.astype(np.float64).reshape((1, 1, -1) if size is None else (5, -1, size))
    most = np.abs(groups).max(axis=2, keepdims=True)
    form = FORMATS[scheme.form]
    with np.errstate(divide="ignore"):
        power = np.exp2(np.floor(np.log2(most)) - np.floor(np.log2(form.largest)))
    scale = np.where(most > 0, power if scheme.powers else most / form.largest, 1).astype(np.float32)
    np.testing.assert_array_equal(q.scales, np.broadcast_to(scale[..., 0], q.scales.shape))
    table = magnitudes(form)
    size_of = np.abs(groups / scale)
    far = np.abs(size_of[..., None] - table)
    nearest = np.where(far == far.min(axis=-1, keepdims=True), np.arange(len(table)) % 2, 2).argmin(axis=-1)
    expected = np.sign(groups) * table[nearest] * scale.astype(np.float64)
    np.testing.assert_array_equal(q.dequantize().astype(np.float64), expected.reshape(w.shape).astype(np.float32))
    assert not q.dequantize()[1, :32].any()


def test_codes_are_those_of_the_library() -> None:
    """Of its kernels for microscaling, where a group is not all 0."""
    w = np.random.default_rng(0).standard_normal((7, 128)).astype(np.float32)
    q, scale = library.quantize_mx(w)
    found = quant.quantize(w, scheme=quant.mxfp8())
    np.testing.assert_array_equal(found.codes, np.asarray(q).view(np.int8))
    np.testing.assert_array_equal(np.log2(found.scales) + 127, np.asarray(scale).reshape(7, -1))
    packed, scale = library.quantize_mxfp4(w)
    found = quant.quantize(w, scheme=quant.mxfp4())
    np.testing.assert_array_equal(found.codes[:, 0::2] + 16 * found.codes[:, 1::2].astype(np.uint8), packed)
    np.testing.assert_array_equal(np.log2(found.scales) + 127, np.asarray(scale).reshape(7, -1))


@pytest.mark.parametrize("scheme", FLOATS)
def test_gptq_rounds_to_floats(scheme: quant.Scheme) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((24, 64)).astype(np.float32)
    x = (rng.standard_normal((600, 64)) @ rng.standard_normal((64, 64))).astype(np.float32)
    lost = {
        name: quant.relative_error(x @ w.T, x @ quant.quantize(w, x, scheme, name).dequantize().T)
        for name in ("gptq", "minmax")
    }
    assert 0 < lost["gptq"] < lost["minmax"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: quant.fp8("e3m4"),
        lambda: quant.Scheme(8, form="e2m1"),
        lambda: quant.Scheme(8, False, form="e4m3"),
        lambda: quant.Scheme(8, per="group", group=32, powers=True),
        lambda: quant.Config(inputs=quant.mxfp4()),
        lambda: quant.Config(inputs=quant.Scheme(8, per="group", group=32, form="e4m3")),
    ],
)
def test_what_does_not_go_together_is_refused(make: Any) -> None:
    with pytest.raises(WrongScheme, match="is not offered"):
        make()
