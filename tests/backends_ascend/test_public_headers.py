"""What is generated compiles against the public headers, where a machine has them; ours say what they say.

`ASCENDC_PUBLIC_HEADERS` names the folder that holds their `include` and `impl`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from pypto.backends.ascend.blockir.instructions import RECORDS
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Instr, Record, View
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.ir.types import float16
from tests.backends_ascend.header_facts import fields, ours, theirs
from tests.backends_ascend.public_headers import (
    CHIPS,
    Headers,
    complaints,
    joined,
    op_kernels,
    place,
    product_kernels,
    tutorial_kernels,
)
from tests.backends_ascend.test_ascendc import complaints as our_complaints
from tests.sim.device import needs_compiler

PUBLIC: Final = place()
needs_headers = pytest.mark.skipif(PUBLIC is None, reason="ASCENDC_PUBLIC_HEADERS names no public headers of Ascend C")
BITS: Final = {"bool": "bool1", "uint8_t": "uint1", "uint16_t": "uint2", "uint32_t": "uint4", "int32_t": "int4"}
LINE: Final = 'extern "C" __global__ __vector__ __aicore__ void k(GM_ADDR x) {'
MISTAKES: Final = {
    "an order of parameters": "Adds(a, a, 64, 2.0f);",
    "two dtypes": "Add(a, a, h, 64);",
    "a name": "SetFlag<HardEvent::S_M>(0);",
    "a number that may not fit": "DataCopy(h, gx, Nd2NzParams{1, 16, 16, 0, pitch, 16, 1, 0});",
    "one argument more": "Add(a, a, a, 64, 1);",
    "a bfloat16 from a float": "b.SetValue(0, 2.0f);",
    "a bfloat16 as a float": "a.SetValue(0, b.GetValue(0));",
    "a missing field": "DataCopyPad(h, gx, DataCopyExtParams{1, 32, 0, 0}, {false, 0, 0, 0});",
}
# Calls that all headers take, on both architectures, and calls that none does.
TAKEN: Final = """
    Add(a, a, a, 64, 1, {1, 1, 1, 8, 8, 8});
    Adds(h, h, static_cast<half>(2.0f), 64);
    Cast(a, h, RoundMode::CAST_NONE, 64);
    Compare(a.ReinterpretCast<uint8_t>(), a, a, CMPMODE::LT, 64);
    CompareScalar(a.ReinterpretCast<uint8_t>(), a, 1.0f, CMPMODE::LT, 64);
    Select(a, a.ReinterpretCast<uint8_t>(), a, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
    WholeReduceMax(a, a, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
    BlockReduceSum(a, a, 1, 64, 1, 1, 8);
    Gather(a, a, a.ReinterpretCast<uint32_t>(), 0u, 64u);
    Brcb(a, a, 1, {1, 8});
    ShiftRight(a.ReinterpretCast<int32_t>(), a.ReinterpretCast<int32_t>(), 3, 64);
    CrossCoreWaitFlag<2, PIPE_MTE2>(1);
    SetAtomicAdd<float>();
    h.SetValue(0, 1.0f);
""".strip().splitlines()
REFUSED: Final = """
    Add(a, a, a, 64, 1, {1, 1, 1});
    Gather(a, a, a.ReinterpretCast<int32_t>(), 0u, 64u);
    Transpose(a, h);
    PipeBarrier(PIPE_V);
    SetFlag(0);
    SetAtomicAdd();
    DataCopy(gx, gx, 64);
    DataCopy(a, gx, 64);
    WholeReduceMax(a, a, 64, 1, 1, 1, ReduceOrder::ORDER_ONLY_VALUE);
""".strip().splitlines()


def with_mistake(line: str) -> str:
    """A kernel that is right but for a line of it."""
    return "\n".join((
        '#include "kernel_operator.h"', "using namespace AscendC;", LINE,
        "    GlobalTensor<half> gx;",
        "    gx.SetGlobalBuffer((__gm__ half*)x);",
        "    const uint32_t pitch = static_cast<uint32_t>(GetBlockNum());",
        "    LocalTensor<float> a(TPosition::VECCALC, 0, 64);",
        "    LocalTensor<half> h(TPosition::VECCALC, 256, 64);",
        "    LocalTensor<bfloat16_t> b(TPosition::VECCALC, 512, 64);",
        "    b.SetValue(0, ToBfloat16(ToFloat(b.GetValue(1)) * 2.0f));",
        "    Adds(a, a, 2.0f, static_cast<int32_t>(pitch));",
        "    DataCopyPad(h, gx, DataCopyExtParams{1, 32, 0, 0, 0}, DataCopyPadExtParams<half>{false, 0, 0, 0});",
        f"    {line}", "}", "",
    ))  # fmt: skip


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "kernels", [tutorial_kernels, product_kernels, pytest.param(op_kernels, marks=pytest.mark.slow)]
)
@needs_headers
def test_kernels_compile(chip: str, kernels: Callable[[AscendTarget], Iterator[tuple[str, str]]]) -> None:
    assert PUBLIC is not None
    target = ascend_target(chip)
    made = dict(kernels(target))
    assert len(made) >= 12 and complaints(PUBLIC, target, made) == []


@needs_headers
@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_found(what: str) -> None:
    assert PUBLIC is not None
    b2 = ascend_target("ascend910b2")
    found = complaints(PUBLIC, b2, {"wrong.asc": with_mistake(MISTAKES[what])})
    assert any(line.startswith("wrong.asc:13:") for line in found)


@needs_compiler
@pytest.mark.parametrize("what", MISTAKES)
def test_our_headers_find_them_too(what: str, tmp_path: Path) -> None:
    assert "kernel.cpp:13:" in our_complaints(with_mistake(MISTAKES[what]), tmp_path)


def calls() -> dict[str, str]:
    """A kernel for each call."""
    return {f"call{i}.asc": with_mistake(line.strip()) for i, line in enumerate(TAKEN + REFUSED)}


def refused(said: str) -> list[str]:
    found = {int(number) for number in re.findall(r"call(\d+)\.asc:13\b", said)}
    return [line for i, line in enumerate(TAKEN + REFUSED) if i in found]


@needs_compiler
def test_what_our_headers_take(tmp_path: Path) -> None:
    assert refused(our_complaints(joined(calls()), tmp_path)) == REFUSED


@needs_headers
@pytest.mark.parametrize("chip", CHIPS)
def test_what_the_public_headers_take(chip: str) -> None:
    assert PUBLIC is not None
    assert refused("\n".join(complaints(PUBLIC, ascend_target(chip), calls()))) == REFUSED


@needs_compiler
def test_our_headers_find_nothing_in_what_is_right(tmp_path: Path) -> None:
    assert our_complaints(with_mistake(""), tmp_path) == ""


@needs_headers
def test_the_public_headers_find_nothing_in_what_is_right() -> None:
    assert PUBLIC is not None
    assert complaints(PUBLIC, ascend_target("ascend910b2"), {"right.asc": with_mistake("")}) == []


@needs_headers
@pytest.mark.parametrize("chip", CHIPS)
def test_memories_are_as_large_as_the_public_headers_say(chip: str, tmp_path: Path) -> None:
    """Less what the records leave to the compiler, at the end of UB and L1."""
    assert PUBLIC is not None
    target = ascend_target(chip)
    names = {"UB": "TMP_UB_OFFSET", "L1": "TOTAL_L1_SIZE", "L0A": "TOTAL_L0A_SIZE", "L0C": "TOTAL_L0C_SIZE"}
    checks = (f"static_assert({name} - {target.memories[space].bytes} <= {256 if space in ('UB', 'L1') else 0});"
              for space, name in names.items())  # fmt: skip
    text = "\n".join(['#include "kernel_operator.h"', "using namespace AscendC;", *checks])
    headers = Headers(PUBLIC, target.arch, "VEC", tmp_path)
    assert [line for line in headers.complaints(text) if "error" in line] == []
    wrong = text.replace(f"{target.memories['L0C'].bytes}", "65536")
    assert any("static assertion" in line for line in headers.complaints(wrong))


@needs_headers
@pytest.mark.parametrize("arch", [2201, 3510])
def test_structures_and_enumerations_are_the_public_ones(arch: int, tmp_path: Path) -> None:
    assert PUBLIC is not None
    assert ours(arch, tmp_path) == theirs(PUBLIC, arch, tmp_path)


@needs_compiler
def test_the_table_of_records_is_what_the_headers_say(tmp_path: Path) -> None:
    """Types of fields are those of 2201, whose are the narrowest; what is not written is what it is by itself."""
    found = {words[0]: words[1:] for words in map(str.split, ours(2201, tmp_path)) if "." in words[0]}
    wanted = {f"{record.name}.{x.name}": x for record in RECORDS.values() for x in fields(record)}
    assert found.keys() == wanted.keys()
    for name, (kind, default) in found.items():
        assert kind == BITS[wanted[name].ctype], name
        record = RECORDS[name.rpartition(".")[0]]
        assert not record.variable or int(default) == wanted[name].default, name


@needs_compiler
@pytest.mark.parametrize("arch", [2201, 3510])
def test_structures_hold_what_the_table_puts_there(arch: int, tmp_path: Path) -> None:
    narrow, wide = ours(2201, tmp_path), ours(arch, tmp_path)
    sizes = [[int(line.split()[1][-1]) for line in lines] for lines in (narrow, wide)]
    assert all(a <= b for a, b in zip(*sizes, strict=True))


def test_one_fractal_is_said_to_be_one() -> None:
    """A load that says nothing of how often it repeats loads nothing."""
    left = Buffer("left", "L0A", float16, 256, address=0)
    panel = Buffer("panel", "L1", float16, 256, address=0)
    load = Instr("LoadData", (View(left), View(panel), Record((0, 1, 1, 0, False))))
    text = emit(BlockKernel("k", "cube", (), (left, panel), (load,)), ascend_target("ascend910b2"))
    assert "loadParams.repeatTimes = 1;" in text
