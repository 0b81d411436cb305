"""Small kernels with what Triton's own tests use of the language. Imported when `triton` is pypto."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


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
