"""Files of quantised layers give the same layers back; reports say what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import WrongCalibration, WrongResult
from pypto.quant import formats
from tests.quant.test_deploy import FLOATS, W8A8, layer_and_inputs

CONFIGS = {name: config for name, config in (W8A8 | FLOATS).items() if not {"factors", "mxfp4"} & set(name.split())}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_layer_comes_back(name: str, tmp_path: Path) -> None:
    layer, x = layer_and_inputs(CONFIGS[name], 61)
    quant.save({"a": layer, "b": layer}, tmp_path)
    found = quant.load(tmp_path)
    assert list(found) == ["a", "b"]
    np.testing.assert_array_equal(found["b"].weight.dequantize(), layer.weight.dequantize())
    np.testing.assert_allclose(found["a"](x[:5]), layer(x[:5]), rtol=1e-4, atol=1e-3)
    assert found["a"].weight.scheme == layer.weight.scheme
    assert found["a"].inputs == layer.inputs


def test_the_first_code_is_in_the_lowest_bits() -> None:
    codes = np.array([[-8, -7, 7, 0, 0, 0, 0, 0, 1]], np.int8)
    words = formats.packed(codes)
    assert [hex(word & 0xFFFFFFFF) for word in words[0].tolist()] == ["0x88888f10", "0x9"]
    np.testing.assert_array_equal(formats.unpacked(words, 9), codes)


def test_what_the_format_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(WrongCalibration, match="cannot hold `mxfp4 e2m1, groups of 32`"):
        quant.save({"a": layer_and_inputs(FLOATS["mxfp4"], 64)[0]}, tmp_path)
    smooth = layer_and_inputs(W8A8["factors"], 16)[0]
    with pytest.raises(WrongCalibration, match="cannot hold factors of the inputs of a"):
        quant.save({"a": smooth}, tmp_path)
    with pytest.raises(WrongCalibration, match="cannot hold 0 schemes"):
        quant.save({}, tmp_path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WrongCalibration, match="0 groups of the method None"):
        quant.load(tmp_path)
    quant.save({"a": layer_and_inputs(FLOATS["int8"], 16)[0]}, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    arrays = formats.load_file(tmp_path / "model.safetensors")
    formats.save_arrays(tmp_path / "model.safetensors", arrays | {"a.weight_scale": np.zeros((37, 1), np.float32)})
    with pytest.raises(WrongResult, match="layer a: `scales` has numbers that are not positive"):
        quant.load(tmp_path)
    config["quantization_config"]["config_groups"]["group_0"]["weights"]["type"] = "float"
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(WrongCalibration, match="numbers of the type float"):
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
