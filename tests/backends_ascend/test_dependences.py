"""What is known of numbers, and of where items touch memory."""

from __future__ import annotations

import pytest

from pypto.backends.ascend.block.dependences import AccessAnalysis, AliasAnalysis
from pypto.backends.ascend.blockir.affine import AffineExpr, affine_of, is_natural, upper_bound
from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Instr, Let, Loop, Scalar, View
from pypto.ir.types import int64
from tests.backends_ascend.kernels import X, load, ub

COUNT = Expr("max", (Expr("min", (Expr("-", ("n", "t")), 24)), 0))

MOST: dict[str, tuple[Scalar, int | None]] = {
    "a constant": (7, 7),
    "a name": ("n", None),
    "a smaller one": (Expr("min", (Expr("-", ("n", 3)), 24)), 24),
    "what exists": (COUNT, 24),
    "bytes of it": (Expr("*", (COUNT, 4)), 96),
    "bytes of what may be negative": (Expr("*", (Expr("min", ("n", 24)), 4)), None),
    "what is left": (Expr("-", (64, Expr("*", (COUNT, 2)))), 64),
    "blocks of it": (Expr("//", (Expr("+", (COUNT, 7)), 8)), 3),
    "a remainder": (Expr("%", ("n", 8)), 7),
    "widened": (Expr("int64", (COUNT,)), 24),
    "a difference to a name": (Expr("-", (64, "n")), None),
}


@pytest.mark.parametrize("what", MOST)
def test_bounds(what: str) -> None:
    value, bound = MOST[what]
    assert upper_bound(value) == bound


def test_numbers_that_are_not_negative() -> None:
    assert is_natural(COUNT) and is_natural(Expr("%", (COUNT, 8)))
    assert not is_natural("n") and not is_natural(Expr("-", (8, COUNT)))


def test_sums() -> None:
    value = Expr("+", (Expr("*", (Expr("-", ("i", 2)), 8)), Expr("int64", ("j",))))
    assert affine_of(value) == AffineExpr(-16, (("i", 8), ("j", 1)))
    assert affine_of(Expr("*", ("i", "j"))) == AffineExpr(0, ((Expr("*", ("i", "j")), 1),))
    assert affine_of(1.5) is None


A = ub("a", 1024)


def touches(*items: Instr | Loop | Let) -> list[tuple[int | None, int | None]]:
    """Begin and bytes of the writes of the last of some items."""
    reader = AccessAnalysis.of(BlockKernel("k", "vector", (X,), (A,), items))
    found = [t for item in items for t in reader.accesses(item)]
    return [(t.start.constant if t.start else None, t.bytes) for t in found if t.writes]


def filled(at: Scalar, count: Scalar = 16) -> Instr:
    return Instr("Duplicate", (View(A, at), 0.0, count))


def test_loops_touch_all_that_their_iterations_do() -> None:
    row = filled(Expr("+", (Expr("*", ("r", 32)), 8)))
    assert touches(Loop("r", 0, 4, 1, (row,))) == [(32, 3 * 128 + 64)]
    assert touches(Loop("r", 1, 4, 2, (row,))) == [(160, 256 + 64)]
    assert touches(Loop("r", 0, Expr("min", ("n", 4)), 1, (row,))) == [(32, 3 * 128 + 64)]
    assert touches(Loop("r", 0, "n", 1, (row,))) == [(None, None)]
    assert touches(Loop("r", 0, 4, 1, (filled(Expr("*", ("r", "r"))),))) == [(None, None)]


def test_names_stand_for_what_they_are() -> None:
    let = Let("at", int64, Expr("*", ("r", 32)))
    assert touches(Loop("r", 0, 2, 1, (let, filled("at")))) == [(0, 128 + 64)]


def test_names_that_stand_for_too_much_are_left_alone() -> None:
    """Each name twice in the next one: written out, the last would be of a million parts."""
    lets = [Let("n0", int64, "r"), *(Let(f"n{i}", int64, Expr("+", (f"n{i - 1}", f"n{i - 1}"))) for i in range(1, 20))]
    meanings = AccessAnalysis.of(BlockKernel("k", "vector", (X,), (A,), tuple(lets))).definitions
    assert "n3" in meanings and "n5" not in meanings
    assert all(len(str(meanings[name])) < 200 for name in meanings)


def test_copies_end_with_their_last_row() -> None:
    assert touches(load(View(A), View(X), 5)) == [(0, 32)]
    assert touches(load(View(A, 64), View(X), COUNT)) == [(256, 96)]


def test_rows_that_move_away_never_meet_again() -> None:
    row = Loop("r", 0, 2, 1, (filled(Expr("+", (Expr("*", ("i", 64)), Expr("*", ("r", 32))))),))
    loop = Loop("i", 0, 8, 1, (row,))
    (touch,) = AccessAnalysis.of(BlockKernel("k", "vector", (X,), (A,), (loop,))).accesses(row)
    assert AliasAnalysis(True).dependence_distance(touch, touch, loop, frozenset()) is None
    wider = Loop("i", 0, 8, 1, (Loop("r", 0, 3, 1, row.body),))
    (touch,) = AccessAnalysis.of(BlockKernel("k", "vector", (X,), (A,), (wider,))).accesses(wider.body[0])
    assert AliasAnalysis(True).dependence_distance(touch, touch, wider, frozenset()) == 1
