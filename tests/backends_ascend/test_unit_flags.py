"""Unit flags: which sums leave L0C unit by unit, that results stay right, and that each broken rule is a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.unit_flags import flag_units
from pypto.backends.ascend.block.verify import problems
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.parser import parse
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.pipeline import lower_kernel, lower_to_text
from pypto.debug.explain import explain
from pypto.ir.types import float16, float32
from pypto.runtime.acl import AclError
from tests.backends_ascend.products import B2, Matmul, whole
from tests.backends_ascend.simulated import function_of, run
from tests.backends_ascend.test_cube import SMALL
from tests.backends_ascend.test_cube_kernels import A5, by_pointers, by_slices, of_integers
from tests.sim.device import launched, needs_compiler

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
BLOCKS = {"BM": 128, "BN": 256, "BK": 64}


@pto.jit
def one_step(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, 0:BK], b[0:BK, j : j + BN])


@pto.jit
def stacked(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    for g in range(a.shape[0]):
        acc = pto.zeros((BM, BN), pto.float32)
        for k in range(0, a.shape[2], BK):
            acc = pto.dot(a[g, i : i + BM, k : k + BK], b[g, k : k + BK, j : j + BN], acc)
        c[g, i : i + BM, j : j + BN] = acc.to(pto.bfloat16)


@pto.jit
def summed(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """One sum over two loops."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(a.shape[0]):
        for k in range(0, a.shape[2], BK):
            acc = pto.dot(a[g, i : i + BM, k : k + BK], b[g, k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def with_bias(a, b, bias, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Vector cores take the sums from the workspace."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = pto.maximum(acc + bias[j : j + BN], 0.0)


@pto.jit
def stored_twice(a, b, c, d, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc
    d[i : i + BM, j : j + BN] = acc


@pto.jit
def two_sums(a, b, d, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    other = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
        other = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], other)
    c[i : i + BM, j : j + BN] = acc
    d[i : i + BM, j : j + BN] = other


def floats(*shape: int, dtype: Any = np.float16) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def bytes_of(*shape: int) -> Array:
    return RNG.integers(-100, 100, shape).astype(np.int8)


def arguments_of(kernel: Any, m: int, n: int, k: int) -> tuple[dict[str, Any], Array]:
    """Arguments, the result last, and what it is to be."""
    if kernel in (stacked, summed):
        a, b = floats(2, m, k), floats(2, k, n)
        wanted = a.astype(float) @ b.astype(float)
        wanted = wanted.sum(0) if kernel is summed else wanted
    else:
        a, b = (bytes_of(m, k), bytes_of(k, n)) if kernel is of_integers else (floats(m, k), floats(k, n))
        wanted = a.astype(float) @ b.astype(float)
    given: dict[str, Any] = {"a": a, "b": b}
    if kernel is with_bias:
        given["bias"] = floats(n, dtype=np.float32)
        wanted = np.maximum(wanted + given["bias"], 0)
    if kernel is by_pointers:
        given |= {"M": m, "N": n, "K": k, "stride_a": k, "stride_b": n, "stride_c": n}
    dtype = np.int32 if kernel is of_integers else pto.bfloat16.numpy if kernel is stacked else np.float32
    if kernel in (stored_twice, two_sums):
        given["d"] = np.full(wanted.shape, 7, dtype)
    return given | {"c": np.full(wanted.shape, 7, dtype)}, wanted


def lowered(kernel: Any, m: int = 256, n: int = 512, k: int = 1024, **blocks: int) -> BlockKernel:
    """The Block IR of a kernel with its events."""
    given, _ = arguments_of(kernel, m, n, k)
    return lower_to_text(function_of(kernel, given | BLOCKS | blocks), B2)[0]


ALL_FORMS = [by_slices, by_pointers, of_integers, one_step, stacked, summed, with_bias]


SHAPES = [(256, 512, 64), (300, 520, 64), (100, 700, 129), (256, 256, 330)]


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "m", "n", "k"),
    [(kernel, *shape) for at, kernel in enumerate(ALL_FORMS) for shape in SHAPES[at % 2 :: 2]],
)
def test_products_are_right(kernel: Any, m: int, n: int, k: int) -> None:
    """Whole blocks and edge blocks in turn, with whole steps along K and others; each form has a part of the shapes."""
    given, wanted = arguments_of(kernel, m, n, 64 if kernel is one_step else k)
    made = lower_kernel(function_of(kernel, given | BLOCKS), B2)
    assert made.unit_flags is not None and not made.unit_flags.reason
    run(kernel, (-(-m // 128), -(-n // 256)), lower_kernel, blocks=2, **given, **BLOCKS)
    near = 1e-2 if kernel is stacked else 1e-4
    np.testing.assert_allclose(given["c"].astype(float), wanted, rtol=near, atol=near * np.sqrt(k))


@needs_compiler
@pytest.mark.parametrize("k", [0, 1])
def test_sums_of_nothing_are_zeros(k: int) -> None:
    given, wanted = arguments_of(by_slices, 128, 256, k)
    run(by_slices, (1, 1), lower_kernel, blocks=1, **given, **BLOCKS)
    np.testing.assert_allclose(given["c"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "blocks", "reason"),
    [
        (by_slices, {"BN": 128}, "L0C has two stages"),
        (stored_twice, {}, "used in several places"),
        (two_sums, {"BN": 128}, "sums of several products"),
    ],
)
def test_other_sums_keep_their_events_with_a_reason(kernel: Any, blocks: dict[str, int], reason: str) -> None:
    made = lowered(kernel, **blocks)
    assert made.unit_flags is not None and reason in made.unit_flags.reason
    assert "SetMMLayoutTransform" not in listing(made) and problems(made, B2) == []


def test_explain_says_it() -> None:
    given, _ = arguments_of(by_slices, 256, 512, 256)
    for blocks, text in (({}, "unit by unit"), ({"BN": 128}, "two stages")):
        (found,) = explain(by_slices, **given, **BLOCKS | blocks, target=B2.name).about("unit_flags")
        assert text in found.text
    assert not explain(by_slices, **given, **BLOCKS, target=A5.name).about("unit_flags")


BEFORE = """
def k(c: GM[float32, ND], rows: int32, n: int32) -> cube:
    a2 = L0A(float16, ZZ, 8192, at=0)
    b2 = L0B(float16, ZN, 16384, at=0)
    sums = L0C(float32, NZ, 32768, at=0)
    for i in range(block, 4, blocks):
        for k in range(0, n, 64, int32):
            Mmad(sums[0], a2[0], b2[0], (128, 256, 64, 0, k == 0, False, False))  # 1
        stored: int32 = min(rows, 128)  # 2
        if stored > 0:  # 2
            Fixpipe(c[i * 32768], sums[0], (256, stored, 128, 256, 'NoQuant', False, 1, 0, 0, 0))  # 2
"""
AFTER = """
def k(c: GM[float32, ND], rows: int32, n: int32) -> cube:
    a2 = L0A(float16, ZZ, 8192, at=0)
    b2 = L0B(float16, ZN, 16384, at=0)
    sums = L0C(float32, NZ, 32768, at=0)
    SetMMLayoutTransform(True)
    for i in range(block, 4, blocks):
        stored: int32 = min(rows, 128)  # 2
        whole: int1 = 0 < n and (stored > 0 and stored == 128)  # 2
        if not whole:  # 2
            SetFlag('FIX_M', 4)  # 2
            WaitFlag('FIX_M', 4)  # 2
        for k in range(0, n, 64, int32):
            Mmad(sums[0], a2[0], b2[0], (128, 256, 64, (3 if k >= n - 64 else 2) if whole else 0, k == 0, False, False))  # 1
        if not whole:  # 2
            SetFlag('M_FIX', 4)  # 2
            WaitFlag('M_FIX', 4)  # 2
        if stored > 0:  # 2
            Fixpipe(c[i * 32768], sums[0], (256, stored, 128, 256, 'NoQuant', False, 1, 0, 0, 3 if whole else 0))  # 2
        if not whole:  # 2
            SetFlag('FIX_M', 3)  # 2
            WaitFlag('FIX_M', 3)  # 2
    PipeBarrier('PIPE_ALL')
    SetMMLayoutTransform(False)
"""  # noqa: E501


def test_the_text_before_and_after() -> None:
    made = flag_units(parse(BEFORE), B2)
    assert made == parse(AFTER)
    assert sync(made, B2) == made, "no event is left to insert"


# What is wrong, what is replaced in the kernel's text, and what the verifier and the device say of it, with the line.
FIXPIPE = "'NoQuant', False, 1, 0, 0, 3 if whole else 0))  # 40"
BROKEN = {
    "a Fixpipe without a flag": (
        FIXPIPE,
        FIXPIPE.replace("3 if whole else 0", "0"),
        "line 40: this Fixpipe has no unit flag, but the product of line 39",
        "Fixpipe: .*without unitFlag it stays full",
    ),
    "a product without a flag": (
        "(3 if k >= stop - 256 and step >= (depth_2 + 63) // 64 - 1 else 2) if whole else 0",
        "0",
        "line 40: no product has filled the units",
        "Fixpipe: .*was not filled by a product",
    ),
    "a last product that does not fill": (
        "(3 if k >= stop - 256",
        "(3 if k >= stop",
        "line 40: no product has filled the units",
        "Fixpipe: .*was not filled by a product",
    ),
    "a product that fills too soon": (
        "(3 if k >= stop - 256",
        "(3 if k >= stop - 512",
        "line 39: no Fixpipe has emptied the units that line 39 fills: this product waits for ever",
        "Mmad: .*is full since unitFlag 3 at line .*waits for ever",
    ),
    "an edge block with flags": (
        "(rows_2 == 128 and cols_2 == 256)",
        "fits_2",
        "line 40: this Fixpipe takes 100 by 100 of the 128 by 256 sums that line 39 fills",
        "is full since unitFlag 3 at line .*no Fixpipe has taken it",
    ),
    "an edge block that does not wait for its products": (
        "SetFlag('M_FIX', 4)  # 40\n            WaitFlag('M_FIX', 4)",
        "PipeBarrier('PIPE_FIX')  # 40\n            PipeBarrier('PIPE_FIX')",
        "line 40: a read of L0C after a write by line 39 needs an event M_FIX",
        "Fixpipe: read after write in L0C",
    ),
    "an edge block that does not wait for the block before": (
        "SetFlag('FIX_M', 4)  # 40\n            WaitFlag('FIX_M', 4)",
        "PipeBarrier('PIPE_M')  # 40\n            PipeBarrier('PIPE_M')",
        "line 39: a write of L0C after a read by line 40 needs an event FIX_M",
        "Mmad: write after read in L0C",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_breaks_the_rule_is_found(what: str) -> None:
    old, new, said, _ = BROKEN[what]
    assert any(said in text for text in problems(sync(broken(old, new), B2), B2))


@needs_compiler
@pytest.mark.parametrize("what", BROKEN)
def test_the_device_finds_what_breaks_the_rule(what: str) -> None:
    """Edge blocks follow whole ones on the only core."""
    old, new, _, said = BROKEN[what]
    given, _ = arguments_of(by_slices, 300, 256, 1024)
    run(by_slices, (3, 1), lower_kernel, blocks=1, **given, **BLOCKS)
    with pytest.raises(AclError, match=said):
        run(by_slices, (3, 1), lambda *_: broken(old, new), blocks=1, verifies=False, **given, **BLOCKS)


def broken(old: str, new: str) -> BlockKernel:
    """The kernel with something else in its text, before events are inserted."""
    given, _ = arguments_of(by_slices, 300, 256, 1024)
    kernel = pto.jit(by_slices.function)  # which has not been compiled for other sizes of K
    text = listing(lower_kernel(function_of(kernel, given | BLOCKS), B2))
    assert old in text
    return parse(text.replace(old, new))


@needs_compiler
@pytest.mark.parametrize(("line", "said"), [(3, "was not filled"), (0, "has no|stays full|was not filled|read after")])
def test_sums_that_are_read_twice_are_a_fault(line: int, said: str) -> None:
    """A second Fixpipe, with the flag or without it and without an event."""
    made = whole(Matmul(32, 48, 64, float16, float32, SMALL, unit_flag=True).kernel())
    text = emit(made, B2)
    call = next(x for x in text.splitlines() if x.lstrip().startswith("Fixpipe<"))
    again = f"fixpipeParams.unitFlag = {line};\n{call}"
    a, b, c = floats(32, 64), floats(64, 48), np.zeros((32, 48), np.float32)
    launched(text, [a, b, c])
    with pytest.raises(AclError, match=said):
        launched(text.replace(call, f"{call}\n{again}"), [a, b, c])


def test_the_way_out_overlaps_products() -> None:
    """A prediction: the gain is more than a tenth, and less than if the way out took no time."""
    given, _ = arguments_of(by_slices, 2048, 6144, 512)
    without = pto.jit(by_slices.function, disable=("unit_flags",))
    before, found = (pto.simulate(kernel, B2.name)[16, 24](**given, **BLOCKS) for kernel in (without, by_slices))
    way_out = found.utilisation["FIX"] * found.cycles
    assert 0.1 * before.cycles < before.cycles - found.cycles < way_out
