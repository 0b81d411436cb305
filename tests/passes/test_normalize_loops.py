"""Loops that move pointers along K count along K."""

import pytest

from pypto.passes.normalize_loops import normalize_pointer_loops
from tests.passes.matrices import PRELUDE, load, prelude_without, store

BOUNDS = """
    %acc: tile<8x32xf32> = constant {value = 0.0}
    %lo: i32 = constant {value = 0} %st: i32 = constant {value = 1} %d: i64 = constant {value = 16}
    %jump: i64 = mul %sb, %d
"""
STORE = store("%total", "%zero", "%zero", (8, 32))


def walk(between="", step="%d", end="%left", after=""):
    """A product whose pointers and extents move by 16 along K, or by `step`, and end at `end`."""
    return f"""
        {BOUNDS}
        %qa: ptr<f32>, %qb: ptr<f32>, %total: tile<8x32xf32> = for %lo, %n, %st, %pa, %pb, %acc {{
          (%i: i32, %xa: ptr<f32>, %xb: ptr<f32>, %sum: tile<8x32xf32>)
          %i64: i64 = cast %i {{dtype = i64}}
          %done: i64 = mul %i64, %d
          %left: i64 = sub %k, %done
          {load("%ta", "a", "%zero", "%zero", (8, 16), columns=end).replace("%pa", "%xa")}
          {load("%tb", "b", "%zero", "%zero", (16, 32), rows=end).replace("%pb", "%xb")}
          {between}
          %next: tile<8x32xf32> = dot %ta, %tb, %sum
          %ya: ptr<f32> = addptr %xa, {step}
          %yb: ptr<f32> = addptr %xb, %jump
          yield %ya, %yb, %next
        }}
        {after}
        {STORE}
    """


def test_pointers_and_ends_that_move_become_offsets(becomes):
    becomes(
        normalize_pointer_loops,
        PRELUDE + walk(),
        f"""{prelude_without("%ca", "%rb")}
        %acc: tile<8x32xf32> = constant {{value = 0.0}}
        %900: i64 = cast %n {{dtype = i64}}
        %901: i64 = constant {{value = 16}}
        %902: i64 = constant {{value = 0}}
        %903: i64 = mul %900, %901
        %total: tile<8x32xf32> = for %902, %903, %901, %acc {{ (%i: i64, %sum: tile<8x32xf32>)
          {load("%904", "a", "%zero", "%i", (8, 16), columns="%k")}
          {load("%905", "b", "%i", "%zero", (16, 32), rows="%k")}
          %next: tile<8x32xf32> = dot %904, %905, %sum
          yield %next
        }}
        {STORE}
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        walk(step="%one"),
        walk(end="%k"),
        walk(between='print_ %i {hex = false, prefix = ""}'),
        walk(after="store %qa, %f"),
        walk().replace("%d: i64 = constant {value = 16}", "%d: i64 = cast %n {dtype = i64}"),
    ],
    ids=["another step", "ends that stay", "index is read", "pointer is read after it", "unknown step"],
)
def test_loops_that_stay(becomes, body):
    becomes(normalize_pointer_loops, PRELUDE + body, PRELUDE + body)
