"""Sums and products of derived kernels in another order: the text after the pass, and what stays as it is."""

from __future__ import annotations

import textwrap

import pytest

from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.passes.adjoint.reassociation import reassociate
from pypto.passes.cse import cse
from pypto.passes.dce import dce

HEAD = """
  %p: ptr<f32> = array_ptr %x
  %o: i64 = constant {value = 0}
  %n: i64 = constant {value = 8}
  %s: i64 = constant {value = 1}
  %a: tile<8xf32> = tile_load %p, %o, %s, %n {masked = false, shape = [8]}
  %q: ptr<f32> = array_ptr %y
  %b: tile<8xf32> = tile_load %q, %o, %s, %n {masked = false, shape = [8]}
"""
TAIL = "  tile_store %q, %o, %s, %n, %r {masked = false, shape = [8]}\n  yield"


def rewritten(body: str) -> list[str]:
    """The ops between loads and store after the pass."""
    text = f"kernel @f(%x: array<f32, 1>, %y: array<f32, 1>, %k: f32) {{{HEAD}{textwrap.indent(body, '  ')}\n{TAIL}\n}}"
    function = dce(cse(reassociate(dce(parse_function(text)))))
    lines = [line.strip() for line in print_function(function).splitlines()]
    first = max(n for n, line in enumerate(lines) if "tile_load" in line) + 1
    last = next(n for n, line in enumerate(lines) if line.startswith("tile_store"))
    return [line for line in lines[first:last] if "array_ptr" not in line]


def test_like_terms_are_merged_and_small_factors_are_multiplied_first() -> None:
    found = rewritten("""\
%c: tile<8xf32> = broadcast_to %k {shape = [8]}
%t: tile<8xf32> = mul %c, %a
%u: tile<8xf32> = add %b, %t
%r: tile<8xf32> = add %u, %t""")
    assert found == [
        "%0: f32 = constant {value = 2.0}",
        "%1: f32 = mul %k, %0",
        "%2: tile<8xf32> = broadcast_to %1 {shape = [8]}",
        "%3: tile<8xf32> = mul %2, %a",
        "%r: tile<8xf32> = add %b, %3",
    ]


def test_common_factors_are_taken_out() -> None:
    found = rewritten("""\
%t: tile<8xf32> = mul %a, %b
%u: tile<8xf32> = mul %a, %a
%r: tile<8xf32> = sub %t, %u""")
    assert found == [
        "%0: tile<8xf32> = sub %b, %a",
        "%r: tile<8xf32> = mul %a, %0",
    ]


def test_a_factor_and_its_reciprocal_are_left_out() -> None:
    found = rewritten("""\
%one: f32 = constant {value = 1.0}
%i: f32 = div %one, %k
%c: tile<8xf32> = broadcast_to %i {shape = [8]}
%d: tile<8xf32> = broadcast_to %k {shape = [8]}
%t: tile<8xf32> = mul %a, %c
%r: tile<8xf32> = mul %t, %d""")
    assert found == []


def test_invariant_factors_leave_a_reduction() -> None:
    found = rewritten("""\
%c: tile<8xf32> = broadcast_to %k {shape = [8]}
%t: tile<8xf32> = mul %a, %c
%m: tile<8xf32> = neg %t
%u: f32 = sum %m {axes = [0], keep_dims = false}
%r: tile<8xf32> = broadcast_to %u {shape = [8]}""")
    assert found == [
        "%0: f32 = sum %a {axes = [0], keep_dims = false}",
        "%1: f32 = neg %k",
        "%u: f32 = mul %0, %1",
        "%r: tile<8xf32> = broadcast_to %u {shape = [8]}",
    ]


def test_a_reduction_that_waits_for_another_is_split() -> None:
    found = rewritten("""\
%h: f32 = sum %b {axes = [0], keep_dims = false}
%c: tile<8xf32> = broadcast_to %h {shape = [8]}
%t: tile<8xf32> = mul %a, %c
%m: tile<8xf32> = sub %b, %t
%u: f32 = sum %m {axes = [0], keep_dims = false}
%v: tile<8xf32> = broadcast_to %u {shape = [8]}
%r: tile<8xf32> = add %m, %v""")
    assert found == [
        "%h: f32 = sum %b {axes = [0], keep_dims = false}",
        "%c: tile<8xf32> = broadcast_to %h {shape = [8]}",
        "%t: tile<8xf32> = mul %a, %c",
        "%m: tile<8xf32> = sub %b, %t",
        "%0: f32 = sum %a {axes = [0], keep_dims = false}",
        "%1: f32 = neg %h",
        "%2: f32 = mul %0, %1",
        "%u: f32 = add %h, %2",
        "%v: tile<8xf32> = broadcast_to %u {shape = [8]}",
        "%r: tile<8xf32> = add %m, %v",
    ]


@pytest.mark.parametrize("body", [
    "%r: tile<8xf32> = mul %a, %b",
    "%t: tile<8xf32> = sub %a, %b\n%r: tile<8xf32> = mul %t, %t",
    "%t: tile<8xf32> = exp %a\n%u: tile<8xf32> = add %t, %b\n%r: tile<8xf32> = mul %u, %a",
])  # fmt: skip
def test_what_has_no_shorter_form_stays(body: str) -> None:
    found = [line.split("=", 1)[1].split()[0] for line in rewritten(body)]
    assert found == [line.split("=", 1)[1].split()[0] for line in body.splitlines()]
