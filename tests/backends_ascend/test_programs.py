"""Random programs: planned and synchronised they break no rule, and the simulated device finds no fault in them."""

from __future__ import annotations

import numpy as np
import pytest

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.verify import problems
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import ascend_target
from tests.backends_ascend.programs import SIZE, TILES, Meaning, program
from tests.sim.device import launched, needs_compiler

B2 = ascend_target("ascend910b2")


def whole(seed: int) -> BlockKernel:
    return sync(allocate(program(seed), B2), B2)


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_no_rule_is_broken(start: int) -> None:
    for seed in range(start, start + 20):
        assert problems(whole(seed), B2) == [], seed


@needs_compiler
@pytest.mark.parametrize("seed", range(16))
def test_the_device_agrees_with_numpy(seed: int) -> None:
    x = np.random.default_rng(seed).integers(-4, 4, SIZE * TILES).astype(np.float32)
    y, wanted = np.zeros_like(x), np.zeros_like(x)
    Meaning.run(program(seed), x, wanted)
    launched(emit(whole(seed), B2), [x, y])
    np.testing.assert_array_equal(y, wanted)
