"""Small kernels in Tile IR that texts of Loop IR are about, and what reads these texts."""

from __future__ import annotations

from textwrap import dedent

from pypto.backends.cpu.loopir.ir import Schedule
from pypto.backends.cpu.loopir.parser import parse_kernel
from tests.backends_cpu.lowering import fixed_target

ARGS = "%x: array<f32, 2>, %y: array<f32, 2>, %z: array<f32, 2>"
SCALARS = """
  %zero: i64 = constant {value = 0}
  %one: i64 = constant {value = 1}
  %rows: i64 = constant {value = 8}
  %columns: i64 = constant {value = 64}
  %px: ptr<f32> = array_ptr %x
  %py: ptr<f32> = array_ptr %y
  %pz: ptr<f32> = array_ptr %z
"""
WHOLE = "%zero, %zero, %columns, %one, %rows, %columns"  # where 8 rows of 64 numbers lie in an array
TILE = "tile<8x64xf32>"
SHAPE = "{masked = false, shape = [8, 64]}"


def kernel(body: str, attributes: str = "noalias = true") -> str:
    """The text of a kernel on three arrays of 8 rows of 64 numbers."""
    body = body.replace("WHOLE", WHOLE).replace("TILE", TILE).replace("SHAPE", SHAPE)
    return f"kernel @f({ARGS}) attributes {{{attributes}}} {{{SCALARS}{body}yield\n}}\n"


ROW_SUMS = kernel("""
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = exp %t
  %s: tile<8x1xf32> = sum %e {axes = [1], keep_dims = true}
  %b: TILE = broadcast_to %s {shape = [8, 64]}
  %d: TILE = div %e, %b
  tile_store %py, WHOLE, %d SHAPE
""")
COLUMN_SUMS = kernel("""
  %n: i32 = constant {value = 5}
  %lo: i32 = constant {value = 0}
  %step: i32 = constant {value = 1}
  %t: TILE = tile_load %px, WHOLE SHAPE
  %r: TILE = for %lo, %n, %step, %t { (%i: i32, %a: TILE)
    %b: TILE = add %a, %a
    yield %b
  }
  %e: TILE = exp %r
  %s: tile<1x64xf32> = sum %e {axes = [0], keep_dims = true}
  %w: TILE = broadcast_to %s {shape = [8, 64]}
  %d: TILE = div %e, %w
  tile_store %py, WHOLE, %d SHAPE
""")
TWO_STORES = kernel("""
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = exp %t
  tile_store %py, WHOLE, %e SHAPE
  %a: TILE = add %t, %e
  tile_store %pz, WHOLE, %a SHAPE
""")
IN_PLACE = kernel("""
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = neg %t
  tile_store %px, WHOLE, %e SHAPE
  %a: TILE = add %t, %t
  tile_store %pz, WHOLE, %a SHAPE
""")
CARRIED = kernel("""
  %n: i32 = constant {value = 5}
  %lo: i32 = constant {value = 0}
  %step: i32 = constant {value = 1}
  %t: TILE = tile_load %px, WHOLE SHAPE
  %r: TILE = for %lo, %n, %step, %t { (%i: i32, %a: TILE)
    %b: TILE = add %a, %a
    yield %b
  }
  tile_store %py, WHOLE, %r SHAPE
""")
SWAPPED = kernel("""
  %n: i32 = constant {value = 5}
  %lo: i32 = constant {value = 0}
  %step: i32 = constant {value = 1}
  %t: TILE = tile_load %px, WHOLE SHAPE
  %u: TILE = tile_load %py, WHOLE SHAPE
  %r: TILE, %q: TILE = for %lo, %n, %step, %t, %u { (%i: i32, %a: TILE, %b: TILE)
    yield %b, %a
  }
  tile_store %py, WHOLE, %r SHAPE
  tile_store %pz, WHOLE, %q SHAPE
""")
REGROUPED = kernel("""
  %t: TILE = tile_load %px, WHOLE SHAPE
  %e: TILE = exp %t
  %v: tile<16x32xf32> = reshape %e {shape = [16, 32]}
  %s: tile<16x1xf32> = sum %v {axes = [1], keep_dims = true}
  %b: tile<16x32xf32> = broadcast_to %s {shape = [16, 32]}
  %d: tile<16x32xf32> = div %v, %b
  %w: TILE = reshape %d {shape = [8, 64]}
  tile_store %py, WHOLE, %w SHAPE
""")


def schedule_of(kernel_text: str, loops: str) -> Schedule:
    """The schedule that a text describes, ready for passes."""
    return parse_kernel(kernel_text + dedent(loops).lstrip("\n"), fixed_target())
