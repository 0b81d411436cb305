"""The published ways to multiply two matrices of 8192 x 8192 half, as Block IR by hand, against the model.

`python -m tests.backends_ascend.product_ladder` prints the table. The figures are those of asc-devkit's two guides:
nine versions by the high-level interface, and two by the basic one, all on a 910B1 with 24 cube cores.

The published profiles of the first four say that copies into L1 and out of it take turns (MTE2 and MTE1 are busy for 98
to 99 % of the time between them), so they have one buffer in L1 that is filled whole and emptied whole. The scalar
unit's work, which the high-level interface has much of, is not here: where it is all that changes (constant tiling),
the prediction stays what it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    Expr,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Scalar,
    View,
    Word,
    fold,
)
from pypto.backends.ascend.cube.layout import Panel, round_up
from pypto.backends.ascend.cube.moves import LAST, MORE, Pitch, load_l0, load_l1, mmad, store_result
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.tile.fractals import Side
from pypto.backends.ascend.timing.prediction import Prediction, predict
from pypto.ir.types import float16, float32, int32

N = 8192
CHIP = ascend_target("ascend910b1")
A, B, C = (Param(name, float16, True) for name in "abc")
LEFT, RIGHT = Side(float16, True, False, CHIP), Side(float16, False, True, CHIP)


@dataclass(frozen=True)
class Version:
    """A way to multiply: what was published, in microseconds.

    `base` is M, N and K of one instruction; `part` is the part of the result that one of `cores` makes, in `rounds`
    pieces of the whole result's rows; `steps` are those of K that lie in L1 at once, of A and B, in `stages` buffers.
    """

    name: str
    published: float
    base: tuple[int, int, int] = (128, 256, 64)
    part: tuple[int, int] = (2048, 1536)
    cores: int = 24
    rounds: int = 1
    steps: tuple[int, int] = (8, 4)
    stages: int = 2
    unit_flag: bool = False
    size: int = N


LADDER = (
    Version("one core, 64 x 64 x 64", 759363.98, (64, 64, 64), (N, N), 1, steps=(1, 1), stages=1),
    Version("one core, 128 x 256 x 64", 249467.08, part=(N, N), cores=1, steps=(1, 1), stages=1),
    Version("24 cores, 2 by 12", 12541.22, part=(4096, 683), steps=(1, 1), stages=1),
    Version("24 cores, 4 by 6", 12283.84, steps=(1, 1), stages=1),
    Version("large copies, two buffers", 5039.86, steps=(2, 2)),
    Version("all of L1", 4156.76),
    Version("half of A at a time", 4088.36, rounds=2),
    Version("constant tiling", 4053.44, rounds=2),
    Version("unit flags", 4012.44, rounds=2, unit_flag=True),
    Version("basic interface", 4121.16, unit_flag=True),
    Version("basic interface, half of A at a time", 4081.64, rounds=2, unit_flag=True),
)


@dataclass(frozen=True)
class Memories:
    """The buffers of a version: operands in L1, in L0, and the sums."""

    a1: Buffer
    b1: Buffer
    a2: Buffer
    b2: Buffer
    sums: Buffer

    @staticmethod
    def of(v: Version) -> Memories:
        m, n, k = v.base
        size = m * k * v.steps[0], n * k * v.steps[1]
        a1 = Buffer("a1", "L1", float16, size[0], v.stages, 0, layout="NZ")
        b1 = Buffer("b1", "L1", float16, size[1], v.stages, 2 * v.stages * size[0], layout="NZ")
        a2, b2 = (
            Buffer(t, space, float16, x * k, 2, 0, layout=CHIP.layout(space))
            for t, space, x in (("a2", "L0A", m), ("b2", "L0B", n))
        )
        return Memories(a1, b1, a2, b2, Buffer("sums", "L0C", float32, m * n, 1, 0, layout="NZ"))

    @property
    def all(self) -> tuple[Buffer, ...]:
        return self.a1, self.b1, self.a2, self.b2, self.sums


def kernel(v: Version) -> BlockKernel:
    """Each core goes over its part of each piece, tile by tile; events are what the tiles need."""
    (m, n, _), memory = v.base, Memories.of(v)
    piece, rows = v.size // v.rounds, v.part[0] // v.rounds
    down = piece // rows
    start_i = fold("+", fold("*", "piece", piece), fold("*", fold("%", "core", down), rows))
    start_j = fold("*", fold("//", "core", down), v.part[1])
    tile = (
        Let("cols", int32, Expr("int32", (fold("min", n, fold("-", "end", "j")),)), 1),
        Let("n", int32, round_up("cols", 16), 1),
        *chunks(v, memory),
        *store_result(
            View(memory.sums),
            View(C, fold("+", fold("*", "i", v.size), "j")),
            (m, "cols"),
            m,
            Pitch(v.size, v.size),
            LAST if v.unit_flag else 0,
            4,
        ),
    )
    columns = Loop("j", start_j, "end", n, tile, 1)
    body = (
        Let("end", int32, Expr("int32", (fold("min", v.size, fold("+", start_j, v.part[1])),)), 1),
        Loop("i", start_i, fold("+", start_i, rows), m, (columns,), 1),
    )
    pieces = Loop("piece", 0, v.rounds, 1, body, 1, int32)
    cores = Loop("core", "block", v.cores, "blocks", (pieces,), 1)
    return BlockKernel("k", "cube", (A, B, C), memory.all, (), (cores,), file="ladder")


def chunks(v: Version, memory: Memories) -> Iterator[Item]:
    """All of K: the longer of the two operands' panels once a round, the other one as often as it needs."""
    m, _, k = v.base
    most = max(v.steps)
    turn = fold("//", "k", most * k)
    body: list[Item] = []
    for step in range(most):
        at_k = fold("+", "k", step * k)
        places = fold("+", fold("*", "i", v.size), at_k), fold("+", fold("*", at_k, v.size), "j")
        panels = panels_of(v, memory, turn, step)
        for i, (source, outer) in enumerate(((A, m), (B, "cols"))):
            if step % v.steps[i] == 0:
                deep = v.steps[i] * k
                body += load_l1(panels[i], View(source, places[i]), outer, deep, Pitch(v.size, v.size), 2)
        body += products(v, memory, turn, step)
    yield Loop("k", 0, v.size, most * k, tuple(body), 2)


