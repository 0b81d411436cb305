"""Small kernels that rely on a rule of Triton's where ours is another. Imported when `triton` is pypto."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton.language.extra.cann import extension  # type: ignore[import-not-found]


@triton.jit
def double(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * 2)


@triton.jit
def matmul(a, b, c, K: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    m, n, k = tl.arange(0, 16), tl.arange(0, N), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((16, N), tl.float32)
    for _ in range(K // (BLOCK * SPLIT)):
        total += tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :]))
        k += BLOCK * SPLIT
    target = c + m[:, None] * N + n[None, :]
    if SPLIT == 1:
        tl.store(target, total.to(tl.float16))
    else:
        tl.atomic_add(target, total.to(tl.float16))


@triton.jit
def part(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 2)


@triton.jit
def steps(x, out):
    source = (x + tl.arange(0, 4),)
    target = (out + tl.arange(0, 4),)
    for _ in range(2):
        tl.store(target, tl.load(source) * 2)
        source += 4
        target += 4


@triton.jit
def rows(size):
    return tl.zeros((4, size), tl.float32)


@triton.jit
def ones(x, out, flag, one, other):
    value = tl.load(x + tl.arange(0, 4)) if flag else 0
    if flag and not (one > 1):
        value = value * 2.0
        tl.store(out + 6, one)
    else:
        value = tl.zeros((1, 1, 1), tl.float32)
    value += other
    tl.store(out + tl.arange(0, 4)[:, None], value[:, None] + rows(one))
    tl.store(out + 4 + tl.arange(0, one * 2), 7.0)


@triton.jit
def surplus(x, out, MORE: tl.constexpr):
    i, row = tl.arange(0, 4), tl.program_id(0), tl.program_id(1)
    if MORE:
        i, row, _column = i, row
    tl.store(out + i, tl.load(x + i) + row)


@triton.aggregate
class Base:
    scale: tl.constexpr = 3


@triton.aggregate
class Scaled(Base):
    values: tl.tensor

    @triton.jit
    def scaled(self):
        return self.values * self.scale


@triton.aggregate
class Counted:
    count: tl.constexpr
    values: tl.tensor

    @triton.constexpr_function
    def __init__(self, count, values):
        self.count = tl.constexpr(count + 1)
        self.values = values


@triton.jit
def aggregates(x, out, given):
    i = tl.arange(0, 4)
    inherited = Scaled(values=tl.load(x + i))
    counted = Counted(4, inherited.scaled())
    tl.store(out + i, counted.values * counted.count + given.scale)


@triton.jit
def dialect(x, out, N: tl.constexpr):
    i = tl.arange(0, 4)
    total = tl.zeros((4,), tl.float32)
    for n in extension.parallel(0, N):
        part = tl.load(x + n * 4 + i, mask=i < 3, care_padding=False)
        extension.compile_hint(part, "dot_pad_only_k")
        total += tl.where(i < 3, part, 0)
    tl.store(out + i, total)


@triton.jit
def foreign_core(out):
    tl.store(out + extension.sub_vec_id(), 1.0)


@triton.jit
def wraps(out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, 0xFFFFFFFF)
    tl.store(out, 0x80000001)
    tl.store(out + 1, tl.load(out + 1, mask=i[0] > 0, other=0x100000002))
    tl.atomic_add(out + 2, 0xFFFFFFFF)


@triton.jit
def numbers_of_their_own(codes, small, wide):
    i = tl.arange(0, 4)
    bias = (1 - 127) << 23
    bits = tl.load(codes + i).to(tl.uint32, bitcast=True)
    bits += bias
    tl.store(codes + i, bits.to(tl.int32, bitcast=True))
    many = 300
    tl.store(wide + i, tl.load(small + i) + many)
