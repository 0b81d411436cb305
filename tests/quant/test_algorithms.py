"""What each algorithm minimises, on made and on real layers, and data that no algorithm likes."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import (
    FewSamples,
    NoSuchLayer,
    NotFinite,
    RoundedToNearest,
    WrongCalibration,
    WrongOption,
    WrongScheme,
    WrongSequence,
)
from pypto.quant.metrics import row_sqnr
from tests.quant import encoder

W4 = quant.int4(group=16)


def correlated(rows: int = 512, columns: int = 48, seed: int = 0) -> tuple[Any, Any]:
    """A weight, and inputs whose columns depend on one another and are of different sizes."""
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((columns, columns)) * np.exp(rng.standard_normal(columns))
    x = rng.standard_normal((rows, columns)) @ mix
    return rng.standard_normal((32, columns)).astype(np.float32), x.astype(np.float32)


def error(w: Any, x: Any, q: quant.QuantizedWeight) -> float:
    """Of the layer's outputs."""
    t = x.astype(np.float64)
    return quant.relative_error(t @ w.T, t @ q.dequantize().T)


@pytest.mark.parametrize("scheme", [W4, quant.int4(), quant.int4(group=20, symmetric=False), quant.int8("tensor")])
def test_errors_are_ordered(scheme: quant.Scheme) -> None:
    w, x = correlated()
    errors = [error(w, x, quant.quantize(w, x, scheme, name)) for name in ("gptq", "awq", "minmax")]
    assert errors[0] < errors[2]
    assert errors[1] <= errors[2]
    ordered = error(w, x, quant.quantize(w, x, scheme, quant.gptq(act_order=True)))
    assert ordered < errors[2]
    clipped = error(w, x, quant.quantize(w, x, scheme, quant.gptq(clip_steps=8)))
    assert clipped < (errors[2] if scheme.per == "tensor" else errors[0])


@pytest.mark.parametrize("clip_steps", [0, 8])
def test_errors_of_a_model_are_ordered_on_other_data(clip_steps: int) -> None:
    """Two blocks of four bits, whose inputs have some large columns: GPTQ below AWQ below rounding to nearest."""
    rng = np.random.default_rng(0)
    mix = (rng.standard_normal((64, 64)) / 8 + np.eye(64)) * np.exp(1.2 * rng.standard_normal(64))

    def block(name: str) -> quant.Block:
        up = quant.Layer(f"{name}.up", rng.standard_normal((128, 64)).astype(np.float32) / 8)
        down = quant.Layer(f"{name}.down", rng.standard_normal((64, 128)).astype(np.float32) / 11)

        def forward(values: Any, linear: Any) -> Any:
            return {"x": values["x"] + linear(f"{name}.down", np.maximum(linear(f"{name}.up", values["x"]), 0))}

        return quant.Block(name, [up, down], forward)

    model = [block("0"), block("1")]
    seen, unseen = ((rng.standard_normal((1024, 64)) @ mix).astype(np.float32) for _ in range(2))
    exact = model[1].run(model[0].run({"x": unseen}))["x"]
    errors = []
    for algorithm in (quant.gptq(clip_steps=clip_steps), quant.awq(clip_steps=clip_steps), "minmax"):
        with quant.calibrate(model, quant.Config(quant.int4(group=32), algorithm=algorithm)) as run:
            run({"x": seen})
            layers = run.convert()
        found = model[1].run(model[0].run({"x": unseen}, layers), layers)["x"]
        errors.append(quant.relative_error(exact, found))
    assert errors[0] < errors[1] < errors[2], errors


@pytest.mark.parametrize("scheme", [W4, quant.int4(), quant.int4(group=20, symmetric=False), quant.int8("tensor")])
def test_clipping_lowers_the_error_of_awq(scheme: quant.Scheme) -> None:
    w, x = correlated()
    w[::3, 5] *= 6
    whole, clipped = (error(w, x, quant.quantize(w, x, scheme, quant.awq(clip_steps=steps))) for steps in (0, 8))
    assert clipped < (whole if scheme.bits == 4 else 1.02 * whole)


def test_gptq_is_the_textbook_algorithm() -> None:
    """Column by column with the inverse taken anew each time, as optimal brain quantisation has it."""
    w, x = correlated(columns=12)
    scheme = quant.int4()
    found = quant.quantize(w, x, scheme, "gptq")
    h = x.astype(np.float64).T @ x.astype(np.float64)
    h += 0.01 * h.diagonal().mean() * np.eye(12)
    t = w.astype(np.float64)
    scales, _ = quant.grid(*quant.ranges(t, scheme), scheme)
    expected = np.empty_like(w, np.int8)
    for j in range(12):
        expected[:, j] = quant.codes(t[:, j : j + 1], scales, None, scheme)[:, 0]
        inverse = np.linalg.inv(h[j:, j:])
        lost = t[:, j] - expected[:, j] * scales[:, 0].astype(np.float64)
        t[:, j:] -= np.outer(lost / inverse[0, 0], inverse[0])
    np.testing.assert_array_equal(found.codes, expected)


