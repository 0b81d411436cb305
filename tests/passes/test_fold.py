"""Constants computed by the rows' own meaning."""

import pytest

from pypto.passes.canonicalize import canonicalize


def test_chain_of_scalars(becomes):
    becomes(
        canonicalize,
        """
        %1: i32 = constant {value = 2147483647}
        %2: i32 = constant {value = 1}
        %3: i32 = add %1, %2
        %4: i64 = cast %3 {dtype = i64}
        %5: i1 = lt %4, %k
    """,
        """
        %1: i32 = constant {value = 2147483647}
        %2: i32 = constant {value = 1}
        %3: i32 = constant {value = -2147483648}
        %4: i64 = constant {value = -2147483648}
        %5: i1 = gt %k, %4
    """,
    )


def test_a_large_tile_costs_one_element(becomes):
    becomes(
        canonicalize,
        """
        %1: tile<1048576x1048576xf32> = constant {value = 1.5}
        %2: tile<1048576x1048576xi1> = gt %1, %1
        %3: tile<1048576x1048576xf32> = where %2, %1, %1
    """,
        """
        %1: tile<1048576x1048576xf32> = constant {value = 1.5}
        %2: tile<1048576x1048576xi1> = constant {value = false}
        %3: tile<1048576x1048576xf32> = constant {value = 1.5}
    """,
    )


@pytest.mark.parametrize(
    ("op", "operands", "result"),
    [
        ("floordiv", "-7 2", "-3"),
        ("floordiv", "7 0", "0"),
        ("rem", "-7 2", "-1"),
        ("shl", "1 33", "0"),
        ("shr", "-1 40", "-1"),
        ("maximum {propagate_nan = false}", "3 4", "4"),
        ("xor", "5 3", "6"),
        ("mul", "65536 65536", "0"),
    ],
)
def test_integer_meaning(becomes, op, operands, result):
    a, b = operands.split()
    name, _, attrs = op.partition(" ")
    constants = f"%1: i32 = constant {{value = {a}}} %2: i32 = constant {{value = {b}}}"
    becomes(
        canonicalize,
        f"{constants} %3: i32 = {name} %1, %2 {attrs}",
        f"{constants} %3: i32 = constant {{value = {result}}}",
    )


def test_half_precision_rounds(becomes):
    becomes(
        canonicalize,
        "%1: f32 = constant {value = 2049.0} %2: f16 = cast %1 {dtype = f16}",
        "%1: f32 = constant {value = 2049.0} %2: f16 = constant {value = 2048.0}",
    )


def test_nan_stays_as_it_is(becomes):
    text = "%1: i32 = constant {value = -1} %2: f32 = bitcast %1 {dtype = f32}"
    becomes(canonicalize, text, text)
