"""The passes of the rewrite stage: the text of a graph before and after each, and the numbers without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from pypto.graph import parse_graph, text, trace
from pypto.graph.ir.reference import evaluate
from pypto.graph.ir.verify import verify
from pypto.graph.rewrite.pipeline import REWRITES, rewritten

ROWS: Final = {row.name: row for row in REWRITES}
# A graph before and after each pass.
TEXTS: Final = {
    "padded_windows": (
        """
graph @f(%0: f32[4]) {
  %1: f32[8] = constant {value = 0.0}
  %2: f32[8] = place %1, %0 {starts = [2], steps = [1]}
  %3: f32[4] = slice %2 {shape = [4], starts = [1], steps = [1]}
  %4: f32[4] = exp %3
  return %4
}
""",
        """
graph @f(%0: f32[4]) {
  %1: f32[4] = window %0 {shape = [4], starts = [-1]}
  %2: f32[4] = exp %1
  return %2
}
""",
    ),
    "gather_pushdown": (
        """
graph @f(%0: f32[8, 100], %1: f32[8, 1], %2: i64[2]) {
  %3: f32[8, 100] = sub %0, %1
  %4: f32[8, 2] = take %3, %2 {axis = 1}
  return %4
}
""",
        """
graph @f(%0: f32[8, 100], %1: f32[8, 1], %2: i64[2]) {
  %3: f32[8, 2] = take %0, %2 {axis = 1}
  %4: f32[8, 2] = sub %3, %1
  return %4
}
""",
    ),
    "split_reduction": (
        """
graph @f(%0: f32[262144]) {
  %1: f32[262144] = exp %0
  %2: f32[] = sum %1 {axes = [0], keep_dims = false}
  return %2
}
""",
        """
graph @f(%0: f32[262144]) {
  %1: f32[262144] = exp %0
  %2: f32[256, 1024] = reshape %1 {shape = [256, 1024]}
  %3: f32[256] = sum %2 {axes = [1], keep_dims = false}
  %4: f32[] = sum %3 {axes = [0], keep_dims = false}
  return %4
}
""",
    ),
    "late_division": (
        """
graph @f(%0: f32[8, 16], %1: f32[16, 4]) {
  %2: f32[8, 1] = sum %0 {axes = [1], keep_dims = true}
  %3: f32[8, 16] = div %0, %2
  %4: f32[8, 4] = dot %3, %1
  return %4
}
""",
        """
graph @f(%0: f32[8, 16], %1: f32[16, 4]) {
  %2: f32[8, 1] = sum %0 {axes = [1], keep_dims = true}
  %3: f32[8, 4] = dot %0, %1
  %4: f32[8, 4] = div %3, %2
  return %4
}
""",
    ),
    "narrow_products": (
        """
graph @f(%0: i8[4, 8], %1: i8[2, 8]) {
  %2: i32[4, 8] = cast %0 {dtype = i32}
  %3: i32[2, 8] = cast %1 {dtype = i32}
  %4: i32[8, 2] = permute %3 {dims = [1, 0]}
  %5: i32[4, 2] = dot %2, %4
  return %5
}
""",
        """
graph @f(%0: i8[4, 8], %1: i8[2, 8]) {
  %2: i8[8, 2] = permute %1 {dims = [1, 0]}
  %3: i32[4, 2] = dot %0, %2
  return %3
}
""",
    ),
    "unpacking": (
        """
graph @f(%0: u8[4, 8]) {
  %1: u8[] = constant {value = 15}
  %2: u8[4, 8] = and_ %0, %1
  %3: u8[] = constant {value = 4}
  %4: u8[4, 8] = shr %0, %3
  %5: u8[4, 16] = concat %2, %4 {axis = 1}
  return %5
}
""",
        """
graph @f(%0: u8[4, 8]) {
  %1: u8[] = constant {value = 15}
  %2: u8[4, 8] = and_ %0, %1
  %3: u8[] = constant {value = 4}
  %4: u8[4, 8] = shr %0, %3
  %5: i32[2] = arange {end = 2, start = 0}
  %6: i32[2, 1] = reshape %5 {shape = [2, 1]}
  %7: u8[4, 1, 8] = reshape %2 {shape = [4, 1, 8]}
  %8: u8[4, 1, 8] = reshape %4 {shape = [4, 1, 8]}
  %9: i32[] = constant {value = 0}
  %10: i1[2, 1] = eq %6, %9
  %11: u8[4, 2, 8] = where %10, %7, %8
  %12: u8[4, 16] = reshape %11 {shape = [4, 16]}
  return %12
}
""",
    ),
    "late_reshape": (
        """