def test_inputs_that_are_always_zero_are_rounded_to_nearest() -> None:
    w, x = correlated()
    x[:, [3, 17]] = 0
    found = quant.quantize(w, x, quant.int8(), "gptq")
    nearest = quant.quantize(w)
    np.testing.assert_array_equal(found.codes[:, [3, 17]], nearest.codes[:, [3, 17]])
    assert error(w, x, found) < error(w, x, nearest)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("gptq", "awq", "smoothquant"):
            zeros = quant.quantize(w, np.zeros((200, 48)), quant.int8(), name)
            assert np.isfinite(zeros.dequantize()).all()


def test_a_matrix_of_low_rank_is_damped_and_then_rounded() -> None:
    w = correlated()[0]
    x = np.ones((200, 48), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert error(w, x, quant.quantize(w, x, W4, "gptq")) < error(w, x, quant.quantize(w, x, W4))
    with pytest.warns(RoundedToNearest, match="layer weight: .* even with damping 0"):
        found = quant.quantize(w, x, W4, quant.gptq(damp=0))
    np.testing.assert_array_equal(found.codes, quant.quantize(w, x, W4).codes)


def test_few_rows_are_warned_of() -> None:
    w, x = correlated(191)
    with pytest.warns(FewSamples, match="layer weight: 191 rows of inputs for 48 columns"):
        quant.quantize(w, x, W4, "gptq")


def test_factors_move_outliers_from_inputs_to_weights() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 32)).astype(np.float32)
    x = rng.standard_normal((300, 32)).astype(np.float32)
    x[:, 5] *= 100
    config = {name: quant.Config(inputs=quant.int8("token"), algorithm=name) for name in ("minmax", "smoothquant")}
    exact = x @ w.T
    errors = {}
    for name, given in config.items():
        block = quant.Block("0", [quant.Layer("a", w)], lambda values, linear: {"y": linear("a", values["x"])})
        with quant.calibrate([block], given) as run:
            run({"x": x})
            layer = run.convert()["a"]
        errors[name] = quant.relative_error(exact, layer(x))
    assert errors["smoothquant"] < 0.5 * errors["minmax"]
    assert layer.weight.transform[5] == layer.weight.transform.min()


def test_the_best_exponent_is_searched() -> None:
    """On outliers in some rows alone, which a fixed exponent treats as those of all rows; never worse than those."""
    w, x = correlated(600)
    x[::50, 3] *= 300
    statistics = quant.Statistics("a", 48)
    statistics.add(x)
    layer = quant.Layer("a", w)
    inputs = quant.int8("token")

    def found(alpha: float | None) -> float:
        weight = quant.smoothquant(alpha=alpha).run(layer, statistics, quant.int8())
        y = quant.QuantizedLayer("a", weight, None, inputs)(statistics.sample.rows)
        return row_sqnr(statistics.sample.rows @ w.T, y)

    searched = found(None)
    fixed = [found(alpha / 10) for alpha in range(4, 10)]
    assert searched >= max(fixed) - 1e-6
    assert searched > found(0.5) + 1


def test_layers_of_much_noise_keep_their_inputs() -> None:
    """By their statistics: a layer with one very large input in each row does, one without does not."""
    w, x = correlated()
    rng = np.random.default_rng(0)
    wild = rng.standard_normal(x.shape).astype(np.float32)
    wild[np.arange(len(wild)), rng.integers(0, 48, len(wild))] *= 400
    config = quant.Config(inputs=quant.int8("token"), algorithm=("smoothquant", "gptq"), least_sqnr=39)

    def forward(values: Any, linear: Any) -> Any:
        return {"x": linear("tame", values["x"]) + linear("wild", values["y"])}

    block = quant.Block("0", [quant.Layer("tame", w), quant.Layer("wild", w)], forward)
    with quant.calibrate([block], config) as run:
        run({"x": rng.standard_normal(x.shape).astype(np.float32), "y": wild})
        layers = run.convert()
    assert layers["tame"].inputs == quant.int8("token")
    assert layers["wild"].inputs is None
    assert layers["wild"].weight.transform is None
    expected = quant.quantize(w, wild, algorithm="gptq")
    np.testing.assert_array_equal(layers["wild"].weight.codes, expected.codes)
    assert {name: q.kind for name, q in quant.deploy(layers).items()} == {"tame": "W8A8", "wild": "W8A16"}


