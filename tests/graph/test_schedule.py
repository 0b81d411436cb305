"""The decisions of the scheduler as data: axes, index spaces, collapsed dimensions, groups and tilings of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.graph import parse_graph
from pypto.graph.ir.types import contiguous
from pypto.graph.pipeline import print_ir
from pypto.graph.schedule.fusion import Context
from pypto.graph.schedule.group import Layouts
from pypto.graph.schedule.index_space import Axes, FusionConflict, IndexSpace, neighbours, space_of
from pypto.graph.schedule.pipeline import scheduled
from pypto.graph.schedule.printer import schedule_text
from pypto.graph.schedule.product_tiling import even_block, even_piece
from pypto.passes.manager import observed
from pypto.tuning.tile_sizes import TILES, TileSizes

ROWS: Final = """
graph @f(%0: f32[8, 16], %1: f32[16]) {
  %2: f32[8, 16] = mul %0, %1
  %3: f32[8] = sum %2 {axes = [1], keep_dims = false}
  return %3
}
"""
COLUMNS: Final = """
graph @f(%0: f32[8, 16]) {
  %1: f32[16] = max %0 {axes = [0], keep_dims = false}
  return %1
}
"""
POINTWISE: Final = """
graph @f(%0: f32[4096, 4096]) {
  %1: f32[4096, 4096] = exp %0
  return %1
}
"""
PRODUCT: Final = """
graph @f(%0: f32[8, 16], %1: f32[16, 4]) {
  %2: f32[8, 4] = dot %0, %1
  %3: f32[8, 4] = exp %2
  %4: f32[8] = sum %3 {axes = [1], keep_dims = false}
  return %4
}
"""
DEEP_PRODUCT: Final = """
graph @f(%0: f32[512, 4096], %1: f32[4096, 768]) {
  %2: f32[512, 768] = dot %0, %1
  return %2
}
"""
CHAIN: Final = """
graph @f(%0: f32[64, 16], %1: f32[16, 96], %2: f32[96, 8]) {
  %3: f32[64, 96] = dot %0, %1
  %4: f32[64, 96] = exp %3
  %5: f32[64, 8] = dot %4, %2
  return %5
}
"""
LONG_SOFTMAX: Final = """
graph @f(%0: f32[4, 50000]) {
  %1: f32[4, 1] = max %0 {axes = [1], keep_dims = true}
  %2: f32[4, 50000] = sub %0, %1
  %3: f32[4, 50000] = exp %2
  %4: f32[4, 1] = sum %3 {axes = [1], keep_dims = true}
  %5: f32[4, 50000] = div %3, %4
  return %5
}
"""
TURNED: Final = """
graph @f(%0: f32[8, 16], %1: f32[16, 8]) {
  %2: f32[16, 8] = permute %0 {dims = [1, 0]}
  %3: f32[16, 8] = add %2, %1
  %4: f32[8, 16] = exp %0
  return %3, %4
}
"""
TWO_ORDERS: Final = """
graph @f(%0: f32[8, 8]) {
  %1: f32[8, 8] = exp %0
  %2: f32[8, 8] = permute %1 {dims = [1, 0]}
  %3: f32[8, 8] = add %1, %2
  return %3
}
"""
# The groups and tilings of a graph for two threads.
SCHEDULES: Final[Mapping[str, tuple[str, str]]] = {
    "rows": (ROWS, "group %2, %3 stores %3: rows, parallel 8 by 8, whole 16"),
    "columns": (COLUMNS, "group %1 stores %1: columns, parallel 16 by 16, whole 8"),
    "pointwise": (POINTWISE, "group %1 stores %1: pointwise, parallel 16777216 by 4096"),
    "product": (PRODUCT, "group %2, %3, %4 stores %4: product, parallel 8 by 8, whole 4, whole 16"),
    "deep": (DEEP_PRODUCT, "group %2 stores %2: product, parallel 512 by 128, parallel 768 by 384, loop 4096 by 128"),
    "chain": (CHAIN, "group %3, %4, %5 stores %5: chain, parallel 64 by 32, parallel 8 by 8, whole 96, whole 16"),
    "online": (
        LONG_SOFTMAX,
        "group %1, %2, %3, %4, %5 stores %5: online, parallel 4 by 1, loop 50000 by 4096\n"
        "  refused %1 into %2: a long axis would be gone through twice",
    ),
    "turned": (
        TURNED,
        "group %3 stores %3: pointwise, parallel 16 by 16, parallel 8 by 8\n"
        "  group %4 stores %4: pointwise, parallel 128 by 64",
    ),
}


def space(text: str) -> IndexSpace:
    graph = parse_graph(text)
    return space_of([node for node in graph.live() if not node.is_source], graph.outputs)


def groups_text(text: str) -> str:
    graph = parse_graph(text)
    layouts = Layouts({x: contiguous(x.shape) for x in graph.inputs})
    return schedule_text(scheduled(graph, Context(layouts, threads=2)))


# --- axes -------------------------------------------------------------------------------------------------------------


def test_equal_sizes_become_one_axis() -> None:
    axes = Axes()
    a, b = axes.new(6), axes.new(6)
    axes.unify(a, b)
    assert axes.resolve(b) == a and axes.size(b) == 6
    assert axes.new(1) == ()


def test_the_greater_axis_is_split() -> None:
    axes = Axes()
    whole, inner = axes.new(24), axes.new(6)
    axes.unify_reshaped((whole,), (axes.new(4), inner))
    outer, last = axes.resolve(whole)
    assert (axes.sizes[outer], axes.sizes[last]) == (4, 6)
    assert axes.resolve(inner) == (last,)


def test_a_dimension_that_is_cut_in_two_ways_is_refused() -> None:
    axes = Axes()
    with pytest.raises(FusionConflict, match="one dimension is cut in two ways"):
        axes.unify_reshaped((axes.new(4), axes.new(6)), (axes.new(6), axes.new(4)))


def test_an_axis_is_not_unified_with_none() -> None:
    axes = Axes()
    with pytest.raises(FusionConflict, match="sizes differ"):
        axes.unify(axes.new(4), ())


# --- index spaces -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parallel", "reduced"),
    [(ROWS, [8], [16]), (COLUMNS, [16], [8]), (PRODUCT, [8], [4, 16]), (DEEP_PRODUCT, [512, 768], [4096])],
)
def test_axes_are_parallel_or_reduced(text: str, parallel: list[int], reduced: list[int]) -> None:
    found = space(text)
    assert [found.axes.sizes[a] for a in found.parallel] == parallel
    assert sorted(found.axes.sizes[a] for a in found.reduced) == reduced


def test_a_vector_has_the_axis_that_it_is_broadcast_along() -> None:
    found = space(ROWS)
    product, _ = found.nodes
    rows, columns = found.values[product]
    assert found.reads[product, 0] == (rows, columns) and found.reads[product, 1] == (columns,)


def test_a_permuted_array_has_its_axes_in_another_order() -> None:
    found = space(TURNED)
    turned, added, plain = found.nodes
    assert found.values[turned] == found.values[added] == found.values[plain][::-1]


def test_an_array_that_is_needed_in_two_orders_is_refused() -> None:
    with pytest.raises(FusionConflict, match="one array is needed in two orders at once"):
        space(TWO_ORDERS)


@pytest.mark.parametrize(("strides", "collapses"), [((4096, 1), True), ((8192, 1), False), ((1, 4096), False)])
def test_dimensions_collapse_where_memory_is_contiguous(strides: tuple[int, ...], collapses: bool) -> None:
    found = space(POINTWISE)
    first, last = found.parallel
    assert neighbours(found, lambda node: strides) == ({first: last} if collapses else {})


# --- groups and tilings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULES)
def test_groups_and_tilings(name: str) -> None:
    text, wanted = SCHEDULES[name]
    assert groups_text(text) == f"schedule @f\n  {wanted}\n"


def test_a_refused_merge_has_its_reason() -> None:
    assert "refused %1 into %3: one array is needed in two orders at once" in groups_text(TWO_ORDERS)


def test_tile_sizes_follow_from_a_core() -> None:
    assert (TILES.lanes, TILES.panel, TILES.depth, TILES.most_columns) == (16, 32, 128, 512)
    assert TILES.row_blocks == (256, 128, 64, 32, 16)
    assert (TILES.sum_tile, TILES.most_whole) == (4096, 32_768)
    assert TileSizes(vector_bytes=32).even_columns == (192, 128)
    assert all(columns % TILES.panel == 0 for columns in (*TILES.even_columns, *TILES.int8_columns))


def test_pieces_of_a_contracted_axis_divide_it_where_they_can() -> None:
    assert {n: even_piece(n) for n in (4096, 288, 672)} == {4096: 128, 288: 144, 672: 112}
    assert even_piece(300) == TILES.depth, "no multiple of a vector divides it"


def test_a_block_of_columns_wastes_least() -> None:
    assert [even_block(n) for n in (384, 768, 1024, 1152)] == [384, 384, 256, 384]


# --- the passes that make groups and kernels --------------------------------------------------------------------------


def texts_of(function: Any, *arrays: Any) -> dict[str, tuple[str, str]]:
    """The texts before and after each pass."""
    found: dict[str, tuple[str, str]] = {}
    with observed(lambda step, before, after: found.update({step.name: (print_ir(before), print_ir(after))})):
        pto.fuse(function).plan(*arrays)
    return found


def test_fusion_makes_groups_of_a_graph() -> None:
    before, after = texts_of(lambda x: np.exp(x) + 1, np.zeros(8, np.float32))["fusion"]
    assert before.startswith("graph @lambda(%0: f32[8]) {\n  %1: f32[8] = exp %0\n")
    assert after == "schedule @lambda\n  group %1, %3: no tiling yet\n"


def test_kernels_are_made_of_groups() -> None:
    before, after = texts_of(lambda x: np.exp(x) + 1, np.zeros(8, np.float32))["kernels"]
    assert before == "schedule @lambda\n  group %1, %3 stores %3: pointwise, parallel 8 by 8\n"
    kernel, _, step = after.partition("step ")
    assert kernel.splitlines()[0].startswith("kernel ") and "pto.exp(" in kernel
    assert "nodes 1,3 reads 0 writes 3" in step
