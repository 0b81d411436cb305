"""The tutorials on the simulated Ascend device: their own checks hold, and results are the CPU's up to rounding."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pypto as pto
from benchmarks.tutorials import FOLDER, allow_helpers, load_tutorial
from tests.sim.device import needs_compiler
from tests.tutorials.test_minilm import plain, random_batch, random_weights, real
from tests.tutorials.test_tutorials import CASES, CHECKS
from tests.watched import Watched

__all__ = ["real"]
pytestmark = needs_compiler
Array = Any


@pytest.fixture
def device() -> Iterator[Watched]:
    with Watched("ascend-sim") as place:
        yield place
    assert place.launches > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_kernels_are_those_of_the_cpu(case: Callable[[ModuleType], Array]) -> None:
    tutorial = load_tutorial(CASES[case])
    wanted = case(tutorial)
    with pto.device("ascend-sim"):
        found = case(tutorial)
    assert np.abs(found - wanted).max() <= 1e-5


LONG = ("03_matrix_multiplication", "04_layer_norm", "05_flash_attention")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in CHECKS])
def test_a_tutorial_checks_itself(
    name: str, device: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of the script but the clock."""
    allow_helpers()
    monkeypatch.setattr(sys.modules["clock"], "compare", lambda *args, **given: None)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    for words in CHECKS[name]:
        assert words in said


@pytest.mark.slow
def test_the_sentence_encoder(device: Watched) -> None:
    weights, batch = random_weights(width=384, hidden=1536), random_batch((9, 4, 1))
    vectors = load_tutorial("06_sentence_encoder").Encoder(weights).embed(batch.ids, batch.mask)
    assert np.abs(vectors - plain.embed(weights, batch, np.float64)).max() < 1e-5


@pytest.mark.slow
def test_the_sentence_encoder_with_its_weights(real: Any, device: Watched) -> None:
    weights, batch = real
    vectors = load_tutorial("06_sentence_encoder").Encoder(weights).embed(batch.ids[:3], batch.mask[:3])
    wanted = plain.embed(weights, type(batch)(batch.ids[:3], batch.mask[:3]), np.float64)
    assert np.abs(vectors - wanted).max() < 1e-5
