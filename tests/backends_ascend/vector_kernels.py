"""Small kernels, each with one thing that a vector core does in its own way."""

from __future__ import annotations

import pypto as pto


@pto.jit
def add_large(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


@pto.jit
def rows_and_columns(x, w, out, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    t = x[i : i + BM, :]
    centred = t - pto.sum(t, axis=1, keep_dims=True) / x.shape[1]
    out[i : i + BM, :] = centred * w[:] + pto.max(t, axis=0, keep_dims=True)


@pto.jit
def softmax(x, out, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    t = x[i : i + BM, :]
    e = pto.exp(t - pto.max(t, axis=1, keep_dims=True))
    out[i : i + BM, :] = e / pto.sum(e, axis=1, keep_dims=True)


@pto.jit
def turned(x, out, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    out[j : j + BN, i : i + BM] = pto.trans(x[i : i + BM, j : j + BN])


@pto.jit
def gathered(table, index, out, BLOCK: pto.constexpr, COLS: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    inside = i < index.shape[0]
    row = pto.load(index + i, mask=inside, other=0)
    columns = pto.arange(0, COLS)
    t = pto.load(table + row[:, None] * COLS + columns[None, :], mask=inside[:, None])
    pto.store(out + i[:, None] * COLS + columns[None, :], t, mask=inside[:, None])


@pto.jit
def window(x, out, BLOCK: pto.constexpr):
    """The sum of each element and its neighbours; before the first one there is none."""
    i = pto.program_id(0) * BLOCK
    total = pto.zeros((BLOCK,), pto.float32)
    for k in range(3):
        j = i + pto.arange(0, BLOCK) + k - 1
        total += pto.load(x + j, mask=(j >= 0) & (j < x.shape[0]), other=0.0)
    out[i : i + BLOCK] = total


@pto.jit
def sorted_rows(x, out, counts, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    t = x[row, :]
    out[row, :] = pto.sort(t)
    counts[row, :] = pto.histogram(t, BLOCK)


@pto.jit
def best(x, place, running, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    t = x[i : i + BM, :]
    place[i : i + BM] = pto.argmax(t, axis=1)
    running[i : i + BM, :] = pto.cumsum(t, axis=1)


@pto.jit
def added_up(x, total, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    pto.atomic_add(total, pto.sum(x[i : i + BLOCK]))


@pto.jit
def halving(x, steps, BLOCK: pto.constexpr):
    """How often each program's largest number can be halved."""
    i = pto.program_id(0) * BLOCK
    left = pto.max(x[i : i + BLOCK])
    count = 0
    while left > 1.0:
        left = left * 0.5
        count += 1
    pto.store(steps + pto.program_id(0), count)


@pto.jit
def states(x, out, BLOCK: pto.constexpr):
    """Tiles that a loop carries and that change places."""
    i = pto.program_id(0) * BLOCK
    a, b = x[i : i + BLOCK], pto.zeros((BLOCK,), pto.float32)
    for k in range(5):
        if k % 2 == 0:
            a, b = b, a + b
        else:
            a = a - 1.0
    out[i : i + BLOCK] = a + 2 * b


@pto.jit
def product(a, b, c, out, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    t = pto.dot(a[i : i + BM, :], b[:, j : j + BN])
    t = t.to(pto.float32) + c[j : j + BN]
    out[i : i + BM, j : j + BN] = pto.where(t > 0, t, 0.0)


@pto.jit
def wide_integers(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    a, b = x[i : i + BLOCK], y[i : i + BLOCK]
    out[i : i + BLOCK] = pto.where(a > b, a * b - (a >> 3), a // b + (a % b) ^ b)


@pto.jit
def flags(x, out, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    t = x[i : i + BM, :]
    some = pto.max((t > 1.0).to(pto.int32), axis=1, keep_dims=True) > 0
    out[i : i + BM, :] = (t < 0.0) & some


@pto.jit
def integer_rows(x, sums, most, place, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    t = x[i : i + BM, :]
    sums[i : i + BM] = pto.sum(t ^ 1, axis=1)
    most[i : i + BM] = pto.max(t, axis=1)
    place[i : i + BM] = pto.argmin(t, axis=1)


@pto.jit
def summed_columns(x, total, most, BM: pto.constexpr):
    """Programs add their rows to one row."""
    i, columns = pto.program_id(0) * BM, pto.arange(0, 128)
    inside = columns < x.shape[1]
    t = x[i : i + BM, :]
    wide = pto.load(x + i * x.shape[1] + columns, mask=inside, other=0.0)
    pto.atomic_add(total + columns, wide, mask=inside)
    pto.atomic_max(most + pto.arange(0, x.shape[1]), pto.max(t, axis=0))


@pto.jit
def read_back(x, out):
    """Numbers that the kernel itself has written."""
    i = pto.program_id(0) * 4
    for k in range(3):
        pto.store(out + i + k + 1, pto.load(out + i + k) + pto.load(x + i + k))


@pto.jit
def scaled_groups(x, scales, out, BM: pto.constexpr, GROUPS: pto.constexpr):
    """Columns in groups, each with its scale: rows of scales that are narrower than a block."""
    i = pto.program_id(0) * BM
    columns: pto.constexpr = x.shape[1]
    t = pto.reshape(x[i : i + BM, :], (BM, GROUPS, columns // GROUPS)) * scales[i : i + BM, :][:, :, None]
    out[i : i + BM, :] = pto.reshape(t, (BM, columns))
