"""The rules of a whole kernel: each has a kernel that breaks it, and what is said of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pypto.backends.ascend.blockir import (
    Assign,
    BlockKernel,
    Buffer,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Record,
    View,
    Word,
)  # fmt: skip
from pypto.backends.ascend.instructions import RECORDS
from pypto.backends.ascend.plan import plan
from pypto.backends.ascend.sync import sync
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.verify import problems, verify
from pypto.errors import CompilerBug
from pypto.ir.types import bfloat16, float16, float32, int8, int32, uint8
from tests.backends_ascend.kernels import X, Y, event, load, scaled, store, summed, ub

B2, A5 = ascend_target("ascend910b2"), ascend_target("ascend950")
A, B = replace(ub("a", 128), address=0), replace(ub("b", 128), address=512)
C = replace(ub("c", 256, dtype=uint8), address=1024)
HALF = replace(ub("h", 128, dtype=float16), address=2048)
NARROW = replace(ub("n", 128, dtype=bfloat16), address=4096)
WHOLE = replace(ub("w", 128, dtype=int32), address=8192)
BYTES = replace(ub("s", 128, dtype=int8), address=16384)
SUMS = Buffer("sums", "L0C", float32, 256, address=0)
LEFT = Buffer("left", "L0A", float16, 512, address=0)
NO_PAD = Record((0, 0, 0, 0))
UNUSED = (0,) * (len(RECORDS["MmadParams"].fields) - 5)
FILL = Instr("Duplicate", (View(A), 0.0, 128), 1)
EXP = Instr("Exp", (View(B), View(A), 128), 2)
BARRIER = Instr("PipeBarrier", (Word("PIPE_V"),))
LOAD, STORE = load(View(A), View(X), 128, 3), store(View(Y), View(B), 128, 4)


def exp(*args: object) -> Instr:
    return Instr("Exp", (View(B), View(A), *args), 2)  # type: ignore[arg-type]  # what is wrong may be of any type


def wait(pair: str, number: int = 0) -> tuple[Instr, Instr]:
    return event("SetFlag", pair, number), event("WaitFlag", pair, number)


BROKEN: dict[str, tuple[tuple[Item, ...], str]] = {
    "no such instruction": ((Instr("Sine", (View(A), View(A), 64), 2),), "line 2: there is no instruction Sine"),
    "no such form": ((exp(),), "Exp is not called with"),
    "a repeat of 300": ((exp(64, 300, Record((1, 1, 8, 8))),), "Exp is between 0 and 255, not 300"),
    "a stride of 256": ((exp(64, 1, Record((1, 1, 256, 8))),), "dstRepStride is between 0 and 255, not 256"),
    "a stride of no blocks": ((exp(64, 1, Record((0, 1, 8, 8))),), "dstBlkStride must not be 0"),
    "a mask of more than the lanes": ((exp(65, 1, Record((1, 1, 8, 8))),), "between 1 and 64 lanes, not 65"),
    "too many blocks": ((Instr("DataCopyPad", (View(A), View(X), Record((4096, 4, 0, 0, 0)), NO_PAD)),),
                        "blockCount is at most 4095, not 4096"),
    "a block too long": ((Instr("DataCopyPad", (View(A), View(X), Record((1, 1 << 21, 0, 0, 0)), NO_PAD)),),
                         "blockLen is at most 2097151"),
    "too much padding": ((Instr("DataCopyPad", (View(A), View(X), Record((1, 4, 0, 0, 0)), Record((1, 0, 9, 0)))),),
                         "padding is at most 32 bytes"),
    "bfloat16 arithmetic": ((Instr("Exp", (View(NARROW), View(NARROW), 64), 2),), "line 2: Exp has no bfloat16"),
    "a cast that takes two steps": ((Instr("Cast", (View(BYTES), View(A), Word("CAST_RINT"), 64)),),
                                    "no Cast from float32 to int8 in one step"),
    "an order of integers": ((Instr("CompareScalar", (View(C), View(WHOLE), 0, Word("LT"), 64)),),
                             "CompareScalar has no int32"),
    "a choice of integers": ((Instr("Select", (View(WHOLE), View(C), View(WHOLE), View(WHOLE),
                                               Word("VSEL_TENSOR_TENSOR_MODE"), 64)),), "Select has no int32"),
    "a comparison of part of a repeat": ((Instr("CompareScalar", (View(C), View(A), 0.0, Word("LT"), 100)),),
                                         "100 elements are no whole repeats"),
    "an operand between blocks": ((Instr("Exp", (View(B, 4), View(A), 64)),), "byte 16 of b is no multiple of 32"),
    "an operand past the end": ((Instr("Exp", (View(B, 64), View(A), 128)),), "bytes 256 to 768 of b, which has 512"),
    "one row on the cube": ((Instr("Mmad", (View(SUMS), View(LEFT), View(LEFT), Record((1, 16, 16, 0, 1, *UNUSED)))),),
                            "one row switches to another layout"),
    "a name from nowhere": ((Instr("Duplicate", (View(A), "s", 64), 5),), "line 5: 's' is read and was not defined"),
    "a name from another side": ((If(True, (Let("s", int32, 1),)), Let("t", int32, "s")), "'s' is read and was not"),
    "a name twice": ((Let("s", int32, 1), Let("s", int32, 2)), "'s' is defined twice"),
    "a value for no name": ((Assign("s", 1),), "'s' gets a value and was not defined"),
    "a read before the copy is done": ((LOAD, EXP),
        "line 2: a read of UB after a write by line 3 needs an event MTE2_V"),
    "a store before the result is there": ((FILL, BARRIER, EXP, STORE), "needs an event V_MTE3"),
    "an input overwritten too early": ((FILL, LOAD), "a write of UB after a write by line 1 needs an event V_MTE2"),
    "vector instructions that depend on each other": ((FILL, EXP), "needs PipeBarrier<PIPE_V>"),
    "an iteration that overtakes the one before": (
        (Loop("i", 0, 4, 1, (LOAD, *wait("MTE2_V"), EXP)),),
        "a write of UB after a read by line 2 needs an event V_MTE2"),
    "an event set twice": ((wait("S_V")[0], wait("S_V")[0]), "event S_V 0 is set twice"),
    "an event that nobody sets": ((wait("S_V")[1],), "event S_V 0 is waited for and was not set"),
    "an event that is left over": ((wait("S_V")[0],), "event S_V 0 is set and nothing waits for it"),
    "an event of one side": ((FILL, If("p", (wait("V_S")[0],)), wait("V_S")[1]),
        "event V_S 0 is waited for and was not set"),
    "an event's number": (wait("S_V", 8), "between 0 and 7, not 8"),
    "a scalar that comes too soon": ((Instr("SetValue", (View(A, 3), 1.0)), EXP), "needs an event S_V"),
    "two loads into one place": ((LOAD, LOAD), "needs PipeBarrier<PIPE_MTE2>"),
}  # fmt: skip


def kernel(*body: Item, buffers: tuple[Buffer, ...] = (A, B, C, HALF, NARROW, WHOLE, BYTES, SUMS, LEFT)) -> BlockKernel:
    return BlockKernel("k", "vector", (X, Y), buffers, (Let("p", int32, 1), *body))


@pytest.mark.parametrize("what", BROKEN)
def test_broken_rules(what: str) -> None:
    body, message = BROKEN[what]
    found = problems(kernel(*body), B2)
    assert any(message in text for text in found), found


BUFFERS = {
    "no address": (replace(A, address=None), "the buffer a has no address"),
    "not aligned": (replace(A, address=16), "begins at byte 16 of UB, no multiple of 32"),
    "not aligned in L0C": (replace(SUMS, address=512), "begins at byte 512 of L0C, no multiple of 1024"),
    "past the end": (replace(A, address=188000), "ends at byte 188512 of UB, which has 188160"),
}


@pytest.mark.parametrize("what", BUFFERS)
def test_places_of_buffers(what: str) -> None:
    buffer, message = BUFFERS[what]
    assert any(message in text for text in problems(kernel(buffers=(buffer,)), B2))


def test_what_lives_together_shares_no_memory() -> None:
    over = replace(B, address=256)
    k = kernel(FILL, BARRIER, Instr("Exp", (View(over), View(A), 64), 2), buffers=(A, over))
    assert "line 2: the buffers a and b share memory while both are alive" in problems(k, B2)


@pytest.mark.parametrize("target", [B2, A5])
@pytest.mark.parametrize("make", [scaled, summed, lambda: scaled(1), lambda: scaled(3)])
def test_whole_kernels_break_none(make: object, target: object) -> None:
    assert callable(make)
    assert problems(sync(plan(make(), B2), B2), B2) == []


def test_a_broken_kernel_is_a_bug_of_ours() -> None:
    with pytest.raises(CompilerBug, match=r"(?s)breaks rules of ascend910b2.*PipeBarrier<PIPE_V>"):
        verify(kernel(FILL, EXP), B2)


def test_chips_that_order_vector_instructions() -> None:
    assert problems(kernel(FILL, EXP), A5) == []


@pytest.mark.parametrize(("second", "step", "met"), [(64, 16, False), (56, 16, True), (72, 16, True), (64, 15, True)])
def test_pieces_of_rows_meet_only_where_they_overlap(second: int, step: int, met: bool) -> None:
    """Two instructions write 64 columns each of eight rows, without a barrier between them."""
    source, made = Buffer("source", "UB", float32, 1152, address=0), Buffer("made", "UB", float32, 1152, address=8192)
    pieces = (
        Instr("Muls", (View(made, at), View(source, at), 2.0, 64, 8, Record((1, 1, each, 16))))
        for at, each in ((0, 16), (second, step))
    )
    fill = Instr("Duplicate", (View(source), 1.0, 1152))
    body = (fill, Instr("PipeBarrier", (Word("PIPE_V"),)), *pieces)
    found = problems(replace(kernel(*body), buffers=(source, made)), ascend_target("ascend910b2"))
    assert bool(found) is met
    assert all("PipeBarrier<PIPE_V>" in problem for problem in found)
