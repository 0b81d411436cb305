"""Forms that the CPU backend lowers: operands of products, scans of narrow floats, and sums with products."""

from dataclasses import replace
from functools import partial

import pytest

from pypto.backends.cpu.tile.legalize import (
    copy_reshaped_products,
    drop_disabled_terms,
    float8_as_bfloat16,
    widen_integer_dots,
    widen_narrow_scans,
)
from pypto.passes.products import accumulated
from tests.passes.targets import AMX, AVX512

PAIRS = replace(AVX512, int8_bytes=2)
VNNI = replace(AVX512, int8_bytes=1)


def sides(dtype, k=32):
    return f"""
        %p: tile<4x{k}x{dtype}> = constant {{value = 1{".0" if "f" in dtype else ""}}}
        %q: tile<{k}x16x{dtype}> = constant {{value = 2{".0" if "f" in dtype else ""}}}
    """


def use(value, dtype):
    """An op that keeps a product alive, under another type."""
    return f"%used: tile<4x16x{dtype}> = neg {value}"


@pytest.mark.parametrize(
    ("target", "k", "widens"),
    [(AVX512, 32, True), (PAIRS, 32, False), (VNNI, 32, False), (VNNI, 8, True)],
    ids=["avx512", "pairs", "vnni", "thin"],
)
def test_products_of_bytes_are_of_int32_where_no_instruction_has_them(becomes, target, k, widens):
    before = f"{sides('i8', k)} %r: tile<4x16xi32> = dot %p, %q {use('%r', 'i32')}"
    after = f"""{sides("i8", k)}
        %900: tile<4x{k}xi32> = cast %p {{dtype = i32}}
        %901: tile<{k}x16xi32> = cast %q {{dtype = i32}}
        %r: tile<4x16xi32> = dot %900, %901 {use("%r", "i32")}
    """
    becomes(lambda function: widen_integer_dots(function, target), before, after if widens else before)


@pytest.mark.parametrize(("target", "changes"), [(AVX512, False), (AMX, True)], ids=["avx512", "amx"])
def test_float8_is_multiplied_as_bfloat16_by_amx(becomes, target, changes):
    before = f"{sides('f8e4m3fn')} %r: tile<4x16xf32> = dot %p, %q {use('%r', 'f32')}"
    after = f"""{sides("f8e4m3fn")}
        %900: tile<4x32xbf16> = cast %p {{dtype = bf16}}
        %901: tile<32x16xbf16> = cast %q {{dtype = bf16}}
        %r: tile<4x16xf32> = dot %900, %901 {use("%r", "f32")}
    """
    becomes(lambda function: float8_as_bfloat16(function, target), before, after if changes else before)


@pytest.mark.parametrize("is_disabled", [False, True])
def test_terms_of_bfloat16_may_be_switched_off(becomes, is_disabled):
    before = f"{sides('f32')} %r: tile<4x16xf32> = dot %p, %q {{parts = 3}} {use('%r', 'f32')}"
    attributes = 'attributes {disable = ["bf16_split"]}' if is_disabled else ""
    after = before.replace("{parts = 3}", "") if is_disabled else before
    becomes(lambda function: drop_disabled_terms(function, AMX), before, after, attributes)


def test_a_scan_of_halves_is_one_of_float32(becomes):
    becomes(
        lambda function: widen_narrow_scans(function, AVX512),
        """
        %t: tile<64xf16> = constant {value = 0.5}
        %s: tile<64xf16> = cumsum %t {axis = 0, reverse = false}
        %used: tile<64xf16> = neg %s
        """,
        """
        %t: tile<64xf16> = constant {value = 0.5}
        %900: tile<64xf32> = cast %t {dtype = f32}
        %901: tile<64xf32> = cumsum %900 {axis = 0, reverse = false}
        %s: tile<64xf16> = cast %901 {dtype = f16}
        %used: tile<64xf16> = neg %s
        """,
    )


@pytest.mark.parametrize(("columns", "is_padded"), [(20, True), (32, False)])
def test_a_product_with_padding_is_copied_before_a_reshape(becomes, columns, is_padded):
    product = f"""
        %p: tile<32x16xf32> = constant {{value = 1.0}}
        %q: tile<16x{columns}xf32> = constant {{value = 2.0}}
        %r: tile<32x{columns}xf32> = dot %p, %q
    """
    reshape = f"tile<{4 * columns}x8xf32> = reshape %{{0}} {{{{shape = [{4 * columns}, 8]}}}}".format
    copy = f"%900: tile<32x{columns}xf32> = broadcast_to %r {{shape = [32, {columns}]}}"
    becomes(
        partial(copy_reshaped_products, target=AVX512),
        f"{product} %v: {reshape('r')}",
        f"{product} {copy} %v: {reshape('900')}" if is_padded else f"{product} %v: {reshape('r')}",
    )


STORED = "%px: ptr<f32> = array_ptr %x tile_store %px, %k, %k, %k, %k, %k, %k, %s {masked = false, shape = [4, 16]}"


def test_a_sum_with_a_product_accumulates(becomes):
    acc = "%acc: tile<4x16xf32> = constant {value = 0.5}"
    for sum_ in ("add %acc, %d", "add %d, %acc"):
        becomes(
            accumulated,
            f"{sides('f32')} {acc} %d: tile<4x16xf32> = dot %p, %q %s: tile<4x16xf32> = {sum_} {STORED}",
            f"{sides('f32')} {acc} %s: tile<4x16xf32> = dot %p, %q, %acc {STORED}",
        )


@pytest.mark.parametrize(
    "sum_",
    [
        "%s: tile<4x16xf32> = add %d, %d",
        "%t: tile<4x16xf32> = neg %d %s: tile<4x16xf32> = add %d, %t",
        "%t: tile<4x16xf32> = dot %p, %q, %d %s: tile<4x16xf32> = add %t, %t",
        "%s: tile<4x16xf32> = sub %d, %e",
    ],
    ids=["twice", "read_again", "has_an_accumulator", "difference"],
)
def test_products_that_stay_alone(becomes, sum_):
    operands = f"{sides('f32')} %e: tile<4x16xf32> = constant {{value = 3.0}} %d: tile<4x16xf32> = dot %p, %q"
    body = f"{operands} {sum_} {STORED}"
    becomes(accumulated, body, body)
