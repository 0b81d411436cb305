"""Triton's own tests, unedited: their names are found, and of cases drawn at random nearly all pass."""

from __future__ import annotations

import pytest

from tests.compat.core_sample import FILES, sample, source
from tests.compat.sources import Unavailable

pytest.importorskip("torch")

# Cases of each file, how many are drawn, how many of those pass at least, and which share of those that run does.
SAMPLES = {
    "test_core": (9375, 1500, 1000, 0.99),
    "test_standard": (177, 60, 40, 1.0),
    "test_random": (107, 20, 20, 1.0),
    "test_tuple": (19, 19, 18, 0.94),  # a hook of Triton's compiler is not called
    "test_block_pointer": (279, 60, 20, 1.0),
    "test_mxfp": (24, 24, 24, 1.0),
    "test_conversions": (63, 20, 20, 1.0),  # numbers are compared also where the fork for CPUs refuses a conversion
    "test_tensor_descriptor": (2858, 60, 15, 1.0),  # and of reductions that it refuses
    "test_libdevice": (15, 15, 15, 1.0),
    "test_autotuner": (20, 20, 14, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_sample_of_tritons_own_tests(name: str) -> None:
    if name == "test_random":
        pytest.importorskip("scipy")
    try:
        file = source(name)
    except Unavailable as reason:
        pytest.skip(f"no source: {reason}")
    cases, drawn, passed, rate = SAMPLES[name]
    found = sample(file, drawn, parts=1 + drawn // 300)
    assert found.cases == cases, found.output
    assert found.counts["passed"] >= passed and found.rate >= rate, found.reasons.most_common(10)
