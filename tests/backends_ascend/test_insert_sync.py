"""Events and barriers: as experts set them, as few as will do, and enough for the simulated device."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Read,
    Scalar,
    View,
    While,
    Word,
)  # fmt: skip
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import ascend_target
from pypto.ir.types import float32, int32
from tests.backends_ascend.kernels import X, Y, load, scaled, store, summed, ub
from tests.backends_ascend.test_ascendc import complaints
from tests.sim.device import Array, launched, needs_compiler

GOLDEN = Path(__file__).with_name("golden")
B2, A5 = ascend_target("ascend910b2"), ascend_target("ascend950")
KERNELS = {"scaled": scaled, "summed": summed}


def text_of(kernel: BlockKernel) -> str:
    return emit(sync(allocate(kernel, B2), B2), B2)


def run(kernel: BlockKernel, arrays: list[Array], *numbers: int, blocks: int = 1) -> None:
    launched(text_of(replace(kernel, name="k")), arrays, *numbers, blocks=blocks)


def calls(kernel: BlockKernel) -> str:
    """The calls of a kernel's text, without arguments that say little."""
    text = text_of(kernel)
    body = text[text.index("InitSocState") : text.rindex("PipeBarrier<PIPE_ALL>")]
    found = re.findall(
        r"(?:SetFlag|WaitFlag)<HardEvent::\w+>\([^;]*\)|PipeBarrier<\w+>|\b[A-Z]\w+(?=\()|for|if|while|}", body
    )
    skipped = (
        "InitSocState",
        "SetGlobalBuffer",
        "GetBlockIdx",
        "GetBlockNum",
        "GetValue",
        "DataCopyExtParams",
        "DataCopyPadExtParams",
    )
    short = (re.sub(r"HardEvent::|static_cast<TEventID>", "", x) for x in found if x not in skipped)
    return " ".join(x for x in short if x != "}")


@needs_compiler
@pytest.mark.parametrize("name", KERNELS)
def test_golden_text(name: str, update_golden: bool, tmp_path: Path) -> None:
    text = text_of(KERNELS[name]())
    file = GOLDEN / f"{name}.asc"
    if update_golden:
        file.write_text(text, encoding="utf-8")
    assert complaints(text, tmp_path) == ""
    assert text == file.read_text(encoding="utf-8"), "see the change with `git diff` after `pytest --update-golden`"


@needs_compiler
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_tiles_in_turns(stages: int) -> None:
    x = np.linspace(-3, 3, 50000, dtype=np.float32)
    y = np.zeros_like(x)
    run(scaled(stages), [x, y], x.size, blocks=3)
    np.testing.assert_allclose(y, 2 * np.exp(x), rtol=1e-6)


@needs_compiler
def test_a_sum_that_a_loop_carries() -> None:
    x, y = np.random.default_rng(0).standard_normal(320).astype(np.float32), np.zeros(64, np.float32)
    x[::64] -= 10
    run(summed(), [x, y])
    total = x.reshape(5, 64).sum(0)
    np.testing.assert_allclose(y, -total if total[0] < 0 else total, rtol=1e-4, atol=1e-5)


def test_chips_that_order_vector_instructions_need_no_barrier() -> None:
    k = sync(allocate(scaled(), A5), A5)
    assert not [i for i in k.instructions() if i.name == "PipeBarrier"]


def simple(*body: Item) -> BlockKernel:
    return BlockKernel("k", "vector", (X, Y), (A, B, C), body)


A, B, C = ub("a", 64), ub("b", 64), ub("c", 64)
LOAD, STORE = load(View(A), View(X), 64), store(View(Y), View(B), 64)


def exp(to: View, source: View) -> Instr:
    return Instr("Exp", (to, source, 64))


def test_one_after_the_other() -> None:
    assert calls(simple(LOAD, exp(View(B), View(A)), STORE)) == (
        "DataCopyPad SetFlag<MTE2_V>(0) WaitFlag<MTE2_V>(0) Exp SetFlag<V_MTE3>(0) WaitFlag<V_MTE3>(0) DataCopyPad"
    )


def test_what_others_have_said_is_not_said_again() -> None:
    """The store of `a` waits for the vector unit, which has waited for the load of `a`."""
    late = store(View(Y), View(A), 64)
    got = calls(simple(LOAD, exp(View(B), View(A)), STORE, late))
    assert got.count("SetFlag") == 2


def test_barriers_only_between_instructions_that_depend_on_each_other() -> None:
    fill = [Instr("Duplicate", (View(b), 1.0, 64)) for b in (A, B, C)]
    assert "PipeBarrier" not in calls(simple(*fill))
    assert (
        calls(simple(fill[0], exp(View(B), View(A)), fill[2], exp(View(A), View(B)))).count("PipeBarrier<PIPE_V>") == 2
    )
    assert calls(simple(fill[0], fill[0])).count("PipeBarrier<PIPE_V>") == 1


def test_parts_of_a_buffer_are_apart() -> None:
    wide = ub("wide", 128)
    halves = [View(wide, at) for at in (0, 64)]
    assert "PipeBarrier" not in calls(BlockKernel("k", "vector", (X, Y), (wide,), tuple(
        Instr("Duplicate", (v, 1.0, 64)) for v in halves)))  # fmt: skip
    rows = Loop("r", 0, 8, 1, (Instr("Duplicate", (View(wide, Expr("*", ("r", 16))), 1.0, 16)),))
    assert "PipeBarrier" not in calls(BlockKernel("k", "vector", (X, Y), (wide,), (rows,)))
    overlapping = Loop("r", 0, 8, 1, (Instr("Duplicate", (View(wide, Expr("*", ("r", 4))), 1.0, 16)),))
    assert "PipeBarrier" in calls(BlockKernel("k", "vector", (X, Y), (wide,), (overlapping,)))


