"""Products that are turned around: the same numbers at every edge, and only where the left side is everybody's."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from pypto.passes.analysis.dot_facts import InPlaceOperand
from tests.backends_cpu.lowering import fixed_target, lowered
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]
WIDE = replace(fixed_target(), vector_bytes=64, registers=32)


@pto.jit
def convolution(x, weight, out, BW: pto.constexpr):
    n, h, w = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BW
    acc = pto.zeros((weight.shape[2], BW), out.dtype)
    for ky in pto.static_range(3):
        for kx in pto.static_range(3):
            left = w + kx - 1
            acc = pto.dot(weight[ky, kx, :, :], x[n, :, h + ky - 1, left : left + BW], acc)
    out[n, :, h, w : w + BW] = acc


@pto.jit
def summed(x, weight, out, BW: pto.constexpr):
    """The result is read along the columns, beyond the edge too, and stored as something else."""
    n, w = pto.program_id(0), pto.program_id(1) * BW
    acc = pto.dot(weight[0, :, :], x[n, :, w : w + BW])
    acc = pto.dot(weight[1, :, :], x[n, :, w + 1 : w + 1 + BW], acc)
    out[n, :, pto.program_id(1)] = pto.sum(pto.maximum(acc, -5), axis=1)


@pto.jit
def deep(x, weight, out, BW: pto.constexpr, K: pto.constexpr):
    """Blocks of the sides go deeper than both do."""
    n, w = pto.program_id(0), pto.program_id(1) * BW
    out[n, :, w : w + BW] = pto.dot(weight[0:32, 0:K], x[n, 0:K, w : w + BW])


@pto.jit
def biased(x, weight, bias, out, BW: pto.constexpr):
    """The sum starts from numbers, and is read once on the way."""
    n, w = pto.program_id(0), pto.program_id(1) * BW
    acc = pto.zeros((BW, weight.shape[2]), x.dtype) + bias[:]
    acc = pto.dot(pto.trans(x[n, :, w - 1 : w - 1 + BW]), weight[0, :, :], acc)
    acc = pto.dot(pto.trans(x[n, :, w : w + BW]), weight[1, :, :], acc)
    more = pto.dot(pto.trans(x[n, :, w + 1 : w + 1 + BW]), weight[2, :, :], acc)
    more = pto.dot(pto.trans(x[n, :, w + 2 : w + 2 + BW]), weight[3, :, :], more)
    out[n, :, w : w + BW] = pto.trans(more + acc)


@pto.jit
def own(x, weight, out, BW: pto.constexpr):
    """The left side is another one for every program."""
    n, w = pto.program_id(0), pto.program_id(1) * BW
    out[n, :, w : w + BW] = pto.dot(weight[n, :, :], x[n, :, w : w + BW])


@pto.jit
def apart(x, weight, out, shift, BW: pto.constexpr):
    """Two products whose columns lie far from one another, so that most blocks of one of them do not exist."""
    n = pto.program_id(0)
    acc = pto.zeros((BW, weight.shape[2]), x.dtype)
    acc = pto.dot(pto.trans(x[n, :, 0:BW]), weight[0, :, :], acc)
    acc = pto.dot(pto.trans(x[n, :, shift : shift + BW]), weight[1, :, :], acc)
    out[n, :, 0:BW] = pto.trans(acc)


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)


def expected(x: Array, weight: Array) -> Array:
    n, _, height, width = x.shape
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((n, weight.shape[2], height, width), x.dtype)
    for ky in range(3):
        for kx in range(3):
            part = wide[:, :, ky : ky + height, kx : kx + width]
            out += np.einsum("oc,nchw->nohw", weight[ky, kx], part)
    return out


def turned(kernel: Any, **arguments: Any) -> set[bool]:
    items = walk(lowered(Launch(kernel, (1, 1, 1), arguments, {}), WIDE).schedule.items)
    dots = [item for item in items if isinstance(item, Gemm)]
    return {isinstance(item.a, InPlaceOperand) and item.a.transposed for item in dots}


SIZES = [
    *((2, 32, 4, 70, 64, 32), (1, 64, 2, 5, 32, 32)),  # of whole panels
    *((2, 33, 3, 13, 64, 16), (1, 32, 3, 12, 32, 16), (2, 32, 2, 28, 64, 32)),  # at the edges one is missing, or more
    *((2, 64, 7, 56, 48, 64), (1, 32, 3, 17, 40, 32), (3, 40, 2, 70, 33, 32), (1, 64, 1, 5, 20, 48)),
]


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("sizes", SIZES)
def test_convolutions(sizes: tuple[int, ...], dtype: Any, level: str) -> None:
    n, c, height, width, filters, block = sizes
    x, weight = numbers(n, c, height, width, dtype=dtype), numbers(3, 3, filters, c, dtype=dtype)
    with Fences() as fences:
        out = fences.around(np.full((n, filters, height, width), 9, dtype))
        kernel = pto.jit(level=level)(convolution.function)
        kernel[n, height, -(-width // block)](fences.around(x), fences.around(weight), out, block)
        np.testing.assert_array_equal(out, expected(x, weight))


def chains(kernel: Any, **arguments: Any) -> list[tuple[int, bool]]:
    """How many products are added up in registers, and whether their sum is stored from there."""
    items = walk(lowered(Launch(kernel, (1, 1, 1), arguments, {}), WIDE).schedule.items)
    return [(len(item.accumulation_chain), item.direct_store is not None) for item in items if isinstance(item, Gemm)]


def test_sums_in_registers() -> None:
    arrays = {"x": numbers(1, 64, 3, 20), "weight": numbers(3, 3, 48, 64), "out": numbers(1, 48, 3, 20)}
    assert chains(convolution, **arrays, BW=32) == [(9, False)]  # not whole panels
    arrays |= {"weight": numbers(3, 3, 64, 64), "out": numbers(1, 64, 3, 20)}
    assert chains(convolution, **arrays, BW=32) == [(9, True)]


@pytest.mark.parametrize(("width", "block"), [(70, 32), (5, 32), (64, 64)])
def test_sums_that_start_from_numbers(width: int, block: int, level: str) -> None:
    with Fences() as fences:
        x, weight, bias = (fences.around(numbers(*shape)) for shape in ((2, 40, width), (4, 40, 32), (32,)))
        out = fences.around(np.zeros((2, 32, width), np.float32))
        arguments = {"x": x, "weight": weight, "bias": bias, "BW": block}
        assert chains(biased, **arguments, out=out) == [(2, False), (2, False)]
        pto.jit(level=level)(biased.function)[2, -(-width // block)](**arguments, out=out)
        wide = np.pad(x, ((0, 0), (0, 0), (1, 2)))
        parts = [np.einsum("ncw,co->now", wide[:, :, s : s + width], weight[s]) for s in range(4)]
        np.testing.assert_array_equal(out, 2 * (bias[:, None] + parts[0] + parts[1]) + parts[2] + parts[3])


@pytest.mark.parametrize("width", [100, 150])
def test_products_far_from_one_another(width: int, level: str) -> None:
    """Whatever the number of rows that a block lacks: it is no other block's mark."""
    x, weight = numbers(2, 40, width), numbers(2, 40, 32)
    assert chains(apart, x=x, weight=weight, out=np.zeros((2, 32, width), np.float32), shift=1, BW=256) == [(2, True)]
    wide = np.pad(x, ((0, 0), (0, 0), (width, width)))
    parts = [
        np.einsum("ncw,co->now", wide[:, :, s : s + width], weight[n])
        for n, s in [(0, width), *((1, width + s) for s in range(-width, width + 1))]
    ]
    kernel = pto.jit(level=level)(apart.function)
    for shift, part in zip(range(-width, width + 1), parts[1:], strict=True):
        out = np.zeros((2, 32, width), np.float32)
        kernel[2,](x, weight, out, shift, BW=256)
        np.testing.assert_array_equal(out, parts[0] + part, err_msg=f"shift {shift}")


