"""Loops that add up products along K get the step that a target chooses."""

import pytest

from pypto.passes.k_blocking import retile_reductions
from tests.passes.matrices import PRELUDE, load, store

KNOWN = "%lo: i32 = constant {value = 0} %hi: i32 = constant {value = 64} %st: i32 = constant {value = 16}"
SUM = "%acc: tile<8x32xf32> = constant {value = 0.0}"
STORE = store("%total", "%zero", "%zero", (8, 32))


def retiled(step):
    return lambda function: retile_reductions(function, lambda function, loop: step)


def loop(step, bounds, between="", left="%left", **ends):
    """A product in steps along K; `ends` are the extents of the loads."""
    a = load("%left", "a", "%zero", "%at", (8, step), columns=ends.get("columns", "%ca"))
    b = load("%right", "b", "%at", "%zero", (step, 32), rows=ends.get("rows", "%rb"))
    return f"""
        %total: tile<8x32xf32> = for {bounds}, %acc {{ (%i: i32, %sum: tile<8x32xf32>)
          %at: i64 = cast %i {{dtype = i64}}
          {a}
          {b}
          {between}
          %next: tile<8x32xf32> = dot {left}, %right, %sum
          yield %next
        }}
        {STORE}
    """


def clipped(first, extent):
    """An extent that ends with the loop, from values that are numbered from the first one on: it is the last."""
    return f"""
        %{first}: i32 = constant {{value = 64}}
        %{first + 1}: i32 = add %lo, %{first}
        %{first + 2}: i64 = cast %{first + 1} {{dtype = i64}}
        %{first + 3}: i64 = minimum {extent}, %{first + 2} {{propagate_nan = false}}
    """


CLIPPED = clipped(900, "%ca") + clipped(910, "%rb")
CLIPPED_ENDS = {"columns": "%903", "rows": "%913"}


def test_steps_become_longer_and_loads_end_with_the_loop(becomes):
    becomes(
        retiled(32),
        f"{PRELUDE} {KNOWN} {SUM}" + loop(16, "%lo, %hi, %st"),
        f"{PRELUDE} {KNOWN} {SUM} {CLIPPED} %920: i32 = constant {{value = 32}}"
        + loop(32, "%lo, %hi, %920", **CLIPPED_ENDS),
    )


def test_bounds_of_the_launch_are_rounded_up_to_whole_steps(becomes):
    """Loads, and the loop with its new step, end where the last step of the loop did."""

    def end(first):
        return f"""
            %{first}: i32 = constant {{value = 16}}
            %{first + 1}: i32 = sub %m, %n
            %{first + 2}: i32 = constant {{value = 15}}
            %{first + 3}: i32 = add %{first + 1}, %{first + 2}
            %{first + 4}: i32 = floordiv %{first + 3}, %{first}
            %{first + 5}: i32 = mul %{first + 4}, %{first}
            %{first + 6}: i32 = add %n, %{first + 5}
        """

    def clipped(first, extent):
        return f"""{end(first)}
            %{first + 7}: i64 = cast %{first + 6} {{dtype = i64}}
            %{first + 8}: i64 = minimum {extent}, %{first + 7} {{propagate_nan = false}}
        """

    becomes(
        retiled(64),
        f"{PRELUDE} {KNOWN} {SUM}" + loop(16, "%n, %m, %st"),
        f"{PRELUDE} {KNOWN} {SUM} {clipped(900, '%ca')} {clipped(910, '%rb')} {end(920)}"
        + "%930: i32 = constant {value = 64}"
        + loop(64, "%n, %926, %930", columns="%908", rows="%918"),
    )


def test_a_loop_that_runs_once_is_its_body(becomes):
    becomes(
        retiled(64),
        f"{PRELUDE} {KNOWN} {SUM}" + loop(16, "%lo, %hi, %st"),
        f"""{PRELUDE} {KNOWN} {SUM} {CLIPPED}
        %at: i64 = cast %lo {{dtype = i64}}
        {load("%left", "a", "%zero", "%at", (8, 64), columns="%903")}
        {load("%right", "b", "%at", "%zero", (64, 32), rows="%913")}
        %next: tile<8x32xf32> = dot %left, %right, %acc
        {store("%next", "%zero", "%zero", (8, 32))}
        """,
    )


EXP = "%e: tile<8x16xf32> = exp %left"


@pytest.mark.parametrize(
    ("step", "body"),
    [
        (16, loop(16, "%lo, %hi, %st")),
        (48, loop(16, "%lo, %hi, %st", EXP, "%e")),  # of 64, so that exp(0) = 1 would be added
        (32, loop(16, "%n, %m, %st", EXP, "%e")),
        (32, loop(16, "%lo, %hi, %st", 'print_ %left {hex = false, prefix = ""}')),
        (32, loop(16, "%lo, %hi, %st", left="%outside")),
        (32, loop(16, "%lo, %hi, %st", columns="%at")),
    ],
    ids=[
        "same step",
        "a remainder that adds",
        "an unknown remainder",
        "effect",
        "the same operand",
        "extents that move",
    ],
)
def test_loops_that_keep_their_step(becomes, step, body):
    outside = load("%outside", "a", "%zero", "%zero", (8, 16))
    text = f"{PRELUDE} {KNOWN} {SUM} {outside} {body}"
    becomes(retiled(step), text, text)


def test_a_step_without_remainder_needs_no_zeros(becomes):
    becomes(
        retiled(32),
        f"{PRELUDE} {KNOWN} {SUM}" + loop(16, "%lo, %hi, %st", EXP, "%e"),
        f"{PRELUDE} {KNOWN} {SUM} {CLIPPED} %920: i32 = constant {{value = 32}}"
        + loop(32, "%lo, %hi, %920", "%e: tile<8x32xf32> = exp %left", "%e", **CLIPPED_ENDS),
    )
