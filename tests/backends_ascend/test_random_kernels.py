"""A hundred random kernels on the CPU and on the simulated Ascend device, and those that once differed.

`random_kernels` tries as many as one likes, by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from tests.backends_ascend.random_kernels import differing, drawn
from tests.backends_ascend.units import Units
from tests.sim.device import needs_compiler

pytestmark = needs_compiler


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_kernels(seed: int) -> None:
    cases = drawn(25, seed)
    failed = differing(cases)
    assert not failed, "\n\n".join(f"{case}\n{words}" for case, words in failed)
    assert len(cases) == 25 and sum(bool(case.refused) for case in cases) <= 1


@pto.jit
def zeros_with_signs(x, y, z):
    a = x[0:4, 0:8]
    t = pto.trans(pto.trans(a) + 0)
    y[0:4, 0:8] = a - t
    z[0:4, 0:8] = t + (a + a)


def test_to_add_0_makes_0_of_minus_0() -> None:
    """A copy in place, which adds the integer 0 to bits, is dropped; a sum with 0.0 is none."""
    x = np.tile([-0.0, 0.0, 1.0, -1.0], (4, 2)).astype(pto.bfloat16.numpy)
    here, there = ([np.full_like(x, 7), np.full_like(x, 7)] for _ in range(2))
    zeros_with_signs[1](x, *here)
    with pto.device("ascend-sim"):
        zeros_with_signs[1](x, *there)
    for a, b in zip(there, here, strict=True):
        np.testing.assert_array_equal(a.view(np.uint16), b.view(np.uint16))


def test_kernels_that_leave_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Units, "build", lambda self: None)
    monkeypatch.setattr(Units, "launch", lambda self, function, blocks, arguments: None)
    cases = drawn(6, 0)
    failed = differing(cases)
    assert len(failed) >= 5 and all("Mismatched" in words or "location" in words for _, words in failed)