@pto.jit
def heads(p, v, out, BM: pto.constexpr):
    """A sum over rows that lie apart; the next program's are beside them, or the same."""
    h, other = pto.program_id(0), pto.program_id(1)
    weights = pto.exp(p[h, :, 0:BM])
    out[h, :, 0:BM] = pto.dot(pto.trans(v[:, h + other, 0:32]), weights)


@pytest.mark.parametrize(("kernel", "levels"), [(heads, {2}), (convolution, {3})])
def test_what_is_asked_for(kernel: Any, levels: set[int]) -> None:
    """The next program's rows go to the second-level cache; those of the next product, and the result, to the first."""
    if kernel is heads:
        arguments = {"p": numbers(4, 64, 96), "v": numbers(64, 8, 32), "out": numbers(4, 32, 96), "BM": 96}
    else:
        x, out = numbers(2, 64, 3, 20), numbers(2, 64, 3, 20)
        arguments = {"x": x, "weight": numbers(3, 3, 64, 64), "out": out, "BW": 32}
    text = lowered(Launch(kernel, (2, 1, 1), arguments, {}), WIDE).text
    sums = re.compile(r"internal void @dot_\w+\(ptr noalias %parts")
    kernels = list(filter(sums.match, text.split("define ")))
    assert kernels
    for part in kernels:
        assert {int(n) for n in re.findall(r"llvm.prefetch.p0\(ptr [^,]+, i32 \d, i32 (\d)", part)} == levels