def test_a_sequence_rounds_the_smoothed_layer() -> None:
    """The codes are those of the second algorithm for a layer and inputs that were scaled beforehand."""
    w, x = correlated()
    factors = quant.quantize(w, x, quant.int8(), "smoothquant").transform
    found = quant.quantize(w, x, quant.int8(), ("smoothquant", quant.gptq(act_order=True)))
    expected = quant.quantize(
        w.astype(np.float64) / factors, x.astype(np.float64) * factors, quant.int8(), quant.gptq(act_order=True)
    )
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(found.order, expected.order)
    np.testing.assert_array_equal(found.transform, factors)
    assert error(w, x, found) < error(w, x, quant.quantize(w, x, quant.int8(), "smoothquant"))


def test_factors_of_a_sequence_multiply() -> None:
    w, x = correlated()
    first = quant.quantize(w, x, W4, "smoothquant").transform
    second = quant.quantize(w / first.astype(np.float64), x * first.astype(np.float64), W4, "awq").transform
    found = quant.quantize(w, x, W4, ("smoothquant", "awq", "gptq"))
    np.testing.assert_allclose(found.transform, first * (1 if second is None else second), rtol=1e-5)
    assert error(w, x, found) < error(w, x, quant.quantize(w, x, W4))


def test_sequences_have_names_and_refuse_what_cannot_be_followed() -> None:
    both = quant.Config(algorithm="smoothquant+gptq").algorithm
    assert both == quant.Config(algorithm=("smoothquant", "gptq")).algorithm
    assert both.name == "smoothquant+gptq"
    assert both.gram
    assert quant.Config(algorithm=(quant.smoothquant(alpha=0.7), "gptq")).algorithm.key == {
        "smoothquant": {"alpha": "0.7"}, "gptq": {},
    }  # fmt: skip
    assert quant.Config(algorithm=["awq"]).algorithm == quant.awq
    with pytest.raises(WrongSequence, match=r"awq cannot follow gptq, which gives no factors of the inputs"):
        quant.Config(algorithm=("gptq", "awq"))
    with pytest.raises(WrongSequence, match="no algorithms"):
        quant.Config(algorithm=())
    with pytest.raises(WrongOption, match="algorithm smoothquant\\+gptq has no option alpha"):
        both(alpha=0.5)


def test_percentiles_clip_outliers() -> None:
    w = np.random.default_rng(0).standard_normal((4, 4000)).astype(np.float32)
    w[:, 7] = 1000
    clipped = quant.quantize(w, algorithm=quant.percentile(percent=99.9)).dequantize()
    inside = np.arange(4000) != 7
    assert quant.sqnr(w[:, inside], clipped[:, inside]) > 35
    assert quant.sqnr(w[:, inside], quant.quantize(w).dequantize()[:, inside]) < 10


