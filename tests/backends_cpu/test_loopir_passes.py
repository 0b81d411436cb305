"""Passes that build Loop IR, on texts: what is materialised, and how buffers are shared and placed."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from pypto.backends.cpu.explain.passes import print_ir
from pypto.backends.cpu.loopir.allocate import allocate_buffers
from pypto.backends.cpu.loopir.build import build_items, place_buffers
from pypto.backends.cpu.loopir.ir import Nest, Schedule
from pypto.backends.cpu.loopir.materialize import plan_materialization
from pypto.ir.parser import parse_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from tests.backends_cpu.conftest import Becomes
from tests.backends_cpu.loop_texts import (
    CARRIED,
    COLUMN_SUMS,
    REGROUPED,
    ROW_SUMS,
    SWAPPED,
    kernel,
)
from tests.backends_cpu.lowering import fixed_target


def planned(text: str) -> Any:
    function = parse_function(text)
    verify(function, TABLE)
    return plan_materialization(function, fixed_target())


def built(text: str) -> Schedule:
    schedule = build_items(allocate_buffers(planned(text), fixed_target()))
    schedule.items = [item for item in schedule.items if isinstance(item, Nest) or hasattr(item, "regions")]
    return schedule


# --- materialization -------------------------------------------------------------------------------------------------

FOUR_OPS = """
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = {op} %t
  tile_store %py, WHOLE, %e SHAPE
  %a: TILE = add %t, %e
  tile_store %pz, WHOLE, %a SHAPE
"""
CLOBBERED = """
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = neg %t
  tile_store %{first}, WHOLE, %e SHAPE
  tile_store %pz, WHOLE, %t SHAPE
"""
PRODUCT = """
  %t: tile<8x16xf32> = tile_load %px, WHOLE {masked = false, shape = [8, 16]}
  %e: tile<8x16xf32> = neg %t
  %u: tile<16x64xf32> = tile_load %py, WHOLE {masked = false, shape = [16, 64]}
  %d: TILE = dot %e, %u
  tile_store %pz, WHOLE, %d SHAPE
"""


@pytest.mark.parametrize(
    ("text", "materialized"),
    [
        (kernel(FOUR_OPS.replace("{op}", "exp")), "%e: tile<8x64xf32> read by tile_store 1, tile_store 2\n"),
        (kernel(FOUR_OPS.replace("{op}", "neg")), ""),
        (kernel(CLOBBERED.replace("{first}", "py")), ""),
        (kernel(CLOBBERED.replace("{first}", "px")), "%t: tile<8x64xf32> read by tile_store 1, tile_store 2\n"),
        (
            kernel(PRODUCT),
            "%d: tile<8x64xf32> read by tile_store\n%e: tile<8x16xf32> read by %d\n",
        ),
        (CARRIED, "%r: tile<8x64xf32> read by tile_store\n%a: tile<8x64xf32> read by yield 1\n"),
    ],
    ids=["dear_and_read_twice", "cheap", "other_array", "array_is_overwritten", "operand_of_a_product", "carried"],
)
def test_materialization(text: str, materialized: str) -> None:
    assert print_ir(planned(text)) == materialized


# --- allocation ------------------------------------------------------------------------------------------------------

NARROW = """
  %t: tile<9x20xf32> = tile_load %px, WHOLE {masked = false, shape = [9, 20]}
  %e: tile<9x20xf32> = exp %t
  tile_store %py, WHOLE, %e {masked = false, shape = [9, 20]}
  tile_store %pz, WHOLE, %e {masked = false, shape = [9, 20]}
"""


@pytest.mark.parametrize(
    ("text", "buffers"),
    [
        (CARRIED, "b0: 8x64xf32 @0 live 11 to 14 holds %a, %r\n"),
        (
            SWAPPED,
            """
            b0: 8x64xf32 @0 live 12 to 14 holds %a, %r
            b1: 8x64xf32 @0 live 12 to 15 holds %b, %q
            """,
        ),
        (
            REGROUPED,
            """
            b0: 8x64xf32 unpadded @0 live 8 to 12 holds %e
            b1: 16x1xf32 @0 live 10 to 12 holds %s
            b2: 16x32xf32 unpadded @0 live 12 to 14 holds %d
            b3: 16x32xf32 unpadded @0 live 8 to 12 view of b0 holds %v
            b4: 8x64xf32 unpadded @0 live 12 to 14 view of b2 holds %w
            """,
        ),
        (kernel(NARROW), "b0: 9x20xf32 padded 16x24 @0 live 8 to 10 holds %e\n"),
    ],
    ids=["coalesced", "interfering", "views", "padded_to_registers"],
)
def test_allocation(text: str, buffers: str) -> None:
    assert print_ir(allocate_buffers(planned(text), fixed_target())) == dedent(buffers).lstrip("\n")


def test_offsets_of_buffers_that_are_live_at_other_times(becomes: Becomes) -> None:
    """The first and the third one are not: they share their bytes. What is about 4 KB long is staggered."""
    becomes(
        place_buffers,
        ROW_SUMS,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 1 to 4
          b1: 8x16xf32 @0 live 3 to 6
          b2: 8x64xf32 @0 live 5 to 8
          b3: 16x64xf32 @0 live 5 to 8
          b4: 8x64xf32 (registers) @0 live 1 to 8
        """,
        """
        scratch 7424 bytes
          b0: 8x64xf32 @0 live 1 to 4
          b1: 8x16xf32 @6848 live 3 to 6
          b2: 8x64xf32 @4736 live 5 to 8
          b3: 16x64xf32 @0 live 5 to 8
          b4: 8x64xf32 (registers) @0 live 1 to 8
        """,
    )


def test_offsets_of_views_and_contracted_dimensions(becomes: Becomes) -> None:
    becomes(
        place_buffers,
        ROW_SUMS,
        """
        scratch 0 bytes
          b0: 8x64xf32 unpadded @0 live 1 to 4
          b1: 8x64xf32 contracted 1 @0 live 1 to 4
          b2: 16x32xf32 unpadded @0 live 1 to 4 view of b0
        """,
        """
        scratch 2432 bytes
          b0: 8x64xf32 unpadded @0 live 1 to 4
          b1: 8x64xf32 contracted 1 @2112 live 1 to 4
          b2: 16x32xf32 unpadded @0 live 1 to 4 view of b0
        """,
    )


# --- building --------------------------------------------------------------------------------------------------------


def test_the_lanes_of_a_sum_over_rows_lie_along_the_columns() -> None:
    assert print_ir(built(COLUMN_SUMS)).splitlines()[-6:] == [
        "nest sharing 2",
        "  - compute %e = exp -> b1 [for d0<8 lanes d1<64]",
        "nest sharing 2",
        "  - reduce %s = sum -> b2 [lanes d1<64 for d0<8*]",
        "nest sharing 2",
        "  - store tile_store [for d0<8 lanes d1<64]",
    ]


def test_tiles_that_a_loop_swaps_go_through_temporaries() -> None:
    text = print_ir(built(SWAPPED))
    assert (
        dedent("""
        %r, %q = for
          region
            nest sharing 2
              - compute %b -> b2 at 13 [for d0<8 lanes d1<64]
            nest sharing 2
              - compute %a -> b3 at 13 [for d0<8 lanes d1<64]
            nest sharing 2
              - compute %b -> b0 from b2 at 13 [for d0<8 lanes d1<64]
            nest sharing 2
              - compute %a -> b1 from b3 at 13 [for d0<8 lanes d1<64]
        """)
        in text
    )
