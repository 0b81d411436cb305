"""The suite `gemm`: products of matrices by dtype, by the user's blocks, thin, batched, fused, and as convolution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np

from benchmarks.data import bind, random
from benchmarks.kernels import matmul as kernels
from benchmarks.kernels.convolution import convolution
from benchmarks.peers import jax_product, tensor, torch_function, torch_peers
from benchmarks.runner import Bar, Case, Impl, Row, Suite

Shape = tuple[int, int, int]
BLOCKS: Final = (128, 128, 128)
DTYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16, "int8": np.int8}
    | dict.fromkeys(("bf16x3", "bf16x6"), np.float32)
)
DIGITS: Final = MappingProxyType({"bf16": 8, "fp16": 11})
LIMITS: Final = MappingProxyType({name: name for name in DTYPES} | {"fp32": "fma", "fp16": "fma"})


def tolerance(dtype: str, k: int) -> float:
    """What may be lost in sums of k products of numbers up to 2 and up to 1; half a step of the result's dtype."""
    if dtype == "int8":
        return 0.0
    if DTYPES[dtype] is np.float32:
        return max(1e-5, (2e-6 if dtype == "bf16x3" else 2e-7) * k)
    largest = 6 * math.sqrt(k * 4 / 9)
    return 1.01 * float(2.0 ** (math.floor(math.log2(largest)) - DIGITS[dtype])) + 2e-7 * k


def operands(dtype: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Any, Any]:
    """Two arrays of a dtype; bytes have seven bits: of eight, oneDNN saturates sums of two products on AVX2."""
    if dtype == "int8":
        rng = np.random.default_rng(sum(a))
        return rng.integers(-64, 64, a, np.int8), rng.integers(-64, 64, b, np.int8)
    return random(*a, dtype=DTYPES[dtype]), random(*b, spread=2, dtype=DTYPES[dtype])


def matmul_case(
    m: int, n: int, k: int, dtype: str = "fp32", blocks: Shape = BLOCKS, product: Any = kernels.matmul
) -> Case:  # fmt: skip
    a, b = operands(dtype, (m, k), (k, n))
    out = np.empty((m, n), np.int32 if dtype == "int8" else a.dtype)

    def by_torch(torch: Any) -> Mapping[str, Impl]:
        ta, tb, to = (tensor(torch, array) for array in (a, b, out))
        if dtype == "int8":
            return {"torch": lambda: torch._int_mm(ta, tb), **quantised_linear(torch, a, b)}
        found: dict[str, Impl] = {"torch out=": lambda: torch.mm(ta, tb, out=to)}
        if dtype == "fp16":  # which torch has no fast product for
            found["torch in float32"] = lambda: to.copy_(ta.float() @ tb.float())
        return found

    numpy: dict[str, Impl] = {"numpy": lambda: np.matmul(a, b, out=out)} if a.dtype == np.float32 else {}
    jax = {} if dtype == "int8" else jax_product(lambda _, u, v: u @ v, a, b)
    product = partial(product, precision=dtype) if dtype in ("bf16x3", "bf16x6") else product
    ours = bind(out, product, a, b, out, blocks)
    peers = {**numpy, **torch_peers(by_torch), **jax}
    return Case(ours, peers, lambda: a.astype(float) @ b.astype(float), [out])


def quantised_linear(torch: Any, a: Any, b: Any) -> Mapping[str, Impl]:
    """The same by oneDNN's quantised linear, which packs its weight before and takes unsigned inputs with an offset.

    It gives float32, which holds these sums exactly. Older versions of torch have no such operator.
    """
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        return {}
    offset, n = 64, b.shape[1]
    x = torch.from_numpy((a + offset).astype(np.uint8))
    weight = torch.ops.onednn.qlinear_prepack(torch.from_numpy(np.ascontiguousarray(b.T)), list(a.shape))
    scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.int64)
    epilogue = (None, 1.0, 0, torch.float32, "none", [], "")
    product = torch.ops.onednn.qlinear_pointwise
    return {"torch quantised linear": lambda: product(x, 1.0, offset, weight, scales, zeros, *epilogue)}


