"""Kernels of public libraries give the right numbers. Their sources come from the network, or the test is skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

import torch

from tests.compat.sources import Unavailable, libraries, load
from tests.compat.trials import SOURCES, TRIALS
from tests.compat.world import Trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def triton() -> Iterator[None]:
    with libraries(SOURCES):
        yield


@pytest.mark.parametrize("trial", TRIALS, ids=lambda t: t.name)
@pytest.mark.filterwarnings("default")
def test_kernels(trial: Trial) -> None:
    torch.manual_seed(0)
    try:
        module = load(trial.repository, trial.path)
    except Unavailable as reason:
        pytest.skip(f"no source: {reason}")
    except ModuleNotFoundError as reason:
        pytest.skip(f"no source: {reason}")
    trial.check(module)
