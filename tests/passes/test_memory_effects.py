"""Which arrays a kernel reads and writes, and which accesses may overlap."""

import pytest

from pypto.passes.analysis.memory_effects import (
    is_load,
    is_never_written,
    is_same_access,
    may_alias,
    read_arrays,
    root,
    writes_memory,
    written_arrays,
    written_names,
)

COPY = """
    %p: ptr<f32> = array_ptr %x
    %q: ptr<f32> = array_ptr %y
    %to: ptr<f32> = addptr %q, %n
    %a: f32 = load %p
    store %to, %a
"""
CHOSEN = """
    %p: ptr<f32> = array_ptr %x
    %q: ptr<f32> = array_ptr %y
    %r: ptr<f32> = if %b { yield %p } { yield %q }
    store %r, %f
"""


def names(arrays):
    return {array and array.hint for array in arrays}


def test_address_arithmetic_keeps_the_array(make_kernel):
    function = make_kernel("""
        %p: ptr<f32> = array_ptr %x
        %1: tile<4xptr<f32>> = broadcast_to %p {shape = [4]}
        %2: tile<4xi32> = arange {end = 4, start = 0}
        %3: tile<4xptr<f32>> = addptr %1, %2
        %4: tile<2x2xptr<f32>> = reshape %3 {shape = [2, 2]}
        %5: tile<2x2xptr<f32>> = permute %4 {dims = [1, 0]}
        %6: tile<2x2xptr<i32>> = ptr_cast %5 {dtype = ptr<i32>}
    """)
    assert {root(op.results[0]).hint for op in function.walk() if op.results and op.result.tile.is_ptr} == {"x"}


def test_what_is_read_and_written(make_kernel):
    function = make_kernel(COPY)
    assert names(read_arrays(function)) == {"x"}
    assert names(written_arrays(function)) == written_names(function) == {"y"}


def test_a_choice_of_arrays_has_many_roots(make_kernel):
    function = make_kernel(CHOSEN)
    assert written_arrays(function) == {None}
    assert written_names(function) == {"x", "y"}


@pytest.mark.parametrize(("attributes", "alias"), [("", True), ("attributes {noalias = true}", False)])
def test_other_arrays_overlap_unless_the_launch_says_not(attributes, alias, make_kernel):
    function = make_kernel(COPY, attributes)
    (load,), (store,) = (list(filter(kind, function.walk())) for kind in (is_load, writes_memory))
    assert may_alias(function, load, load)
    assert may_alias(function, load, store) is alias
    x, y = (next(a for a in function.args if a.hint == name) for name in "xy")
    written = written_arrays(function)
    assert [is_never_written(function, array, written) for array in (x, y, None)] == [not alias, False, False]


def test_an_unknown_array_overlaps_all(make_kernel):
    load = "%p: ptr<f32> = array_ptr %x"
    function = make_kernel(CHOSEN.replace(load, load + COPY.splitlines()[4]), "attributes {noalias = true}")
    (read,), (store,) = (list(filter(kind, function.walk())) for kind in (is_load, writes_memory))
    assert may_alias(function, read, store)
    assert not is_never_written(function, root(read.operands[0]), written_arrays(function))


@pytest.mark.parametrize(("offset", "same"), [("%k", True), ("%one", False)])
def test_one_access_follows_another(offset, same, make_kernel):
    function = make_kernel(f"""
        %p: ptr<f32> = array_ptr %x
        %one: i64 = constant {{value = 1}}
        %a: tile<4xf32> = tile_load %p, %k, %one, %k {{masked = false, shape = [4]}}
        tile_store %p, {offset}, %one, %k, %a {{masked = false, shape = [4]}}
    """)
    (load,), (store,) = (list(filter(kind, function.walk())) for kind in (is_load, writes_memory))
    assert is_same_access(load, store) is same
