"""Invariant ops go out of loops."""

import pytest

from pypto.passes.licm import licm

BOUNDS = "%lo: i32 = constant {value = 0} %hi: i32 = constant {value = 8} %st: i32 = constant {value = 1}"
POINTERS = "%p: ptr<f32> = array_ptr %x %q: ptr<f32> = array_ptr %y"


def test_out_of_nested_loops_as_far_as_possible(becomes):
    becomes(
        licm,
        """
        for %n, %m, %n { (%i: i32)
          for %n, %m, %n { (%j: i32)
            %1: i32 = mul %n, %m
            %2: i32 = add %1, %i
            %3: i32 = add %2, %j
            print_ %3 {hex = false, prefix = ""}
            yield
          }
          yield
        }
    """,
        """
        %1: i32 = mul %n, %m
        for %n, %m, %n { (%i: i32)
          %2: i32 = add %1, %i
          for %n, %m, %n { (%j: i32)
            %3: i32 = add %2, %j
            print_ %3 {hex = false, prefix = ""}
            yield
          }
          yield
        }
    """,
    )


def test_out_of_while_and_of_an_if_inside_it(becomes):
    becomes(
        licm,
        """
        %1: i32 = while %n { (%a: i32)
          %2: i32 = mul %n, %m
          %3: i1 = lt %a, %2
          yield %3
        } { (%d: i32)
          %4: i32 = if %b {
            %5: i32 = sub %n, %m
            yield %5
          } {
            %6: i32 = sub %d, %m
            yield %6
          }
          yield %4
        }
        print_ %1 {hex = false, prefix = ""}
    """,
        """
        %2: i32 = mul %n, %m
        %5: i32 = sub %n, %m
        %1: i32 = while %n { (%a: i32)
          %3: i1 = lt %a, %2
          yield %3
        } { (%d: i32)
          %4: i32 = if %b {
            yield %5
          } {
            %6: i32 = sub %d, %m
            yield %6
          }
          yield %4
        }
        print_ %1 {hex = false, prefix = ""}
    """,
    )


def test_not_out_of_an_if_alone(becomes):
    becomes(
        licm,
        """
        if %b {
          for %n, %m, %n { (%i: i32)
            %1: i32 = mul %n, %m
            print_ %1 {hex = false, prefix = ""}
            yield
          }
          yield
        } {
          yield
        }
    """,
        """
        if %b {
          %1: i32 = mul %n, %m
          for %n, %m, %n { (%i: i32)
            print_ %1 {hex = false, prefix = ""}
            yield
          }
          yield
        } {
          yield
        }
    """,
    )


def loop(bounds, body):
    return f"{BOUNDS} {POINTERS} for {bounds} {{ (%i: i32) {body} yield }}"


LOAD = "%1: f32 = load %p"
KNOWN = "%lo, %hi, %st"


def test_load_past_a_store_to_another_array(becomes):
    becomes(
        licm,
        loop(KNOWN, f"{LOAD} store %q, %1"),
        f"{BOUNDS} {POINTERS} {LOAD} for {KNOWN} {{ (%i: i32) store %q, %1 yield }}",
        attributes="attributes {noalias = true}",
    )


def test_load_where_nothing_is_stored(becomes):
    becomes(
        licm,
        loop(KNOWN, f"{LOAD} %2: f32 = neg %1"),
        f"{BOUNDS} {POINTERS} {LOAD} %2: f32 = neg %1 for {KNOWN} {{ (%i: i32) yield }}",
    )


@pytest.mark.parametrize(
    ("bounds", "body", "attributes"),
    [
        (KNOWN, f"{LOAD} store %q, %1", ""),
        (KNOWN, f"{LOAD} store %p, %1", "attributes {noalias = true}"),
        (KNOWN, f"%o: ptr<f32> = addptr %p, %i {LOAD} store %o, %1", "attributes {noalias = true}"),
        (KNOWN, f"%o: ptr<f32> = where %b, %p, %q {LOAD} store %o, %1", "attributes {noalias = true}"),
        (KNOWN, f'{LOAD} print_ %1 {{hex = false, prefix = ""}}', "attributes {noalias = true}"),
        ("%lo, %n, %st", f"{LOAD} %2: f32 = neg %1", ""),
        ("%hi, %lo, %st", f"{LOAD} %2: f32 = neg %1", ""),
        (KNOWN, f"if %b {{ {LOAD} yield }} {{ yield }}", ""),
    ],
    ids=[
        "may alias",
        "same array",
        "same array moved",
        "unknown array",
        "effect",
        "may not run",
        "does not run",
        "condition",
    ],
)
def test_load_stays(make_kernel, bounds, body, attributes):
    function = licm(make_kernel(loop(bounds, body), attributes))
    inside = next(op for op in function.walk() if op.name == "for").regions[0].ops
    assert "load" in [op.name for op in inside] + [op.name for one in inside for r in one.regions for op in r.ops]


def test_free_tiles_stay_where_they_are_used(becomes):
    text = """
        for %n, %m, %n { (%i: i32)
          %1: tile<8xi32> = broadcast_to %i {shape = [8]}
          %2: tile<8xi32> = broadcast_to %n {shape = [8]}
          %3: tile<8xi32> = mul %1, %2
          print_ %3 {hex = false, prefix = ""}
          yield
        }
    """
    becomes(licm, text, text)


def test_free_tiles_go_out_with_their_user(becomes):
    becomes(
        licm,
        """
        for %n, %m, %n { (%i: i32)
          %1: tile<8xi32> = arange {start = 0, end = 8}
          %2: tile<8xi32> = broadcast_to %n {shape = [8]}
          %3: tile<8xi32> = mul %1, %2
          %4: tile<8xi32> = add %3, %1
          print_ %4 {hex = false, prefix = ""}
          yield
        }
    """,
        """
        %1: tile<8xi32> = arange {start = 0, end = 8}
        %2: tile<8xi32> = broadcast_to %n {shape = [8]}
        %3: tile<8xi32> = mul %1, %2
        %4: tile<8xi32> = add %3, %1
        for %n, %m, %n { (%i: i32)
          %5: tile<8xi32> = arange {start = 0, end = 8}
          %6: tile<8xi32> = broadcast_to %n {shape = [8]}
          print_ %4 {hex = false, prefix = ""}
          yield
        }
    """,
    )
