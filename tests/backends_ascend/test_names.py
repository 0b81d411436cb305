"""What an expert reads: the user's names, numbers computed where they change, and stages that have a name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.block.licm import hoist_invariants
from pypto.backends.ascend.block.stage_index import compute_stage_indices
from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Instr, Let, Loop, Param, Read, View, Word
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from pypto.ir.types import float32, int64
from tests.backends_ascend.kernels import ub

B2 = ascend_target("ascend910b2")


@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


@pto.jit
def attended(x, weight, out, BLOCK: pto.constexpr):
    start = pto.program_id(0) * BLOCK
    acc = pto.zeros((BLOCK,), pto.float32)
    for k in range(start, start + 7):
        scaled = x[k, 0:BLOCK] * weight[start : start + BLOCK]
        acc += pto.sqrt(scaled)
    out[start : start + BLOCK] = acc


def text_of(kernel: Any, *args: Any, **given: Any) -> str:
    return lower_to_text(function_of(kernel, kernel.signature.bind(args, given)), B2)[1]


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def tensors(text: str) -> list[str]:
    return re.findall(r"LocalTensor<\w+> (\w+)\(", text)


def test_tiles_are_called_as_the_user_calls_them() -> None:
    names = tensors(text_of(softmax, zeros(64, 1000), zeros(64, 1000)))
    assert {"t", "e", "sum_e", "sub_t", "yLocal"} <= set(names)
    assert len(set(names)) == len(names)
    assert not [name for name in names if re.fullmatch(r"t_\d+", name)]


def test_the_same_names_every_time() -> None:
    assert text_of(softmax, zeros(64, 1000), zeros(64, 1000)) == text_of(softmax, zeros(64, 1000), zeros(64, 1000))


def test_a_loops_numbers_and_stages_have_names() -> None:
    text = text_of(attended, zeros(99, 64), zeros(999), zeros(999), BLOCK=64)
    assert {"acc", "scaled"} <= set(tensors(text))
    inner = text[text.index("for (int32_t k = ") :]
    inner = inner[: inner.index("\n        }\n")]
    assert "% 2" not in inner.replace(inner[inner.index("const uint32_t stage") :].split("\n", 1)[0], "")
    assert "weight_size0 - " not in inner  # what no round changes is computed before


N, OUT = Param("n", int64, False), Param("out", float32, True)
A = ub("a", 64, 2)


def kernel(*body: Any) -> BlockKernel:
    return BlockKernel("k", "vector", (OUT, N), (A,), tuple(body))


def add(a: Any, b: Any) -> Expr:
    return Expr("+", (a, b))


MOVES: Any = [
    ("what parameters give", add("n", 1), True),
    ("what the loop gives", add("n", "i"), False),
    ("what a number of the loop gives", add("inside", 1), False),
    ("what is in memory", add(Read(View(A)), 1), False),
    ("a division that may fail", Expr("//", (5, "n")), False),
    ("a division by a constant", Expr("//", ("n", 4)), True),
    ("a division by the grid", Expr("%", ("n", "grid_x")), True),
]


@pytest.mark.parametrize(("what", "value", "moves"), MOVES, ids=[row[0] for row in MOVES])
def test_invariant_numbers_are_computed_before_the_loop(what: str, value: Expr, moves: bool) -> None:
    lets = Let("inside", int64, add("i", 2)), Let("found", int64, value)
    use = Instr("Adds", (View(A, "inside"), View(A, "found"), 1.0, 32))
    before, *loops = (
        hoist_invariants(kernel(Loop("i", 0, 9, 1, (*lets, use)))).body
        if moves
        else (None, *hoist_invariants(kernel(Loop("i", 0, 9, 1, (*lets, use)))).body)
    )
    (loop,) = loops
    assert isinstance(loop, Loop)
    assert (before == lets[1]) is moves
    assert loop.body == ((lets[0], use) if moves else (*lets, use))


def test_numbers_move_out_of_all_loops_that_do_not_change_them() -> None:
    first, second = Let("first", int64, add("n", 1)), Let("second", int64, add("first", "i"))
    inner = Loop("j", 0, 4, 1, (first, second, Instr("Adds", (View(A, "second"), View(A), 1.0, 32))))
    (moved, outer) = hoist_invariants(kernel(Loop("i", 0, 9, 1, (inner,)))).body
    assert moved == first
    assert isinstance(outer, Loop)
    assert outer.body[0] == second


def test_a_stage_told_in_two_ways_is_one() -> None:
    """Events tell it by what numbers stand for, views by their names."""
    begin = Let("begin", int64, Expr("*", ("n", 16)))
    short = Expr("%", (Expr("-", ("i", "begin")), 2))
    long = Expr("%", (Expr("-", ("i", Expr("*", ("n", 16)))), 2))
    body = Instr("WaitFlag", (Word("MTE2_V"), long)), Instr("Adds", (View(A, 0, short), View(A, 0, short), 1.0, 32))
    _, loop = compute_stage_indices(kernel(begin, Loop("i", "begin", 99, 1, body))).body
    assert isinstance(loop, Loop)
    stage, wait, adds = loop.body
    assert isinstance(stage, Let)
    assert stage.value == short
    assert isinstance(wait, Instr)
    assert wait.args[1] == "stage"
    assert isinstance(adds, Instr)
    assert adds.args[0] == View(A, 0, "stage")