graph @f(%0: f32[3, 4, 2], %1: f32[3, 4, 5], %2: f32[7, 6]) {
  %3: f32[3, 4, 7] = concat %0, %1 {axis = 2}
  %4: f32[12, 7] = reshape %3 {shape = [12, 7]}
  %5: f32[12, 6] = dot %4, %2
  return %5
}
""",
        """
graph @f(%0: f32[3, 4, 2], %1: f32[3, 4, 5], %2: f32[7, 6]) {
  %3: f32[3, 4, 7] = concat %0, %1 {axis = 2}
  %4: f32[3, 4, 6] = dot %3, %2
  %5: f32[12, 6] = reshape %4 {shape = [12, 6]}
  return %5
}
""",
    ),
    "split_k": (
        """
graph @f(%0: f32[8, 8192], %1: f32[8192, 4]) {
  %2: f32[8, 4] = dot %0, %1
  return %2
}
""",
        """
graph @f(%0: f32[8, 8192], %1: f32[8192, 4]) {
  %2: f32[8, 8, 1024] = reshape %0 {shape = [8, 8, 1024]}
  %3: f32[8, 8, 1024] = permute %2 {dims = [1, 0, 2]}
  %4: f32[8, 1024, 4] = reshape %1 {shape = [8, 1024, 4]}
  %5: f32[8, 8, 4] = dot %3, %4
  %6: f32[8, 4] = sum %5 {axes = [0], keep_dims = false}
  return %6
}
""",
    ),
}
F32: Final = np.float32


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).standard_normal(shape).astype(F32)


def softmax_product(x: Any, y: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)) @ y


# For each pass a function whose graph it changes.
FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "padded_windows": (lambda x: np.pad(x, 1)[2:] + 1, (drawn(64),)),
    "gather_pushdown": (lambda x, i: np.exp(x)[:, i], (drawn(8, 100), np.array([3, 70]))),
    "split_reduction": (lambda x: np.exp(x).sum(), (drawn(1 << 17),)),
    "late_division": (softmax_product, (drawn(8, 16), drawn(16, 4))),
    "narrow_products": (
        lambda x, y: x.astype(np.int32) @ y.astype(np.int32).T,
        (np.arange(32, dtype=np.int8).reshape(4, 8), np.arange(16, dtype=np.int8).reshape(2, 8)),
    ),
    "unpacking": (lambda c: np.concatenate([c & 15, c >> 4], 1), (np.arange(32, dtype=np.uint8).reshape(4, 8),)),
    "late_reshape": (
        lambda x, y, w: np.concatenate([x, y], 2).reshape(12, 7) @ w,
        (drawn(3, 4, 2), drawn(3, 4, 5), drawn(7, 6)),
    ),
    "split_k": (lambda x, y: x @ y, (drawn(8, 8192), drawn(8192, 4))),
}


@pytest.mark.parametrize("name", ROWS)
def test_text(name: str) -> None:
    before, after = (part.removeprefix("\n") for part in TEXTS[name])
    run = ROWS[name].run
    assert run is not None
    graph = run(parse_graph(before))
    verify(graph)
    assert text(graph) == after
    assert run(graph) is graph or name == "split_reduction", "what was rewritten is so once"


@pytest.mark.parametrize("name", ROWS)
def test_the_meaning_is_the_same_with_and_without_it(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    traced = trace(function, *arrays)
    with_it, without = rewritten(traced.graph), rewritten(traced.graph, (name,))
    assert text(with_it) != text(without)
    for graph in (with_it, without):
        for got, wanted in zip(evaluate(graph, traced.arrays), [function(*arrays)], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_graph_in_which_no_rule_fits_stays_the_same_object() -> None:
    graph = trace(lambda x: np.exp(x) + 1, drawn(4)).graph
    assert rewritten(graph) is graph
