"""The encoder's rows: the same result by all, with the real weights and with made-up ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import encoder
from benchmarks.onnx_encoder import onnx_encoder
from benchmarks.peers import VARIABLE, limited_threads
from benchmarks.runner import OURS, Missing, Pace, Row, run_row
from benchmarks.tutorials import allow_helpers

LENGTHS = (5, 9, 1)
QUICK = Pace(rounds=1, seconds=0.0, gap=0.0)


def small() -> tuple[Any, Any]:
    """Two layers on three short sentences."""
    allow_helpers()
    return encoder.made_up_weights(layers=2), encoder.made_up_batch(LENGTHS)


def row() -> Row:
    return Row("encoder", "small", 1.0, "flop", "", 1e-5, lambda: encoder.batch_case(*small()))


def test_a_batch_has_its_lengths() -> None:
    _, batch = small()
    assert batch.mask.sum(axis=1).tolist() == list(LENGTHS)
    assert batch.ids.dtype == batch.mask.dtype == np.int32
    assert not batch.ids[batch.mask == 0].any()


def test_ours_is_right_with_any_weights() -> None:
    got = run_row(row(), 1, limited_threads, QUICK)
    assert got.failed == {}
    assert {OURS, "numpy"} <= got.timings.keys()
    assert "onnxruntime" in got.missing


def test_the_row_is_there_without_the_package_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_helpers()
    import minilm

    def gone() -> Any:
        raise minilm.MissingModel("not installed")

    monkeypatch.setattr(minilm, "load_weights", gone)
    weights, _ = small()
    monkeypatch.setattr(encoder, "made_up_weights", lambda: weights)
    case = encoder.encoder_case(LENGTHS, gone)
    assert case.peers["numpy"]().shape == (len(LENGTHS), 384)  # type: ignore[operator]  # numpy is always there


@pytest.mark.filterwarnings("ignore")  # the libraries warn of each other
def test_onnx_runtime_agrees(everybody: None) -> None:
    pytest.importorskip("onnxruntime")
    weights, batch = small()
    found = onnx_encoder(weights, batch, 1)
    assert not isinstance(found, Missing), found
    from minilm import numpy_encoder

    assert np.max(np.abs(found() - numpy_encoder.embed(weights, batch, np.float64))) < 1e-5


def test_without_onnx_runtime_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numpy")
    found = onnx_encoder(*small(), 1)
    assert isinstance(found, Missing)
    assert VARIABLE in found.reason


def test_flops_count_tokens_without_padding() -> None:
    assert encoder.encoder_flops(2) == 2 * encoder.encoder_flops(1)
    assert replace(row(), work=encoder.encoder_flops(sum(LENGTHS))).work > 0