@pytest.mark.parametrize("k", [1, 15, 17, 33])
@pytest.mark.parametrize("name", ["minmax", "percentile", "awq", "gptq", "smoothquant"])
def test_columns_that_are_no_multiple_of_the_group(name: str, k: int) -> None:
    w, x = correlated(400, k)
    q = quant.quantize(w, x, W4, name)
    assert q.scales.shape == (32, -(-k // 16))
    assert error(w, x, q) < 0.3


@pytest.mark.parametrize("parts", [("output",), pytest.param(("qkv", "up", "down"), marks=pytest.mark.slow)])
def test_real_layers_of_four_bits(parts: tuple[str, ...]) -> None:
    """On the layers of the sentence encoder and their real inputs: GPTQ below AWQ below rounding to nearest."""
    weights, batch = encoder.real()
    block = encoder.blocks(weights)[0]
    inputs: dict[str, Any] = {}

    def keep(layer: quant.Layer) -> Any:
        def run(x: Any) -> Any:
            inputs[layer.name] = x
            return x @ layer.weight.T + layer.bias

        return run

    block.run(encoder.embedded(weights, batch), {layer.name: keep(layer) for layer in block.layers})
    for layer in (one for one in block.layers if one.name.split(".")[1] in parts):
        x = inputs[layer.name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewSamples)
            found = [quant.quantize(layer.weight, x, quant.int4(group=128), n) for n in ("gptq", "awq", "minmax")]
        errors = [error(layer.weight, x, q) for q in found]
        assert errors[0] < errors[1] < errors[2], layer.name


def test_what_one_weight_cannot_be_given() -> None:
    w = np.ones((4, 24), np.float32)
    x = np.ones((200, 24), np.float32)
    for wrong in (x.reshape(-1, 12), x.reshape(-1, 48), np.float32(1)):
        with pytest.raises(WrongCalibration, match=r"layer up: inputs have the shape \(.*\), and its weight has 24"):
            quant.quantize(w, wrong, algorithm="gptq", name="up")
    for scheme in ("int4", 4, quant.Config()):
        with pytest.raises(WrongScheme, match=f"the scheme of weights is {re.escape(repr(scheme))}"):
            quant.quantize(w, x, scheme)  # type: ignore[arg-type]
    with pytest.raises(WrongScheme, match="the scheme of inputs is 'int8'"):
        quant.Config(inputs="int8")  # type: ignore[arg-type]
    with pytest.raises(WrongScheme, match="`skip` is the text 'lm_head'"):
        quant.Config(skip="lm_head")
    for shape in ((24,), (2, 3, 4)):
        with pytest.raises(WrongCalibration, match="layer weight has a weight of the shape"):
            quant.quantize(np.ones(shape, np.float32))
    with pytest.raises(WrongCalibration, match=r"and a bias of the shape \(24,\)"):
        quant.Layer("up", w, np.ones(24, np.float32))
    with pytest.raises(NotFinite, match="layer up: its bias has NaN"):
        quant.Layer("up", w, np.full(4, np.nan, np.float32))


def test_inputs_have_the_columns_of_the_weight() -> None:
    """In numpy and on a kernel, with an order of the columns too."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((8, 64)).astype(np.float32), rng.standard_normal((300, 64)).astype(np.float32)
    for algorithm in ("minmax", quant.gptq(act_order=True)):
        layer = quant.QuantizedLayer("up", quant.quantize(w, x, quant.int4(group=16), algorithm))
        for run in (layer, quant.deploy({"up": layer})["up"]):
            for columns in (32, 128):
                with pytest.raises(WrongCalibration, match=rf"inputs have the shape \(4, {columns}\), and its weight"):
                    run(np.ones((4, columns), np.float32))


def test_warnings_are_at_the_line_of_the_program() -> None:
    w = np.ones((2, 8), np.float32)
    with pytest.warns(FewSamples) as said:
        quant.quantize(w, np.eye(8), algorithm=quant.gptq())
    with pytest.warns(RoundedToNearest) as rounded:
        quant.quantize(w, np.full((32, 8), 3.0), algorithm=quant.gptq(damp=0))
    assert [one.filename for one in (*said, *rounded)] == [__file__] * 2
    layers = [quant.Layer(str(number), np.eye(8, dtype=np.float32)) for number in range(6)]
    blocks = [
        quant.Block(layer.name, [layer], lambda values, linear, name=layer.name: {"x": linear(name, values["x"])})
        for layer in layers
    ]
    with quant.calibrate(blocks, quant.Config(algorithm="gptq")) as run:
        run({"x": np.eye(8, dtype=np.float32)})
        with pytest.warns(FewSamples, match="layer 0: 8 rows of inputs for 8 columns") as said:
            run.convert()
    assert [one.filename for one in said] == [__file__]


def test_names_of_layers_are_checked() -> None:
    layer = quant.Layer("up", np.eye(8, dtype=np.float32))
    block = quant.Block("0", [layer], lambda values, linear: {"x": linear("up", values["x"])})
    with pytest.raises(NoSuchLayer, match="the pattern 'upp' in `skip` matches no layer; did you mean up"):
        quant.calibrate([block], quant.Config(skip=["upp"]))
    made = quant.QuantizedLayer("down", quant.quantize(layer.weight))
    with pytest.raises(NoSuchLayer, match="the model has no layer down"):
        quant.report([block], {"down": made}, {"x": np.eye(8, dtype=np.float32)})
    with pytest.raises(WrongCalibration, match="the model has no linear layers"):
        quant.calibrate([quant.Block("0", [], lambda values, linear: values)], quant.Config())


def test_an_order_that_leaves_the_groups() -> None:
    """Columns of large inputs come first; groups are those of neighbours, so that no order is left to say."""
    w, x = correlated()
    for scheme in (W4, quant.int4(group=16, symmetric=False)):
        plain = error(w, x, quant.quantize(w, x, scheme, "gptq"))
        found = quant.quantize(w, x, scheme, quant.gptq(act_order="weight"))
        assert found.order is None
        assert error(w, x, found) < plain
    with pytest.raises(WrongScheme, match="act_order='group' is not offered"):
        quant.quantize(w, x, W4, quant.gptq(act_order="group"))
