"""Random control flow: a generated function means in the IR what it means in Python."""

from __future__ import annotations

import linecache
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto.errors.frontend import EndlessLoop
from tests.frontend.evaluate import run

NAMES = ("a", "b", "c")
EXPRESSIONS = st.sampled_from(
    [
        "a + 1",
        "b - a",
        "n",
        "c + n",
        "3",
        "-2",
        "0",
        "a if b > c else n",
        "b % 7 if b > 0 else 1",
        "f(a, n)",
        "min(a, b)",
    ]
)
CONDITIONS = st.sampled_from(
    ["a > b", "n > 2", "c == 1 or a < n", "not b > 3 and a != c", "0 < a <= n", "True", "False", "n", "f(b, 2) > 1"]
)


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def simple(in_loop: bool) -> st.SearchStrategy[list[str]]:
    assignment = st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map(lambda t: [f"{t[0]} = {t[1]}"])
    augmented = st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map(lambda t: [f"{t[0]} += {t[1]}"])
    swap = st.just(["a, b = b, c"])
    store = st.tuples(st.integers(0, 3), st.sampled_from(NAMES)).map(lambda t: [f"out[{t[0]}] = {t[1]}"])
    leave = st.sampled_from([["return"], ["break"], ["continue"]] if in_loop else [["return"]])
    choices = [assignment, augmented, swap, store, store]
    return st.one_of(*choices, CONDITIONS.flatmap(lambda c: leave.map(lambda x: [f"if {c}:", *indent(x)])), leave)


def block(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    item = simple(in_loop)
    if depth:
        item = st.one_of(item, item, branch(depth - 1, in_loop), loop(depth - 1))
    return st.lists(item, min_size=1, max_size=4).map(lambda blocks: [line for b in blocks for line in b])


def branch(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    def text(parts: tuple[str, list[str], list[str] | None]) -> list[str]:
        condition, then, orelse = parts
        return [f"if {condition}:", *indent(then), *(["else:", *indent(orelse)] if orelse else [])]

    inner = block(depth, in_loop)
    return st.tuples(CONDITIONS, inner, st.none() | inner).map(text)


def loop(depth: int) -> st.SearchStrategy[list[str]]:
    heads = [
        "for i in range(3):",
        "for i in range(n, 0, -1):",
        "for a in range(n):",
        "for b in (1, n, 3):",
        "while c < 4:",
    ]

    def text(parts: tuple[str, list[str]]) -> list[str]:
        head, body = parts
        count = ["c += 1"] if head.startswith("while") else []
        return [head, *indent(count + body)]

    return st.tuples(st.sampled_from(heads), block(depth, True)).map(text)


PRELUDE = [
    "def f(x, y):",
    "    if x > y:",
    "        return x - y",
    "    for k in range(3):",
    "        if k > x:",
    "            return k",
    "    return y",
    "def kernel(out, n):",
    "    a, b, c = 1, n, 0",
]


class Stop(Exception):
    """Raised by the reference when a program takes too long."""


def define(lines: list[str]) -> tuple[Any, str]:
    text = "\n".join([*PRELUDE, *indent(lines), "    out[0] = a", "    out[1] = b", "    out[2] = c", ""])
    file = "<random>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "random_kernel"}
    exec(compile(text, file, "exec"), names)
    return names["kernel"], text


def reference(kernel: Any, n: int) -> list[int] | None:
    """What Python computes, or None where the program runs for long or leaves 32 bits."""
    steps = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > 2000 or any(isinstance(x, int) and abs(x) > 2**28 for x in frame.f_locals.values()):
            raise Stop
        return trace

    out = np.full(4, -7, np.int64)
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        kernel(out, n)
    except Stop:
        return None
    finally:
        sys.settrace(previous)
    result: list[int] = out.tolist()
    return result


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(block(3, False))
def test_random_programs_compute_what_python_computes(lines: list[str]) -> None:
    kernel, text = define(lines)
    for n in (0, 2, 5):
        expected = reference(kernel, n)
        if expected is None:
            continue
        result = np.full(4, -7, np.int64)
        with suppress(EndlessLoop):  # in a branch that this n does not take
            run(kernel, out=result, n=n)
            assert result.tolist() == expected, f"n = {n}\n{text}"
