"""Kernels whose tiles leave no room: results take the place of operands, and are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.block.in_place import reuse_in_place
from pypto.backends.ascend.blockir.ir import BlockKernel, Instr, Item, Loop, View, Word
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from tests.backends_ascend.kernels import X, Y, load, store, ub
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")
A, B, C = (ub(name, 64) for name in "abc")
N = 64


def op(name: str, to: Any, *sources: Any) -> Instr:
    return Instr(name, (View(to), *(View(s) if s in (A, B, C) else s for s in sources), N))


def buffers(*body: Item) -> list[str]:
    kernel = BlockKernel("k", "vector", (X, Y), (A, B, C), (Loop("i", 0, 9, 1, body),))
    return [b.name for b in reuse_in_place(kernel, is_tight=True).buffers]


READ, WRITE = load(View(A), View(X), N), store(View(Y), View(B), N)
CASES: dict[str, tuple[tuple[Item, ...], list[str]]] = {
    "an operand that dies": ((READ, op("Exp", B, A), WRITE), ["a", "c"]),
    "a chain": ((READ, op("Exp", C, A), op("Adds", B, C, 1.0), WRITE), ["a"]),
    "an operand that is needed once more": ((READ, op("Exp", B, A), op("Add", B, B, A), WRITE), ["a", "b", "c"]),
    "a result that was there before": ((op("Duplicate", B, 0.0), READ, op("Exp", B, A), WRITE), ["a", "b", "c"]),
    "elements from other places": (
        (READ, Instr("Add", (View(B), View(A), View(A, 32), 32)), WRITE), ["a", "b", "c"]),
    "a mask": (
        (READ, Instr("Compare", (View(C), View(A), View(A), Word("EQ"), N)), op("Exp", B, A), WRITE), ["a", "c"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_who_takes_whose_place(name: str) -> None:
    body, left = CASES[name]
    assert buffers(*body) == left


def test_what_the_next_round_needs_stays() -> None:
    """`a` is made before the loop: every round reads it."""
    body = (op("Exp", B, A), WRITE)
    kernel = BlockKernel("k", "vector", (X, Y), (A, B), (READ, Loop("i", 0, 9, 1, body)))
    assert reuse_in_place(kernel, is_tight=True) == kernel


@pto.jit
def layer_norm(x, weight, bias, y, eps):
    row = pto.program_id(0)
    t = x[row, :]
    centred = t - pto.sum(t) / t.shape[0]
    y[row, :] = centred * pto.rsqrt(pto.sum(centred * centred) / t.shape[0] + eps) * weight[:] + bias[:]


@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


@needs_compiler
@pytest.mark.parametrize("size", [8192, 10000])
def test_long_rows(size: int) -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((3, size), size, size))
    y, z = np.zeros_like(x), np.zeros_like(x)
    with pto.device("ascend-sim"):
        softmax[3](x, z)
        if size == 8192:
            layer_norm[3](x, weight, bias, y, 1e-5)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(z, e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-9)
    if size == 8192:
        wide = x.astype(np.float64)
        normal = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(y, normal * weight + bias, rtol=1e-4, atol=1e-5)


def test_where_there_is_room_copies_have_buffers_of_their_own() -> None:
    x = np.zeros((3, 1000), np.float32)
    text = lower_to_text(function_of(softmax, softmax.signature.bind((x, x.copy()), {})), B2)[1]
    assert "LocalTensor<float> t(" in text
    assert "LocalTensor<float> yLocal(" in text