def test_threads_and_strides() -> None:
    """The same bits whatever the number of threads; an image whose channels are neighbours stays as it is."""
    x = np.random.default_rng(0).standard_normal((3, 64, 9, 30)).astype(np.float32)
    weight, results = numbers(3, 3, 64, 64), []
    for image in (x, np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
        for threads in (1, 2):
            out = np.zeros((3, 64, 9, 30), np.float32)
            pto.jit(num_threads=threads)(convolution.function)[3, 9, 1](image, weight, out, 32)
            results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[2], results[3])
    np.testing.assert_allclose(results[0], results[2], rtol=1e-4, atol=1e-3)


def test_results_that_are_read_whole(level: str) -> None:
    x, weight, out = numbers(2, 160, 50), numbers(2, 32, 160), np.zeros((2, 32, 2), np.float32)
    assert turned(summed, x=x, weight=weight, out=out, BW=32) == {True}
    pto.jit(level=level)(summed.function)[2, 2](x, weight, out, 32)
    wanted = np.zeros_like(out)
    pto.interpret(summed)[2, 2](x, weight, wanted, 32)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("channels", "columns"), [(200, 250), (250, 200), (256, 256), (3, 300)])
def test_sides_of_other_depths(channels: int, columns: int, level: str) -> None:
    """What one side lacks counts as zero, also where memory behind it holds no number."""
    x, weight, out = numbers(3, channels, 50), numbers(32, columns), np.zeros((3, 32, 50), np.float32)
    arguments = {"x": x, "weight": weight, "BW": 32, "K": 256}
    assert turned(deep, **arguments, out=out) == {True}
    pto.jit(level=level)(deep.function)[3, 2](**arguments, out=out)
    wanted, k = np.zeros_like(out), min(channels, columns)
    for n in range(3):
        wanted[n] = weight[:, :k] @ x[n, :k]
    np.testing.assert_array_equal(out, wanted)


def test_sides_of_their_own_stay() -> None:
    x, weight, out = numbers(2, 256, 40), numbers(2, 32, 256), np.zeros((2, 32, 40), np.float32)
    assert turned(own, x=x, weight=weight, out=out, BW=64) == {False}
    own[2, 1](x, weight, out, 64)
    np.testing.assert_array_equal(out, weight @ x)