def batched_case(batch: int, m: int, n: int, k: int) -> Case:
    a, b = random(batch, m, k), random(batch, k, n, spread=2)
    out = np.empty((batch, m, n), np.float32)

    def into(torch: Any) -> Mapping[str, Impl]:
        ta, tb, to = map(torch.from_numpy, (a, b, out))
        return {"torch out=": lambda: torch.bmm(ta, tb, out=to)}

    peers = {
        "numpy": lambda: np.matmul(a, b, out=out),
        **torch_peers(into),
        **jax_product(lambda _, u, v: u @ v, a, b),
    }
    ours = bind(out, kernels.batched_matmul, a, b, out)
    return Case(ours, peers, lambda: a.astype(float) @ b.astype(float), [out])


def linear_case(m: int, n: int, k: int) -> Case:
    x, weight, bias, out = random(m, k), random(n, k, spread=2), random(n), np.empty((m, n), np.float32)

    def numpy() -> Any:
        np.matmul(x, weight.T, out=out)
        np.add(out, bias, out=out)
        return np.maximum(out, 0, out=out)

    def by_torch(torch: Any, a: Any, w: Any, b: Any) -> Any:
        return torch.relu(torch.nn.functional.linear(a, w, b))

    def reference() -> Any:
        return np.maximum(x.astype(float) @ weight.T.astype(float) + bias, 0)

    peers = {
        "numpy": numpy,
        **torch_function(by_torch, x, weight, bias),
        **jax_product(lambda jax, a, w, b: jax.nn.relu(a @ w.T + b), x, weight, bias),
    }
    return Case(bind(out, kernels.linear_relu, x, weight, bias, out), peers, reference, [out])


