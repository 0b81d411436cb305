"""Deployed layers compute what their quantised layers say in numpy; the real encoder stays close to float32."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import FewSamples, WrongScheme
from tests.quant import encoder

W8A8 = {
    "token": quant.Config(inputs=quant.int8("token")),
    "static": quant.Config(quant.int8("tensor"), quant.int8("tensor")),
    "zero point": quant.Config(inputs=quant.int8("tensor", symmetric=False)),
    "factors": quant.Config(inputs=quant.int8("token"), algorithm="smoothquant"),
    "static factors": quant.Config(inputs=quant.int8("tensor"), algorithm="smoothquant"),
}
FLOATS = {
    "int8": quant.Config(),
    "int8 zeros": quant.Config(quant.int8(symmetric=False)),
    "int4": quant.Config(quant.int4()),
    "int4 groups": quant.Config(quant.int4(group=32)),
    "int4 zeros": quant.Config(quant.int4(group=20, symmetric=False)),
    "int4 order": quant.Config(quant.int4(group=32), algorithm=quant.gptq(act_order=True)),
    "int4 factors and order": quant.Config(quant.int4(group=64), algorithm=("smoothquant", quant.gptq(act_order=True))),
    "int4 factors": quant.Config(quant.int4(group=64), algorithm="awq"),
    "mxfp4": quant.Config(quant.mxfp4()),
}
MX = {
    "mxfp8": quant.Config(quant.mxfp8(), quant.mxfp8(), "gptq"),
    "mxfp8 factors": quant.Config(quant.mxfp8(), quant.mxfp8(), "smoothquant"),
}


def layer_and_inputs(config: quant.Config, k: int, n: int = 37) -> tuple[quant.QuantizedLayer, Any]:
    rng = np.random.default_rng(k)
    one = quant.Layer("a", rng.standard_normal((n, k)).astype(np.float32), rng.standard_normal(n).astype(np.float32))
    x = (rng.standard_normal((4 * k + 50, k)) * np.exp(rng.standard_normal(k)) + 0.5).astype(np.float32)
    block = quant.Block("0", [one], lambda values, linear: {"x": linear("a", values["x"])})
    with quant.calibrate([block], config) as run:
        run({"x": x})
        return run.convert()["a"], x


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("k", [1, pytest.param(64, marks=pytest.mark.slow), 131])
@pytest.mark.parametrize("name", [*W8A8, *FLOATS, *MX])
def test_kernels_agree_with_numpy(name: str, k: int) -> None:
    layer, x = layer_and_inputs((W8A8 | FLOATS | MX)[name], k)
    deployed = quant.deploy({"a": layer})["a"]
    for rows in (1, 7):
        expected = layer(x[:rows])
        # A code of an input may be the other one of two that are equally near, in float32.
        atol = np.abs(expected).max() * (0.02 if name in W8A8 else 1e-5)
        np.testing.assert_allclose(deployed(x[:rows]), expected, rtol=0, atol=atol)
    assert deployed(x[:6].reshape(2, 3, k)).shape == (2, 3, 37)
    assert deployed(x[:0]).shape == (0, 37)
    kinds = {"W8A8": W8A8, "MXFP8": MX, "W8A16": ("int8", "int8 zeros", "mxfp4")}
    assert deployed.kind == next((kind for kind, names in kinds.items() if name in names), "W4A16")


@pytest.mark.parametrize("algorithm", ["minmax", "smoothquant", quant.gptq(act_order=True)])
def test_inputs_in_groups_are_closer_than_tokens(algorithm: Any) -> None:
    """A scale for each 16 inputs of a row: kernels compute what numpy says, and an outlier costs its group alone."""
    grouped, x = layer_and_inputs(quant.Config(inputs=quant.int8("group", group=16), algorithm=algorithm), 96)
    tokens, _ = layer_and_inputs(quant.Config(inputs=quant.int8("token"), algorithm=algorithm), 96)
    expected = grouped(x[:7])
    deployed = quant.deploy({"a": grouped})["a"]
    np.testing.assert_allclose(deployed(x[:7]), expected, rtol=0, atol=0.02 * np.abs(expected).max())
    exact = layer_and_inputs(quant.Config(algorithm=algorithm), 96)[0](x)
    assert quant.sqnr(exact, deployed(x)) > quant.sqnr(exact, tokens(x)) + 3
    with pytest.raises(WrongScheme, match="131 inputs in groups of 16 are not offered"):
        quant.deploy({"a": layer_and_inputs(quant.Config(inputs=quant.int8("group", group=16)), 131)[0]})


def test_four_bits_take_half_the_bytes() -> None:
    layers = [layer_and_inputs(quant.Config(scheme), 128, 64)[0] for scheme in (quant.int8(), quant.int4())]
    assert [quant.deploy({"a": layer})["a"].bytes - 4 * 64 for layer in layers] == [128 * 64, 64 * 64]
    assert [layer.weight.bytes - 4 * 64 for layer in layers] == [128 * 64, 64 * 64]


@pytest.mark.parametrize(
    "config",
    [
        quant.Config(quant.fp8()),
        quant.Config(quant.mxfp8()),
        quant.Config(quant.fp8(), quant.fp8(per="token")),
        quant.Config(quant.mxfp8("e5m2"), quant.mxfp8()),
        quant.Config(quant.mxfp8(), quant.mxfp8(), quant.gptq(act_order=True)),
    ],
)
def test_floats_that_have_no_kernel(config: quant.Config) -> None:
    layer, x = layer_and_inputs(config, 64)
    with pytest.raises(WrongScheme, match=r"layer a: a product of weights .* is not offered"):
        quant.deploy({"a": layer})
    assert np.isfinite(layer(x[:3])).all()


@pytest.mark.parametrize("scheme", [quant.int4(), quant.int8(symmetric=False)])
def test_int8_inputs_need_symmetric_int8_weights(scheme: quant.Scheme) -> None:
    layer = layer_and_inputs(quant.Config(scheme, quant.int8("token")), 16)[0]
    with pytest.raises(WrongScheme, match=r"layer a: weights .* with int8 inputs are not offered"):
        quant.deploy({"a": layer})


def test_odd_groups_have_no_kernel() -> None:
    with pytest.raises(WrongScheme, match="groups of 7 are not offered"):
        quant.deploy({"a": layer_and_inputs(quant.Config(quant.int4(group=7)), 16)[0]})


@pytest.mark.slow
@pytest.mark.parametrize(("rounding", "least", "mean"), [("minmax", 0.998, 0.999), ("gptq", 0.999, 0.9995)])
def test_the_encoder_in_int8_is_close_to_float32(rounding: str, least: float, mean: float) -> None:
    """All layers in int8, smoothed and then rounded, calibrated on the sentences that are embedded."""
    weights, batch = encoder.real()
    config = quant.Config(inputs=quant.int8("token"), algorithm=(quant.smoothquant(alpha=0.7), rounding))
    with quant.calibrate(encoder.blocks(weights), config) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamples)
        run(encoder.embedded(weights, batch))
        layers = quant.deploy(run.convert())
    exact = encoder.embed(weights, batch)
    found = encoder.embed(weights, batch, layers)
    cosines = quant.cosine(exact, found)
    pairs = np.triu_indices(len(exact), 1)
    correlation = quant.rank_correlation((exact @ exact.T)[pairs], (found @ found.T)[pairs])
    assert least <= cosines.min() < 1
    assert mean <= cosines.mean() < 1
    assert 0.995 <= correlation < 1


@pytest.mark.slow
def test_the_encoder_in_four_bits() -> None:
    """The whole model, each block calibrated on quantised ones: GPTQ is closer to float32 than rounding."""
    weights, batch = encoder.real()
    exact = encoder.embed(weights, batch)
    lost = {}
    for algorithm in ("gptq", "minmax"):
        config = quant.Config(quant.int4(group=128), algorithm=algorithm)
        with quant.calibrate(encoder.blocks(weights), config) as run, warnings.catch_warnings():
            warnings.simplefilter("ignore", FewSamples)
            run(encoder.embedded(weights, batch))
            layers = run.convert()
        lost[algorithm] = 1 - quant.cosine(exact, encoder.embed(weights, batch, quant.deploy(layers))).mean()
    assert 0 < lost["gptq"] < lost["minmax"]
