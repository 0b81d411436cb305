"""Comparisons that bounds of loops decide."""

import pytest

from pypto.passes.rules.fold_comparisons import fold_comparisons

START = "%lo: i32 = constant {value = 0} %hi: i32 = constant {value = 512} %st: i32 = constant {value = 256}"


def looped(test: str) -> str:
    return f"""
        {START}
        for %lo, %hi, %st {{ (%j: i32)
          %1: tile<256xi32> = arange {{end = 256, start = 0}}
          %2: tile<256xi32> = broadcast_to %j {{shape = [256]}}
          %3: tile<256xi32> = add %2, %1
          {test}
          print_ %5 {{hex = false, prefix = ""}}
          yield
        }}
    """


@pytest.mark.parametrize(("op", "limit", "holds"), [("lt", 512, True), ("le", 511, True), ("ge", 512, False),
                                                    ("gt", 511, False), ("ge", 0, True), ("lt", 0, False)])  # fmt: skip
def test_what_always_comes_out_the_same(op, limit, holds, becomes):
    test = f"""
          %4: tile<256xi32> = constant {{value = {limit}}}
          %5: tile<256xi1> = {op} %3, %4"""
    becomes(
        fold_comparisons,
        looped(test),
        f"""
        {START}
        for %lo, %hi, %st {{ (%j: i32)
          %5: tile<256xi1> = constant {{value = {str(holds).lower()}}}
          print_ %5 {{hex = false, prefix = ""}}
          yield
        }}
    """,
    )


@pytest.mark.parametrize(("op", "limit"), [("lt", 511), ("le", 510), ("ge", 511), ("gt", 510), ("gt", 0), ("le", 0)])
def test_what_does_not(op, limit, becomes):
    test = f"""
          %4: tile<256xi32> = constant {{value = {limit}}}
          %5: tile<256xi1> = {op} %3, %4"""
    becomes(fold_comparisons, looped(test), looped(test))


def test_sums_that_may_wrap_around(becomes):
    text = """
        %lo: i32 = constant {value = 0} %hi: i32 = constant {value = 2147483647} %st: i32 = constant {value = 1}
        for %lo, %hi, %st { (%j: i32)
          %1: i32 = add %j, %hi
          %2: i1 = ge %1, %lo
          print_ %2 {hex = false, prefix = ""}
          yield
        }
    """
    becomes(fold_comparisons, text, text)


def test_results_of_loops_with_several(becomes):
    """What a loop leaves is not known, also where it carries more than one."""
    text = f"""
        {START}
        %p: i32, %q: i32 = for %lo, %hi, %st, %lo, %hi {{ (%j: i32, %sum: i32, %old: i32)
          %1: i32 = add %sum, %j
          yield %1, %sum
        }}
        %2: i1 = gt %p, %q
        print_ %2 {{hex = false, prefix = ""}}
    """
    becomes(fold_comparisons, text, text)