def convolution_case(n: int, c: int, size: int, filters: int) -> Case:
    """Ours has the channels last; the peers get the weights in their order, and torch the image in both of its."""
    x, weight = random(n, c, size, size), random(3, 3, filters, c, spread=1)
    out, theirs = np.empty((n, size, size, filters), np.float32), np.ascontiguousarray(weight.transpose(2, 3, 0, 1))
    image, ours = (np.ascontiguousarray(v) for v in (x.transpose(0, 2, 3, 1), weight.transpose(0, 1, 3, 2)))

    def by_torch(torch: Any) -> Mapping[str, Impl]:
        tx, tw, last = torch.from_numpy(x), torch.from_numpy(theirs), torch.channels_last
        rows, filters_last, conv = tx.to(memory_format=last), tw.to(memory_format=last), torch.nn.functional.conv2d
        return {
            "torch": lambda: conv(tx, tw, padding=1),
            "torch channels last": lambda: conv(rows, filters_last, padding=1),
        }

    def reference() -> Any:
        wide = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
        places = ((weight[i, j], wide[:, :, i : i + size, j : j + size]) for i in range(3) for j in range(3))
        return sum(np.tensordot(w.astype(float), part, (1, 1)).transpose(1, 0, 2, 3) for w, part in places)

    def by_jax(jax: Any, image: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")

    peers = {**torch_peers(by_torch), **jax_product(by_jax, x, theirs)}
    return Case(bind(out.transpose(0, 3, 1, 2), convolution, image, ours, out), peers, reference, [out])


def row(
    shape: Shape, bars: tuple[Bar, ...], family: str, dtype: str = "fp32", blocks: Shape = BLOCKS,
    threads: tuple[int, ...] = (0,)
) -> Row:  # fmt: skip
    """A row of a product of an (m, k) by a (k, n) matrix."""
    m, n, k = shape
    text = f"{m}³" if m == n == k else f"{m} x {n} x {k}"
    text += f", blocks {blocks[0]}" if blocks != BLOCKS and m > 16 else ""
    flops, item = 2.0 * m * n * k, np.dtype(DTYPES[dtype]).itemsize
    intensity = flops / (item * (m * k + k * n + m * n))
    build = partial(matmul_case, m, n, k, dtype, blocks)
    limit, allowed = LIMITS[dtype], tolerance(dtype, k)
    if m == 1:  # as fast as B comes from memory
        return Row(f"matmul {dtype}", text, item * k * n, "B", "read DRAM", allowed, build, bars, threads, family)
    return Row(f"matmul {dtype}", text, flops, "flop", limit, allowed, build, bars, threads, family, intensity)


def by_pointers(shape: Shape, blocks: Shape) -> Row:
    """The same by a kernel in Triton's style."""
    plain = row(shape, BEST, "gemm triton style", blocks=blocks)
    build = partial(matmul_case, *shape, "fp32", blocks, kernels.matmul_by_pointers)
    return replace(plain, name="matmul triton style", build=build)


def cube(n: int) -> Shape:
    return n, n, n


BLAS: Final = (Bar("blas", 1.0),)
PEAK: Final = (*BLAS, Bar("limit", 0.9, threads=1))
ONEDNN: Final = (Bar("torch", 0.95),)
THIN: Final = (Bar("blas", 1.4),)
BEST: Final = (Bar("", 0.95),)
BARRED: Final = (
    row(cube(512), PEAK, "gemm fp32", threads=(1, 0)),
    row(cube(1024), PEAK, "gemm fp32", threads=(1, 0)),
    row(cube(2048), PEAK, "gemm fp32", threads=(1, 0)),
    row(cube(4096), BLAS, "gemm fp32"),
    row((1000, 1001, 999), BLAS, "gemm fp32"),
    row((511, 2049, 1023), BLAS, "gemm fp32"),
    row(cube(1024), ONEDNN, "gemm bf16", "bf16"),
    row(cube(1024), ONEDNN, "gemm int8", "int8"),
    *(row((m, 4096, 4096), THIN, "gemm thin", blocks=(m, 128, 128)) for m in (1, 4, 16)),
    Row("convolution 3 x 3", "8 x 64 x 56², 64", 2.0 * 8 * 64 * 56 * 56 * 64 * 9, "flop", "fma", 1e-3,
        partial(convolution_case, 8, 64, 56, 64), ONEDNN, (0,), "convolution", 144.0),
)  # fmt: skip
MORE: Final = (
    row(cube(1024), BEST, "gemm small blocks", blocks=cube(32)),
    row(cube(1024), BEST, "gemm small blocks", blocks=cube(64)),
    *(by_pointers(shape, (128, 128, 64)) for shape in (cube(1024), (1000, 1001, 999))),
    row(cube(2048), BEST, "gemm bf16", "bf16"),
    row(cube(1024), BEST, "gemm fp16", "fp16"),
    row(cube(2048), BEST, "gemm int8", "int8"),
    row(cube(1024), BEST, "gemm small blocks", "bf16", cube(64)),
    *(row(cube(n), BEST, f"gemm {way}", way) for way in ("bf16x3", "bf16x6") for n in (1024, 2048)),
    Row("matmul batched", "96 x 256 x 256 x 64", 2.0 * 96 * 256 * 256 * 64, "flop", "fma", 2e-5,
        partial(batched_case, 96, 256, 256, 64), BEST, (0,), "gemm batched", 32 / 1.5),
    Row("matmul batched", "16 x 512 x 64 x 512", 2.0 * 16 * 512 * 64 * 512, "flop", "fma", 1e-4,
        partial(batched_case, 16, 512, 64, 512), BEST, (0,), "gemm batched", 25.6),
    Row("linear + bias + relu", "512 x 3072 x 768", 2.0 * 512 * 3072 * 768, "flop", "fma", 2e-4,
        partial(linear_case, 512, 3072, 768), BEST, (0,), "gemm fused", 150.0),
)  # fmt: skip
GEMM: Final = Suite("gemm", (*BARRED, *MORE), (), 0.0, 0.95)
