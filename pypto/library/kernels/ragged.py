# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Grouped GEMM for chips whose cores share L2: the order of tiles keeps each weight's read from memory single.

Programs that run at the same time are adjacent in the order. The first tile of every group comes first, so that all
cores read different weights from memory. Further tiles of a group find its weights in L2. Groups are processed in
waves, and the weights of a wave fit into L2.
"""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty

BM, BN, BK = 128, 256, 256
WAVE = 2  # the weights of a wave take one half of L2


@pto.jit
def tiles_kernel(ends, tiles, used, E: pto.constexpr, WAVE: pto.constexpr, BM: pto.constexpr):
    """Stores each tile of a group at its place in the order: the group, the first row, and the group's end.

    Tile n of a group follows all tiles of earlier waves, up to n tiles of each group of its wave, and one more tile of
    each earlier group of its wave.
    """
    e, experts = pto.program_id(0), pto.arange(0, E)
    stop = ends[:]
    count = pto.cdiv(stop - pto.where(experts > 0, pto.gather(stop, pto.maximum(experts - 1, 0), 0), 0), BM)
    first = e // WAVE * WAVE
    wave = (experts >= first) & (experts < first + WAVE)
    earlier = pto.sum(pto.where(experts < first, count, 0))
    end = ends[e]
    start = 0
    if e > 0:
        start = ends[e - 1]
    if e == 0:
        used[0] = pto.sum(count)
    for n in range(pto.cdiv(end - start, BM)):
        most = n + (experts < e).to(pto.int32)
        at = earlier + pto.sum(pto.where(wave, pto.minimum(count, most), 0))
        tiles[at, 0] = e
        tiles[at, 1] = start + n * BM
        tiles[at, 2] = end


@pto.jit
def grouped_kernel(
    x, w, tiles, used, y, COLUMNS: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    """Computes some columns of a tile; a tile that belongs to no group runs no step and stores no row."""
    tile, j = pto.program_id(0) // COLUMNS, pto.program_id(0) % COLUMNS * BN
    exists = tile < used[0]
    depth = pto.where(exists, x.shape[1], 0)
    at = pto.where(exists, tile, 0)
    e, i = tiles[at, 0], tiles[at, 1]
    stop = pto.where(exists, tiles[at, 2], 0)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, depth, BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], w[e, k : k + BK, j : j + BN], acc)
    rows, columns = i + pto.arange(0, BM), j + pto.arange(0, BN)
    inside = (rows < stop)[:, None] & (columns < y.shape[1])[None, :]
    pto.store(y + rows[:, None] * y.strides[0] + columns[None, :], acc.to(y.dtype), mask=inside)


def grouped_matmul(x, w, ends, y):
    """Grouped GEMM: rows up to ends[0] times w[0], rows up to ends[1] times w[1], and so on."""
    experts, depth, n = w.shape
    count, columns = pto.cdiv(x.shape[0], BM) + experts, pto.cdiv(n, BN)
    wave = max(1, pto.target.l2_bytes // WAVE // (depth * n * x.dtype.itemsize))
    tiles, used = empty(x, (count, 3), int32), empty(x, (1,), int32)
    tiles_kernel[(experts,)](ends, tiles, used, E=experts, WAVE=min(wave, experts), BM=BM)
    grouped_kernel[(count * columns,)](x, w, tiles, used, y, COLUMNS=columns, BM=BM, BN=BN, BK=BK)
