"""How dimensions of results come from those of operands, and which of a kernel's dimensions are one."""

import pytest

from pypto.ops.dims import Role
from pypto.ops.table import ROWS
from pypto.passes.analysis.dimensions import (
    dimension_classes,
    is_movement,
    relation_of,
    result_dims,
    source_dim,
    source_dims,
)

TILES = """
    %a: tile<4x8xf32> = undef
    %v: tile<8x16xf32> = undef
    %r: tile<1x8xf32> = undef
    %q: tile<4x8xi32> = undef
"""
# op, role of each dimension of its operands, and for each of its result the operands' dimensions
CASES = {
    "elementwise": ("%res: tile<4x8xf32> = mul %a, %a", [("a", "PP")], [["a0"], ["a1"]]),
    "permute": ("%res: tile<8x4xf32> = permute %a {dims = [1, 0]}", [("a", "PP")], [["a1"], ["a0"]]),
    "reduced": ("%res: tile<4xf32> = sum %a {axes = [1], keep_dims = false}", [("a", "PR")], [["a0"]]),
    "kept": ("%res: tile<1x8xf32> = max %a {axes = [0], keep_dims = true}", [("a", "RP")], [[], ["a1"]]),
    "index": ("%res: tile<8xi32> = argmax %a {axes = [0], keep_dims = false}", [("a", "RP")], [["a1"]]),
    "product": ("%res: tile<4x16xf32> = dot %a, %v", [("a", "PC"), ("v", "CP")], [["a0"], ["v1"]]),
    "scan": ("%res: tile<4x8xf32> = cumsum %a {axis = 1, reverse = false}", [("a", "PP")], [["a0"], ["a1"]]),
    "repeated": ("%res: tile<4x8xf32> = broadcast_to %r {shape = [4, 8]}", [("r", "FP")], [[], ["r1"]]),
    "split": ("%res: tile<2x2x8xf32> = reshape %a {shape = [2, 2, 8]}", [("a", "MP")], [[], [], ["a1"]]),
    "cut": (
        "%res: tile<4x2xf32> = slice %a {shape = [4, 2], starts = [0, 0], steps = [1, 4]}",
        [("a", "PM")],
        [["a0"], []],
    ),
    "gather": ("%res: tile<4x8xf32> = gather %a, %q {axis = 1}", [("a", "PM"), ("q", "PP")], [["q0", "a0"], ["q1"]]),
}
LETTERS = {"P": Role.PARALLEL, "R": Role.REDUCED, "C": Role.CONTRACTED, "M": Role.MIXED, "F": Role.FREE}
UNRELATED = {"assert_", "breakpoint_", "histogram", "print_"}


def function_with(make_kernel, text):
    function = make_kernel(TILES + text)
    return function.body.ops[-2], dict(zip("avrq", (op.result for op in function.body.ops), strict=False))


@pytest.mark.parametrize("name", CASES)
def test_relation_of_an_op(name, make_kernel):
    text, roles, sources = CASES[name]
    op, tiles = function_with(make_kernel, text)
    relation = relation_of(op)
    for tile, letters in roles:
        assert [relation.role((tiles[tile], d)) for d in range(len(letters))] == [LETTERS[x] for x in letters]
    names = {v: tile for tile, v in tiles.items()}
    found = [[f"{names[v]}{d}" for v, d in source_dims(op.result, i)] for i in range(len(op.result.shape))]
    assert found == sources


def test_every_row_says_what_its_dimensions_are():
    assert {row.name for row in ROWS if row.dims is None and not row.elementwise} == UNRELATED


def test_classes_go_through_loops(make_kernel):
    function = make_kernel("""
        %lo: i32 = constant {value = 0} %hi: i32 = constant {value = 8} %st: i32 = constant {value = 1}
        %a: tile<4x8xf32> = undef
        %z: tile<4xf32> = undef
        %res: tile<4xf32> = for %lo, %hi, %st, %z { (%i: i32, %s: tile<4xf32>)
          %p: tile<4xf32> = sum %a {axes = [1], keep_dims = false}
          %t: tile<4xf32> = add %s, %p
          yield %t
        }
        %w: tile<8xf32> = undef
    """)
    classes = dimension_classes(function)
    loop = next(op for op in function.walk() if op.name == "for")
    a, z = (op.result for op in function.body.ops[3:5])
    assert classes.root((a, 0)) == classes.root((z, 0)) == classes.root((loop.result, 0))
    assert classes.root((a, 0)) not in classes.pinned
    assert classes.root((a, 1)) in classes.pinned
    assert classes.dims_of(a, classes.root((z, 0))) == [0]


def test_a_dimension_is_followed_to_the_result(make_kernel):
    op, tiles = function_with(make_kernel, "%res: tile<4x16xf32> = dot %a, %v")
    found = [result_dims(op, tiles[tile], d) for tile in "av" for d in range(2)]
    assert found == [[(op.result, 0)], None, None, [(op.result, 1)]]


def test_both_operands_of_an_elementwise_op_are_followed(make_kernel):
    op, tiles = function_with(make_kernel, "%res: tile<4x8xi1> = eq %q, %q %sel: tile<4x8xf32> = where %res, %a, %a")
    assert source_dims(op.result, 1) == [(op.operands[0], 1), (tiles["a"], 1)]


@pytest.mark.parametrize(("shape", "dims"), [("4x1x8", [0, None, 1]), ("1x4x8", [None, 0, 1]), ("2x2x8", None)])
def test_unit_reshapes_only_move_dimensions(shape, dims, make_kernel):
    sizes = shape.replace("x", ", ")
    op, _ = function_with(make_kernel, f"%res: tile<{shape}xf32> = reshape %a {{shape = [{sizes}]}}")
    assert is_movement(op) == (dims is not None)
    if dims is not None:
        assert [source_dim(op.result, d) for d in range(3)] == dims
