"""LLVM IR and assembly with the user's lines: the same code, of which every instruction knows its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from benchmarks.tutorials import load_tutorial
from pypto.backends.cpu.explain.line_tables import assembly_marked, lines_marked
from pypto.debug.inspection import Inspection
from pypto.debug.levels import level_text


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    return [np.ones(shape, np.float32) for shape in shapes]


@pto.jit
def long(x, y):
    t = x[:]
    for _ in pto.static_range(300):
        t = pto.exp(t) * 0.5
        pto.store(y + pto.arange(0, 4), pto.load(y + pto.arange(0, 4)) + 1.0)
    y[:] = t


@pto.jit
def gather(x, index, y):
    i = pto.load(index + pto.arange(0, 16))
    y[:] = pto.sort(pto.load(x + i))
    pto.atomic_add(y, 1.0)


CASES = {
    "add": lambda: (load_tutorial("01_vector_add").add, arrays((1000,), (1000,), (1000,)), {"BLOCK": 64}),
    "softmax": lambda: (load_tutorial("02_fused_softmax").softmax, arrays((4, 100), (4, 100)), {}),
    "matmul": lambda: (load_tutorial("03_matrix_multiplication").matmul_blocks, arrays(*[(64, 64)] * 3),
                       {"BM": 32, "BN": 32, "BK": 16}),
    "attention": lambda: (load_tutorial("05_flash_attention").attention, arrays(*[(2, 64, 16)] * 4),
                          {"CAUSAL": True, "BM": 16, "BN": 16}),
    "parts": lambda: (long, arrays((8,), (8,)), {}),
    "cells": lambda: (gather, [*arrays((16,)), np.zeros(16, np.int32), *arrays((16,))], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", [*[*CASES][:-2], pytest.param("parts", marks=pytest.mark.slow), "cells"])
def test_inspecting_shows_the_very_code_that_runs(name: str) -> None:
    """Debug information changes nothing: without it, both texts are the compiled version's own."""
    kernel, args, constants = CASES[name]()
    version = kernel.compile(*args, **constants)
    found: Inspection = kernel.inspect(*args, **constants)
    assert found["llvm-ir"] == level_text(version, "llvm-ir")
    assert found["assembly"] == level_text(version, "assembly")
    lines = {line.number for line in found.source}
    for level in found.levels[-2:]:
        linked = [number for number, text in level.lines if number]
        assert set(linked) <= lines
        assert len(linked) > len(level.lines) / 3


def test_each_instruction_is_linked_with_the_line_that_asks_for_it() -> None:
    @pto.jit
    def steps(x, y):
        t = x[:]
        t = pto.sqrt(t)
        t = t / 3.0
        y[:] = t

    found = steps.inspect(*arrays((64,), (64,)))
    first = steps.kernel_source.node.lineno
    at = {level.name: level.lines for level in found.levels}
    for words, offset in (("sqrt", 2), ("fdiv", 3), ("store <", 4)):
        assert {n - first for n, text in at["llvm-ir"] if words in text and "declare" not in text} == {offset}
    for words, offset in (("sqrt", 2), ("div", 3)):
        assert {n - first for n, text in at["assembly"] if words in text} <= {offset}
    assert {first + n for n in (1, 2, 3, 4)} <= {n for n, _ in at["assembly"]}


def test_inlined_functions_are_linked_with_the_kernel_or_with_themselves() -> None:
    def helper(t):
        return pto.sqrt(t)

    @pto.jit
    def calls(x, y):
        y[:] = helper(x[:]) + pto.sigmoid(x[:])

    found = calls.inspect(*arrays((64,), (64,)))
    numbers = {n for n, text in found.levels[3].lines if "sqrt" in text and "call" in text}
    assert numbers == {helper.__code__.co_firstlineno + 1}


def test_marks() -> None:
    text = "  %a = add i64 1, 2, !dbg !1007\n  ret void\n"
    text += "!llvm.dbg.cu = !{!1000}\n!1007 = !DILocation(line: 5, scope: !6)\n"
    assert lines_marked(text) == "  %a = add i64 1, 2  ;@5\n  ret void\n"
    text = "f:\n.Ltmp3:\n\t.loc\t1 7 0 is_stmt 1\n\tmovq %rax, %rbx\n.LBB0_1:\n\t.p2align 4\n\tret\ng:\n\tnop\n"
    assert assembly_marked(text) == "f:\n\tmovq %rax, %rbx  ;@7\n.LBB0_1:\n\t.p2align 4\n\tret  ;@7\ng:\n\tnop\n"
