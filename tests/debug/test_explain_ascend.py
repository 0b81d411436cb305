"""What `explain` says of a kernel for an Ascend chip."""

from __future__ import annotations

import numpy as np

import pypto as pto
from pypto.debug.explain import explain

CHIP = "ascend910b2"


@pto.jit
def mixed(x, wide, counter, out):
    a, b = x[0:64], wide[0:64]
    out[0:64] = (a + a).to(pto.float64) * b
    pto.store(counter, pto.atomic_add(counter, 1) + 1)


def test_what_goes_through_the_scalar_unit() -> None:
    x, wide, counter = np.zeros(64, np.float32), np.zeros(64), np.zeros(1, np.int32)
    found = explain(mixed, x, wide, counter, np.zeros(64), target=CHIP)
    (slow,) = found.about("scalar")
    assert slow.text.startswith("float64 by integer operations") and "float32" in slow.text
    assert any(f.text.startswith("one core does all programs") for f in found.about("form"))
    text = str(found)
    assert "out[0:64] = (a + a).to(pto.float64) * b\n  scalar  float64 by" in text


def test_what_the_vector_unit_does_needs_no_words() -> None:
    @pto.jit
    def plain(x, out):
        out[0:64] = x[0:64] * 2

    x = np.zeros(64, np.float32)
    assert not explain(plain, x, x.copy(), target=CHIP).about("scalar")
