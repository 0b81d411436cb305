"""Files of quantised layers give the same layers back; reports say what was lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import NoSuchLayer, NotRead, WrongCalibration, WrongResult
from pypto.quant.formats import compressed_tensors as formats
from tests.quant.test_deploy import FLOATS, W8A8, layer_and_inputs
from tests.quant.test_gguf import tokens, write

CONFIGS = {name: config for name, config in (W8A8 | FLOATS).items() if "mxfp4" not in name.split()}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_layer_comes_back(name: str, tmp_path: Path) -> None:
    """Its results are the same bit for bit, in numpy and on a kernel."""
    layer, x = layer_and_inputs(CONFIGS[name], 61)
    quant.save({"a": layer, "b": layer}, tmp_path)
    found = quant.load(tmp_path)
    assert list(found) == ["a", "b"]
    np.testing.assert_array_equal(found["b"].weight.dequantize(), layer.weight.dequantize())
    np.testing.assert_array_equal(found["a"](x[:5]), layer(x[:5]))
    kernel = quant.deploy({"a": layer})["a"]
    np.testing.assert_array_equal(quant.deploy(found)["a"](x[:5]), kernel(x[:5]))
    assert found["a"].weight.scheme == layer.weight.scheme
    assert found["a"].inputs == layer.inputs


@pytest.mark.parametrize("algorithm", ["awq", "smoothquant", ("smoothquant", quant.gptq(act_order=True))])
def test_factors_of_inputs_come_back(algorithm: Any, tmp_path: Path) -> None:
    """Readers of compressed-tensors refuse the method, since they know of no factors."""
    layer, x = layer_and_inputs(quant.Config(quant.int4(group=16), algorithm=algorithm), 64)
    assert layer.weight.transform is not None
    plain = quant.QuantizedLayer("b", quant.quantize(np.ones((3, 32), np.float32), scheme=quant.int4(group=16)))
    quant.save({"a": layer, "b": plain}, tmp_path)
    found = quant.load(tmp_path)
    np.testing.assert_array_equal(found["a"](x[:5]), layer(x[:5]))
    assert found["b"].weight.transform is None
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["quantization_config"]["quant_method"] == "pypto"


def test_layers_of_several_schemes(tmp_path: Path) -> None:
    """Each scheme is a group of its own, with the names of its layers."""
    x = np.random.default_rng(0).standard_normal((300, 64)).astype(np.float32)
    configs = {
        "a.b": quant.Config(quant.int4(group=16), algorithm=quant.gptq(act_order=True)),
        "a": quant.Config(inputs=quant.int8("token")), "c": quant.Config(quant.int8("tensor", symmetric=False)),
    }  # fmt: skip
    layers = {}
    for name, config in configs.items():
        layers[name] = replace(layer_and_inputs(config, 64)[0], name=name)
    quant.save(layers, tmp_path)
    found = quant.load(tmp_path)
    for name, layer in layers.items():
        np.testing.assert_array_equal(found[name](x), layer(x))
        assert (found[name].weight.scheme, found[name].inputs) == (layer.weight.scheme, layer.inputs)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))["quantization_config"]
    assert config["format"] == "mixed-precision"
    assert [group["targets"] for group in config["config_groups"].values()] == [["a.b"], ["a"], ["c"]]


def test_an_order_is_said(tmp_path: Path) -> None:
    """Without `actorder` readers would leave out the groups of the columns; a layer in order has them, too."""
    config = quant.Config(quant.int4(group=16), algorithm=quant.gptq(act_order=True))
    ordered = layer_and_inputs(config, 64)[0]
    plain = quant.QuantizedLayer("b", quant.quantize(np.ones((37, 64), np.float32), scheme=config.weights))
    quant.save({"a": ordered, "b": plain}, tmp_path)
    said = json.loads((tmp_path / "config.json").read_text("utf-8"))
    weights = said["quantization_config"]["config_groups"]["group_0"]["weights"]
    assert weights["actorder"] == "group"
    arrays = formats.load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(arrays["b.weight_g_idx"], np.arange(64) // 16)
    assert quant.load(tmp_path)["b"].weight.order is None
    # The definition, as compressed-tensors has it: column j has the scale of group g_idx[j].
    codes = formats.unpacked(arrays["a.weight_packed"], 64)
    numbers = codes * arrays["a.weight_scale"][:, arrays["a.weight_g_idx"]]
    np.testing.assert_array_equal(numbers, ordered.weight.dequantize())
    del weights["actorder"]
    (tmp_path / "config.json").write_text(json.dumps(said), "utf-8")
    with pytest.raises(WrongCalibration, match="layer a has a weight_g_idx, and its scheme does not say actorder"):
        quant.load(tmp_path)


@pytest.mark.parametrize("scheme", [quant.int4(), quant.int8(), quant.int8("tensor", symmetric=False)])
def test_an_order_of_one_group_is_none(scheme: quant.Scheme, tmp_path: Path) -> None:
    layer = layer_and_inputs(quant.Config(scheme, algorithm=quant.gptq(act_order=True)), 64)[0]
    assert layer.weight.order is None
    quant.save({"a": layer}, tmp_path)
    arrays = formats.load_file(tmp_path / "model.safetensors")
    assert "a.weight_g_idx" not in arrays
    assert arrays["a.weight_scale"].shape == ((1,) if scheme.per == "tensor" else (37, 1))


def test_the_first_code_is_in_the_lowest_bits() -> None:
    codes = np.array([[-8, -7, 7, 0, 0, 0, 0, 0, 1]], np.int8)
    words = formats.packed(codes)
    assert [hex(word & 0xFFFFFFFF) for word in words[0].tolist()] == ["0x88888f10", "0x9"]
    np.testing.assert_array_equal(formats.unpacked(words, 9), codes)


def test_what_the_format_cannot_hold(tmp_path: Path) -> None:
    layer = layer_and_inputs(FLOATS["int8"], 16)[0]
    for given, text in (
        ({"a": layer_and_inputs(FLOATS["mxfp4"], 64)[0]}, "layer a has `mxfp4 e2m1, groups of 32`"),
        ({}, "there are no layers"),
        ([layer], "a list is no mapping of layers"),
        (quant.deploy({"a": layer}), "layer a is a DeployedLayer"),
        ({"a": layer.weight}, "layer a is a QuantizedTensor"),
    ):
        with pytest.raises(WrongCalibration, match=text):
            quant.save(given, tmp_path / "new")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


@pytest.mark.torch
def test_a_module_is_no_mapping_of_layers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(WrongCalibration, match="a Linear is no mapping of layers"):
        quant.save(torch.nn.Linear(2, 2), tmp_path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Damaged files, and those of another form, are refused by what is wrong with them."""
    with pytest.raises(WrongCalibration, match=r"it has no config\.json"):
        quant.load(tmp_path)
    quant.save({"a": layer_and_inputs(FLOATS["int8"], 16)[0]}, tmp_path)
    text = (tmp_path / "config.json").read_text("utf-8")
    data = (tmp_path / "model.safetensors").read_bytes()
    for content, message in (
        ("{", "config.json cannot be read"),
        ("[]", r"its config\.json is \[\]"),
        ("null", "it has no config.json"),
        ("{}", "it has no quantization_config"),
        ('{"quantization_config": []}', r"its quantization_config is \[\]"),
        (text.replace("compressed-tensors", "awq"), "its quant_method is awq"),
        (text.replace('"type": "int"', '"type": "float"'), "its type is float, and int is offered"),
        (text.replace('"num_bits": 8', '"num_bits": 3'), "its num_bits is 3, and 4, 8 is offered"),
        (text.replace('"num_bits": 8,', ""), "a scheme does not say num_bits"),
        (text.replace('"channel"', '"block"'), "its strategy is block"),
        (text.replace('"channel"', '"group"'), "groups have the size None"),
        (text.replace('"symmetric": true', '"symmetric": false'), "layer a has no weight_zero_point"),
        (text.replace('"Linear"', '"b"'), "layer a is of no group"),
    ):
        (tmp_path / "config.json").write_text(content, "utf-8")
        with pytest.raises(WrongCalibration, match=message):
            quant.load(tmp_path)
    for key in ("some_key", "kv_cache_scheme", "transform_config"):
        said = json.loads(text)
        said["quantization_config"][key] = {"a": 1}
        (tmp_path / "config.json").write_text(json.dumps(said), "utf-8")
        with pytest.raises((NotRead, WrongCalibration), match=key):
            quant.load(tmp_path)
    (tmp_path / "config.json").write_text(text, "utf-8")
    for damaged in (b"", data[:20], data[:-5], b"x" * 100):
        (tmp_path / "model.safetensors").write_bytes(damaged)
        with pytest.raises(WrongCalibration, match=r"model\.safetensors cannot be read"):
            quant.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(data)
    arrays = formats.load_file(tmp_path / "model.safetensors")
    for changed, kind, message in (
        ({"a.weight_scale": np.zeros((37, 1), np.float32)}, WrongResult, "`scales` has numbers that are not positive"),
        ({"a.weight_global_scale": np.ones(1)}, NotRead, r"the tensor a\.weight_global_scale, which is not read"),
        ({"a.weight_g_idx": np.zeros(16, np.int32)}, WrongCalibration, "does not say actorder"),
    ):
        formats.save_arrays(tmp_path / "model.safetensors", arrays | changed)
        with pytest.raises(kind, match=message):
            quant.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(WrongCalibration, match=r"it has no model\.safetensors"):
        quant.load(tmp_path)


