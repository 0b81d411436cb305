"""Random kernels of matrix products give the same on the CPU, at every level, and in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from pypto.backends.cpu.loopir import materialize
from pypto.errors import CompilerBug
from tests.conformance.matrices import Maker, Program
from tests.conformance.random_matrices import check, difference, shrunk
from tests.conformance.sources import define
from tests.conftest import ALL_LEVELS

QUICK = range(92, 108)  # with some that were wrong once
FOUND = 21  # that needs a transpose which two products read
TURNED = """
def kernel(x, y):
    y[0:32, 0:32] = pto.trans(x[0:32, 0:32])
"""


@pytest.mark.parametrize("seed", QUICK)
def test_random_products(seed: int) -> None:
    text = check(seed, [ALL_LEVELS[seed % len(ALL_LEVELS)]])
    assert not text, text


@pytest.mark.first
@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1800, 100))
def test_many_random_products(first: int) -> None:
    found = [check(seed, [ALL_LEVELS[seed % len(ALL_LEVELS)]]) for seed in range(first, first + 100)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("level", [level for level in ALL_LEVELS if level], ids=str)
@pytest.mark.parametrize("missing", [(1, 0), (3, 5)], ids=str)
def test_transposes_of_arrays_that_end_within_a_tile(level: str, missing: tuple[int, int]) -> None:
    """The loop over rows that are transposed together is not peeled: it would read behind the end of the array."""
    kernel = define(TURNED, level)
    shape = 32 - missing[0], 32 - missing[1]
    x = np.asfortranarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    memory, wanted = np.full((96, 32), 7, np.float32), np.zeros((32, 32), np.float32)
    wanted[: shape[1], : shape[0]] = x.T
    kernel[1](x, memory[32:64])
    np.testing.assert_array_equal(memory[32:64], wanted)
    assert (memory[:32] == 7).all()
    assert (memory[64:] == 7).all()


def test_what_the_generator_writes() -> None:
    """Equal seeds give equal kernels, and a hundred have all that they are meant to."""
    texts = [Maker(seed).program().text for seed in range(100)]
    assert texts == [Maker(seed).program().text for seed in range(100)]
    words = ("pto.trans(",
             "pto.permute(", "pto.dot(", "pto.reshape(", "axis=0", "axis=1", "for k1 in range(n)", "if n > ",
             "pto.static_range", "float16", "int8", "pto.cumsum", "+=")  # fmt: skip
    assert all(any(word in text for text in texts) for word in words)


def test_a_mistake_in_planning_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where products pack a tile of which its lifetime knows nothing, a kernel is refused; less of it is, too."""
    monkeypatch.setattr(materialize, "packing_dots", lambda plan, v: [])
    program = Maker(FOUND).program()
    levels = ["x86-64-v3"] if len(ALL_LEVELS) > 1 else [""]

    def fails(candidate: Program) -> bool:
        return CompilerBug.__name__ in difference(candidate, levels)

    assert fails(program)
    small = shrunk(program, fails)
    assert fails(small) and small.text.count("pto.dot(") >= 2
    assert len(small.text.splitlines()) < len(program.text.splitlines())
