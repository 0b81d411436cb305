"""Fusion, interchange and array contraction, on texts of Loop IR."""

from __future__ import annotations

from functools import partial

import pytest

from pypto.backends.cpu.loopir.array_contraction import contract_arrays
from pypto.backends.cpu.loopir.fusion import fuse_loops
from tests.backends_cpu.conftest import Becomes
from tests.backends_cpu.loop_texts import COLUMN_SUMS, IN_PLACE, REGROUPED, ROW_SUMS, TWO_STORES, kernel
from tests.backends_cpu.lowering import fixed_target

fuse = partial(fuse_loops, target=fixed_target())


# --- fusion ----------------------------------------------------------------------------------------------------------


def test_fusion_at_all_loops_and_at_the_outer_one(becomes: Becomes) -> None:
    """The division needs a whole sum, so it is a body of its own."""
    becomes(
        fuse,
        ROW_SUMS,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 8 to 12 holds %e
          b1: 8x1xf32 @0 live 9 to 12 holds %s
        nest sharing 2
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
        nest sharing 2
          - reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
        nest sharing 2
          - store tile_store [for d0<8 lanes d1<64]
        """,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 8 to 12 holds %e
          b1: 8x1xf32 @0 live 8 to 12 holds %s
        nest sharing 1
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
          | reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
          - store tile_store [for d0<8 lanes d1<64]
        """,
    )


def test_fusion_of_two_stores(becomes: Becomes) -> None:
    becomes(
        fuse,
        TWO_STORES,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 8 to 11 holds %e
        nest sharing 2
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
        nest sharing 2
          - store tile_store 1 [for d0<8 lanes d1<64]
        nest sharing 2
          - store tile_store 2 [for d0<8 lanes d1<64]
        """,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 8 to 11 holds %e
        nest sharing 2
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
          | store tile_store 1 [for d0<8 lanes d1<64]
          | store tile_store 2 [for d0<8 lanes d1<64]
        """,
    )


def test_a_store_that_overwrites_what_is_loaded_at_the_same_element_is_fused(becomes: Becomes) -> None:
    becomes(
        fuse,
        IN_PLACE,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 7 to 11 holds %t
        nest sharing 2
          - compute %t = tile_load -> b0 [for d0<8 lanes d1<64]
        nest sharing 2
          - store tile_store 1 [for d0<8 lanes d1<64]
        """,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 7 to 11 holds %t
        nest sharing 2
          - compute %t = tile_load -> b0 [for d0<8 lanes d1<64]
          | store tile_store 1 [for d0<8 lanes d1<64]
        """,
    )


REGROUPED_LOOPS = """
scratch 0 bytes
  b0: 8x64xf32 unpadded @0 live 8 to 12 holds %e
  b1: 16x1xf32 @0 live 10 to 12 holds %s
  b2: 16x32xf32 unpadded @0 live 12 to 14 holds %d
  b3: 16x32xf32 unpadded @0 live 8 to 12 view of b0 holds %v
  b4: 8x64xf32 unpadded @0 live 12 to 14 view of b2 holds %w
nest sharing 2
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
nest sharing 2
  - reduce %s = sum -> b1 [for d0<16 lanes d1<32*]
nest sharing 2
  - compute %d = div -> b2 [for d0<16 lanes d1<32]
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""


def test_a_view_under_another_shape_is_not_fused_with_what_writes_its_memory(becomes: Becomes) -> None:
    becomes(fuse, REGROUPED, REGROUPED_LOOPS, REGROUPED_LOOPS)


SHIFTED = kernel("""
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = exp %t
  tile_store %px, WHOLE, %e SHAPE
  %u: TILE = tile_load %px, %one, %zero, %columns, %one, %rows, %columns SHAPE
  %a: TILE = add %u, %e
  tile_store %pz, WHOLE, %a SHAPE
""")
SHIFTED_LOOPS = """
scratch 0 bytes
  b0: 8x64xf32 @0 live 8 to 12 holds %e
nest sharing 2
  - store tile_store 1 [for d0<8 lanes d1<64]
nest sharing 2
  - store tile_store 2 [for d0<8 lanes d1<64]
"""


def test_a_load_of_the_next_row_waits_for_the_store(becomes: Becomes) -> None:
    becomes(fuse, SHIFTED, SHIFTED_LOOPS, SHIFTED_LOOPS)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_interchange(becomes: Becomes, is_enabled: bool) -> None:
    """The producer takes the loop order of the sum, so that both are one nest; not where that is switched off."""
    before = """
    scratch 0 bytes
      b0: 8x64xf32 @0 live 11 to 15 holds %r
      b1: 8x64xf32 @0 live 14 to 18 holds %e
      b2: 1x64xf32 @0 live 14 to 18 holds %s
    nest sharing 2
      - compute %e = exp -> b1 [for d0<8 lanes d1<64]
    nest sharing 2
      - reduce %s = sum -> b2 [lanes d1<64 for d0<8*]
    """
    after = """
    scratch 0 bytes
      b0: 8x64xf32 @0 live 11 to 15 holds %r
      b1: 8x64xf32 @0 live 14 to 18 holds %e
      b2: 1x64xf32 @0 live 14 to 18 holds %s
    nest sharing 2
      - compute %e = exp -> b1 [lanes d1<64 for d0<8]
      | reduce %s = sum -> b2 [lanes d1<64 for d0<8*]
    """
    text = COLUMN_SUMS if is_enabled else COLUMN_SUMS.replace("noalias", 'disable = ["interchange"], noalias')
    becomes(fuse, text, before, after if is_enabled else before)


# --- array contraction -----------------------------------------------------------------------------------------------


def test_what_one_body_uses_is_kept_in_registers(becomes: Becomes) -> None:
    becomes(
        contract_arrays,
        TWO_STORES,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 8 to 11 holds %e
        nest sharing 2
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
          | store tile_store 1 [for d0<8 lanes d1<64]
          | store tile_store 2 [for d0<8 lanes d1<64]
        """,
        """
        scratch 0 bytes
          b0: 8x64xf32 (registers) @0 live 8 to 11 holds %e
        nest sharing 2
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
          | store tile_store 1 [for d0<8 lanes d1<64]
          | store tile_store 2 [for d0<8 lanes d1<64]
        """,
    )


def test_what_one_nest_uses_is_kept_for_one_turn_of_the_shared_loop(becomes: Becomes) -> None:
    becomes(
        contract_arrays,
        ROW_SUMS,
        """
        scratch 0 bytes
          b0: 8x64xf32 @0 live 8 to 12 holds %e
          b1: 8x1xf32 @0 live 8 to 12 holds %s
        nest sharing 1
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
          | reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
          - store tile_store [for d0<8 lanes d1<64]
        """,
        """
        scratch 0 bytes
          b0: 8x64xf32 contracted 1 @0 live 8 to 12 holds %e
          b1: 8x1xf32 @0 live 8 to 12 holds %s
        nest sharing 1
          - compute %e = exp -> b0 [for d0<8 lanes d1<64]
          | reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
          - store tile_store [for d0<8 lanes d1<64]
        """,
    )


SPLIT_LOOPS = """
scratch 0 bytes
  b0: 8x64xf32 @0 live 8 to 11 holds %e
nest sharing 2
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
  | store tile_store 1 [for d0<8 lanes d1<64]
nest sharing 2
  - store tile_store 2 [for d0<8 lanes d1<64]
"""


def test_what_a_later_nest_reads_stays_in_memory(becomes: Becomes) -> None:
    becomes(contract_arrays, TWO_STORES, SPLIT_LOOPS, SPLIT_LOOPS)
