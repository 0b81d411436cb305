"""Triton kernels of the kinds that torch knows inside of torch.compile, beside those of its own tests."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

FACTOR = tl.constexpr(3)


def cubed(x):
    return x * x * x


cubed = triton.jit(cubed)


@triton.jit
def globals_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, cubed(tl.load(x + i, i < n)) * FACTOR, i < n)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def heuristic_kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + (10 if EVEN else 20), i < n)


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])
@triton.heuristics({"TWICE": lambda args: args["BLOCK"] * 2})
@triton.jit
def tuned_heuristic_kernel(x, out, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * (TWICE // BLOCK), i < n)


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"], restore_value=["x"])
@triton.jit
def tuned_in_place_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + 1, i < n)


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"], reset_to_zero=["total"])
@triton.jit
def tuned_sum_kernel(x, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + i, i < n, other=0)))


@triton.autotune([triton.Config({}, num_stages=2), triton.Config({}, num_stages=3)], key=["n"])
@triton.jit
def tuned_by_hints_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) - 1, i < n)


@triton.jit
def hints_kernel(x, out, n, BLOCK: tl.constexpr, num_warps: tl.constexpr, num_stages: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * num_stages + num_warps, i < n)


@triton.jit
def dtype_kernel(x, out, dtype: tl.constexpr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n).to(dtype) * 2, i < n)


@triton.jit
def two_outputs_kernel(x, first, second, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(first + i, value + 1, i < n)
    tl.store(second + i, value + 2, i < n)


@triton.jit
def descriptor_kernel(x, out, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    i, j = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    target.store([i, j], source.load([i, j]) * 2)


@triton.constexpr_function
def power(n):
    return 2**n


@triton.jit
def defaults_kernel(x, out, n, bias=2, *, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 4):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * FACTOR * power(3) + bias, i < n)


@triton.jit
def strided_kernel(x, row, column, COLUMNS: tl.constexpr):
    place = x + tl.program_id(0) * row + tl.arange(0, COLUMNS) * column
    tl.store(place, tl.load(place) * 2 + 1)
