"""Small kernels with what Triton's own tests use of the language. Imported when `triton` is pypto."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton.language.standard import (  # type: ignore[import-not-found]
    _argmax_combine_tie_break_left,
    _bitonic_merge,
    _log2,
)
from triton.tools.ragged_tma import atomic_add_ragged, load_ragged, store_ragged  # type: ignore[import-not-found]


@triton.jit
def expression(z, x, N: tl.constexpr):
    offsets = tl.arange(0, N)
    a = tl.load(x + offsets)  # noqa: F841
    tl.store(z + offsets, EXPRESSION)  # type: ignore[name-defined]  # noqa: F821


@triton.jit
def pointer_blocks(out, x, n):
    one = tl.load(x[None])
    tl.static_assert(one.shape == (1,))
    square = tl.load(x[None, None] + 1)
    tl.static_assert(square.shape == (1, 1))
    tl.store(out[None], one + n[:, None])
    tl.store(out[None, None] + 1, square * 2)
    row = tl.load(x + tl.arange(0, 4))
    tl.static_assert(row[:, None, :].shape == (4, 1) and row[None, :, None].shape == (1, 4, 1))


@triton.jit
def pointers_in_tuples(out, x, N: tl.constexpr):
    offsets = tl.arange(0, N)
    source = (x + offsets,)  # as a trailing comma makes it
    target = (out + offsets,)
    tl.atomic_add(target, tl.load(source) * 2)
    tl.store(target, tl.load(target) + 1)


@triton.jit
def after_loop(out, x, N: tl.constexpr):
    for i in range(N):
        row = tl.load(x + i * 4 + tl.arange(0, 4))
        last = i
    tl.store(out + tl.arange(0, 4), row * 2 + last)


@triton.jit
def stacks(out, x, y, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.reshape(tl.load(x + tl.arange(0, A * B * M * K)), (A, B, M, K))
    b = tl.reshape(tl.load(y + tl.arange(0, A * B * K * N)), (A, B, K, N))
    product = tl.dot(a, b, a * 0 + 1 if K == N else None)
    tl.store(out + tl.arange(0, A * B * M * N), tl.reshape(product, (A * B * M * N,)))


@triton.jit
def kinds(out, n: tl.constexpr, k):
    tl.static_assert(isinstance(n, tl.constexpr) and isinstance(n.type, tl.constexpr_type))
    tl.static_assert(n.type == tl.constexpr_type(3) and n.type != tl.constexpr_type(4))
    tl.static_assert(n.type.value == 3 and not isinstance(k.type, tl.constexpr_type))
    tl.store(out, 1)


@triton.jit
def asks_for_the_inside(out, k):
    if isinstance(k, tl.base_value):
        tl.store(out, 1)


@triton.jit
def masked_atomics(out, mask, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.atomic_add(out + offsets, 2, mask=tl.load(mask + offsets))
    tl.atomic_max(out, 9, mask=1)


@triton.jit
def uniform(out, seed, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(out + offsets, tl.rand(seed, offsets))


@triton.jit
def of_pointers(out, condition, x, y):
    pointer = tl.where(tl.load(condition), x, y)
    tl.store(out + tl.arange(0, 4), tl.load(pointer + tl.arange(0, 4)))


@triton.jit
def of_bools(out, x, y):
    i = tl.arange(0, 4)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.static_assert((a + b).dtype == tl.int1 and (a * b).dtype == tl.int1 and (a + 1).dtype == tl.int32)
    tl.store(out + i, (a + b).to(tl.int32) + 2 * (a - b).to(tl.int32) + 4 * (a * b).to(tl.int32))


@triton.jit
def magnitude(out, x, N: tl.constexpr):
    codes = tl.load(x + tl.arange(0, N)).to(tl.float8e4b15, bitcast=True)
    tl.store(out + tl.arange(0, N), tl.abs(codes).to(tl.uint8, bitcast=True))


@triton.jit
def assigned_constants(n: tl.constexpr):
    kept: tl.constexpr = n
    made = n
    tl.static_assert(kept.type == tl.constexpr_type(2.5) and made.type == tl.float32)


@triton.jit
def bitonic(out, x, N: tl.constexpr, UP: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    for stage in tl.static_range(1, _log2(N) + 1):
        tile = _bitonic_merge(tile, stage, 2 if stage < _log2(N) else UP, _log2(N))
    tl.store(out + tl.arange(0, N), tile)


@triton.jit
def best(value1, index1, value2, index2):
    return _argmax_combine_tie_break_left(value1, index1, value2, index2)


@triton.jit
def best_of(out, x, N: tl.constexpr):
    _, index = tl.reduce((tl.load(x + tl.arange(0, N)), tl.arange(0, N)), 0, best)
    tl.store(out, index)


@triton.jit
def doubled_part(x, y, start, size, B: tl.constexpr):
    for row in range(0, size, B):
        block = load_ragged(x, start, size, [row, 0])
        store_ragged(y, start, size, [row, 0], block * 2)
        atomic_add_ragged(y, start, size, [row, 0], block)


@triton.jit
def to_float8(out, stored, x, N: tl.constexpr, TO: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), tile.to(TO).to(tl.float32))
    tl.store(stored + tl.arange(0, N), tile)


@triton.jit
def pointers_by_type(x):
    if (x is not None) and hasattr(x, "dtype") and isinstance(x.dtype, tl.pointer_type) and (tl.load(x) > 42):
        tl.store(x, 42)
    block = x + tl.arange(0, 1) if isinstance(x, tl.tensor) and x.dtype.is_ptr() else tl.zeros((1,), tl.int8)
    tl.static_assert(isinstance(block.type, tl.block_type) and not isinstance(block.type, tl.pointer_type))


@triton.jit
def double(x, args, int, step, status, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < int) * step
    if status:
        value += 1
    tl.store(args + i, value, i < int)
