# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Products by ragged groups for chips whose cores share L2: the order of tiles decides who reads weights from memory.

Programs that run at the same time are neighbours in the order. The first tile of every group comes first: then all
cores read weights from memory, none of them twice. Further tiles of a group find its weights in L2. Groups go in waves,
whose weights L2 holds.
"""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty

BM, BN, BK = 128, 256, 256
WAVE = 2  # part of L2 that the weights of a wave take: one half


@pto.jit
def tiles_kernel(ends, tiles, used, E: pto.constexpr, WAVE: pto.constexpr, BM: pto.constexpr):
    """A group's tiles at their places: the group, the first row, and where the group ends.

    Before tile n of a group come all tiles of earlier waves, up to n tiles of each group of its wave, and one more of
    groups before it.
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
    """A tile of a group, and some columns; a tile that no group has adds up nothing, and stores no row."""
    tile, j = pto.program_id(0) // COLUMNS, pto.program_id(0) % COLUMNS * BN
    exists = tile < used[0]
    depth = pto.where(exists, x.shape[1], 0)
    e, i = pto.where(exists, tiles[tile, 0], 0), pto.where(exists, tiles[tile, 1], 0)
    stop = pto.where(exists, tiles[tile, 2], 0)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, depth, BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], w[e, k : k + BK, j : j + BN], acc)
    rows, columns = i + pto.arange(0, BM), j + pto.arange(0, BN)
    inside = (rows < stop)[:, None] & (columns < y.shape[1])[None, :]
    pto.store(y + rows[:, None] * y.strides[0] + columns[None, :], acc.to(y.dtype), mask=inside)


def grouped_matmul(x, w, ends, y):
    """Rows up to ends[0] times w[0], those up to ends[1] times w[1], and so on."""
    experts, depth, n = w.shape
    count, columns = pto.cdiv(x.shape[0], BM) + experts, pto.cdiv(n, BN)
    wave = max(1, pto.target.l2_bytes // WAVE // (depth * n * x.dtype.itemsize))
    tiles, used = empty(x, (count, 3), int32), empty(x, (1,), int32)
    tiles_kernel[(experts,)](ends, tiles, used, E=experts, WAVE=min(wave, experts), BM=BM)
    grouped_kernel[(count * columns,)](x, w, tiles, used, y, COLUMNS=columns, BM=BM, BN=BN, BK=BK)
