"""Further faults that the simulated device finds: capacities, alignments and parameters of every memory and unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest

from pypto.runtime.acl import AclError
from tests.sim.device import LOAD, STORE, launched, needs_compiler, together, vector_kernel

pytestmark = needs_compiler
N: Final = 512

CUBE: Final = """
extern "C" __global__ __cube__ __aicore__ void {name}(GM_ADDR x, GM_ADDR y, int32_t n) {{
    GlobalTensor<half> gx;
    GlobalTensor<float> gy;
    gx.SetGlobalBuffer((__gm__ half*)x, n);
    gy.SetGlobalBuffer((__gm__ float*)y, n);
    LocalTensor<half> a1(TPosition::A1, 0, 1024), a2(TPosition::A2, 0, 1024), b2(TPosition::B2, 0, 1024);
    LocalTensor<float> c(TPosition::CO1, 0, 1024);
    InitSocState();
    {body}
    PipeBarrier<PIPE_ALL>();
}}
"""
MIXED: Final = """
extern "C" __global__ __mix__(1, 2) __aicore__ void {name}(GM_ADDR x, GM_ADDR y, int32_t n) {{
    (void)x, (void)y, (void)n;
    InitSocState();
    {body}
    PipeBarrier<PIPE_ALL>();
}}
"""
PRODUCT: Final = "MmadParams p; p.m = {m}, p.n = {n}, p.k = {k}; Mmad(c, a2, b2, p);"
READY: Final = "SetFlag<HardEvent::MTE1_M>(0); WaitFlag<HardEvent::MTE1_M>(0);"
FILL: Final = "InitConstValue(a2, {1, 4, 0, half(1.0f)}); InitConstValue(b2, {1, 4, 0, half(1.0f)});" + READY
SQUARE: Final = "MmadParams p; p.m = 16, p.n = 16, p.k = 16;"
M_FIX: Final = "SetFlag<HardEvent::M_FIX>(0); WaitFlag<HardEvent::M_FIX>(0);"
FIXPIPE: Final = "FixpipeParamsV220 f; f.nSize = {n}, f.mSize = 16, f.srcStride = 16, f.dstStride = 16; " \
    "Fixpipe<float, float, CFG_ROW_MAJOR>(gy, c, f);"  # fmt: skip
LOAD_3D: Final = "LoadData3DParamsV2<half> l; l.l1H = 1, l.l1W = 16, l.channelSize = 16, l.kExtension = 16, " \
    "l.mExtension = 16; {} LoadData(a2, a1, l);"  # fmt: skip

# What is wrong, the body of a kernel for one cube core, and what is said of it.
ON_CUBE: Final = {
    "more than L1 has": ("LocalTensor<half> t(TPosition::A1, 524288, 16);", "L1 has 524032 bytes for programs"),
    "more than L0A has": ("LocalTensor<half> t(TPosition::A2, 65536, 256);", "L0A has 65536 bytes for programs"),
    "more than L0B has": ("LocalTensor<half> t(TPosition::B2, 65024, 512);", "L0B has 65536 bytes for programs"),
    "more than L0C has": ("LocalTensor<float> t(TPosition::CO1, 131072, 256);", "L0C has 131072 bytes for programs"),
    "more than the bias table has": ("LocalTensor<float> t(TPosition::C2, 1024, 16);", "BT has 1024 bytes for"),
    "L1 that is not aligned": (
        "LocalTensor<half> t(TPosition::A1, 16, 512); DataCopy(t, gx, 16);", "byte 16 of L1.*multiple of 32"),
    "a small product that the next one adds to": (
        FILL + SQUARE + "Mmad(c, a2, b2, p); p.cmatrixInitVal = false; Mmad(c, a2, b2, p);",
        r"read after write in L0C.*PipeBarrier<PIPE_M>\(\) is missing"),
    "L0A that is not aligned": (
        "LocalTensor<half> t(TPosition::A2, 32, 512);" + FILL + SQUARE + "Mmad(c, t, b2, p);",
        "multiple of 512"),
    "L0C that is not aligned": (
        FILL + "LocalTensor<float> t(TPosition::CO1, 32, 256);" + SQUARE + "Mmad(t, a2, b2, p);",
        "multiple of (64|1024)"),
    "a product of too many rows": (FILL + PRODUCT.format(m=4096, n=16, k=16), "at most 4095, one is 4096"),
    "a product of one row": (FILL + PRODUCT.format(m=1, n=16, k=16), "m = 1 switches to another layout"),
    "operands in the wrong place": (
        FILL + SQUARE + "Mmad(c, b2, b2, p);", "lies in L0A, not in L0B"),
    "a product of what nobody loaded": (
        SQUARE + "Mmad(c, a2, b2, p);" + M_FIX + FIXPIPE.format(n=16), "of L0C, which nothing has written"),
    "a product before its operands are there": (
        FILL.removesuffix(READY) + PRODUCT.format(m=16, n=16, k=16), "read after write in L0[AB].*MTE1_M is missing"),
    "a result that leaves before it is there": (
        FILL + PRODUCT.format(m=16, n=16, k=16) + FIXPIPE.format(n=16), "read after write in L0C.*M_FIX is missing"),
    "a result of too many columns": (
        FILL + PRODUCT.format(m=16, n=16, k=16) + M_FIX
        + FIXPIPE.format(n=4096), "nSize or mSize is out of its range"),
    "a copy that no unit makes": (
        FILL + "SetFlag<HardEvent::MTE1_MTE3>(0); WaitFlag<HardEvent::MTE1_MTE3>(0); DataCopy(gx, a2, 16);",
        "nothing moves data from L0A to GM"),
    "vector instructions on a cube core": (
        "LocalTensor<float> u(TPosition::VECCALC, 0, 64); Duplicate(u, 1.0f, 64);", "this core has no"),
    "L0B that is not aligned": (
        FILL + "LocalTensor<half> t(TPosition::B2, 32, 512);" + SQUARE + "Mmad(c, a2, t, p);", "multiple of 512"),
    "operands of two dtypes": (
        FILL + "LocalTensor<bfloat16_t> t(TPosition::B2, 0, 512);" + SQUARE + "Mmad(c, a2, t, p);", "have one dtype"),
    "sums in half": (
        FILL + "LocalTensor<half> t(TPosition::CO1, 0, 256);" + SQUARE + "Mmad(t, a2, b2, p);", "the result is float"),
    "a product over one that has not left": (
        FILL + SQUARE + "p.unitFlag = 3; Mmad(c, a2, b2, p); Mmad(c, a2, b2, p);", "is full .* waits for ever"),
    "a result whose products do not end": (
        FILL + SQUARE + "p.unitFlag = 2; Mmad(c, a2, b2, p);"
        + FIXPIPE.format(n=16).replace("Fixpipe<", "f.unitFlag = 3; Fixpipe<"), "was not filled .* waits for ever"),
    "a result whose products have a unit flag and whose Fixpipe has none": (
        FILL + SQUARE + "p.unitFlag = 3; Mmad(c, a2, b2, p);" + M_FIX + FIXPIPE.format(n=16),
        "is full since unitFlag 3 at line .*without unitFlag it stays full"),
    "a product that takes no notice of a unit flag": (
        FILL + SQUARE + "p.unitFlag = 3; Mmad(c, a2, b2, p); p.unitFlag = 0; Mmad(c, a2, b2, p);",
        "of which this product takes no notice"),
    "a result that leaves twice": (
        FILL + SQUARE + "p.unitFlag = 3; Mmad(c, a2, b2, p);"
        + FIXPIPE.format(n=16).replace("Fixpipe<", "f.unitFlag = 3; Fixpipe<") + "Fixpipe(gy, c, f);", "not filled"),
    "a result that leaves a second time without a unit flag": (
        FILL + SQUARE + "p.unitFlag = 3; Mmad(c, a2, b2, p);"
        + FIXPIPE.format(n=16).replace("Fixpipe<", "f.unitFlag = 3; Fixpipe<") + "f.unitFlag = 0; Fixpipe(gy, c, f);",
        r"read after write in L0C.*M_FIX is missing"),
    "a result that leaves in part": (
        FILL + SQUARE + "p.unitFlag = 3; Mmad(c, a2, b2, p);"
        + FIXPIPE.format(n=16).replace("Fixpipe<", "f.mSize = 8, f.unitFlag = 3; Fixpipe<"),
        "at byte 512 is full since unitFlag 3 at line .*the next product waits for ever"),
    "a unit flag of 1": (FILL + SQUARE + "p.unitFlag = 1; Mmad(c, a2, b2, p);", "unitFlag is 0, 2 or 3"),
    "products by rows for the next kernel": ("SetMMLayoutTransform(true);", "SetMMLayoutTransform.false. is missing"),
    "a result that is not turned into half": (
        FILL + SQUARE + "Mmad(c, a2, b2, p);" + M_FIX
        + FIXPIPE.format(n=16).replace("<float,", "<half,").replace("gy", "gx"), "does not turn float into half"),
    "a result in fractals": (
        FILL + SQUARE + "Mmad(c, a2, b2, p);" + M_FIX + FIXPIPE.format(n=16).replace("ROW_MAJOR", "NZ"), "writes rows"),
    "a load of rows that are not there": (LOAD_3D.format("l.mStartPt = 16;"), "mExtension goes past the image"),
    "a load of columns that are not there": (LOAD_3D.format("l.kExtension = 32;"), "kExtension goes past channelSize"),
    "a load of a part of a fractal's rows": (LOAD_3D.format("l.mExtension = 8;"), "are multiples of 16"),
    "a load of a part of a fractal's columns": (LOAD_3D.format("l.kExtension = 8;"), "of a fractal's columns"),
    "a load of an image without rows": (LOAD_3D.format("l.l1H = 0;"), "l1H or l1W is out of its range"),
    "a load with padding": (LOAD_3D.format("l.padList[0] = 1;"), "filters of one pixel, without padding"),
    "a load of turned fractals into L0A": (LOAD_3D.format("l.enTranspose = true;"), "loads without enTranspose"),
    "a load of plain fractals into L0B": (LOAD_3D.format("").replace("(a2,", "(b2,"), "loads with enTranspose"),
    "a load that ends in L1": (
        "LoadData2DParams l; LoadData(a1, a1, l);", "the destination lies in L0A or L0B"),
    "turned fractals of 32 bits": (
        "LocalTensor<float> s(TPosition::A1, 0, 512), t(TPosition::A2, 0, 512);"
        "LoadData2DParams l; l.ifTranspose = true; LoadData(t, s, l);", "use LoadDataWithTranspose"),
    "too many rows to fractals": (
        "DataCopy(a1, gx, Nd2NzParams{1, 16385, 16, 0, 16, 16, 1, 0});", "a parameter is out of its range"),
    "rows to fractals in L0A": (
        "DataCopy(a2, gx, Nd2NzParams{1, 16, 16, 0, 16, 16, 1, 0});", "it goes from GM to L1"),
    "too many fractals of a constant": (
        "InitConstValue(a2, {40000, 4, 0, half(1.0f)});", "a parameter is out of its range"),
    "a constant in L0C": ("InitConstValue(c, {1, 4, 0, 1.0f});", "the destination lies in L1, L0A or L0B"),
    "a load of turned fractals of words": (
        "LocalTensor<float> s(TPosition::A1, 0, 512), t(TPosition::B2, 0, 512); "
        + LOAD_3D.format("l.enTranspose = true;").replace("<half>", "<float>").replace("a2, a1", "t, s"),
        "only fractals of 16-bit elements are transposed"),
    "a copy to the other kind of core's memory": (
        "LocalTensor<float> u(TPosition::VECCALC, 0, 64); DataCopyPad(u, gy, {1, 64, 0, 0, 0}, {false, 0, 0, 0});",
        "this core has no UB"),
    "a number of the other kind of core's memory": (
        "LocalTensor<float> u(TPosition::VECCALC, 0, 64); if (u.GetValue(0) > 0.0f) PipeBarrier<PIPE_ALL>();",
        "UB has 0 bytes, but the tensor ends at 4"),
    "rows of fractals nowhere": (
        "DataCopy(a1, gx, Nd2NzParams{1, 16, 16, 0, 16, 16, 16385, 0});", "a parameter is out of its range"),
    "an event of a unit that it has not": ("SetFlag<HardEvent::MTE2_V>(0);", "this core has no unit V"),
    "a wait of a unit that it has not": ("WaitFlag<HardEvent::V_MTE3>(0);", "this core has no unit V"),
    "a barrier of a unit that it has not": ("PipeBarrier<PIPE_V>();", "this core has no unit V"),
    "a product that begins with a bias": (
        FILL + SQUARE + "p.cmatrixSource = true; Mmad(c, a2, b2, p);", "adds no bias"),
    "results of many matrices": (
        FILL + SQUARE + "Mmad(c, a2, b2, p);" + M_FIX
        + FIXPIPE.format(n=16).replace("Fixpipe<", "f.ndNum = 2; Fixpipe<"), "writes one matrix"),
    "results that are added up": (
        FILL + SQUARE + "Mmad(c, a2, b2, p);" + M_FIX + "SetAtomicAdd<float>();" + FIXPIPE.format(n=16),
        "adds nothing up on the way out"),
    "results in parts of channels": (
        FILL + SQUARE + "Mmad(c, a2, b2, p);" + M_FIX
        + FIXPIPE.format(n=16).replace("Fixpipe<", "f.isChannelSplit = true; Fixpipe<"), "writes rows"),
    "events of a loader that are set twice": (
        "SetFlag<HardEvent::MTE2_MTE1>(1); SetFlag<HardEvent::MTE2_MTE1>(1);", "event MTE2_MTE1 1 is set already"),
}  # fmt: skip


def cube_kernel(body: str, name: str = "k") -> str:
    return CUBE.format(body=body, name=name)


def mixed_kernel(body: str, name: str) -> str:
    return MIXED.format(body=body, name=name)


def assert_found(
    wrap: Callable[[str, str], str],
    table: Mapping[str, tuple[str, str]],
    what: str,
    dtype: type,
    arch: str = "dav-2201",
) -> None:
    """One body of a table is a fault; all of them are compiled together, and each is launched by itself."""
    binary = together(wrap, tuple(body for body, _ in table.values()), arch)
    with pytest.raises(AclError, match=table[what][1]):
        launched("", [np.ones(N, dtype), np.zeros(N, np.float32)], N, binary=binary, name=f"k{list(table).index(what)}")


@pytest.mark.parametrize("what", ON_CUBE)
def test_faults_of_cube_cores_are_found(what: str) -> None:
    assert_found(cube_kernel, ON_CUBE, what, np.float16)


WORDS: Final = "LocalTensor<float> s(TPosition::A1, 0, 512), t(TPosition::A2, 0, 512), r(TPosition::B2, 0, 512);"
BYTES: Final = "LocalTensor<int8_t> s(TPosition::A1, 0, 1024), t(TPosition::A2, 0, 1024);"
LOAD_V2: Final = "LoadData2DParamsV2 l; l.mStep = 1, l.kStep = 1, l.srcStride = 1, l.dstStride = 1; {}"
# The same for one cube core of 3510, and of 2201 where it has nothing of the like.
ON_3510: Final = {
    "fractals turned one by one": (
        "LoadData2DParams l; l.ifTranspose = true; LoadData(a2, a1, l);", "turns fractals by LoadData2DParamsV2"),
    "fractals apart": ("LoadData2DParams l; l.dstGap = 1; LoadData(a2, a1, l);", "dstGap has no effect"),
    "squares turned into L0A": (
        WORDS + "LoadDataWithTranspose(t, s, LoadData2dTransposeParams(0, 1, 1, 0, 0));", "goes to L0B only"),
    "a constant in L0A": ("InitConstValue(a2, {1, 1, 0, half(1.0f)});", "nothing fills L0A or L0B"),
    "whole squares of words along K": (
        WORDS + "MmadParams p; p.m = 16, p.n = 16, p.k = 8, p.kDirectionAlign = true; Mmad(c, t, r, p);",
        "kDirectionAlign is always false"),
    "a product of one row": (PRODUCT.format(m=1, n=16, k=16), "m = 1 switches to another layout"),
    "half a square of words": (
        WORDS + LOAD_V2.format("l.ifTranspose = true; LoadData(t, s, l);"), "kStep must be even"),
    "half a square of bytes": (
        BYTES + LOAD_V2.format("l.ifTranspose = true; LoadData(t, s, l);"), "mStep must be even"),
    "more fractals than a load has": (
        LOAD_V2.format("l.mStep = 256; LoadData(a2, a1, l);"), "mStep, kStep or srcStride"),
}  # fmt: skip


@pytest.mark.parametrize("what", ON_3510)
def test_faults_of_cube_cores_of_3510_are_found(what: str) -> None:
    assert_found(cube_kernel, ON_3510, what, np.float16, "dav-3510")


def test_loads_of_whole_panels_are_of_3510() -> None:
    body = cube_kernel(LOAD_V2.format("LoadData(a2, a1, l);"))
    with pytest.raises(AclError, match="LoadData2DParamsV2 is of dav-3510"):
        launched(body, [np.ones(N, np.float16), np.zeros(N, np.float32)], N)


MASK: Final = "Duplicate(b, 0.0f, 64); Duplicate(bits.ReinterpretCast<int32_t>(), 0, 64); PipeBarrier<PIPE_V>();"
ON_VECTOR: Final = {
    "a block as long as 2 MiB": (
        "DataCopyPad(a, gx, {1, 2097152, 0, 0, 0}, {false, 0, 0, 0});", "must be shorter than 2 MiB"),
    "padding of more than a block": (
        "DataCopyPad(a, gx, {1, 4, 0, 0, 0}, {true, 0, 9, 0.0f});", "padding is at most 32 bytes"),
    "a mask of no lanes": (LOAD + "Exp(b, a, 0, 2, {1, 1, 8, 8});", "the mask must be between 1"),
    "an offset that is not aligned": (LOAD + "Exp(b[4], a, 64);", "byte 16400 of UB, which is no multiple of 32"),
    "two loads into one place": (
        "for (int i = 0; i < 2; ++i) DataCopyPad(a, gx, {1, 64, 0, 0, 0}, {false, 0, 0, 0});",
        r"write after write in UB.*PipeBarrier<PIPE_MTE2>\(\) is missing"),
    "two stores to one place": (
        LOAD + "Exp(b, a, n);" + STORE + "DataCopyPad(gy, b, {1, 64, 0, 0, 0});",
        r"write after .* in GM.*PipeBarrier<PIPE_MTE3>\(\) is missing"),
    "a number written over a result that is not there yet": (
        "Duplicate(a, 2.0f, 64); a.SetValue(0, 1.0f);", "write after write in UB.*V_S is missing"),
    "a number that is read before it is written": (
        "a.SetValue(0, 1.0f); Adds(b, a, 1.0f, 1);", "read after write in UB.*S_V is missing"),
    "a number that is stored before it is written": (
        "b.SetValue(0, 1.0f); DataCopyPad(gy, b, {1, 4, 0, 0, 0});", "read after write in UB.*S_MTE3 is missing"),
    "a comparison of integers": (
        "LocalTensor<int32_t> i(TPosition::VECCALC, 65536, 64); Duplicate(i, 1, 64); PipeBarrier<PIPE_V>();"
        "Compare(bits, i, i, CMPMODE::LT, 64);", "EQ of int32_t"),
    "memory of an array that was not copied in": (
        "DataCopyPad(a, gx, {1, 16, 0, 0, 0}, {false, 0, 0, 0}); SetFlag<HardEvent::MTE2_V>(0);"
        "WaitFlag<HardEvent::MTE2_V>(0); Exp(b, a, 16);", "which nothing has written"),
    "a selection in the mode of another one": (
        LOAD + "CompareScalar(bits, a, 0.0f, CMPMODE::LT, 64); PipeBarrier<PIPE_V>();"
        "Select(b, bits, a, a, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);", "the mode does not fit"),
    "an offset that is none of an element": (
        LOAD + "LocalTensor<uint32_t> o(TPosition::VECCALC, 65536, 64); Duplicate(o, 2u, 64); PipeBarrier<PIPE_V>();"
        "Gather(b, a, o, 0, 64);", "no multiple of the element's size"),
    "an offset past the tensor": (
        LOAD + "LocalTensor<uint32_t> o(TPosition::VECCALC, 65536, 64); Duplicate(o, 16384u, 64);"
        "PipeBarrier<PIPE_V>(); Gather(b, a, o, 0, 64);", "bytes 16384 to 16388 of a tensor in UB that has 16384"),
    "a reduction of too many repeats": (
        LOAD + "WholeReduceSum(b, a, 64, 300, 1, 1, 8);", "repeatTime must be between 0 and 255, it is 300"),
    "a reduction with too long a stride": (
        LOAD + "WholeReduceSum(b, a, 64, 1, 70000, 1, 8);", "a stride is out of its range"),
    "a local tensor in GM": ("LocalTensor<float> g(TPosition::GM, 0, 64);", "a local tensor does not lie in GM"),
    "a queue without buffers": ("TQue<TPosition::VECIN, 2> q; q.AllocTensor<float>();", "has no buffers yet"),
    "a queue of too many buffers": (
        "TPipe pipe; TQue<TPosition::VECIN, 2> q; pipe.InitBuffer(q, 17, 32);", "a queue has 1 to 16 buffers"),
    "a buffer that is given back before it was taken": (
        "TPipe pipe; TQue<TPosition::VECIN, 2> q; pipe.InitBuffer(q, 2, 64);"
        "auto t = q.AllocTensor<float>(); q.EnQue(t); q.FreeTensor(t);", "the buffer is queued"),
    "a mask of bits without one": (
        LOAD + "const uint64_t none[2] = {0, 0}; Exp(b, a, none, 2, {1, 1, 8, 8});", "the mask has no lane"),
    "an operand in L1": (
        LOAD + "LocalTensor<float> t(TPosition::A1, 0, 64); Exp(b, t, 64);", "operands lie in UB, this one in L1"),
    "scores in L1": (
        "LocalTensor<float> t(TPosition::A1, 0, 64); LocalTensor<uint32_t> i(TPosition::VECCALC, 65536, 64);"
        "Sort32(b, t, i, 1);", "the scores must be in UB"),
    "a merge of integers": (
        "LocalTensor<int32_t> i(TPosition::VECCALC, 65536, 64); MrgSortSrcList<int32_t> lists(i, i, i, i);"
        "MrgSort4Info m; m.validBit = 3; MrgSort(i[64], lists, m);", "has no MrgSort for int32_t"),
    **{f"{what} between blocks": (f"{LOAD}{MASK}{call}", "begins at byte .* which is no multiple of 32")
       for what, call in (
        ("rows to be reduced", "WholeReduceSum(b, a[4], 64, 1, 1, 1, 8);"),
        ("numbers to be repeated", "Brcb(b, a[4], 1, {1, 8});"),
        ("numbers to be gathered", "Gather(b, a[4], bits.ReinterpretCast<uint32_t>(), 0, 8);"),
        ("offsets", "Gather(b, a, bits.ReinterpretCast<uint32_t>()[4], 0, 8);"),
        ("numbers to be picked", "uint64_t kept; GatherMask(b, a[4], 7, false, 0, {1, 1, 8, 0}, kept);"),
        ("picked numbers", "uint64_t kept; GatherMask(b[4], a, 7, false, 0, {1, 1, 8, 0}, kept);"),
        ("what is compared with", "Compare(bits, a, a[4], CMPMODE::LT, 64);"),
        ("what is selected", "Select(b, bits, a, a[4], SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);"),
        ("a mask", "Select(b, bits[4], a, a, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);"),
        ("a square to be turned", "Transpose(b.ReinterpretCast<half>(), a[4].ReinterpretCast<half>());"))},
    **{what: (f"{LOAD}{MASK}{call}", "the result lies where the instruction reads") for what, call in (
        ("bits over what is compared", "Compare(a.ReinterpretCast<uint8_t>(), a, a, CMPMODE::LT, 64);"),
        ("bits over what is compared with", "Compare(b.ReinterpretCast<uint8_t>(), a, b, CMPMODE::LT, 64);"),
        ("numbers over their mask", "Select(bits.ReinterpretCast<float>(), bits, a, a, "
            "SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);"),
        ("a square turned in place", "Transpose(a.ReinterpretCast<half>(), a.ReinterpretCast<half>());"))},
    "sums of unsigned integers": ("SetAtomicAdd<uint32_t>();", "stores add up no uint32_t"),
    "an array between two elements": (
        "gx.SetGlobalBuffer((__gm__ float*)(x + 2), 8); DataCopyPad(a, gx, {1, 4, 0, 0, 0}, {false, 0, 0, 0});",
        "the array begins between two elements"),
    "a row between two elements": (
        "DataCopyPad(a, gx, {2, 4, 2, 0, 0}, {false, 0, 0, 0});", "a row begins between two elements"),
    "a stored row between two elements": (
        "Duplicate(b, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);"
        "DataCopyPad(gy, b, {2, 4, 0, 2, 0});",
        "a row begins between two elements"),
    "a number that stays in the cache": ("gy.SetValue(0, 1.0f);", "stays in its cache"),
    "a number from before it was stored": (
        LOAD + "Exp(b, a, n);" + STORE + "SetFlag<HardEvent::MTE3_S>(0); WaitFlag<HardEvent::MTE3_S>(0);"
        "if (gy.GetValue(0) > 0.0f) PipeBarrier<PIPE_ALL>();", "cache may have what was in GM before"),
    "an event of a unit that it has not": ("SetFlag<HardEvent::MTE2_MTE1>(0);", "this core has no unit MTE1"),
    "a flag between cores with a number too high": ("CrossCoreSetFlag<0x0, PIPE_MTE3>(11);", "between 0 and 10"),
    "a flag for the other kind of cores": ("CrossCoreSetFlag<0x2, PIPE_MTE3>(0);", "needs a kernel that is __mix__"),
    "a flag for cores of the same kind": ("CrossCoreSetFlag<0x0, PIPE_MTE3>(0);", "needs a kernel that is __mix__"),
}  # fmt: skip


@pytest.mark.parametrize("what", ON_VECTOR)
def test_faults_of_vector_cores_are_found(what: str) -> None:
    assert_found(vector_kernel, ON_VECTOR, what, np.float32)


BETWEEN: Final = {
    "more than 15 signals at one flag": (
        "if ASCEND_IS_AIC { for (int i = 0; i < 16; ++i) CrossCoreSetFlag<0x2, PIPE_FIX>(3); }",
        "more than 15 signals",
    ),
    "a signal of a unit that it has not": (
        "if ASCEND_IS_AIV { CrossCoreSetFlag<0x0, PIPE_FIX>(0); }",
        "this core has no unit FIX",
    ),
    "a signal of the scalar unit": ("CrossCoreSetFlag<0x2, PIPE_S>(0);", "comes from one unit"),
    "a signal of all units": ("CrossCoreSetFlag<0x2, PIPE_ALL>(0);", "comes from one unit"),
    "a signal that nobody takes": (
        "if ASCEND_IS_AIC { CrossCoreSetFlag<0x2, PIPE_FIX>(3); }",
        r"k\d: flag 3 between cores is left over",
    ),
    "a wait for a number too high": ("if ASCEND_IS_AIV { CrossCoreWaitFlag(11); }", "between 0 and 10"),
    "a flag that nobody sets": ("if ASCEND_IS_AIV { CrossCoreWaitFlag(3); }", "waits for another one"),
}


@pytest.mark.parametrize("what", BETWEEN)
def test_faults_between_cores_are_found(what: str) -> None:
    assert_found(mixed_kernel, BETWEEN, what, np.float32)


@pytest.mark.parametrize(("first", "second"), [("", "SetAtomicAdd<float>();"), ("SetAtomicAdd<float>();", "")])
def test_sums_and_numbers_on_the_same_bytes(first: str, second: str) -> None:
    """Cores may add to the same bytes in whatever order; not to what another one stores there."""
    store = "DataCopyPad(gy, b, {1, 4, 0, 0, 0}); SetAtomicNone();"
    body = "Duplicate(b, 1.0f, 8); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);" \
        f"if (GetBlockIdx() == 0) {{ {first} {store} }} else {{ {second} {store} }}"  # fmt: skip
    with pytest.raises(AclError, match="two cores use the same bytes"):
        launched(vector_kernel(body), [np.ones(N, np.float32), np.zeros(N, np.float32)], N, blocks=2)


def test_padding_is_the_first_element_unless_it_is_said() -> None:
    body = (
        """
    Duplicate(a, 5.0f, 64);
    SetFlag<HardEvent::V_MTE2>(0); WaitFlag<HardEvent::V_MTE2>(0);
    DataCopyPad(a, gx, {1, 12, 0, 0, 0}, {false, 0, 0, 9.0f});
    """
        + "SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0); Adds(b, a, 0.0f, 8);"
        + """
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopyPad(gy, b, {1, 32, 0, 0, 0});
    """
    )
    x, y = np.arange(1, N + 1, dtype=np.float32), np.zeros(N, np.float32)
    launched(vector_kernel(body), [x, y], N)
    np.testing.assert_array_equal(y[:8], [1, 2, 3, 1, 1, 1, 1, 1])


def test_the_order_of_cores_follows_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that depends on it comes out differently with another seed: ones are lost beside a large number."""
    body = """
    const float mine = GetBlockIdx() == 0 ? 16777216.0f : GetBlockIdx() == 1 ? -16777216.0f : 1.0f;
    Duplicate(b, mine, 8);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    SetAtomicAdd<float>();
    DataCopyPad(gy, b, {1, 4, 0, 0, 0});
    SetAtomicNone();
    """
    orders = set()
    for seed in map(str, range(1, 13)):  # the number of launches before counts, too
        monkeypatch.setenv("ASCSIM_SEED", seed)
        y = np.zeros(N, np.float32)
        launched(vector_kernel(body), [np.ones(N, np.float32), y], N, blocks=8)
        orders.add(float(y[0]))
    assert len(orders) > 1
