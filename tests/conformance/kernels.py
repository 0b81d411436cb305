"""Kernels as people write them, in both styles. What they compute stands in `cases`."""

import math

import pypto as pto

# --- elementwise, both styles --------------------------------------------------------------------------------------


@pto.jit
def add_native(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


@pto.jit
def add_pointers(x, y, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    pto.store(out + offs, pto.load(x + offs, mask=mask) + pto.load(y + offs, mask=mask), mask=mask)


@pto.jit
def axpy_mixed(a, x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = a * x[i : i + BLOCK].to(pto.float32) - y[i : i + BLOCK]


def relu(x):
    return pto.maximum(x, 0)


def leaky(x, slope=0.125):
    return pto.where(x > 0, x, slope * x)


def gelu(x):
    return 0.5 * x * (1 + pto.erf(x * math.sqrt(0.5)))


@pto.jit
def squared(x):
    return x * x


@pto.jit
def calls(x, out, ACTIVATION: pto.constexpr, BLOCK: pto.constexpr, SCALE: pto.constexpr = 2.0):
    def scaled(v, by=SCALE):
        return v * by

    twice = lambda f, v: f(f(v))  # noqa: E731
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    out[i : i + BLOCK] = ACTIVATION(t) + squared(x=t) + twice(scaled, t) - scaled(t, by=-1)


@pto.jit
def quantize(x, out, scale, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK] / scale
    rounded = pto.where(t < 0, pto.ceil(t - 0.5), pto.floor(t + 0.5))
    out[i : i + BLOCK] = pto.clamp(rounded, -127.0, 127.0).to(pto.int8)


@pto.jit
def hash_bits(x, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    h = pto.load(x + offs, mask=offs < n)
    for shift in pto.static_range(3, 18, 7):
        h = (h ^ (h << shift)) * 0x9E3779B1
        h = h ^ (h >> (shift + 2)) | 1
    pto.store(out + offs, ~h % 1000003 + h // 7, mask=offs < n)


@pto.jit
def wide_integers(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    a, b = x[i : i + BLOCK], y[i : i + BLOCK]
    out[i : i + BLOCK] = a * b + (a // b) - (a % b) * (a >> 3)


@pto.jit
def logic(x, y, flags, counts, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    a, b = x[i : i + BLOCK], y[i : i + BLOCK]
    both = (a > 0) & (b > 0) | ~(a != b)
    flags[i : i + BLOCK] = both ^ (a < -1)
    counts[pto.program_id(0)] = pto.sum(both)


# --- reductions and scans --------------------------------------------------------------------------------------------


@pto.jit
def running_sums(x, forward, backward):
    t = x[pto.program_id(0), :, :]
    forward[pto.program_id(0), :, :] = pto.cumsum(t, 0)
    backward[pto.program_id(0), :, :] = pto.cumsum(t, axis=1, reverse=True)


@pto.jit
def reduce_axes(x, s0, s1, s2, s02, most, least):
    t = x[:, :, :]
    s0[:, :] = pto.sum(t, axis=0)
    s1[:, :] = pto.sum(t, axis=1)
    s2[:, :, :] = pto.sum(t, axis=-1, keep_dims=True)
    s02[:] = pto.sum(t, axis=(0, 2))
    most[:, :] = pto.max(t, axis=1)
    least[0] = pto.min(t)


@pto.jit
def arg_extremes(x, hi0, hi1, lo1, hi_all):
    t = x[:, :]
    hi0[:] = pto.argmax(t, axis=0)
    hi1[:] = pto.argmax(t, axis=1)
    lo1[:, :] = pto.argmin(t, axis=1, keep_dims=True)
    hi_all[0] = pto.argmax(t)


# --- addresses -----------------------------------------------------------------------------------------------------


@pto.jit
def embedding(ids, table, out, BLOCK: pto.constexpr):
    """Rows by index, natively and with pointers."""
    i = pto.program_id(0)
    out[i, 0, :] = table[ids[i], :]
    cols = pto.arange(0, BLOCK)
    row = pto.load(table + ids[i] * table.strides[0] + cols * table.strides[1], mask=cols < table.shape[1])
    pto.store(out + i * out.strides[0] + out.strides[1] + cols, row, mask=cols < table.shape[1])


@pto.jit
def likest(x, keys, out, BM: pto.constexpr):
    """For a block of keys, the rows that fit them best: a tile of pointers from a tile of positions."""
    i = pto.program_id(0) * BM
    scores = pto.dot(keys[i : i + BM, :], pto.trans(x[:, :]))
    rows = pto.argmax(scores, axis=1, keep_dims=True).to(pto.int64)
    cols = pto.arange(0, x.shape[1])[None, :]
    out[i : i + BM, :] = pto.load(x + rows * x.strides[0] + cols * x.strides[1])


@pto.jit
def scatter(x, index, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    where = pto.load(index + offs, mask=mask, other=0)
    pto.store(out + where, pto.load(x + where, mask=mask & (where % 2 == 0), other=-1.0), mask=mask)


@pto.jit
def convolve(x, taps, y, BLOCK: pto.constexpr, TAPS: pto.constexpr):
    """Positions before the first element and after the last one count as 0."""
    i = pto.program_id(0) * BLOCK
    acc = pto.zeros((BLOCK,), pto.float64)
    for t in pto.static_range(TAPS):
        start = i + t - TAPS // 2
        acc += x[start : start + BLOCK] * taps[t]
    y[i : i + BLOCK] = acc


@pto.jit
def every_other(x, out, n, STEP: pto.constexpr, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    value = pto.load(x + offs * STEP, mask=offs < n)
    pto.store(out + (n - 1 - offs), value, mask=offs < n)


@pto.jit
def box(x, out):
    """A grid of three axes, and 3-D tiles that broadcast against each other."""
    i, j, k = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    planes, rows, cols = pto.arange(0, 3), pto.arange(0, 5), pto.arange(0, 7)
    weight = planes[:, None, None] * 100 + rows[None, :, None] * 10 + cols[None, None, :]
    size = pto.num_programs(0) * 100 + pto.num_programs(1) * 10 + pto.num_programs(2)
    t = x[i * 3 : i * 3 + 3, j * 5 : j * 5 + 5, k * 7 : k * 7 + 7]
    out[i * 3 : i * 3 + 3, j * 5 : j * 5 + 5, k * 7 : k * 7 + 7] = t * weight + size


@pto.jit
def far(x, out, row, BLOCK: pto.constexpr):
    """Elements beyond 2**31 in both styles."""
    out[0, :] = x[row, 0:BLOCK]
    offs = row * x.shape[1] + pto.arange(0, BLOCK)
    pto.store(out + BLOCK + pto.arange(0, BLOCK), pto.load(x + offs))
    wide = pto.program_id(0) + row * BLOCK
    x[row, wide - row * BLOCK] = 9


# --- control flow --------------------------------------------------------------------------------------------------


@pto.jit
def collatz(starts, steps, most):
    i = pto.program_id(0)
    n, count = starts[i], 0
    while n != 1 and count < most:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    steps[i] = count


@pto.jit
def find(x, limit, where, skipped):
    """break, continue and a loop's variables afterwards."""
    row = pto.program_id(0)
    found, passed = -1, 0
    for i in range(x.shape[1]):
        value = x[row, i]
        if value < 0:
            passed += 1
            continue
        if value > limit:
            found = i
            break
    where[row], skipped[row] = found, passed


@pto.jit
def leave_early(x, out, n):
    i = pto.program_id(0)
    if i >= n:
        return
    t = x[i, :]
    if pto.max(t) > 1:
        out[i, :] = t * 2
        return
    for k in range(3):
        if t.shape[0] * k + i > 9:
            out[i, :] = t - k
            return
    out[i, :] = -t


@pto.jit
def countdown(x, out, start, stop, step):
    """Bounds and step from the launch; the step may be negative."""
    total, turns = pto.zeros((5,), pto.float32), 0
    for i in range(start, stop, step):
        total = total * 0.5 + x[i, :]
        turns += 1
    out[0, :], out[1, :] = total, turns


@pto.jit
def swap_tiles(x, out, n):
    """Tiles that a loop carries and exchanges."""
    a, b = x[0, :], x[1, :]
    for i in range(n):
        a, b = b, a + b * (i + 1) if i % 3 else a - b
    out[0, :], out[1, :] = a, b


@pto.jit
def newton(x, out, BLOCK: pto.constexpr):
    """A loop whose end depends on the data of the tile."""
    i = pto.program_id(0) * BLOCK
    t = pto.load(x, i, BLOCK, pad=1.0)
    root, error = t, 1.0
    while error > 1e-6:
        root = 0.5 * (root + t / root)
        error = pto.max(pto.abs(root * root / t - 1))
    out[i : i + BLOCK] = root


@pto.jit
def choose(x, out, mode, flag, nothing, BLOCK: pto.constexpr):
    """Branches over tiles, with every kind of scalar argument."""
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    if mode == 0:
        t = t + 1
    elif mode == 1 and flag:
        t = t * (2 if nothing is None else 3)
    else:
        t = pto.where(t > 0, t, -t) if 1 < mode <= 4 else t * 0
    out[i : i + BLOCK] = t


@pto.jit
def shift_in_place(x, y, n, BLOCK: pto.constexpr):
    """Chunk after chunk, so that a later load sees the earlier store where the arrays overlap."""
    for i in range(0, n, BLOCK):
        offs = i + pto.arange(0, BLOCK)
        pto.store(y + offs, pto.load(x + offs, mask=offs < n) + 1, mask=offs < n)
