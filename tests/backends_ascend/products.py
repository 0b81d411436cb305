"""A matrix product of whole arrays as Block IR, and the machinery to run it on the simulated device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Item, Let, Loop, Param, Scalar, View, fold
from pypto.backends.ascend.cube.moves import LAST, Pitch, load_l1, store_result
from pypto.backends.ascend.cube.product import Product
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.backends.ascend.tile.fractals import Blocking, Side
from pypto.ir.types import DType, int32, int64

B2 = ascend_target("ascend910b2")


@dataclass(frozen=True)
class Matmul:
    """C = A B, where A may be stored as (K, M) and B as (N, K)."""

    m: int
    n: int
    k: int
    dtype: DType
    out: DType
    blocking: Blocking
    turned_a: bool = False
    turned_b: bool = False
    unit_flag: bool = False
    target: AscendTarget = B2

    def kernel(self) -> BlockKernel:
        b = self.blocking
        a, other, c = Param("a", self.dtype, True), Param("b", self.dtype, True), Param("c", self.out, True)
        product = Product.of(*(Side(self.dtype, left, turned, self.target) for left, turned in
                               ((True, self.turned_a), (False, not self.turned_b))), b)  # fmt: skip
        across = -(-self.n // b.n)
        body = tuple(self.tile(product, a, other, c))
        i, j = fold("*", fold("//", "pid", across), b.m), fold("*", fold("%", "pid", across), b.n)
        programs = -(-self.m // b.m) * across
        pids = Loop("pid", "block", programs, "blocks", (Let("i", int64, i), Let("j", int64, j), *body))
        return BlockKernel("k", "cube", (a, other, c), product.buffers, (), (pids,))

    def tile(self, product: Product, a: Param, other: Param, c: Param) -> Iterator[Item]:
        b = self.blocking
        yield Let("rows", int32, Expr("int32", (fold("min", b.m, fold("-", self.m, "i")),)))
        yield Let("cols", int32, Expr("int32", (fold("min", b.n, fold("-", self.n, "j")),)))
        m, n = product.rounded("rows", "cols")
        yield Let("m", int32, m)
        yield Let("n", int32, n)
        turn = fold("//", "k", b.depth)
        panels = product.panels(fold("%", turn, 2))
        pitches = self.m if self.turned_a else self.k, self.k if self.turned_b else self.n
        where = (("k", "i") if self.turned_a else ("i", "k"), ("j", "k") if self.turned_b else ("k", "j"))
        places = [fold("+", fold("*", row, pitch), col) for (row, col), pitch in zip(where, pitches, strict=True)]
        deep: Scalar = "deep"
        loop: list[Item] = [Let("deep", int32, Expr("int32", (fold("min", b.depth, fold("-", self.k, "k")),)))]
        if self.k % b.depth == 0:
            loop, deep = [], b.depth
        for panel, source, place, size, pitch in zip(
            panels, (a, other), places, ("rows", "cols"), pitches, strict=True
        ):
            loop += load_l1(panel, View(source, place), size, deep, Pitch(pitch, pitch), 1)
        first, last = fold("==", "k", 0), fold("==", "k", (self.k - 1) // b.depth * b.depth)
        loop += product.emit_panels(panels, ("m", "n", deep), first, last if self.unit_flag else None, turn, 2)
        yield Loop("k", 0, self.k, b.depth, tuple(loop))
        place = fold("+", fold("*", "i", self.n), "j")
        yield from store_result(View(product.sums), View(c, place), ("rows", "cols"), "m", Pitch(self.n, self.n),
                   LAST if self.unit_flag else 0, 3)  # fmt: skip


def whole(kernel: BlockKernel, target: AscendTarget = B2) -> BlockKernel:
    """With addresses, events and barriers."""
    return sync(allocate(kernel, target), target)
