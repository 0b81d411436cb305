"""Vector instructions in groups that do not wait for each other."""

from __future__ import annotations

import numpy as np

from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.list_scheduling import list_schedule
from pypto.backends.ascend.block.race_checker import races
from pypto.backends.ascend.block.verify import verify
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Instr, Item, Loop, View, Word
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import ascend_target
from pypto.ir.types import float32, int32
from tests.backends_ascend.simulated import function_of
from tests.backends_ascend.test_cube_mixed import attention

A, B, C, D = (View(Buffer(name, "UB", float32, 64)) for name in "abcd")


def exp(to: View, source: View) -> Instr:
    return Instr("Exp", (to, source, 64))


def order(*items: Item) -> tuple[Item, ...]:
    buffers = tuple(view.of for view in (A, B, C, D) if isinstance(view.of, Buffer))
    return list_schedule(BlockKernel("k", "vector", (), buffers, items)).body


def test_two_chains_go_side_by_side() -> None:
    assert order(exp(A, A), exp(A, A), exp(B, B), exp(B, B)) == (exp(A, A), exp(B, B), exp(A, A), exp(B, B))


def test_what_is_read_is_not_written_before_and_what_is_written_twice_stays_in_order() -> None:
    items = exp(A, B), exp(B, C), exp(A, D)
    assert order(*items) == items


def test_other_units_and_loops_are_not_passed() -> None:
    barrier, loop = Instr("PipeBarrier", (Word("PIPE_V"),)), Loop("i", 0, 4, 1, (exp(D, D),), 0, int32)
    items = exp(A, A), exp(A, A), barrier, exp(B, B), loop, exp(C, C)
    assert order(*items) == items


def test_attention_is_in_order_with_fewer_barriers() -> None:
    q, k, v, out = (np.empty((1, 512, 64), np.float16) for _ in range(4))
    arguments = {"q": q, "k": k, "v": v, "out": out, "CAUSAL": False, "BM": 64, "BN": 256}
    target = ascend_target("ascend910b2")
    made = sync(lower_kernel(function_of(attention, arguments), target), target)
    verify(made, target)
    assert races(made, target) == []
    names = [instr.name for instr in made.instructions()]
    assert names.index("Cast", names.index("Exp")) < names.index("BlockReduceSum")
