"""Block IR by hand: kernels that several tests plan, synchronise, verify, print and run."""

from __future__ import annotations

from dataclasses import replace

from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Read,
    Record,
    Scalar,
    View,
    Word,
    fold,
)
from pypto.backends.ascend.blockir.rewrite import with_buffers
from pypto.ir.types import DType, float32, int32, int64

TILE = 2048
X, Y = Param("x", float32, True), Param("y", float32, True)
N = Param("n", int32, False)


def ub(name: str, elements: int = TILE, stages: int = 1, dtype: DType = float32) -> Buffer:
    return Buffer(name, "UB", dtype, elements, stages)


def load(to: View, source: View, count: Scalar, line: int = 0) -> Instr:
    """So many float32 elements from GM."""
    sizes = Record((1, fold("*", count, 4), 0, 0, 0))
    return Instr("DataCopyPad", (to, source, sizes, Record((False, 0, 0, 0.0))), line)


def store(to: View, source: View, count: Scalar, line: int = 0) -> Instr:
    return Instr("DataCopyPad", (to, source, Record((1, fold("*", count, 4), 0, 0, 0))), line)


def over_tiles(*body: Item, dtype: DType = int64) -> Loop:
    tiles = Expr("//", (Expr("+", ("n", TILE - 1)), TILE))
    count = Let("count", int64, Expr("min", (TILE, Expr("-", ("n", Expr("*", ("i", TILE)))))))
    return Loop("i", "block", tiles, "blocks", (count, *body), dtype=dtype)


def scaled(stages: int = 2) -> BlockKernel:
    """y = exp(x) * 2, tile by tile."""
    a, b = ub("a", stages=stages), ub("b", stages=stages)
    stage = fold("%", fold("//", "i", "blocks"), stages) if stages > 1 else 0
    at: Scalar = Expr("*", ("i", TILE))
    body = over_tiles(
        load(View(a, 0, stage), View(X, at), "count", 7),
        Instr("Exp", (View(b, 0, stage), View(a, 0, stage), TILE), 8),
        Instr("Muls", (View(b, 0, stage), View(b, 0, stage), 2.0, TILE), 8),
        store(View(Y, at), View(b, 0, stage), "count", 9),
    )
    return BlockKernel("scaled", "vector", (X, Y, N), (a, b), (body,), file="/home/user/scaled.py")


def summed(tiles: int = 5) -> BlockKernel:
    """y[:64] = the sum over tiles of x, kept in one buffer; below zero it is negated."""
    a, total = ub("a", 64, stages=2), ub("total", 64)
    turn: Scalar = Expr("%", ("i", 2))
    loop = Loop(
        "i", 0, tiles, 1,
        (
            load(View(a, 0, turn), View(X, Expr("*", ("i", 64))), 64, 4),
            Instr("Add", (View(total), View(total), View(a, 0, turn), 64), 5),
        ),
    )  # fmt: skip
    body = (
        Instr("Duplicate", (View(total), 0.0, 64), 3),
        loop,
        If(Expr("<", (Read(View(total)), 0.0)), (Instr("Muls", (View(total), View(total), -1.0, 64), 7),), line=6),
        store(View(Y), View(total), 64, 8),
    )
    return BlockKernel("summed", "vector", (X, Y), (a, total), (Loop("p", "block", 1, "blocks", body),))


def with_addresses(kernel: BlockKernel) -> BlockKernel:
    """One buffer after the other, for tests that plan nothing."""
    at, buffers = 0, {}
    for buffer in kernel.buffers:
        buffers[buffer.name] = replace(buffer, address=at)
        at += buffer.bytes
    return with_buffers(kernel, buffers)


def event(name: str, text: str, number: Scalar = 0) -> Instr:
    return Instr(name, (Word(text), number))
