"""Calibration block by block: what it computes, where it stops and goes on, and what it refuses."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import NotFinite, WrongCalibration
from pypto.quant.formats import files

ROOT = Path(__file__).resolve().parents[2]
CONFIG = quant.Config(quant.int4(group=8), inputs=quant.int8("tensor"), algorithm="gptq", skip=["*.skipped"])


def model(count: int = 3, width: int = 12) -> list[quant.Block]:
    """Blocks of two layers with a residual sum."""
    rng = np.random.default_rng(0)

    def block(name: str) -> quant.Block:
        layers = [
            quant.Layer(f"{name}.{part}", rng.standard_normal((width, width)).astype(np.float32) / 4, bias)
            for part, bias in (("up", np.ones(width, np.float32)), ("skipped", None))
        ]

        def forward(values: Any, linear: Any) -> Any:
            return {"x": linear(f"{name}.skipped", np.maximum(linear(f"{name}.up", values["x"]), 0)) + values["x"]}

        return quant.Block(name, layers, forward)

    return [block(str(i)) for i in range(count)]


def batches(count: int = 3) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((40, 12)).astype(np.float32)} for _ in range(count)]


def converted(folder: Path | None = None, config: quant.Config = CONFIG) -> dict[str, quant.QuantizedLayer]:
    with quant.calibrate(model(), config, folder) as run:
        for batch in batches():
            run(batch)
        return run.convert()


def arrays(layers: dict[str, quant.QuantizedLayer]) -> list[Any]:
    return [
        (name, q.weight.codes.tobytes(), q.weight.scales.tobytes(), bytes(q.input_scale)) for name, q in layers.items()
    ]


def test_each_block_sees_what_the_quantised_ones_before_it_give() -> None:
    layers = converted()
    assert list(layers) == ["0.up", "1.up", "2.up"]
    values = batches()
    for block in model():
        x = np.concatenate([value["x"] for value in values])
        up = block.layers[0]
        statistics = quant.Statistics(up.name, 12)
        for value in values:
            statistics.add(value["x"])
        expected = quant.gptq.run(up, statistics, CONFIG.weights)
        np.testing.assert_array_equal(layers[up.name].weight.codes, expected.codes)
        assert layers[up.name].input_scale == pytest.approx(np.abs(x).max() / 127)
        values = [block.run(value, layers) for value in values]


def test_a_quantised_layer_computes_nearly_the_same() -> None:
    x = batches(1)[0]["x"]
    for config in (
        quant.Config(),
        quant.Config(inputs=quant.int8("token")),
        quant.Config(inputs=quant.int8("tensor", symmetric=False)),
    ):
        layer = converted(config=config)["0.up"]
        up = model()[0].layers[0]
        assert quant.relative_error(x @ up.weight.T + up.bias, layer(x)) < 0.02
        assert layer(x.reshape(2, 20, 12)).shape == (2, 20, 12)
        assert layer(x[:0]).shape == (0, 12)


@pytest.mark.parametrize("stop", range(8))
def test_a_calibration_that_was_stopped_goes_on(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at any write of a file, the result is the same bit for bit."""
    expected = arrays(converted())
    written = 0
    write = files.write

    def limited(path: Path, data: bytes) -> None:
        nonlocal written
        if written == 3 * stop // 2 + 4:
            path.with_name(f"{path.name}.partial").write_bytes(data[:10])
            raise KeyboardInterrupt
        written += 1
        write(path, data)

    monkeypatch.setattr(files, "write", limited)
    with pytest.raises(KeyboardInterrupt):
        converted(tmp_path)
    monkeypatch.setattr(files, "write", write)
    assert arrays(converted(tmp_path)) == expected
    # And once more without data: everything is there.
    with quant.calibrate(model(), CONFIG, tmp_path) as run:
        assert arrays(run.convert()) == expected


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from tests.quant import test_blocks as t
write = t.files.write
def killing(path, data):
    if path.name == "block-001.safetensors":
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, data)
t.files.write = killing
t.converted(Path(sys.argv[1]))
"""
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False, capture_output=True)
    assert result.returncode == -9, result.stderr
    assert (tmp_path / "block-000.safetensors").exists()
    assert arrays(converted(tmp_path)) == arrays(converted())


def test_disk_holds_the_inputs_of_one_block(tmp_path: Path) -> None:
    converted(tmp_path)
    left = {path.name.split(".")[1] for path in tmp_path.glob("batch-*.safetensors")}
    assert left == {"002"}
    assert not list(tmp_path.glob("*.partial"))


def test_another_model_configuration_or_data_is_refused(tmp_path: Path) -> None:
    converted(tmp_path)
    with pytest.raises(WrongCalibration, match="another model or configuration"):
        quant.calibrate(model(2), CONFIG, tmp_path)
    with pytest.raises(WrongCalibration, match="another model or configuration"):
        quant.calibrate(model(), quant.Config(), tmp_path)
    run = quant.calibrate(model(), CONFIG, tmp_path)
    with pytest.raises(WrongCalibration, match="batch 0 differs"):
        run({"x": np.zeros((40, 12), np.float32)})


def test_what_is_missing_or_named_twice() -> None:
    block = model(1)[0]
    with pytest.raises(WrongCalibration, match=r"two layers are named 0\.up"):
        quant.calibrate([block, block], CONFIG)
    with (
        quant.calibrate([block], CONFIG) as run,
        pytest.raises(WrongCalibration, match=r"layer 0\.up: .* needs inputs"),
    ):
        run.convert()


def test_a_batch_with_nan_names_the_layer() -> None:
    with quant.calibrate(model(), CONFIG) as run:
        run({"x": np.full((4, 12), np.nan, np.float32)})
        with pytest.raises(NotFinite, match=r"layer 0\.up: its input has NaN"):
            run.convert()


def test_statistics_do_not_depend_on_how_data_is_cut() -> None:
    x = np.random.default_rng(0).standard_normal((64, 5)) * np.exp(np.arange(64) / 10)[:, None]
    together = quant.Statistics("a", 5)
    together.add(x)
    cut = quant.Statistics("a", 5)
    for row in x:
        cut.add(row)
    np.testing.assert_allclose(cut.gram, together.gram, rtol=1e-12)
    np.testing.assert_array_equal(cut.histogram.counts, together.histogram.counts)
    np.testing.assert_array_equal(cut.sample.rows, x.astype(np.float32))
    for percent in (60, 90, 99, 100):
        exact = np.sort(np.abs(x), axis=None)[math.ceil(x.size * percent / 100) - 1]
        assert exact <= cut.histogram.percentile(percent) <= exact + 2 * cut.histogram.top / 2048


def test_a_sample_is_bounded_and_spread() -> None:
    x = np.arange(9000.0)[:, None]
    together = quant.Statistics("a", 1)
    together.add(x)
    cut = quant.Statistics("a", 1)
    for start in range(0, 9000, 700):
        cut.add(x[start : start + 700])
    np.testing.assert_array_equal(cut.sample.rows, together.sample.rows)
    rows = together.sample.rows[:, 0]
    assert 256 <= len(rows) < 512
    # As many out of each part, and of each place in a window of 512.
    for numbers in (np.histogram(rows, 9)[0], np.histogram(rows % 512, 8)[0]):
        assert numbers.min() > 0.6 * numbers.mean()


def test_an_observer_of_percentiles_leaves_out_outliers() -> None:
    x = np.random.default_rng(0).standard_normal((2000, 4))
    x[0, 0] = 500
    found = quant.Statistics("a", 4)
    found.add(x)
    whole = found.static_grid(quant.int8("tensor"))[0][0]
    inner = found.static_grid(quant.int8("tensor", observer="percentile", percentile=99.9))[0][0]
    assert whole == pytest.approx(500 / 127)
    assert inner == pytest.approx(3.4 / 127, rel=0.2)


def test_zero_rows_are_no_data() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = quant.Statistics("a", 4)
        found.add(np.zeros((0, 4)))
        found.add(np.zeros((2, 4)))
    assert (found.rows, found.histogram.counts[0]) == (2, 8)
    assert found.static_grid(quant.int8("tensor"))[0].tolist() == [1.0]
