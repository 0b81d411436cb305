"""A sentence encoder on int8 kernels: what its layers say in numpy, with any mixture of layers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import FewSamples, NoSuchLayer, NotFinite, NotRead, WrongCalibration
from pypto.quant.models.bert_layer import fused_forward
from tests.quant import encoder
from tests.quant.counting import check_observed, compiled

WIDTH, HIDDEN, HEADS = 48, 96, 3
INT8 = quant.int8("group", group=16)
MIXTURES: dict[str, Any] = {
    "groups": quant.Config(inputs=INT8),
    "tokens": quant.Config(inputs=quant.int8("token")),
    "factors": quant.Config(inputs=INT8, algorithm=("smoothquant", "gptq")),
    "an order": quant.Config(inputs=INT8, algorithm=quant.gptq(act_order=True)),
    "float inputs": quant.Config(),
    "layers that stay": quant.Config(inputs=INT8, skip=["0.down", "1.qkv", "1.output"]),
    "static": quant.Config(inputs=quant.int8("tensor")),
}


def tensors(prefix: str = "") -> dict[str, Any]:
    """Tensors of a small model, under the names of transformers."""
    rng = np.random.default_rng(0)
    shapes = {
        "embeddings.word_embeddings": (50, WIDTH), "embeddings.position_embeddings": (20, WIDTH),
        "embeddings.token_type_embeddings": (2, WIDTH),
    }  # fmt: skip
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{i}" for i in range(2)):
        parts = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        parts |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (HIDDEN, WIDTH)}
        shapes |= {f"{layer}.{part}": shape for part, shape in (parts | {"output.dense": (WIDTH, HIDDEN)}).items()}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    found = {f"{name}.weight": rng.standard_normal(shape) / np.sqrt(shape[1]) for name, shape in shapes.items()}
    found |= {f"{name}.bias": rng.standard_normal(shape[0]) / 10 for name, shape in shapes.items()}
    found |= {f"{name}.weight": 1 + rng.standard_normal(WIDTH) / 10 for name in norms}
    found |= {f"{name}.bias": rng.standard_normal(WIDTH) / 10 for name in norms}
    return {
        prefix + name: value.astype(np.float32)
        for name, value in found.items() if not name.endswith("_embeddings.bias")
    }  # fmt: skip


def sentences(*lengths: int) -> tuple[Any, Any]:
    """Token ids and mask of sentences of these lengths."""
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
    return np.random.default_rng(1).integers(0, 50, mask.shape) * mask, mask


@pytest.mark.parametrize("name", MIXTURES)
def test_the_deployed_encoder_agrees_with_its_layers(name: str) -> None:
    model = quant.Bert.of(tensors(), HEADS)
    ids, mask = sentences(5, 1, 20, 7)
    with quant.calibrate(model, MIXTURES[name]) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamples)
        run(model.inputs(*sentences(20, 20, 20, 13)))
        layers = run.convert()
    deployed = quant.Encoder.of(model, layers)
    found = deployed(ids, mask)
    assert found.shape == (4, WIDTH) and found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert quant.cosine(model.embed(ids, mask, layers), found).min() > 0.999
    assert 0.99 < quant.cosine(model.embed(ids, mask), found).min() < 1
    np.testing.assert_allclose(deployed(ids[1:2, :1], mask[1:2, :1]), found[1:2], atol=1e-5)


def test_another_number_of_tokens_compiles_nothing() -> None:
    model = quant.Bert.of(tensors(), HEADS)
    layers = {one.name: quant.QuantizedLayer(one.name, quant.quantize(one.weight), one.bias, INT8)
              for layer in model.layers for one in layer.linear}  # fmt: skip
    deployed = quant.Encoder.of(model, layers)
    deployed(*sentences(5, 1, 20, 7))
    made, plans = compiled(fused_forward), len(fused_forward.versions)
    for lengths in ((6, 20, 4), (19, 3, 8, 9, 1), (17,)):
        found = deployed(*sentences(*lengths))
        np.testing.assert_allclose(found, model.embed(*sentences(*lengths), layers), atol=5e-3)
    assert (compiled(fused_forward), len(fused_forward.versions)) == (made, plans)


def test_a_plan_observes_the_inputs_of_linear_layers() -> None:
    model = quant.Bert.of(tensors(), HEADS)
    check_observed(model[0], model.inputs(*sentences(5, 9, 1)))


def test_padding_and_neighbours_do_not_count() -> None:
    model = quant.Bert.of(tensors("bert."), HEADS)
    ids, mask = sentences(5, 9)
    alone = model.embed(ids[:1, :5], mask[:1, :5])
    np.testing.assert_allclose(model.embed(ids, mask)[:1], alone, atol=1e-6)
    ids[0, 5:] = 3
    np.testing.assert_allclose(model.embed(ids, mask)[:1], alone, atol=1e-6)


def test_what_is_no_encoder_is_refused() -> None:
    given = tensors()
    del given["encoder.layer.1.output.dense.bias"]
    with pytest.raises(WrongCalibration, match=r"there is no tensor encoder\.layer\.1\.output\.dense\.bias"):
        quant.Bert.of(given, HEADS)
    with pytest.raises(WrongCalibration, match="sentence 1 has no token"):
        quant.Bert.of(tensors(), HEADS).embed(np.zeros((2, 3), np.int32), np.array([[1, 1, 0], [0, 0, 0]]))


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_every_tensor_is_read(prefix: str) -> None:
    """A tensor that no layer reads is refused, one with NaN too; heads behind the encoder are no part of it."""
    given = tensors(prefix)
    behind = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")
    whole = given | {prefix + name: np.ones(3, np.float32) for name in behind} | {"cls.predictions.bias": np.ones(3)}
    ids, mask = sentences(5, 9)
    expected = quant.Bert.of(given, HEADS).embed(ids, mask)
    np.testing.assert_array_equal(quant.Bert.of(whole, HEADS).embed(ids, mask), expected)
    for name in (
        "encoder.layer.0.attention.self.distance_embedding.weight", "encoder.layer.3.output.dense.bias",
        "embeddings.scale", "encoder.embedding_hidden_mapping_in.weight",
    ):  # fmt: skip
        with pytest.raises(NotRead, match=f"the model has the tensor {prefix}{name}, which is not read"):
            quant.Bert.of(given | {prefix + name: np.ones(3, np.float32)}, HEADS)
    for name in ("embeddings.LayerNorm.bias", "encoder.layer.1.attention.self.key.bias"):
        broken = given[prefix + name].copy()
        broken[3] = np.inf
        with pytest.raises(NotFinite, match=rf"layer {prefix}{name}: its tensor has NaN or infinity at \[3\]"):
            quant.Bert.of(given | {prefix + name: broken}, HEADS)


def test_names_of_layers_are_those_of_the_model() -> None:
    model = quant.Bert.of(tensors(), HEADS)
    with pytest.raises(NoSuchLayer, match=r"no layer 0\.query"):
        model.embed(*sentences(4), {"0.query": lambda x: x})
    layer = quant.QuantizedLayer("2.up", quant.quantize(np.ones((2, 2), np.float32)))
    with pytest.raises(NoSuchLayer, match=r"no layer 2\.up; did you mean 1\.up"):
        quant.Encoder.of(model, {"2.up": layer})


def test_tokens_and_positions_that_the_model_has_not_are_refused() -> None:
    model = quant.Bert.of(tensors(), HEADS)
    deployed = quant.Encoder.of(model, {})
    ids, mask = sentences(5, 9)
    for wrong in (-1, len(model.words)):
        ids[1, 2] = wrong
        for encode in (model.embed, deployed):
            with pytest.raises(WrongCalibration, match=f"there is token {wrong}, and the model has {len(model.words)}"):
                encode(ids, mask)
    long = np.ones((1, len(model.positions) + 1), np.int32)
    with pytest.raises(WrongCalibration, match=f"position {len(model.positions)}, and the model has"):
        deployed(long, long)


def test_no_sentence_has_no_embedding() -> None:
    model = quant.Bert.of(tensors(), HEADS)
    nothing = np.zeros((0, 5), np.int32)
    for encode in (model.embed, quant.Encoder.of(model, {})):
        assert encode(nothing, nothing).shape == (0, WIDTH)


@pytest.mark.torch
def test_tensors_of_a_torch_module() -> None:
    torch = pytest.importorskip("torch")
    state = {name: torch.from_numpy(value) for name, value in tensors("0.auto_model.").items()}
    ids, mask = sentences(4, 8)
    found = quant.Bert.of(state, HEADS).embed(ids, mask)
    np.testing.assert_array_equal(found, quant.Bert.of(tensors(), HEADS).embed(ids, mask))


@pytest.mark.slow
def test_the_real_encoder_is_closer_than_eight_bits_of_weights_alone() -> None:
    """Calibrated on prose of Python's documentation, all layers in int8: the best int8 ONNX file has 0.9996."""
    from benchmarks.int8_encoder import calibrated, real_model

    weights, batch = encoder.real()
    model = real_model()
    exact = encoder.embed(weights, batch)
    np.testing.assert_allclose(model.embed(batch.ids, batch.mask), exact, atol=1e-5)
    cosines = quant.cosine(exact, quant.Encoder.of(model, calibrated(model))(batch.ids, batch.mask))
    assert 0.9993 < cosines.min() < 1
    assert 0.9996 < cosines.mean() < 1