def panels_of(v: Version, memory: Memories, turn: Scalar, step: int) -> list[Panel]:
    """Where in L1 a step's operands are."""
    made = []
    for i, (side, buffer) in enumerate(((LEFT, memory.a1), (RIGHT, memory.b1))):
        each = max(v.steps) // v.steps[i]
        stage = fold("%", fold("+", fold("*", turn, each), step // v.steps[i]), v.stages)
        made.append(Panel(side, View(buffer, stage=stage), v.base[i], v.steps[i] * v.base[2]))
    return made


def products(v: Version, memory: Memories, turn: Scalar, step: int) -> Iterator[Item]:
    m, _, k = v.base
    level0 = fold("%", fold("+", fold("*", turn, max(v.steps)), step), 2)
    to = View(memory.a2, stage=level0), View(memory.b2, stage=level0)
    for i, panel in enumerate(panels_of(v, memory, turn, step)):
        yield from load_l0(panel, to[i], step % v.steps[i] * k, "n" if i else m, k, 3)
    first = fold("==", "k", 0) if step == 0 else False
    is_last = step == max(v.steps) - 1
    last = Expr("?:", (Expr("==", ("k", v.size - max(v.steps) * k)), LAST, MORE)) if is_last else MORE
    yield mmad(View(memory.sums), *to, (m, "n", k), first, last if v.unit_flag else 0, False, 3)


def event(name: str, kind: str) -> Instr:
    """One that `sync` does not use: it begins with number 0."""
    return Instr(name, (Word(kind), 5), 2)


def in_turns(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """With all loads of a round after all its copies into L1, and all copies of the next one after these."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Loop) and item.name == "k":
            first = next(i for i, x in enumerate(item.body) if isinstance(x, Instr) and x.name == "LoadData")
            turns = [event(name, kind) for kind in ("MTE1_MTE2", "MTE2_MTE1") for name in ("WaitFlag", "SetFlag")]
            body = (turns[0], *item.body[:first], turns[3], turns[2], *item.body[first:], turns[1])
            made += [turns[1], replace(item, body=body), turns[0]]
        else:
            made.append(replace(item, body=in_turns(item.body)) if isinstance(item, Loop) else item)
    return tuple(made)


def whole(v: Version) -> BlockKernel:
    made = sync(kernel(v), CHIP)
    return made if v.stages > 1 else replace(made, cube_body=in_turns(made.cube_body))


def predicted(v: Version) -> Prediction:
    return predict(whole(v), CHIP, {}, (v.cores, 1, 1), v.cores)


if __name__ == "__main__":
    for v in LADDER:
        found = predicted(v)
        us = 1e6 * found.seconds
        print(f"{v.name:40} {v.published:12.1f} µs published {us:12.1f} µs {us / v.published - 1:+.1%}  {found.limit}")
