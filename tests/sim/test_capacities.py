"""The simulated device has figures of its own for a chip's memories; the records that kernels are made by agree."""

from __future__ import annotations

import numpy as np
import pytest

from pypto.backends.ascend.emit.ascendc import POSITIONS
from pypto.backends.ascend.target import ascend_target
from pypto.runtime.acl import AclError
from tests.sim.device import launched, needs_compiler, together

pytestmark = needs_compiler
SPACES = ("L1", "L0A", "L0B", "L0C", "BT", "UB")
PLACES = {**{space: f"TPosition::{position}" for space, position in POSITIONS.items()}, "BT": "TPosition::C2"}


def kernel(body: str, name: str) -> str:
    kind, _, statement = body.partition(" ")
    return f"""
extern "C" __global__ __{kind}__ __aicore__ void {name}(GM_ADDR) {{
    InitSocState();
    {statement}
    PipeBarrier<PIPE_ALL>();
}}
"""


def bodies(chip: str) -> tuple[str, ...]:
    """For each memory a tensor as large as the record says, and one of a block of 64 bytes more."""
    made = []
    for space in SPACES:
        words = ascend_target(chip).memories[space].bytes // 4
        kind = "vector" if space == "UB" else "cube"
        made += [f"{kind} LocalTensor<float> t({PLACES[space]}, 0, {n});" for n in (words, words + 16)]
    return tuple(made)


@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950"])
def test_memories_are_as_large_as_the_records_say(chip: str) -> None:
    flag = ascend_target(chip).flag
    binary = together(kernel, bodies(chip), flag)
    for i, space in enumerate(SPACES):
        launched("", [np.zeros(1, np.float32)], binary=binary, name=f"k{2 * i}")
        expected = f"{space} has {ascend_target(chip).memories[space].bytes} bytes for programs"
        with pytest.raises(AclError, match=expected):
            launched("", [np.zeros(1, np.float32)], binary=binary, name=f"k{2 * i + 1}")
