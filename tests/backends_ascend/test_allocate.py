"""Addresses: what is alive is apart, operands lie in different banks, and no room is an error that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.bank_conflicts import read_conflicts_with_write, reads_conflict
from pypto.backends.ascend.block.liveness import live_ranges
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Expr, If, Instr, Item, Loop, View
from pypto.backends.ascend.target import ascend_target
from pypto.errors.ascend import NoRoomOnAscend
from pypto.ir.types import float16, float32
from tests.backends_ascend.kernels import scaled, summed, ub

B2 = ascend_target("ascend910b2")
KB = 1024


def fill(b: Buffer, line: int = 0) -> Instr:
    return Instr("Duplicate", (View(b), 0.0, b.elements), line)


def exp(to: Buffer, source: Buffer, line: int = 0) -> Instr:
    return Instr("Exp", (View(to), View(source), to.elements), line)


def kernel(buffers: tuple[Buffer, ...], *body: Item) -> BlockKernel:
    return BlockKernel("k", "vector", (), buffers, body, file="k.py")


def places(k: BlockKernel) -> dict[str, int]:
    found = {b.name: b.address for b in allocate(k, B2).buffers}
    assert None not in found.values()
    return {name: at for name, at in found.items() if at is not None}


def big(name: str, kilobytes: int) -> Buffer:
    return ub(name, kilobytes * KB // 4)


def test_buffers_stay_apart_while_there_is_room() -> None:
    a, b, c = (ub(x, 64) for x in "abc")
    found = places(kernel((a, b, c), fill(a), exp(b, a), exp(c, b)))
    assert len(set(found.values())) == 3


def test_the_dead_give_room() -> None:
    a, b, c = (big(x, 80) for x in "abc")
    found = places(kernel((a, b, c), fill(a), exp(b, a), exp(c, b)))
    assert found["a"] == found["c"] != found["b"]


def test_what_a_loop_reads_from_before_lives_through_it() -> None:
    a, b, c = (big(x, 80) for x in "abc")
    body = (fill(c), exp(b, a))  # `a` comes from before the loop: the next iteration needs it too
    with pytest.raises(NoRoomOnAscend):
        allocate(kernel((a, b, c), fill(a), Loop("i", 0, 4, 1, (*body, exp(c, b)))), B2)


def test_what_an_iteration_makes_dies_in_it() -> None:
    a, b, c = (big(x, 80) for x in "abc")
    found = places(kernel((a, b, c), Loop("i", 0, 4, 1, (fill(a), exp(b, a), exp(c, b)))))
    assert found["a"] == found["c"]


def test_what_iterations_fill_part_by_part_lives_through_the_loop() -> None:
    a, b = big("a", 80), big("b", 80)
    inside = Instr("Exp", (View(b, Expr("*", ("i", 64))), View(a), 64))
    lived = live_ranges((Loop("i", 0, 4, 1, (fill(a), inside)), fill(a), exp(a, b)))
    assert lived["b"].first < lived["a"].last
    assert lived["b"].first <= 1, "the first part is there while `a` is filled for the second one"


def test_what_is_written_under_a_condition_lives_through_the_loop() -> None:
    a, b, c = (big(x, 80) for x in "abc")
    body = (If("p", (fill(a),)), exp(b, a), exp(c, b))
    with pytest.raises(NoRoomOnAscend):
        allocate(kernel((a, b, c), Loop("i", 0, 4, 1, body)), B2)


def test_double_buffers_are_given_up_before_the_kernel_is() -> None:
    k = scaled()
    wide = {b.name: replace(b, elements=20 * KB) for b in k.buffers}
    from pypto.backends.ascend.blockir.rewrite import with_buffers

    made = allocate(with_buffers(k, wide), B2)
    assert [b.stages for b in made.buffers] == [1, 1]
    assert [b.stages for b in allocate(k, B2).buffers] == [2, 2]


def test_no_room_says_where_how_much_and_what_to_do() -> None:
    a, b = big("a", 120), big("rows", 130)
    with pytest.raises(NoRoomOnAscend) as caught:
        allocate(kernel((a, b), fill(a, 3), exp(b, a, 4)), B2)
    text = str(caught.value)
    assert "k.py:4:1" in text
    assert "need 256,000 bytes of UB, and ascend910b2 has 188,160" in text
    assert "blocks of at most 73 % of these sizes fit; rows takes most, 133,120 bytes" in text


def test_operands_lie_in_different_banks() -> None:
    a, b, c = (ub(x, 2048) for x in "abc")
    found = places(kernel((a, b, c), fill(a), fill(b), Instr("Add", (View(c), View(a), View(b), 2048))))
    assert not reads_conflict(found["a"], found["b"])
    assert not read_conflicts_with_write(found["a"], found["c"])
    assert not read_conflicts_with_write(found["b"], found["c"])


def test_alignment_of_the_cube_memories() -> None:
    names = {"L1": 32, "L0A": 512, "L0B": 512, "L0C": 1024, "BT": 64}
    buffers = tuple(
        Buffer(f"{s}{i}", s, float16, 16 * 16 + 16 * i, 1) for s in names for i in range(2 if s != "BT" else 1)
    )
    body = tuple(Instr("SetValue", (View(b), 0.0)) for b in buffers)
    for b in allocate(BlockKernel("k", "cube", (), buffers, (), body), B2).buffers:
        assert b.address is not None and b.address % names[b.space] == 0


def test_what_nothing_touches_is_gone() -> None:
    a, b = ub("a"), ub("b")
    assert [x.name for x in allocate(kernel((a, b), fill(a)), B2).buffers] == ["a"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_lives_at_the_same_time_is_apart(data: st.DataObject) -> None:
    buffers = tuple(ub(f"b{i}", data.draw(st.integers(1, 12000)), dtype=float32) for i in range(8))
    some = st.sampled_from(buffers)

    def items(depth: int) -> tuple[Item, ...]:
        found: list[Item] = []
        for _ in range(data.draw(st.integers(1, 4))):
            what = data.draw(st.integers(0, 5 if depth < 3 else 3))
            if what < 4:
                found.append(exp(data.draw(some), data.draw(some)) if what else fill(data.draw(some)))
            else:
                inside = items(depth + 1)
                found.append(Loop(f"i{depth}", 0, 3, 1, inside) if what == 4 else If("p", inside))
        return tuple(found)

    k = kernel(buffers, *items(0))
    alive = live_ranges(k.body)
    try:
        made = allocate(k, B2)
    except NoRoomOnAscend:
        return
    for a in made.buffers:
        for b in made.buffers:
            apart = a.address is None or b.address is None or a.address + a.bytes <= b.address
            apart = apart or (a.address is not None and b.address is not None and b.address + b.bytes <= a.address)
            assert a.name == b.name or apart or not alive[a.name].overlaps(alive[b.name])


def test_the_same_kernel_gets_the_same_places() -> None:
    assert allocate(summed(), B2) == allocate(summed(), B2)