def test_a_report_has_the_errors_of_each_layer() -> None:
    rng = np.random.default_rng(0)
    one = quant.Layer("a", rng.standard_normal((64, 48)).astype(np.float32))
    x = rng.standard_normal((500, 48)).astype(np.float32)
    block = quant.Block("0", [one], lambda values, linear: {"x": linear("a", values["x"])})
    found = {}
    for scheme in (quant.int8(), quant.int4()):
        layer = quant.QuantizedLayer("a", quant.quantize(one.weight, scheme=scheme))
        found[scheme.bits] = quant.report([block], {"a": layer}, {"x": x})
        line = found[scheme.bits].lines[0]
        assert line.output_sqnr == pytest.approx(quant.sqnr(x @ one.weight.T, layer(x)))
        assert line.weight_sqnr == pytest.approx(quant.sqnr(one.weight, layer.weight.dequantize()))
        assert line.bytes_before == 64 * 48 * 4
    assert found[8].lines[0].output_sqnr > found[4].lines[0].output_sqnr + 20
    assert found[4].json()["bytes_after"] == 64 * 48 // 2 + 64 * 4
    assert "int4 symmetric, per channel" in str(found[4])


def test_a_whole_model_comes_back(tmp_path: Path) -> None:
    """Of a folder as of the file: sizes, tensors, keys, and the layer of the logits."""
    keys = {"llama.context_length": 99, "llama.rope.scaling.factor": 2.0, "general.name": "small"}
    model = quant.load_llama(write(tmp_path / "a.gguf", keys=keys))
    layers = {
        "0.q": quant.QuantizedLayer("0.q", quant.quantize(model.file.array("blk.0.attn_q.weight"))),
        "head": quant.QuantizedLayer("head", quant.quantize(model.head, scheme=quant.int4(group=16))),
    }
    quant.save(layers, tmp_path / "o", model)
    again, ids = quant.load_llama(tmp_path / "o"), tokens()
    assert (again.context, again.ends) == (99, model.ends)
    np.testing.assert_array_equal(again.sizes.frequencies, model.sizes.frequencies)
    assert again.perplexity(ids, quant.load(tmp_path / "o")) == model.perplexity(ids, layers)
    np.testing.assert_array_equal(again.head, layers["head"].weight.dequantize())
    np.testing.assert_array_equal(again.rows(ids), model.rows(ids))
    with pytest.raises(NoSuchLayer, match=r"no layer 2\.q"):
        quant.save({"2.q": layers["0.q"]}, tmp_path / "new", model)
    assert not (tmp_path / "new").exists()
    quant.save(layers, tmp_path / "o")
    with pytest.raises(WrongCalibration, match=r"its config\.json has no gguf"):
        quant.load_llama(tmp_path / "o")
