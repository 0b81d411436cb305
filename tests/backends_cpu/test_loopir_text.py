"""Texts that are no Loop IR name their line; that the parser reads what the printer writes, `test_verify` tests."""

from __future__ import annotations

import pytest

from pypto.backends.cpu.loopir.parser import parse_kernel
from pypto.errors.ir import IRTextError
from tests.backends_cpu.loop_texts import ROW_SUMS

LOOPS = """\
scratch 64 bytes
  b0: 8x64xf32 @0 live 8 to 12 holds %e
  b1: 8x1xf32 @0 live 9 to 12 holds %s
scalar %px = array_ptr
nest sharing 1
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
  | reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
  - store tile_store [for d0<8 lanes d1<64]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("scratch 64 bytes", "scrap 64 bytes", 8, "expected a kernel, and behind it a line `scratch N bytes`"),
        ("64 bytes", "64", 1, "expected `bytes`, not `the end of the line`"),
        ("b1: 8x1xf32", "b2: 8x1xf32", 3, "buffers are numbered in order: this one is b1"),
        ("8x1xf32", "8x1xf31", 3, "`8x1xf31` is no tile"),
        ("8x1xf32", "f32", 3, "expected a shape and an element type such as 8x64xf32"),
        ("holds %s", "holds %nobody", 3, "the kernel has no %nobody"),
        ("live 9 to 12 holds", "live 9 until 12 holds", 3, "expected `to`, not `until`"),
        ("scalar %px = array_ptr", "scalar %px = array_shape", 4, "%px is no result of an op `array_shape`"),
        ("scalar %px = array_ptr", "scalar %rows", 4, "expected `=`, not `the end of the line`"),
        ("scalar %px = array_ptr", "tile_store", 4, "`tile_store` is no item of its own"),
        ("scalar %px = array_ptr", "library Gemm()", 4, "no library op of this kernel has a record `Gemm`"),
        ("scalar %px = array_ptr", "nest", 4, "a nest has statements"),
        ("  - compute", "  | compute", 6, "expected `-`, which begins a body, or `|`, which goes on with one"),
        ("  - compute", "  - guess", 6, "expected a kind of statement, not `guess`"),
        ("exp -> b0", "exp -> b7", 6, "b7 is not listed above"),
        ("exp -> b0", "exp", 6, "`compute` writes a buffer"),
        ("exp -> b0 [for d0<8", "exp -> b0 [for d0<9", 6, "d0 is not so long: the statement runs over (8, 64)"),
        ("lanes d1<64]\n  |", "lanes d1<64] twice\n  |", 6, "`twice` has no meaning here"),
        ("  - store tile_store", "  - store tile_store 2", 8, "the kernel has no op `tile_store 2` without results"),
        ("  - store tile_store", "      - store tile_store", 8, "no item stands so far to the right here"),
    ],
)  # fmt: skip
def test_texts_that_are_no_loop_ir(old: str, new: str, line: int, problem: str) -> None:
    """Lines of the Loop IR are counted behind those of the kernel."""
    assert LOOPS.count(old) == 1
    with pytest.raises(IRTextError) as caught:
        parse_kernel(ROW_SUMS + LOOPS.replace(old, new))
    place = len(ROW_SUMS.splitlines()) + line
    assert str(caught.value).splitlines()[0] == f"[E901] IR text, line {place}: {problem}"
