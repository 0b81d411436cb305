"""Kernels in Triton's style with what published ones use. Imported when `triton` is pypto."""

# ruff: noqa: PLR0913, PLR0917, PLW2901, SIM201, SIM108, PLR0124

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton.language.extra import libdevice  # type: ignore[import-not-found]

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit(do_not_specialize=["scale"])
def scaled(x, n, scale, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) < n
    if EVEN:
        tl.store(at, tl.load(at) * scale)
    else:
        tl.store(at, tl.load(at, mask=mask) * scale, mask=mask)


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (32, 64) for w in (4, 8) for s in (2, 3)],
    key=["n"],
    reset_to_zero=["sums"],
)
@triton.jit
def tuned(x, sums, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.store(x + offsets, values + 1, mask=offsets < n)
    tl.atomic_add(sums, tl.sum(values, axis=0))


@triton.jit
def leaky_relu(x, slope: tl.constexpr = 0.01):
    return tl.where(x >= 0, x, slope * x)


@triton.jit
def matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    pid_m, pid_n = tl.swizzle2d(
        pid // tl.cdiv(N, BLOCK_N), pid % tl.cdiv(N, BLOCK_N), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M
    )
    p_a = tl.make_block_ptr(a, (M, K), (stride_am, stride_ak), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    p_b = tl.make_block_ptr(b, (K, N), (stride_bk, stride_bn), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        accumulator += tl.dot(
            tl.load(p_a, boundary_check=(0, 1)), tl.load(p_b, boundary_check=(0, 1)), allow_tf32=False
        )
        p_a = tl.advance(p_a, (0, BLOCK_K))
        p_b = tl.advance(p_b, (BLOCK_K, 0))
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    p_c = tl.make_block_ptr(
        c, (M, N), (stride_cm, stride_cn), (pid_m * BLOCK_M, pid_n * BLOCK_N), (BLOCK_M, BLOCK_N), (1, 0)
    )
    tl.store(p_c, accumulator.to(c.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def attention_inner(
    acc, total, top, q, k, v, start, rows, offsets: tl.constexpr, n, STAGE: tl.constexpr, SIZE: tl.constexpr
):
    # `offsets` is annotated as a constant and is none, as in Triton's own tutorial
    columns = start + offsets
    scores = tl.dot(q, tl.trans(tl.load(k + columns[:, None] * SIZE + tl.arange(0, SIZE)[None, :])))
    if STAGE == 2:
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1))
    p = tl.math.exp2((scores - new_top[:, None]) * LOG2E)
    alpha = tl.math.exp2((top - new_top) * LOG2E)
    total = total * alpha + tl.sum(p, 1)
    values = tl.load(v + columns[:, None] * SIZE + tl.arange(0, SIZE)[None, :])
    return acc * alpha[:, None] + tl.dot(p, values), total, new_top


@triton.jit
def attention(q, k, v, out, n, BLOCK: tl.constexpr, SIZE: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = rows[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    query = tl.load(q + at)
    acc = tl.zeros([BLOCK, SIZE], dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    top = tl.zeros([BLOCK], dtype=tl.float32) - float("inf")
    for start in tl.range(0, tl.program_id(0) * BLOCK, BLOCK, num_stages=2):
        start = tl.multiple_of(start, BLOCK)
        acc, total, top = attention_inner(acc, total, top, query, k, v, start, rows, tl.arange(0, BLOCK), n, 1, SIZE)
    acc, total, top = attention_inner(
        acc, total, top, query, k, v, tl.program_id(0) * BLOCK, rows, tl.arange(0, BLOCK), n, STAGE=2, SIZE=SIZE
    )
    tl.store(out + at, acc / total[:, None])


@triton.jit
def locked_sum(x, total, lock, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), axis=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def grouped(addresses, out, count, BLOCK: tl.constexpr):
    for i in range(count):
        start = tl.load(addresses + i).to(tl.pointer_type(tl.float32))
        tl.store(out + i, tl.sum(tl.load(start + tl.arange(0, BLOCK))))


@triton.jit
def functions(x, out, n: tl.constexpr):
    t = tl.load(x + tl.arange(0, n))
    within = ((t > -2) and (t < 2)) or not (t == t)  # elementwise, as Triton has it
    y = tl.where(within, libdevice.tanh(t) + tl.sigmoid(t) + tl.erf(t), tl.float32(7.0))
    tl.store(out + tl.arange(0, n), y)


@triton.jit
def refused(x):
    tl.async_task([0])


@triton.jit
def either_const(out, a: tl.const, b: tl.const, first):
    if first:
        source = a
    else:
        source = b
    for _ in range(first):
        source = b
    tl.store(out, tl.load(source))


@triton.jit
def mixed_const(out, a: tl.const, first):
    target = a if first else out
    tl.store(target, 1.0)


@triton.jit
def one_element(x, out):
    above = tl.load(x + tl.arange(0, 1)) > 41
    if above:
        tl.store(out, tl.load(x + tl.arange(0, 1)).item())
    while not above:
        above = tl.full((1,), 1, tl.int1)


@triton.jit
def by_name(x, out, NAME: tl.constexpr):
    a, b = tl.load(x), tl.load(x + 1)
    if hasattr(tl, NAME):
        tl.store(out, getattr(tl, NAME)(a, b))


@triton.jit
def bytes_product(x, out, D: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x + i[:, None] * 16 + i[None, :])
    tl.store(out + i[:, None] * 16 + i[None, :], tl.dot(a, a, out_dtype=D))


@triton.jit
def interleaved(x, y, out):
    tl.store(out + tl.arange(0, 2), tl.interleave(x, y))
