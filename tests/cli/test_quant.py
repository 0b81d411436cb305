"""`pypto quant` on a small model of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pypto import quant
from tests.cli.commands import answer, called
from tests.quant.test_gguf import BYTES, write


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"There are {n} small cats, and {n * n} mice. " for n in range(60)), "utf-8")
    return str(write(tmp_path / "a.gguf", words=BYTES)), "--text", str(text), "--length", "32", "--windows", "20"


def test_a_model_is_quantised_and_written(files: tuple[str, ...], tmp_path: Path) -> None:
    options = ("--weights", "int4:32", "--skip", "*.v", "--evaluate", "3", "-o", str(tmp_path / "o"))
    said = answer("quant", *files, *options)
    assert [line["layer"] for line in said["layers"][:3]] == ["0.q", "0.k", "0.output"]
    assert all(10 < line["output_sqnr"] < 60 for line in said["layers"])
    assert said["bytes_after"] < said["bytes_before"] / 6
    assert said["perplexity"]["quantised"] == pytest.approx(said["perplexity"]["float32"], rel=0.1)
    layers = quant.load(tmp_path / "o")
    assert list(layers) == sorted(line["layer"] for line in said["layers"])
    model, again = quant.load_llama(files[0]), quant.load_llama(tmp_path / "o")
    ids = again.windows(Path(files[2]).read_text("utf-8"), 32)
    np.testing.assert_array_equal(ids, model.windows(Path(files[2]).read_text("utf-8"), 32))
    assert again.perplexity(ids[20:23], layers) == model.perplexity(ids[20:23], layers)
    assert again.perplexity(ids[20:23], layers) == pytest.approx(said["perplexity"]["quantised"], rel=1e-6)
    assert again.perplexity(ids[20:23]) == pytest.approx(said["perplexity"]["quantised"], rel=1e-3)
    assert quant.Decoder(again, layers).generate(ids[0], 5) == quant.Decoder(model, layers).generate(ids[0], 5)


@pytest.mark.filterwarnings("ignore::pypto.errors.quant.FewSamples")
def test_factors_are_written_too(files: tuple[str, ...], tmp_path: Path) -> None:
    for algorithm in ("awq", "smoothquant+gptq"):
        said = answer(
            "quant", *files, "--algorithm", algorithm, "--weights", "int4:32", "--evaluate", "2", "-o", tmp_path
        )
        layers = quant.load(tmp_path)
        assert any(layer.weight.transform is not None for layer in layers.values())
        again = quant.load_llama(tmp_path)
        ids = again.windows(Path(files[2]).read_text("utf-8"), 32)[20:22]
        assert again.perplexity(ids, layers) == pytest.approx(said["perplexity"]["quantised"], rel=1e-6)


def test_an_output_that_is_a_file(files: tuple[str, ...]) -> None:
    found = called("quant", *files, "-o", files[2])
    assert found.exit_code == 2
    assert "is a file: give a folder" in found.stderr


def test_int8_says_more_and_resumes(files: tuple[str, ...], tmp_path: Path) -> None:
    options = ("--weights", "int8", "--inputs", "token", "--algorithm", "smoothquant+gptq", "--evaluate", "0")
    shown = called("quant", *files, *options, "--resume", str(tmp_path / "work"))
    assert shown.exit_code == 0
    assert " MB become " in shown.stdout
    assert "0.up" in shown.stdout and "int8 symmetric, per channel; inputs int8 symmetric, per token" in shown.stdout
    (tmp_path / "work" / "block-001.safetensors").unlink()
    assert called("quant", *files, *options, "--resume", str(tmp_path / "work")).stdout == shown.stdout


def test_inputs_have_a_scale_for_each_group(files: tuple[str, ...]) -> None:
    said = answer("quant", *files, "--weights", "int8", "--inputs", "group:16", "--evaluate", "2")
    assert {line["scheme"] for line in said["layers"]} == {
        "int8 symmetric, per channel; inputs int8 symmetric, groups of 16"
    }
    assert said["perplexity"]["quantised"] == pytest.approx(said["perplexity"]["float32"], rel=0.02)


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--weights", "int3"), 2, "schemes are int8, int8:tensor, int4, int4:GROUP"),
        (("--inputs", "row"), 2, "--inputs row: schemes are none, token, tensor, group:SIZE"),
        (("--skip", "*.w"), 1, "the pattern '*.w' in `skip` matches no layer"),
        (("--algorithm", "qptq"), 1, "E383"),
        (("--evaluate", "1000"), 2, "windows of 32 tokens, and 20 + 1000 are asked for"),
    ],
)
def test_what_is_refused(files: tuple[str, ...], options: tuple[str, ...], code: int, text: str) -> None:
    found = called("quant", *files, *options)
    assert found.exit_code == code
    assert text in found.stderr


def test_the_speed_before_and_after(files: tuple[str, ...]) -> None:
    said = answer("quant", *files, "--weights", "int4:32", "--evaluate", "0", "--decode", "4")
    assert said["tokens_per_second"].keys() == {"float32", "quantised"}
    assert min(said["tokens_per_second"].values()) > 0


def test_a_plot_is_refused_before_the_work(files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto.cli.quantising.find_spec", lambda name: None)
    found = called("quant", *files, "--evaluate", "0", "--plot", "a.svg")
    assert found.exit_code == 2
    assert "--plot needs matplotlib" in found.stderr


def test_a_plot_of_a_report(files: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    called("quant", *files, "--evaluate", "0", "--weights", "int4:32", "--plot", str(tmp_path / "a.svg"))
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert text.count("SQNR of outputs") >= 1
