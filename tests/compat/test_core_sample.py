"""Triton's own `test_core.py`, unedited: its names are found, and of cases drawn at random nearly all pass."""

from __future__ import annotations

import pytest

from tests.compat.core_sample import sample, source
from tests.compat.sources import Unavailable

pytest.importorskip("torch")


@pytest.mark.slow
def test_sample_of_triton_core_tests() -> None:
    try:
        file = source()
    except Unavailable as reason:
        pytest.skip(f"no source: {reason}")
    found = sample(file)
    assert found.cases == 9375, found.output
    assert found.counts["passed"] > 1000 and found.rate >= 0.93, found.reasons.most_common(10)
