"""Products of a left side that all programs share are computed transposed."""

import pytest

from pypto.passes.swap_operands import swap_operands
from tests.passes.matrices import PRELUDE, load, store
from tests.passes.targets import AVX512, NEON

PLACE = """
    %pid: i32 = program_id {axis = 0} %col: i64 = cast %pid {dtype = i64}
    %wide: i64 = constant {value = 32} %at: i64 = mul %col, %wide
"""
STORE = store("%result", "%zero", "%at", (32, 32))
CLIPPED = """
    %900: i64 = sub %co, %at
    %901: i64 = add %900, %at
    %902: i64 = minimum %cb, %901 {propagate_nan = false}
"""


def swapped(function):
    return swap_operands(function, AVX512)


def left(k=256, row="%zero"):
    return load("%left", "a", row, "%zero", (32, k))


def right(k=256, column="%at", **ends):
    return load("%right", "b", "%zero", column, (k, 32), **ends)


def product(k=256, row="%zero", column="%at", operands="%left, %right"):
    dot = f"%result: tile<32x32xf32> = dot {operands}"
    return f"{PRELUDE} {PLACE} {left(k, row)} {right(k, column)} {dot} {STORE}"


def test_the_left_side_is_the_right_one_of_the_transposed_product(becomes):
    becomes(
        swapped,
        product(),
        f"""{PRELUDE} {PLACE} {left()} {CLIPPED} {right(columns="%902")}
        %903: tile<32x256xf32> = permute %right {{dims = [1, 0]}}
        %904: tile<256x32xf32> = permute %left {{dims = [1, 0]}}
        %905: tile<32x32xf32> = dot %903, %904
        %result: tile<32x32xf32> = permute %905 {{dims = [1, 0]}}
        {STORE}
        """,
    )


def test_the_sum_of_a_chain_is_transposed_once(becomes):
    second = load("%other", "b", "%one", "%at", (64, 32))
    becomes(
        swapped,
        f"""{PRELUDE} {PLACE} {left(64)} {right(64)} {second}
        %acc: tile<32x32xf32> = constant {{value = 0.5}}
        %sum: tile<32x32xf32> = dot %left, %right, %acc
        %result: tile<32x32xf32> = dot %left, %other, %sum
        {STORE}
        """,
        f"""{PRELUDE} {PLACE} {left(64)} {CLIPPED} {right(64, columns="%902")}
        %910: i64 = sub %co, %at
        %911: i64 = add %910, %at
        %912: i64 = minimum %cb, %911 {{propagate_nan = false}}
        {load("%other", "b", "%one", "%at", (64, 32), columns="%912")}
        %903: tile<32x64xf32> = permute %right {{dims = [1, 0]}}
        %904: tile<64x32xf32> = permute %left {{dims = [1, 0]}}
        %905: tile<32x32xf32> = constant {{value = 0.5}}
        %906: tile<32x32xf32> = dot %903, %904, %905
        %907: tile<32x64xf32> = permute %other {{dims = [1, 0]}}
        %908: tile<64x32xf32> = permute %left {{dims = [1, 0]}}
        %909: tile<32x32xf32> = dot %907, %908, %906
        %result: tile<32x32xf32> = permute %909 {{dims = [1, 0]}}
        {STORE}
        """,
    )


@pytest.mark.parametrize(
    "text",
    [product(128), product(512), product(row="%at"), product(column="%zero")],
    ids=["flat", "deeper than a panel that stays", "left side of a program", "right side of all"],
)
def test_products_that_stay(becomes, text):
    becomes(swapped, text, text)


def test_narrow_registers_hold_too_few_rows(becomes):
    becomes(lambda function: swap_operands(function, NEON), product(), product())
