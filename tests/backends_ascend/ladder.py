"""The published ways to add two arrays of 8192 x 8192 half, as Block IR by hand, against the model.

`python -m tests.backends_ascend.ladder` prints the table. The figures are those of the documentation's optimisation
guide, all seven for A2 with 48 vector cores (on a 910B1) and all six for 950 with 64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    Expr,
    Instr,
    Item,
    Loop,
    Param,
    Read,
    Record,
    Scalar,
    View,
    Word,
    fold,
)
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.timing.prediction import Prediction, predict
from pypto.ir.types import float16

ELEMENTS = 8192 * 8192
PAD = Record((False, 0, 0, 0))


def event(name: str, kind: str, number: Scalar = 0) -> Instr:
    return Instr(name, (Word(kind), number), 1)


X, Y, Z = (Param(name, float16, True) for name in ("x", "y", "z"))


def kernel(body: tuple[Item, ...], buffers: tuple[Buffer, ...], streams: bool = False) -> BlockKernel:
    """As published, what is loaded passes L2 by, and what is stored does not."""
    return BlockKernel("add", "vector", (X, Y, Z), buffers, body, file="ladder", streams=("x", "y") if streams else ())


def tile_add(elements: int, stages: int = 1, streams: bool = False, apart: bool = False) -> BlockKernel:
    """Loads, adds and stores tiles; with `apart`, the operands lie in different banks."""
    size = 2 * elements * stages
    places = (0, size + 256, 2 * size + 65536 * (size < 32768)) if apart else (0, size, 2 * size)
    a, b, c = (Buffer(n, "UB", float16, elements, stages, at) for n, at in zip("abc", places, strict=True))
    turn = fold("%", fold("//", "i", "blocks"), stages) if stages > 1 else 0
    at = fold("*", "i", elements)
    shape = Record((1, 2 * elements, 0, 0, 0))

    def load(buffer: Buffer, of: Param) -> Instr:
        return Instr("DataCopyPad", (View(buffer, 0, turn), View(of, at), shape, PAD), 1)

    body: tuple[Item, ...] = (
        event("WaitFlag", "V_MTE2", turn), load(a, X), load(b, Y), event("SetFlag", "MTE2_V", turn),
        event("WaitFlag", "MTE2_V", turn), event("WaitFlag", "MTE3_V", turn),
        Instr("Add", (View(c, 0, turn), View(a, 0, turn), View(b, 0, turn), elements), 1),
        event("SetFlag", "V_MTE2", turn), event("SetFlag", "V_MTE3", turn), event("WaitFlag", "V_MTE3", turn),
        Instr("DataCopyPad", (View(Z, at), View(c, 0, turn), shape), 1), event("SetFlag", "MTE3_V", turn),
    )  # fmt: skip
    first = tuple(event("SetFlag", kind, n) for n in range(stages) for kind in ("V_MTE2", "MTE3_V"))
    last = tuple(event("WaitFlag", kind, n) for n in range(stages) for kind in ("V_MTE2", "MTE3_V"))
    loop = Loop("i", "block", ELEMENTS // elements, "blocks", body, 1)
    return kernel((*first, loop, *last), (a, b, c), streams)


def scalar_add() -> BlockKernel:
    """One element after the other, by the scalar unit, from tiles in UB."""
    a, b, c = (Buffer(n, "UB", float16, 4096, 1, 8192 * k) for k, n in enumerate("abc"))
    total = Expr("+", (Read(View(a, "j")), Read(View(b, "j"))))
    inner = Loop("j", 0, 4096, 1, (Instr("SetValue", (View(c, "j"), total), 1),), 1)
    return kernel((Loop("i", "block", ELEMENTS // 4096, "blocks", (inner,), 1),), (a, b, c))


@dataclass(frozen=True)
class Rung:
    """A version on a chip: what was published, in microseconds."""

    name: str
    published: float
    make: Callable[[], BlockKernel]
    blocks: int = 48
    chip: str = "ascend910b1"

    @property
    def label(self) -> str:
        return f"{self.chip.removeprefix('ascend')}, {self.name}"


LADDER = (
    Rung("scalar, one core", 1239689.1, scalar_add, 1),
    Rung("one core, 8 KB", 6909.6, lambda: tile_add(4096), 1),
    Rung("48 cores, 8 KB", 306.58, lambda: tile_add(4096)),
    Rung("32 KB", 268.5, lambda: tile_add(16384)),
    Rung("double buffer", 264.02, lambda: tile_add(16384, 2)),
    Rung("past L2", 187.68, lambda: tile_add(16384, 2, True)),
    Rung("banks apart", 184.52, lambda: tile_add(16256, 2, True, True)),
    Rung("scalar, one core", 1228475.4, scalar_add, 1, "ascend950"),
    Rung("one core, 8 KB", 8924.0, lambda: tile_add(4096), 1, "ascend950"),
    Rung("64 cores, 8 KB", 310.49, lambda: tile_add(4096), 64, "ascend950"),
    Rung("43 KB", 251.68, lambda: tile_add(21760), 64, "ascend950"),
    Rung("double buffer", 247.67, lambda: tile_add(21760, 2), 64, "ascend950"),
    Rung("past L2", 182.04, lambda: tile_add(21760, 2, True), 64, "ascend950"),
)


def predicted(rung: Rung) -> Prediction:
    return predict(rung.make(), ascend_target(rung.chip), {}, (rung.blocks, 1, 1), rung.blocks)


if __name__ == "__main__":
    for rung in LADDER:
        found = 1e6 * predicted(rung).seconds
        print(f"{rung.label:30} {rung.published:12.1f} µs published {found:12.1f} µs {found / rung.published - 1:+.1%}")
