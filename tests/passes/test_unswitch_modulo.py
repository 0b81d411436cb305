"""The body twice: without gathers where a program stores nothing that has wrapped around, and with them."""

import re

import pytest

from pypto.ir.parser import parse_function
from pypto.passes.dce import dce
from pypto.passes.unswitch_modulo import ends_before_wrap, hot_version, unswitch_modulo
from tests.passes.conftest import body_of
from tests.passes.matrices import PRELUDE, load, prelude_without, store

STORED = "%st: i64 = cast %n {dtype = i64}"
INSIDE = load("%left", "a", "%zero", "%zero", (8, 16), rows="%k")
# Up to %k rows in place; the others, where there are any, from pointers of their own.
WRAPPED = f"""
    %each: tile<8x1xptr<f32>> = broadcast_to %pa {{shape = [8, 1]}}
    %eight: i64 = constant {{value = 8}}
    %short: i1 = lt %k, %eight
    %ends: i64 = where %short, %ra, %zero
    {load("%gather", "a", "%zero", "%zero", (8, 16), rows="%ends").replace("%pa", "%each")}
    {INSIDE.replace("%k, %ca", "%k, %ca, %gather")}
"""
RIGHT = load("%right", "b", "%zero", "%zero", (16, 32))


def product(left, more="", rows="%st"):
    """A product whose result is stored up to some rows."""
    return f"""
        {STORED} {left} {RIGHT}
        %result: tile<8x32xf32> = dot %left, %right
        {more}
        {store("%result", "%zero", "%zero", (8, 32), rows=rows)}
    """


HOT = prelude_without("%ra", "%ro") + product(INSIDE)
COLD = prelude_without("%ro") + product(WRAPPED)


def renamed(text):
    """A second body: what the first one defines, too, has another name."""
    taken = set(re.findall(r"%(\w+):", HOT))
    return re.sub(r"%(\w+)", lambda match: match[0] + "_1" * (match[1] in taken), text)


def test_a_program_that_stores_nothing_of_what_wraps_around_needs_no_gather(becomes):
    becomes(
        unswitch_modulo,
        PRELUDE + product(WRAPPED),
        f"""
        %900: i64 = constant {{value = 8}}
        %901: i1 = ge %k, %900
        %902: i64 = cast %n {{dtype = i64}}
        %903: i1 = le %902, %k
        %904: i1 = or_ %901, %903
        if %904 {{ {HOT} yield }} {{ {renamed(COLD)} yield }}
        """,
    )


def test_what_others_read_must_lie_inside(becomes):
    more = "%sum: f32 = sum %result {axes = [0, 1], keep_dims = false} store %po, %sum"
    hot, cold = HOT.replace("tile_store", f"{more} tile_store"), COLD.replace("tile_store", f"{more} tile_store")
    becomes(
        unswitch_modulo,
        PRELUDE + product(WRAPPED, more),
        f"""
        %900: i64 = constant {{value = 8}}
        %901: i1 = ge %k, %900
        if %901 {{ {hot} yield }} {{ {renamed(cold).replace("%sum", "%sum_1")} yield }}
        """,
    )


def test_the_hot_version_is_the_one_without_gathers(make_kernel):
    made = unswitch_modulo(make_kernel(PRELUDE + product(WRAPPED)))
    assert body_of(hot_version(made)) == body_of(make_kernel(HOT))
    function = make_kernel(HOT)
    assert hot_version(function) is function


NO_PRODUCT = product(WRAPPED).replace("dot %left, %right", "broadcast_to %f {shape = [8, 32]}")
MOVING = product(WRAPPED.replace("%pa, %zero, %zero, %sa, %one, %k", "%pa, %one, %zero, %sa, %one, %k"))


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        (product(INSIDE), ""),
        (NO_PRODUCT, ""),
        (MOVING, ""),
    ],
    ids=["no gather", "no product", "another offset"],
)
def test_bodies_that_stay_single(make_kernel, body, attributes):
    function = make_kernel(PRELUDE + body, attributes)
    assert body_of(dce(unswitch_modulo(function))) == body_of(dce(function))


MODULO = """
    %x: i32 = mul %pid, %size
    %at: i64 = cast %x {dtype = i64}
    %m: i64 = cast %n {dtype = i64}
    %one: i64 = constant {value = 1}
    %quotient: i64 = floordiv %at, %m
    %next: i64 = add %quotient, %one
    %multiple: i64 = mul %next, %m
    %greatest: i64 = constant {value = 2147483647}
    %end: i64 = minimum %multiple, %greatest {propagate_nan = false}
    %ahead: i64 = sub %end, %at
    %positive: i1 = ge %at, %zero
    %extent: i64 = where %positive, %ahead, %zero
    %left: i64 = sub %m, %at
    %more: i64 = add %left, %one
"""


@pytest.mark.parametrize(("index", "stored", "found"), [("program_id", "left", True), ("program_id", "more", False),
                         ("argument", "left", False)])  # fmt: skip
def test_stores_that_end_at_the_size_take_nothing_that_wraps_where_the_index_is_not_negative(index, stored, found):
    pid = "%pid: i32 = program_id {axis = 0}" if index == "program_id" else "%pid: i32 = add %n, %n"
    size = "%size: i32 = constant {value = 8} %zero: i64 = constant {value = 0}"
    body = f"kernel @k(%n: i32) {{ {pid} {size} {MODULO} yield }}"
    values = {v.hint: v for op in parse_function(body).walk() for v in op.results}
    assert ends_before_wrap(values[stored], values["extent"]) is found
