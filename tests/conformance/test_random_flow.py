"""Random control flow over tiles: loops, branches, early exits and memory in between mean the same on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.errors.frontend import EndlessLoop
from tests.conformance.sources import define
from tests.conftest import LEVELS

Lines = list[str]
COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
CONDITIONS = st.sampled_from(
    ["s > 2", "pto.max(a) > s", "n > 2 and s < 5", "pto.sum(b) % 2 == 0", "not (s < 0 or n == 5)", "p == 1", "N > 20",
     "0 < s <= n", "pto.argmax(a) > i"]
)  # fmt: skip
STATEMENTS = st.sampled_from(
    ["a = a + b", "b = a * 3 - s", "a = pto.where(a > b, a, s)", "b = pto.cumsum(a)", "a, b = b, a", "a = a * i + n",
     "a = pto.maximum(a, b) ^ i", "s += 1", "s = s + pto.sum(a) % 5", "s = pto.min(b) % 9", "a = f(a, s)",
     "b = x[s : s + N]", "a = pto.load(x + pto.arange(0, N) * 2 + (s if 0 < s < 9 else 0))", "out[p * 4 + 1, :] = a",
     "out[p * 4 + 2, :] = b", "a = out[p * 4 + 1, :]", "b = out[p * 4 + 2, :] - a", "out[p * 4 + 3, i % N] = s",
     "a = a if s > i else b", "b = pto.zeros((N,), pto.int32) + s", "a = h(a, b)", "s = g(s, n)"]
)  # fmt: skip
HEADS = ("for i in range(3):", "for i in range(n):", "for i in range(n, 0, -2):", "for i in pto.static_range(2):",
         "for i in range(s % 4):", "while t < 4:")  # fmt: skip
PRELUDE = """
def f(v, k):
    if k > 3:
        return v - k
    for j in range(2):
        if pto.sum(v) > j:
            return v + j
        v = v * 2
    return v

def g(k, m):
    while k < m:
        k += 2
        if k == 3:
            break
    return k

h = lambda v, w: v - w

def kernel(x, out, n, N: pto.constexpr):
    p = pto.program_id(0)
    a, b = x[0:N], x[p + 3 : p + 3 + N] * 2
    s, t, i = p + 1, 0, 0
"""


def indent(lines: Lines) -> Lines:
    return ["    " + line for line in lines]


def simple(in_loop: bool) -> st.SearchStrategy[Lines]:
    leaves = st.sampled_from([["return"], ["break"], ["continue"]] if in_loop else [["return"]])
    leave = st.tuples(CONDITIONS, leaves).map(lambda c: [f"if {c[0]}:", *indent(c[1])])
    plain = STATEMENTS.map(lambda line: [line])
    return st.one_of(plain, plain, plain, plain, leave)


def block(depth: int, in_loop: bool) -> st.SearchStrategy[Lines]:
    item = simple(in_loop)
    if depth:
        item = st.one_of(item, item, branch(depth - 1, in_loop), loop(depth - 1))
    return st.lists(item, min_size=1, max_size=4).map(lambda blocks: [line for b in blocks for line in b])


def branch(depth: int, in_loop: bool) -> st.SearchStrategy[Lines]:
    inner = block(depth, in_loop)
    parts = st.tuples(CONDITIONS, inner, st.none() | inner)
    return parts.map(lambda p: [f"if {p[0]}:", *indent(p[1]), *(["else:", *indent(p[2])] if p[2] else [])])


def loop(depth: int) -> st.SearchStrategy[Lines]:
    parts = st.tuples(st.sampled_from(HEADS), block(depth, True))
    return parts.map(lambda p: [p[0], *indent((["t += 1"] if p[0].startswith("while") else []) + p[1])])


def check(lines: Lines, size: int, n: int, level: str) -> None:
    last = ["out[p * 4, :] = a", "out[p * 4 + 3, :] = b + s"]
    text = PRELUDE + "\n".join([*indent([*lines, *last]), ""])
    note(f"{text}\nN = {size}, n = {n}")
    x = np.random.default_rng(size).integers(-50, 50, 2 * size + 20).astype(np.int32)
    results = []
    for run in (define(text, level), pto.interpret(define(text))):
        out = np.full((8, size), -7, np.int32)
        try:
            run[2](x, out, n, size)
        except EndlessLoop:  # in a branch that cannot be left
            return
        results.append(out)
    np.testing.assert_array_equal(*results)


@settings(max_examples=25, derandomize=True, **COMMON)
@given(block(2, False), st.sampled_from((1, 7, 16, 33)), st.integers(0, 5), st.sampled_from(LEVELS))
def test_random_flow(lines: Lines, size: int, n: int, level: str) -> None:
    check(lines, size, n, level)


@pytest.mark.first
@pytest.mark.slow
@settings(max_examples=400, **COMMON)
@given(block(3, False), st.sampled_from((1, 7, 16, 33)), st.integers(0, 5), st.sampled_from(LEVELS))
def test_much_random_flow(lines: Lines, size: int, n: int, level: str) -> None:
    check(lines, size, n, level)
