"""The verifier of Loop IR: for each rule a text that breaks it, and the whole message."""

from __future__ import annotations

import pytest

from pypto.backends.cpu.loopir.parser import parse_kernel
from pypto.backends.cpu.loopir.verify import verify, violations
from pypto.errors import CompilerBug
from tests.backends_cpu.loop_texts import CARRIED, REGROUPED, ROW_SUMS, SWAPPED, TWO_STORES, kernel

ROWS = (
    ROW_SUMS
    + """\
scratch 448 bytes
  b0: 8x64xf32 contracted 1 @0 live 8 to 12 holds %e
  b1: 8x1xf32 @320 live 8 to 12 holds %s
nest sharing 1
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
  | reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
  - store tile_store [for d0<8 lanes d1<64]
"""
)
APART = (
    ROW_SUMS
    + """\
scratch 2432 bytes
  b0: 8x64xf32 @0 live 8 to 12 holds %e
  b1: 8x1xf32 @2112 live 8 to 12 holds %s
nest sharing 2
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
nest sharing 2
  - reduce %s = sum -> b1 [for d0<8 lanes d1<64*]
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""
)
STORES = (
    TWO_STORES
    + """\
scratch 0 bytes
  b0: 8x64xf32 (registers) @0 live 8 to 11 holds %e
nest sharing 2
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
  | store tile_store 1 [for d0<8 lanes d1<64]
  | store tile_store 2 [for d0<8 lanes d1<64]
"""
)
VIEWS = (
    REGROUPED
    + """\
scratch 4352 bytes
  b0: 8x64xf32 unpadded @0 live 8 to 12 holds %e
  b1: 16x1xf32 @4224 live 10 to 12 holds %s
  b2: 16x32xf32 unpadded @2112 live 12 to 14 holds %d
  b3: 16x32xf32 unpadded @0 live 8 to 12 view of b0 holds %v
  b4: 8x64xf32 unpadded @2112 live 12 to 14 view of b2 holds %w
nest sharing 2
  - compute %e = exp -> b0 [for d0<8 lanes d1<64]
nest sharing 2
  - reduce %s = sum -> b1 [for d0<16 lanes d1<32*]
nest sharing 2
  - compute %d = div -> b2 [for d0<16 lanes d1<32]
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""
)
LOOP = (
    CARRIED
    + """\
scratch 2112 bytes
  b0: 8x64xf32 @0 live 11 to 14 holds %a, %r
nest sharing 2
  - compute %t = tile_load -> b0 at 11 [for d0<8 lanes d1<64]
%r = for
  region
    nest sharing 2
      - compute %b = add -> b0 at 13 [for d0<8 lanes d1<64]
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""
)
SWAPS = (
    SWAPPED
    + """\
scratch 8448 bytes
  b0: 8x64xf32 @0 live 12 to 15 holds %a, %r
  b1: 8x64xf32 @2112 live 12 to 15 holds %b, %q
  b2: 8x64xf32 @4224 live 13 to 13
  b3: 8x64xf32 @6336 live 13 to 13
nest sharing 2
  - compute %t = tile_load -> b0 at 12 [for d0<8 lanes d1<64]
  | compute %u = tile_load -> b1 at 12 [for d0<8 lanes d1<64]
%r, %q = for
  region
    nest sharing 2
      - compute %b -> b2 at 13 [for d0<8 lanes d1<64]
      | compute %a -> b3 at 13 [for d0<8 lanes d1<64]
      | compute %b -> b0 from b2 at 13 [for d0<8 lanes d1<64]
      | compute %a -> b1 from b3 at 13 [for d0<8 lanes d1<64]
nest sharing 2
  - store tile_store 1 [for d0<8 lanes d1<64]
  | store tile_store 2 [for d0<8 lanes d1<64]
"""
)
PRODUCT = (
    kernel("""
  %t: tile<8x16xf32> = tile_load %px, WHOLE {masked = false, shape = [8, 16]}
  %e: tile<8x16xf32> = neg %t
  %u: tile<16x64xf32> = tile_load %py, WHOLE {masked = false, shape = [16, 64]}
  %v: tile<16x64xf32> = neg %u
  %d: TILE = dot %e, %v
  tile_store %pz, WHOLE, %d SHAPE
""")
    + """\
scratch 9088 bytes
  b0: 8x16xf32 @6336 live 8 to 11 holds %e
  b1: 8x64xf32 @4224 live 11 to 12 holds %d
  b2: 16x64xf32 panels of 16 @0 live 11 to 11
nest sharing 2
  - compute %e = neg -> b0 [for d0<8 lanes d1<16]
nest sharing 2
  - compute %v = neg -> b2 packing for %d in chunks of 16 at 11 [for d0<16 lanes d1<64]
library Gemm(op = op %d, a = b0, b = b2, c = b1, beta_zero = true)
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""
)
BRANCH = (
    kernel("""
  %n: i32 = program_id {axis = 0}
  %c: i1 = eq %n, %n
  %t: TILE = tile_load %px, WHOLE SHAPE
  %r: TILE = if %c {
    %e: TILE = exp %t
    yield %e
  } {
    %g: TILE = neg %t
    yield %g
  }
  tile_store %py, WHOLE, %r SHAPE
""")
    + """\
scratch 2112 bytes
  b0: 8x64xf32 @0 live 11 to 14 holds %r
%r = if
  region
    nest sharing 2
      - compute %e = exp -> b0 at 12 [for d0<8 lanes d1<64]
  region
    nest sharing 2
      - compute %g = neg -> b0 at 14 [for d0<8 lanes d1<64]
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""
)
TURNED = (
    kernel("""
  %n: i32 = constant {value = 5}
  %lo: i32 = constant {value = 0}
  %step: i32 = constant {value = 1}
  %t: tile<8x8xf32> = tile_load %px, WHOLE {masked = false, shape = [8, 8]}
  %r: tile<8x8xf32> = for %lo, %n, %step, %t { (%i: i32, %a: tile<8x8xf32>)
    %b: tile<8x8xf32> = permute %a {dims = [1, 0]}
    yield %b
  }
  tile_store %py, WHOLE, %r {masked = false, shape = [8, 8]}
""")
    + """\
scratch 640 bytes
  b0: 8x8xf32 @0 live 11 to 14 holds %a, %r
  b1: 8x8xf32 @320 live 13 to 13
nest sharing 2
  - compute %t = tile_load -> b0 at 11 [for d0<8 lanes d1<8]
%r = for
  region
    nest sharing 2
      - compute %b = permute -> b1 at 13 [for d0<8 lanes d1<8]
    nest sharing 2
      - compute %b -> b0 from b1 at 13 [for d0<8 lanes d1<8]
nest sharing 2
  - store tile_store [for d0<8 lanes d1<8]
"""
)
NUMBER = (
    kernel("""
  %t: TILE = tile_load %px, WHOLE SHAPE
  %s: tile<1x1xf32> = sum %t {axes = [0, 1], keep_dims = true}
  %q: f32 = reshape %s {shape = []}
  %w: TILE = broadcast_to %q {shape = [8, 64]}
  tile_store %py, WHOLE, %w SHAPE
""")
    + """\
scratch 128 bytes
  b0: 1x1xf32 @0 live 8 to 11 holds %s
nest sharing 2
  - reduce %s = sum -> b0 [for d0<8* lanes d1<64*]
scalar %q = reshape
nest sharing 2
  - store tile_store [for d0<8 lanes d1<64]
"""
)
VALID = {"rows": ROWS, "apart": APART, "stores": STORES, "views": VIEWS, "loop": LOOP, "swaps": SWAPS,
         "product": PRODUCT, "branch": BRANCH, "turned": TURNED, "number": NUMBER}  # fmt: skip

COMPUTE = "nest sharing 2\n  - compute %e = exp -> b0 [for d0<8 lanes d1<64]\n"
LOST = "has been overwritten, or was never written"
CACHED = "beta_zero = true, panel_cache = PanelCache(loop = none, steps = 1, slots = 1)"
# What breaks a text, by replacing parts of it, and all that the verifier says then.
BROKEN: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "a read of what nobody writes": (
        APART,
        {COMPUTE: ""},
        (
            f"sum reads the `exp` of line 0 in b0, which {LOST}",
            f"tile_store reads the `exp` of line 0 in b0, which {LOST}",
        ),
    ),
    "buffers at one place": (
        APART,
        {"@2112": "@0"},
        (
            f"tile_store reads the `exp` of line 0 in b0, which {LOST}",
            "a nest has b1 and b0 at the same addresses",
        ),
    ),
    "a row of what all rows are read of": (
        APART,
        {"b0: 8x64xf32 @0": "b0: 8x64xf32 contracted 1 @0"},
        (
            f"sum reads the `exp` of line 0 in b0, which {LOST}",
            f"tile_store reads the `exp` of line 0 in b0, which {LOST}",
        ),
    ),
    "a read of the wrong buffer": (
        SWAPS,
        {"-> b0 from b2": "-> b0 from b3"},
        ("copy reads %b in b3, which holds another value",),
    ),
    "another padding": (
        VIEWS,
        {"b3: 16x32xf32 unpadded": "b3: 16x32xf32 padded 16x40"},
        (
            "sum reads the `reshape` of line 0 in b3, which was written in another layout",
            "div reads the `reshape` of line 0 in b3, which was written in another layout",
        ),
    ),
    "panels": (
        APART,
        {"b0: 8x64xf32 @": "b0: 8x64xf32 panels of 16 @"},
        (
            "sum reads the `exp` of line 0 in b0, which is in panels",
            "tile_store reads the `exp` of line 0 in b0, which is in panels",
        ),
    ),
    "a copy from registers": (
        SWAPS,
        {"b2: 8x64xf32 @4224": "b2: 8x64xf32 (registers) @4224"},
        ("copy reads %b in b2, which is in registers",),
    ),
    "a transpose in place": (
        TURNED,
        {"compute %b = permute -> b1": "compute %b = permute -> b0", "from b1": "from b0"},
        ("permute reads %a in b0, which it writes in another order",),
    ),
    "a whole sum in its own loop": (
        ROWS,
        {"- store": "| store"},
        ("tile_store uses b1 in other rounds of the loops that it shares with sum",),
    ),
    "loops in another order": (
        STORES,
        {"store tile_store 2 [for d0<8 lanes d1<64]": "store tile_store 2 [lanes d1<64 for d0<8]"},
        ("tile_store uses b0 in other rounds of the loops that it shares with exp",),
    ),
    "a scalar of what nobody writes": (
        NUMBER,
        {"nest sharing 2\n  - reduce %s = sum -> b0 [for d0<8* lanes d1<64*]\n": ""},
        (f"reshape reads the `sum` of line 0 in b0, which {LOST}",),
    ),
    "an operand of half the bytes": (
        PRODUCT,
        {"b0: 8x16xf32 @": "b0: 8x16xf16 in memory format @"},
        ("dot reads b0, which holds 2 bytes of a number, not 4",),
    ),
    "an operand that is the result": (
        PRODUCT,
        {"a = b0": "a = b1"},
        (f"dot reads the `neg` of line 0 in b1, which {LOST}", "dot uses b1 twice"),
    ),
    "operands at one place": (PRODUCT, {"@4224": "@0"}, ("dot has b1 and b2 at the same addresses",)),
    "panels for later programs": (
        PRODUCT,
        {"beta_zero = true": CACHED, "@6336": "@64"},
        (
            f"dot reads the `neg` of line 0 in b0, which {LOST}",
            "b0 lies where the contents of b2 outlast the program",
            "dot has b2 and b0 at the same addresses",
        ),
    ),
    "a loop that does not write what it yields": (
        LOOP,
        {"    nest sharing 2\n      - compute %b = add -> b0 at 13 [for d0<8 lanes d1<64]\n": ""},
        ("the end of `for` reads the `add` of line 0 in b0, which holds another value",),
    ),
    "a loop that begins with nothing": (
        LOOP,
        {"nest sharing 2\n  - compute %t = tile_load -> b0 at 11 [for d0<8 lanes d1<64]\n": ""},
        (
            f"the end of `for` reads the `tile_load` of line 0 in b0, which {LOST}",
            f"add reads %a in b0, which {LOST}",
            f"tile_store reads the `for` of line 0 in b0, which {LOST}",
        ),
    ),
    "a branch that writes nothing": (
        BRANCH,
        {"    nest sharing 2\n      - compute %g = neg -> b0 at 14 [for d0<8 lanes d1<64]\n": ""},
        (
            f"the end of `if` reads the `neg` of line 0 in b0, which {LOST}",
            f"tile_store reads the `if` of line 0 in b0, which {LOST}",
        ),
    ),
}


@pytest.mark.parametrize("name", VALID)
def test_valid_texts(name: str) -> None:
    assert violations(parse_kernel(VALID[name])) == []


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_texts(rule: str) -> None:
    text, plants, messages = BROKEN[rule]
    for old, new in plants.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert violations(parse_kernel(text)) == list(messages)


def test_a_broken_text_is_a_bug_of_ours() -> None:
    schedule = parse_kernel(ROWS.replace("- store", "| store"))
    with pytest.raises(
        CompilerBug, match=r"the Loop IR of f reads what was not written so:\n  tile_store uses b1 in other"
    ):
        verify(schedule, "f")
