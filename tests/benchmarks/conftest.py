"""The tests of the benchmarks run beside numpy alone, whoever else is installed."""

from __future__ import annotations

import pytest

from benchmarks.peers import VARIABLE


@pytest.fixture(autouse=True)
def only_numpy(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Other peers take part in tests that ask for `everybody`."""
    if "everybody" not in request.fixturenames:
        monkeypatch.setenv(VARIABLE, "numpy,matplotlib,threadpoolctl")


@pytest.fixture
def everybody() -> None:
    """Every peer that is installed takes part."""
