"""Ascend C text: golden files that compile without a warning, and expressions with few parentheses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Read,
    Record,
    Scalar,
    View,
    While,
    Word,
)  # fmt: skip
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.emit.cxx import Names, argument, scalar
from pypto.backends.ascend.target import ascend_target
from pypto.errors import CompilerBug
from pypto.ir.types import DType, bfloat16, float16, float32, int1, int8, int32, int64, uint8, uint16, uint32
from tests.backends_ascend.kernels import X, Y, scaled, summed, ub, with_addresses
from tests.patience import limit
from tests.sim.device import needs_compiler

GOLDEN = Path(__file__).with_name("golden")
INCLUDE = Path(__file__).parents[2] / "runtime" / "sim" / "include"
B2 = ascend_target("ascend910b2")


def complaints(text: str, folder: Path, arch: int = 2201) -> str:
    """What a compiler that is told to complain of everything says of a kernel."""
    file = folder / "kernel.cpp"
    file.write_text(text, encoding="utf-8")
    flags = ["-Wall", "-Wextra", "-Woverflow", "-Wconversion", "-fsyntax-only", f"-D__NPU_ARCH__={arch}"]
    command = ["g++", "-std=c++17", "-isystem", str(INCLUDE), *flags, str(file)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit(60)).stderr


def every_scalar() -> BlockKernel:
    """Numbers of all kinds, loops, conditions: what the scalar unit does."""
    a = ub("a", 64)
    flags = ub("flags", 64, dtype=uint8)
    narrow = ub("narrow", 64, dtype=bfloat16)
    big = Let("big", int64, 1 << 40)
    body: tuple[Item, ...] = (
        big,
        Let("s", float32, 0.1, 3),
        Let("k", int32, 0),
        Let("unused", int32, Expr("+", ("m", 1))),
        Let("small", int8, Expr("+", (Expr("int8", ("m",)), Expr("int8", (3,))))),
        Let("odd", int1, Expr("&", (Expr("==", (Expr("%", ("m", 2)), 1)), Expr("not", ("flag",))))),
        Loop("i", Expr("-", ("m", 1)), -1, -1, (
            Assign("s", Expr("+", ("s", Expr("*", ("w", Expr("float32", ("i",)))))), 5),
            If("odd", (Assign("k", Expr("+", ("k", "small"))),), (Assign("k", Expr("max", ("k", "i"))),), line=6),
        ), line=4, dtype=int32),
        While((Let("v", float32, Read(View(a, Expr("%", ("k", 64))))),), Expr(">", ("v", "s")),
              (Assign("k", Expr("//", ("k", 2))),), line=8),
        While((), Expr("<", (Expr("uint32", ("k",)), "u")), (Assign("k", Expr("<<", ("k", 1))),), line=9),
        Instr("Duplicate", (View(a), "s", Expr("min", (64, "k"))), 10),
        Instr("SetValue", (View(a, "k"), Expr("+", (Read(View(narrow, 3)), Expr("float32", ("big",))))), 11),
        Instr("SetValue", (View(narrow), "s"), 12),
        Instr("CompareScalar", (View(flags), View(a), float("-inf"), Word("GT"), 64), 13),
        Instr("Or", (View(flags, 0, 0, uint16), View(flags, 0, 0, uint16), View(flags, 8, 0, uint16), 4), 14),
        Instr("Exp", (View(a), View(a), 32, "k", Record((1, 1, 4, "m"))), 15),
        Instr("SetValue", (View(Y, Expr("*", ("m", "k"))), Read(View(X, "big"))), 16),
    )  # fmt: skip
    params = (X, Y, Param("m", int32, False), Param("u", uint32, False), Param("flag", int1, False),
              Param("w", float32, False), Param("half", float16, False))  # fmt: skip
    return BlockKernel("scalars", "vector", params, (a, flags, narrow), body, file="scalars.py")


KERNELS: dict[str, Callable[[], BlockKernel]] = {"scaled": scaled, "summed": summed, "scalars": every_scalar}


@needs_compiler
@pytest.mark.parametrize("name", KERNELS)
def test_golden_text(name: str, update_golden: bool, tmp_path: Path) -> None:
    text = emit(with_addresses(KERNELS[name]()), B2)
    file = GOLDEN / f"{name}.unordered.asc"
    if update_golden:
        file.write_text(text, encoding="utf-8")
    assert complaints(text, tmp_path) == ""
    assert text == file.read_text(encoding="utf-8"), "see the change with `git diff` after `pytest --update-golden`"
    assert max(map(len, text.splitlines())) <= 120


A: Scalar = "a"
TEXTS: dict[str, Scalar] = {
    "a + b * c": Expr("+", ("a", Expr("*", ("b", "c")))),
    "(a + b) * c": Expr("*", (Expr("+", ("a", "b")), "c")),
    "a - (b - c)": Expr("-", ("a", Expr("-", ("b", "c")))),
    "a - b - c": Expr("-", (Expr("-", ("a", "b")), "c")),
    "a + b + c": Expr("+", ("a", Expr("+", ("b", "c")))),
    "f + (g + f)": Expr("+", ("f", Expr("+", ("g", "f")))),
    "(a % 2) * 8": Expr("*", (Expr("%", ("a", 2)), 8)),
    "(a + b) / c * 8": Expr("*", (Expr("//", (Expr("+", ("a", "b")), "c")), 8)),
    "a * (b / c)": Expr("*", ("a", Expr("//", ("b", "c")))),
    "a - 3": Expr("+", ("a", -3)),
    "a < b && c > 0": Expr("&&", (Expr("<", ("a", "b")), Expr(">", ("c", 0)))),
    "(a < b && p) || p": Expr("||", (Expr("&&", (Expr("<", ("a", "b")), "p")), "p")),
    "(a << 2) + b": Expr("+", (Expr("<<", ("a", 2)), "b")),
    "a & (b << 2)": Expr("&", ("a", Expr("<<", ("b", 2)))),
    "(a - b) & w": Expr("&", (Expr("int64", (Expr("-", ("a", "b")),)), "w")),
    "a < 3": Expr("&&", (Expr(">=", (Expr("int64", ("u",)), 0)), Expr("<", ("a", 3)))),
    "-1": Expr(">>", (-3, 63)),
    "1099511627776": Expr("<<", (1, 40)),
    "false": Expr(">", (Expr("int32", ("s",)), 32767)),
    "s < 32767": Expr("<", ("s", 32767)),
    "true": Expr("||", ("p", Expr("!=", ("u", -1)))),
    "(a & 1) == 0": Expr("==", (Expr("&", ("a", 1)), 0)),
    "a >= b": Expr("not", (Expr("<", ("a", "b")),)),
    "!(f < g)": Expr("not", (Expr("<", ("f", "g")),)),
    "!p": Expr("not", ("p",)),
    "~a": Expr("not", ("a",)),
    "a < b ? a : b": Expr("min", ("a", "b")),
    "Greater<int32_t>(a, b - 1)": Expr("max", ("a", Expr("-", ("b", 1)))),
    "p ? a : 3": Expr("?:", ("p", "a", 3)),
    "static_cast<float>(a) / g": Expr("/", (Expr("float32", ("a",)), "g")),
    "f * 2.0f": Expr("*", ("f", 2)),
    "f + 1e-06f": Expr("+", ("f", 1e-6)),
    "static_cast<int16_t>(s + s)": Expr("+", ("s", "s")),
    "static_cast<int64_t>(u) < w": Expr("<", ("u", "w")),
}


@pytest.mark.parametrize("text", TEXTS)
def test_expressions(text: str) -> None:
    from pypto.ir.types import int16

    names = Names()
    for name, dtype in {"a": int32, "b": int32, "c": int32, "f": float32, "g": float32, "p": int1, "s": int16,
                        "u": uint32, "w": int64}.items():  # fmt: skip
        names.add(name, dtype)
    assert scalar(TEXTS[text], names).text == text


@pytest.mark.parametrize(("reads", "head"), [
    (0, "if (m > 3) {"), ("i", "for (int32_t i = 0; i < static_cast<int32_t>(m > 3); ++i) {"),
])  # fmt: skip
def test_a_loop_that_stands_for_a_condition_is_one(reads: Scalar, head: str) -> None:
    a = ub("a", 64)
    fill = Instr("Duplicate", (View(a, reads), 0.0, 32))
    loop = Loop("i", 0, Expr("i32", (Expr(">", ("m", 3)),)), 1, (fill,), dtype=int32)
    kernel = BlockKernel("k", "vector", (Param("m", int32, False),), (a,), (loop,), file="k.py")
    assert f"    {head}\n" in emit(with_addresses(kernel), B2)


@pytest.mark.parametrize(("dtype", "line"), [(int32, "++n;"), (float32, "n = n + 1.0f;"), (int8, "n = static_cast")])
def test_counting(dtype: DType, line: str) -> None:
    """As a person writes it; narrow numbers and those with fractions are added up."""
    a = ub("a", 64)
    fill = Instr("Duplicate", (View(a), Expr("float32", ("n",)), 32))
    body = (Let("n", dtype, 0), Assign("n", Expr("+", ("n", 1))), fill)
    kernel = BlockKernel("k", "vector", (), (a,), body, file="k.py")
    assert f"    {line}" in emit(with_addresses(kernel), B2)


def test_numbers_that_do_not_fit_are_a_bug_of_ours() -> None:
    with pytest.raises(CompilerBug, match="300 does not fit uint8_t"):
        argument(300, "uint8_t", Names())


def test_names_of_cxx_and_of_the_api_are_not_taken() -> None:
    names = Names()
    given, wanted = ("new", "Add", "x", "1st", "größe"), ["new_", "Add_", "x", "v1st", "gru00f6u00dfe"]
    assert [names.add(x, int32) for x in given] == wanted
    assert names.fresh("x") == "x2"


def test_what_is_not_planned_is_not_printed() -> None:
    with pytest.raises(CompilerBug, match="the buffer a has no address"):
        emit(scaled(), B2)


def test_a_name_of_a_file_ends_no_comment() -> None:
    text = emit(replace(with_addresses(scaled()), file="/tmp/a\nint escaped;\r.py"), B2)
    assert "2048);  // a?int escaped;?.py:8\n" in text
    assert not any(line.lstrip().startswith("int escaped") for line in text.splitlines())