def test_two_loads_into_the_same_place_wait_for_each_other() -> None:
    assert calls(simple(LOAD, LOAD)) == "DataCopyPad PipeBarrier<PIPE_MTE2> DataCopyPad"


def test_scalars_wait_and_are_waited_for() -> None:
    first: Scalar = Read(View(A))
    body = (LOAD, Let("s", float32, first), Instr("SetValue", (View(B, 3), "s")), exp(View(C), View(B)))
    got = calls(simple(*body))
    assert got == ("DataCopyPad SetFlag<MTE2_S>(0) WaitFlag<MTE2_S>(0) SetValue SetFlag<S_V>(0) WaitFlag<S_V>(0) Exp")


def test_numbers_that_nothing_reads_cost_nothing() -> None:
    assert calls(simple(LOAD, Let("s", float32, Read(View(A))))) == "DataCopyPad"


def test_both_ways_of_a_condition_pair() -> None:
    """What lies inside a condition is waited for outside of it, whichever way is taken."""
    either = If("p", (exp(View(B), View(A)),), (Instr("Duplicate", (View(B), 0.0, 64)),))
    got = calls(simple(Let("p", int32, 1), LOAD, either, STORE))
    assert got == (
        "DataCopyPad SetFlag<MTE2_V>(0) WaitFlag<MTE2_V>(0) if Exp Duplicate SetFlag<V_MTE3>(0) WaitFlag<V_MTE3>(0)"
        " DataCopyPad"
    )


def test_loops_without_a_count_wait_for_all_units_or_set_and_wait_in_one_place() -> None:
    loop = While((LOAD,), Expr("<", (Read(View(A)), 1.0)), (exp(View(A), View(A)), Assign("n", 1)))
    got = calls(simple(Let("n", int32, 0), loop, STORE))
    assert got.count("SetFlag") == got.count("WaitFlag")
    assert "while PipeBarrier<PIPE_ALL> DataCopyPad SetFlag<MTE2_S>(5) WaitFlag<MTE2_S>(5)" in got


def test_events_under_a_condition_take_turns_as_the_loop_around_it_does() -> None:
    """The unit that loads may be two iterations ahead: with one event it would set it twice."""
    a = ub("a", 64, 2)
    turn: Scalar = Expr("%", ("i", 2))
    inside = (load(View(a, 0, turn), View(X), 64), exp(View(B), View(a, 0, turn)))
    loop = Loop("i", 0, 4, 1, (If(Expr("<", ("i", 3)), inside),))
    k = sync(allocate(BlockKernel("k", "vector", (X, Y), (a, B), (loop,)), B2), B2)
    assert {i.args[1] for i in k.instructions() if i.args[:1] == (Word("MTE2_V"),)} == {turn}


def test_events_that_run_out_become_barriers() -> None:
    """A shared one would be set anew while another unit still has its wait before it; the scalar unit waits at once."""
    many = [ub(f"t{i}", 64) for i in range(9)]
    body = [load(View(b), View(X), 64) for b in many] + [exp(View(b), View(b)) for b in many]
    k = BlockKernel("k", "vector", (X, Y), tuple(many), tuple(body))
    got = [i for i in sync(allocate(k, B2), B2).body if isinstance(i, Instr)]
    numbers = {i.args[1] for i in got if i.name == "SetFlag"}
    assert numbers == set(range(5))
    assert Instr("PipeBarrier", (Word("PIPE_ALL"),)) in got


def test_a_loop_that_would_hold_too_many_events_holds_one_for_all_of_a_kind() -> None:
    many = [ub(f"t{i}", 64, 2) for i in range(4)]
    turn: Scalar = Expr("%", ("i", 2))
    fills = [Instr("Duplicate", (View(b, 0, turn), 1.0, 64)) for b in many]
    stores = [store(View(Y, Expr("*", ("i", 64))), View(b, 0, turn), 64) for b in many]
    loop = Loop("i", 0, 9, 1, (*fills, *stores))
    got = list(sync(allocate(BlockKernel("k", "vector", (X, Y), tuple(many), (loop,)), B2), B2).instructions())
    before = [i.args for i in got[: got.index(next(i for i in got if i.name == "Duplicate"))] if i.name == "SetFlag"]
    assert before == [(Word("MTE3_V"), 0), (Word("MTE3_V"), 1)]


@needs_compiler
def test_a_loop_in_a_loop_shares_no_event_with_it() -> None:
    inner = Loop("r", 0, 4, 1, (
        load(View(A), View(X, Expr("*", ("r", 64))), 64), Instr("Add", (View(B), View(B), View(A), 64)),
    ))  # fmt: skip
    outer = Loop("t", 0, 3, 1, (
        load(View(C), View(X), 64), Instr("Muls", (View(B), View(C), 0.0, 64)), inner,
        Instr("Add", (View(B), View(B), View(C), 64)), STORE,
    ))  # fmt: skip
    x, y = np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    run(simple(outer), [x, y])
    np.testing.assert_array_equal(y, x.reshape(4, 64).sum(0) + x[:64])


def test_the_same_kernel_gets_the_same_events() -> None:
    assert text_of(scaled()) == text_of(scaled())
