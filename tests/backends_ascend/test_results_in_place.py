"""Results in the place of operands, what only a branch needs, and pieces of one operand that do not meet."""

from __future__ import annotations

from dataclasses import replace

from pypto.backends.ascend.block.in_place import reuse_in_place
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.liveness import loop_carried_buffers
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, If, Instr, Item, Loop, Record, View
from pypto.backends.ascend.target import ascend_target
from tests.backends_ascend.kernels import ub

A, B, C, TOTAL = (ub(name, 1024) for name in ("a", "b", "c", "total"))


def fill(to: Buffer) -> Instr:
    return Instr("Duplicate", (View(to), 0.0, to.elements))


def exp(to: Buffer, source: Buffer) -> Instr:
    return Instr("Exp", (View(to), View(source), 1024))


def two(name: str, to: Buffer, a: Buffer, b: Buffer) -> Instr:
    return Instr(name, (View(to), View(a), View(b), 1024))


def piece(at: int, to: Buffer = B, source: Buffer = A) -> Instr:
    """64 of 128 columns in each of 8 rows."""
    views = View(to, at), View(source, at), View(C)
    return Instr("Sub", (*views, 64, 8, Record((1, 1, 0, 16, 16, 1))))


def names(*body: Item) -> set[str]:
    kernel = BlockKernel("k", "vector", (), (A, B, C, TOTAL), body)
    return {b.name for b in reuse_in_place(kernel).buffers}


def test_an_operand_that_nothing_else_needs_gives_its_place() -> None:
    assert names(fill(A), exp(B, A), exp(TOTAL, B)) == {"a", "c"}
    assert "b" in names(fill(A), exp(B, A), two("Add", TOTAL, A, B))
    assert "b" not in names(fill(A), fill(C), piece(0), piece(64), two("Add", TOTAL, B, C))
    assert "b" in names(fill(A), fill(C), piece(0), piece(64), two("Add", TOTAL, B, A))


def test_what_goes_back_where_it_came_from() -> None:
    """`b = total * c; total = a + b` in a loop, which reads `total` from the round before."""

    def looped(*body: Item) -> set[str]:
        return names(fill(TOTAL), fill(C), Loop("i", 0, 4, 1, (fill(A), *body)))

    assert "b" not in looped(two("Mul", B, TOTAL, C), two("Add", TOTAL, A, B))
    assert "b" in looped(two("Mul", B, TOTAL, C), two("Add", A, A, TOTAL), two("Add", TOTAL, A, B))
    assert "b" in looped(two("Mul", B, TOTAL, C), two("Add", A, A, B))


def test_what_only_one_side_of_a_branch_touches_lives_there() -> None:
    inside = If("n", (fill(A), exp(B, A)))
    assert loop_carried_buffers((Loop("i", 0, 4, 1, (inside,)),)) == frozenset()
    assert loop_carried_buffers((Loop("i", 0, 4, 1, (inside, exp(C, B))),)) == {"b"}


def test_pieces_of_rows_need_no_barrier() -> None:
    def barriers(*body: Instr) -> int:
        buffers = tuple(replace(b, address=4096 * i) for i, b in enumerate((A, B, C)))
        by_name = {b.name: b for b in buffers}
        placed = tuple(
            replace(x, args=tuple(replace(a, of=by_name[a.of.name]) if isinstance(a, View) else a for a in x.args))
            for x in body
        )
        made = sync(BlockKernel("k", "vector", (), buffers, placed), ascend_target("ascend910b2"))
        return sum(x.name == "PipeBarrier" for x in made.body if isinstance(x, Instr))

    apart, overlapping = (piece(0, A), piece(64, A)), (piece(0, A), piece(32, A))
    assert barriers(*apart) == 0
    assert barriers(*overlapping) == 1
