"""The text of Block IR: what is written is read back, and what is no listing is an error with its line."""

from __future__ import annotations

import pytest

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Instr, Let, Param, Read, Record, Scalar, View, Word
from pypto.backends.ascend.blockir.parser import ListingError, parse
from pypto.backends.ascend.blockir.printer import listing, text
from pypto.backends.ascend.target import ascend_target
from pypto.backends.base import Slot
from pypto.ir.types import float32, int32
from tests.backends_ascend.kernels import X, Y, scaled, summed, ub
from tests.backends_ascend.programs import program
from tests.backends_ascend.test_ascendc import every_scalar

B2 = ascend_target("ascend910b2")

SCALED = """\
@kernel(file='/home/user/scaled.py')
def scaled(x: GM[float32, ND], y: GM[float32, ND], n: int32) -> vector:
    a = UB(float32, ND, 2048, stages=2)
    b = UB(float32, ND, 2048, stages=2)
    for i in range(block, (n + 2047) // 2048, blocks):
        count: int64 = min(2048, n - i * 2048)
        DataCopyPad(a[i // blocks % 2, 0], x[i * 2048], (1, count * 4, 0, 0, 0), (False, 0, 0, 0.0))  # 7
        Exp(b[i // blocks % 2, 0], a[i // blocks % 2, 0], 2048)  # 8
        Muls(b[i // blocks % 2, 0], b[i // blocks % 2, 0], 2.0, 2048)  # 8
        DataCopyPad(y[i * 2048], b[i // blocks % 2, 0], (1, count * 4, 0, 0, 0))  # 9
"""


def test_the_text() -> None:
    assert listing(scaled()) == SCALED


def again(kernel: BlockKernel) -> None:
    written = listing(kernel)
    assert parse(written) == kernel
    assert listing(parse(written)) == written


@pytest.mark.parametrize("make", [scaled, summed, every_scalar])
def test_round_trip(make: object) -> None:
    assert callable(make)
    kernel = make()
    again(kernel)
    again(sync(allocate(kernel, B2), B2))


@pytest.mark.parametrize("seed", range(40))
def test_round_trip_of_random_programs(seed: int) -> None:
    again(program(seed))


def test_round_trip_of_mixed_kernels_and_of_what_a_launch_knows() -> None:
    copy = Instr("Copy", (View(ub("a")), View(ub("a"), 64), 64, 1, Record((1, 1, 8, 8))))
    flag = Instr("CrossCoreSetFlag", (2, Word("PIPE_FIX"), 1))
    slots = (Slot("ptr", "x"), Slot("shape", "x", 1), Slot("scalar", "n", 0, int32))
    again(BlockKernel("k", "mix", (X, Y), (ub("a"),), (copy,), (flag,), slots, 64, "k.py", False))
    again(BlockKernel("k", "vector", (), (), ()))


def test_names_that_are_words_of_python() -> None:
    lets = (Let("break", int32, 0), Let("break_", int32, "break"), Let("x_", int32, "break_"))
    again(BlockKernel("k", "vector", (Param("in", int32, False),), (), lets))


def test_names_that_are_no_words_of_python() -> None:
    for name in ("<lambda>", "größe", "a kernel", "exp"):
        again(BlockKernel(name, "vector", (), (), ()))


NUMBERS: dict[str, Scalar] = {
    "a + b * 2": Expr("+", ("a", Expr("*", ("b", 2)))),
    "(a + b) * -2": Expr("*", (Expr("+", ("a", "b")), -2)),
    "a < b and (not c)": Expr("&&", (Expr("<", ("a", "b")), Expr("not", ("c",)))),
    "a if c else float('-inf')": Expr("?:", ("c", "a", float("-inf"))),
    "min(a, int64(b))": Expr("min", ("a", Expr("int64", ("b",)))),
    "GetValue(t.int32[i % 4])": Read(View(ub("t", dtype=float32), Expr("%", ("i", 4)), 0, int32)),
}


@pytest.mark.parametrize("wanted", NUMBERS)
def test_numbers(wanted: str) -> None:
    assert text(NUMBERS[wanted]) == wanted


WRONG = {
    "def k() -> vector:\n    x = = 1\n": "line 2: invalid syntax",
    "def k() -> vector:\n    import os\n": "line 2: `import os` is no item of Block IR",
    "def k() -> vector:\n    Exp(a[0])\n": r"line 2: `a\[0\]` is no view of a buffer or an array",
    "def k(n: string) -> vector:\n    pass\n": "`string` is no element type",
    "def k(n) -> vector:\n    pass\n": "`n` is no parameter with a type",
    "def k() -> vector:\n    s: int32 = [1]\n": r"line 2: `\[1\]` is no number of Block IR",
    "def k() -> vector:\n    a = UB(float32, 64)\n": "no buffer with a type, a layout and a number of elements",
    "def k(x: GM[float32]) -> vector:\n    pass\n": r"`GM\[float32\]` is no element type",
    "x = 1\n": "`x = 1` is no kernel",
    "": "a listing is one kernel, not 0",
}


@pytest.mark.parametrize("source", WRONG)
def test_what_is_no_listing(source: str) -> None:
    with pytest.raises(ListingError, match=WRONG[source]):
        parse(source)
