"""What the simulated device remarks on kernels that are right: copies whose rows begin between lines of 512 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from pypto.runtime.acl import opened
from tests.sim.device import built, launched, needs_compiler, together, vector_kernel
from tests.sim.test_faults import FILL, M_FIX, PRODUCT, cube_kernel

pytestmark = needs_compiler
N: Final = 8192
OFTEN: Final = "for (int i = 0; i < {count}; ++i) {{{{ {body} PipeBarrier<PIPE_{pipe}>(); }}}}"

# A kernel whose rows lie {gap} bytes apart behind their own length, the gaps that let each begin at a line, and those
# that do not, with what is said of these: the lines that are touched, and those that would do.
Wrap = Callable[[str, str], str]
COPIES: Final[dict[str, tuple[Wrap, str, int, int, str]]] = {
    "loads of rows": (vector_kernel, OFTEN.format(
        count=8, body="DataCopyPad(a, gx, {{8, 2048, {gap}, 0, 0}}, {{false, 0, 0, 0}});", pipe="MTE2"),
        512, 256, "288 256"),
    "stores of rows": (vector_kernel, "Duplicate(b, 1.0f, 4096); SetFlag<HardEvent::V_MTE3>(0);"
        "WaitFlag<HardEvent::V_MTE3>(0);" + OFTEN.format(
        count=8, body="DataCopyPad(gy, b, {{8, 2048, 0, {gap}, 0}});", pipe="MTE3"), 1024, 256, "288 256"),
    "loads of the cube": (cube_kernel, OFTEN.format(
        count=32, body="DataCopy(a1, gx, Nd2NzParams{{1, 8, 128, 0, 128 + {gap} / 2, 8, 1, 0}});", pipe="MTE2"),
        256, 128, "320 256"),
    "results of the cube": (cube_kernel, FILL.replace("{", "{{").replace("}", "}}") + PRODUCT.format(m=16, n=64, k=16)
        + M_FIX + OFTEN.format(count=16, body="FixpipeParamsV220 f; f.nSize = 64, f.mSize = 16, f.srcStride = 16,"
        "f.dstStride = 64 + {gap} / 4; Fixpipe<float, float, CFG_ROW_MAJOR>(gy, c, f);", pipe="FIX"),
        256, 128, "320 256"),
}  # fmt: skip


def remarks(wrap: Wrap, bodies: tuple[str, ...], name: str) -> list[str]:
    """What the device says of one of some kernels, after its name and the line."""
    device = opened(built() / "lib64" / "libascendcl.so")
    device.remarks.clear()
    binary = together(wrap, bodies)
    launched("", [np.ones(N, np.float32), np.zeros(N, np.float32)], N, binary=binary, name=name)
    return [words.split(": ")[1] for words, _ in device.remarks if words.startswith(f"{name}, line ")]


@pytest.mark.parametrize("what", COPIES)
def test_rows_between_lines_are_remarked(what: str) -> None:
    wrap, body, good, bad, said = COPIES[what]
    both = body.format(gap=good), body.format(gap=bad)
    assert remarks(wrap, both, "k0") == []
    assert remarks(wrap, both, "k1") == [said]


def test_what_moves_little_or_in_one_run_is_not_remarked() -> None:
    """Seven loads of eight rows; and all rows one behind the other from the middle of a line."""
    few = "for (int i = 0; i < 7; ++i) { DataCopyPad(a, gx, {8, 2048, 256, 0, 0}, {false, 0, 0, 0});" \
        "PipeBarrier<PIPE_MTE2>(); }"  # fmt: skip
    run = "for (int i = 0; i < 8; ++i) { DataCopyPad(a, gx[64], {8, 2048, 0, 0, 0}, {false, 0, 0, 0});" \
        "PipeBarrier<PIPE_MTE2>(); }"  # fmt: skip
    assert [remarks(vector_kernel, (few, run), name) for name in ("k0", "k1")] == [[], []]
