"""What the hardware would not forgive is a fault with the line, at the wait for the stream."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pypto.runtime.acl import AclError, opened
from tests.sim.device import LOAD, STORE, built, compiled, launched, needs_compiler, together, vector_kernel

pytestmark = needs_compiler
N = 512
COPY = "DataCopyPad(a, gx, {1, static_cast<uint32_t>(n) * 4u, 0, 0, 0}, {false, 0, 0, 0});\n"
MTE2_V = "SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);\n"
QUEUE = """
    TPipe pipe;
    TQue<TPosition::VECIN, 2> queue;
    pipe.InitBuffer(queue, 2, 2048);
"""
SCORES = (
    "LocalTensor<uint32_t> c(TPosition::VECCALC, 65536, 4096);"
    + LOAD
    + """
    Duplicate(c, static_cast<uint32_t>(7), 512);
    PipeBarrier<PIPE_V>();
"""
)
SORTED = (
    SCORES
    + """
    Duplicate(a[32], 3.0f, 32);
    PipeBarrier<PIPE_V>();
    Sort32(b, a, c, 4);
    PipeBarrier<PIPE_V>();
    MrgSortSrcList<float> lists(b, b[64], b[128], b[192]);
    MrgSort4Info m;
    m.validBit = 3, m.elementLengths[0] = m.elementLengths[1] = 32;
"""
)

WIDE = "LocalTensor<int64_t> w(TPosition::VECCALC, 65536, 64); GlobalTensor<int64_t> gw; " \
    "gw.SetGlobalBuffer((__gm__ int64_t*)x, 64);"  # fmt: skip

# What is wrong, the kernel's body, and what is said of it.
FAULTS = {
    "a read before the copy is done": (COPY + "Exp(b, a, n);", "read after write in UB.*MTE2_V is missing"),
    "a store before the result is there": (
        LOAD + "Exp(b, a, n);\nDataCopyPad(gy, b, {1, 2048, 0, 0, 0});", "read after write in UB.*V_MTE3 is missing"),
    "an input overwritten while it is stored": (
        LOAD + "Exp(b, a, n);" + STORE + "PipeBarrier<PIPE_V>(); Exp(b, a, n);",
        "write after read in UB.*MTE3_V is missing"),
    "vector instructions that depend on each other": (
        LOAD + "Exp(b, a, n);\nMuls(b, b, 2.0f, n);", r"read after write in UB.*PipeBarrier<PIPE_V>\(\) is missing"),
    "memory that nobody wrote": (LOAD + "Add(b, a, b, n);", "reads byte 16384 of UB, which nothing has written"),
    "an extremum with a number that is NaN": (
        LOAD + "Maxs(b, a, __builtin_nanf(\"\"), n);", "fill a tensor with it for Max or Min"),
    "an event that is set twice": (
        "SetFlag<HardEvent::MTE2_V>(0); SetFlag<HardEvent::MTE2_V>(0);", "event MTE2_V 0 is set already"),
    "an event that nobody sets": ("WaitFlag<HardEvent::V_MTE3>(3);", "event V_MTE3 3 was never set"),
    "an event that is left over": ("SetFlag<HardEvent::S_V>(5);", "event S_V 5 was set and nothing has waited for it"),
    "an event's number": ("SetFlag<HardEvent::S_V>(6);", "between 0 and 5"),
    "a tensor past the end of UB": (
        "LocalTensor<float> c(TPosition::VECCALC, 188000, 4096);", "UB has 188160 bytes for programs"),
    "queues that need more than UB": (
        "TPipe pipe; TQue<TPosition::VECIN, 2> q; pipe.InitBuffer(q, 2, 100000);",
        "the buffers need 200000 bytes of UB"),
    "an address that is not aligned": (
        "LocalTensor<float> c(TPosition::VECCALC, 16, 64); Duplicate(c, 1.0f, 8);", "byte 16 of UB.*multiple of 32"),
    "a copy of a length that is not whole": ("DataCopy(a, gx, 7);", "multiple of 32 bytes; use DataCopyPad"),
    "too many blocks": ("DataCopyPad(a, gx, {4096, 4, 0, 0, 0}, {false, 0, 0, 0});", "blockCount must be at most 4095"),
    "a stride of no blocks": (
        LOAD + "Exp(b, a, 64, 2, {0, 1, 8, 8});", "dstBlkStride must not be 0"),
    "a mask of more than the lanes": (LOAD + "Exp(b, a, 65, 2, {1, 1, 8, 8});", "more than the 64 lanes"),
    "a result past its tensor": (LOAD + "Exp(b[4000], a, n);", "bytes 0 to 2048 of a tensor in UB that has 384"),
    "a copy past the array": (
        "gx.SetGlobalBuffer((__gm__ float*)x, 100000); DataCopyPad(a, gx[90], {1, 8192, 0, 0, 0}, {false, 0, 0, 0});",
        "outside of all device memory"),
    "a copy past the bounds of its tensor": (
        "DataCopyPad(a, gx[500], {1, 64, 0, 0, 0}, {false, 0, 0, 0});", "bytes 0 to 64 of a tensor in GM that has 48"),
    "arithmetic that there is not": (
        "LocalTensor<bfloat16_t> c(TPosition::VECCALC, 65536, 64); Add(c, c, c, 64);", "no Add for bfloat16_t"),
    "a cast in one step that takes two": (
        "LocalTensor<int8_t> c(TPosition::VECCALC, 65536, 64);" + LOAD + "Cast(c, a, RoundMode::CAST_RINT, 64);",
        "no cast from float to int8_t in one step"),
    "a cast with a mode that it has not": (
        "LocalTensor<int32_t> c(TPosition::VECCALC, 65536, 64); LocalTensor<int16_t> d(TPosition::VECCALC, 66560, 64);"
        "Duplicate(c, 1, 64); PipeBarrier<PIPE_V>(); Cast(d, c, RoundMode::CAST_RINT, 64);",
        "a cast from int32_t to int16_t does nothing with this mode"),
    "a comparison of part of a repeat": (
        LOAD + "CompareScalar(bits, a, 0.0f, CMPMODE::LT, 100);", "whole repeats of 256 bytes"),
    "operands that overlap partly": (LOAD + "Exp(a[8], a, 64);", "overlap partly"),
    "a buffer that is not given back": (
        QUEUE + "auto t = queue.AllocTensor<float>(); queue.EnQue(t);", "FreeTensor is missing"),
    "more buffers than a queue has": (
        QUEUE + "queue.AllocTensor<float>(); queue.AllocTensor<float>(); queue.AllocTensor<float>();",
        "every buffer of the queue is in use"),
    "a result of rows where they lie": (
        LOAD + "WholeReduceSum(a, a, 64, 8, 1, 1, 8);", "the result lies where the instruction reads"),
    "blocks of what they are made of": (LOAD + "Brcb(a, a, 1, {1, 8});", "the result lies where the instruction reads"),
    "elements gathered in place": (
        LOAD + "LocalTensor<uint32_t> o(TPosition::VECCALC, 65536, 64); Duplicate(o, uint32_t{0}, 64);"
        "PipeBarrier<PIPE_V>(); Gather(a, a, o, 0, 64);", "the result lies where the instruction reads"),
    "a repeat that reads what the one before it wrote": (
        LOAD + "Add(a, a, a[64], 64, 4, {1, 1, 1, 0, 0, 8});", "a repeat reads what the one before it wrote"),
    "a row repeated over itself": (
        LOAD + "Sub(a, a[64], a, 64, 4, {1, 1, 1, 8, 16, 0}); Exp(a, a, 64, 4, {1, 1, 8, 0});",
        "a repeat reads what the one before it wrote|overlap partly"),
    "an index vector without a pipe": ("CreateVecIndex(a, 0.0f, 64);", "takes an event of a TPipe"),
    "padding that the engine chooses": (
        "DataCopyPad(a, gx, {1, 20, 0, 0, 0}, {false, 0, 3, 0});" + MTE2_V + "Exp(b, a, 8);",
        "reads byte 20 of UB, which nothing has written"),
    "padding of 64 bits": (
        WIDE + "DataCopyPad(w, gw, {1, 8, 0, 0, 0}, {true, 0, 3, 1});", "64 bits are padded with 0 alone"),
    "a queue that is empty": (QUEUE + "queue.DeQue<float>();", "nothing was queued"),
    "a buffer of another queue": (
        QUEUE + "TQue<TPosition::VECOUT, 1> other; pipe.InitBuffer(other, 1, 2048);"
        "auto t = queue.AllocTensor<float>(); other.EnQue(t);", "EnQue: the buffer is free"),
    "a queue at the other end of the vector unit": (  # VECIN hands on from MTE2 to V, and not from V to MTE3
        QUEUE + "auto t = queue.AllocTensor<float>(); Duplicate(t, 1.0f, 64); queue.EnQue(t);"
        "auto r = queue.DeQue<float>(); DataCopyPad(gy, r, {1, 256, 0, 0, 0}); queue.FreeTensor(r);",
        "read after write in UB.*V_MTE3 is missing"),
    "a queued buffer that is queued again": (
        QUEUE + "auto t = queue.AllocTensor<float>(); queue.EnQue(t); queue.EnQue(t);", "the buffer is queued"),
    "products on a vector core": (
        "LocalTensor<half> l(TPosition::A2, 0, 256); LocalTensor<float> c(TPosition::CO1, 0, 256); Mmad(c, l, l, {});",
        "this core has no unit M"),
    **{f"Sort32 with {what}": (f"{SCORES} Sort32({call});", message) for what, call, message in (
        ("a result between 256 bytes", "b[16], a, c, 1", "the result begins at byte 16448.*multiple of 256"),
        ("scores between 128 bytes", "b, a[8], c, 1", "the scores begins at byte 32.*multiple of 128"),
        ("indices between 128 bytes", "b, a, c[8], 1", "the indices begins at byte 65568.*multiple of 128"),
        ("a result over its scores", "a, a, c, 1", "lies where the instruction reads"),
        ("more repeats than a byte holds", "b, a, c, 256", "between 0 and 255, it is 256"))},
    "a score that is no number": (SCORES + "Duplicate(a, NAN, 32); PipeBarrier<PIPE_V>(); Sort32(b, a, c, 1);",
                                  "a score is NaN, whose order is not documented"),
    **{f"MrgSort with {what}": (SORTED + f"{change} MrgSort({to}, lists, m);", message)
       for what, change, to, message in (
        ("one list", "m.validBit = 1;", "a", "validBit must be 3, 7 or 15, it is 1"),
        ("an end where a list ends", "m.ifExhaustedSuspension = true;", "a", "does not stop where a list ends"),
        ("a list that is too long", "m.elementLengths[0] = 4096;", "a", "at most 4095 pairs, not 4096"),
        ("a list between pairs", "lists.src2 = b[63];", "a", "a list begins at byte 16636.*multiple of 8"),
        ("a result between blocks", "", "a[4]", "the result begins at byte 16 of UB.*multiple of 32"),
        ("a result over its lists", "", "b[64]", "lies where the instruction reads"),
        ("repeats of two lists", "m.repeatTimes = 2;", "a", "repeats take four lists of one length"),
        ("a list that is not in order", "m.elementLengths[0] = 64;", "a", "list 1 is not in order at pair 32"))},
    "a pattern of GatherMask that there is not": (
        "uint64_t kept; GatherMask(b, a, 8, false, 0, {1, 1, 8, 0}, kept);", "pattern of GatherMask must be between 1"),
    "an atomic mode that stays on": ("SetAtomicAdd<float>();", "SetAtomicNone is missing"),
    "a scalar read before the vector unit is done": (
        LOAD + "Exp(b, a, n); if (b.GetValue(0) > 1.0f) PipeBarrier<PIPE_V>();", "V_S is missing"),
    "scalars between cores without a flag": (
        "CrossCoreWaitFlag(0);", "needs a kernel that is __mix__"),
}  # fmt: skip


def test_no_repeats_are_a_fault_where_they_are_not_said_to_do_nothing() -> None:
    """On 3510 chips, these instructions are functions over registers."""
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    flags = ("-x", "asc", "--npu-arch=dav-3510", "-O1", "-std=c++17", "-fwrapv", "-shared", "-fPIC")
    merge = "MrgSort4Info m; m.validBit = 3, m.repeatTimes = 0; MrgSort(b, {a, a, a, a}, m);"
    for call in ("Sort32(b, a, c, 0);", merge):
        launched(vector_kernel(SCORES + call), [x, y], N)
        with pytest.raises(AclError, match="a count or repeatTime of 0 need not be no operation"):
            launched("", [x, y], N, binary=compiled(vector_kernel(SCORES + call), *flags))


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_found(what: str) -> None:
    binary, name = together(vector_kernel, tuple(body for body, _ in FAULTS.values())), f"k{list(FAULTS).index(what)}"
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(AclError, match=FAULTS[what][1]) as caught:
        launched("", [x, y], N, binary=binary, name=name)
    assert caught.value.code in (507035, 507015)
    assert re.search(rf"{name}, core AIV \d+, line \d+: ", str(caught.value))


# What only one of the architectures forgives: the body of a kernel, and what is said of it on the other one.
ON_950: dict[str, tuple[str, str]] = {
    "a count of 0": (LOAD + "Exp(b, a, n - 512);" + "Exp(b, a, n);", "a count or repeatTime of 0 need not be"),
    "a repeat of 0": (LOAD + "Exp(b, a, 64, static_cast<uint8_t>(n - 512), {1, 1, 8, 8}); Exp(b, a, n);",
                      "a count or repeatTime of 0 need not be"),
    "offsets of halves": (
        "LocalTensor<half> h(TPosition::VECCALC, 0, 70000), r(TPosition::VECCALC, 150016, 16);"
        "LocalTensor<uint32_t> o(TPosition::VECCALC, 151040, 64); Duplicate(h, half(1.0f), 70000);"
        "Duplicate(o, 131072u, 16); PipeBarrier<PIPE_V>(); Gather(r, h, o, 0, 16);", "is less than 131072"),
    "a mode of casts": (
        LOAD + "LocalTensor<half> h(TPosition::VECCALC, 65536, 512); Cast(h, a, RoundMode::CAST_NONE, n);"
        "PipeBarrier<PIPE_V>(); Cast(bits, h, RoundMode::CAST_NONE, n);", "from half to uint8_t does nothing with"),
}  # fmt: skip


@pytest.mark.parametrize("what", ON_950)
def test_what_one_architecture_does_not_forgive(what: str) -> None:
    body, message = ON_950[what]
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    launched(vector_kernel(body), [x, y], N)
    with pytest.raises(AclError, match=message):
        launched(vector_kernel(body), [x, y], N, arch="dav-3510")


def test_a_result_may_lie_behind_the_last_element_that_a_mask_leaves() -> None:
    """Five rows of 23 in 24 elements end at 480 bytes; a repeat's eight blocks would reach 640."""
    best = "WholeReduceMax(a[128], a, 23, 5, 1, 1, 3, ReduceOrder::ORDER_ONLY_VALUE); PipeBarrier<PIPE_V>();"
    body = LOAD + best + "Duplicate(b, 0.0f, 128); PipeBarrier<PIPE_V>(); Adds(b, a[128], 0.0f, 5);" + STORE
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    launched(vector_kernel(body), [x, y], 128)
    np.testing.assert_array_equal(y[:6], [22, 46, 70, 94, 118, 0])


@pytest.mark.parametrize(("arch", "left"), [("dav-2201", 7.0), ("dav-3510", 0.0)])
def test_blocks_that_a_mask_leaves_nothing_of(arch: str, left: float) -> None:
    """Sums of four blocks of a repeat: newer chips write all eight."""
    body = LOAD + "Duplicate(b, 7.0f, 64); PipeBarrier<PIPE_V>(); BlockReduceSum(b, a, 1, 32, 1, 1, 8);" + STORE
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    launched(vector_kernel(body), [x, y], 64, arch=arch)
    np.testing.assert_array_equal(y[:9], [8.0] * 4 + [left] * 4 + [7.0])


@pytest.mark.parametrize("line", ["InitSocState();", "PipeBarrier<PIPE_ALL>();\n}"])
def test_a_kernel_begins_and_ends_as_it_must(line: str) -> None:
    whole = vector_kernel(LOAD + "Exp(b, a, n);" + STORE)
    broken = whole.replace(line, "}" if "}" in line else "")
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    launched(whole, [x, y], N)
    with pytest.raises(AclError, match=re.escape(line.partition("\n")[0].rstrip(";")) + " is missing"):
        launched(broken, [x, y], N)


def test_a_kernel_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCSIM_SECONDS", "0.2")
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(AclError, match="has run for more than 0 seconds"):
        launched(vector_kernel(LOAD + "for (;;) { Adds(a, a, 0.0f, 64); PipeBarrier<PIPE_V>(); }"), [x, y], N)


def test_two_cores_may_not_write_the_same_bytes() -> None:
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(AclError, match="two cores use the same bytes"):
        launched(vector_kernel(LOAD + "Exp(b, a, n);" + STORE), [x, y], N, blocks=2)


def test_cores_may_add_to_the_same_bytes() -> None:
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    body = LOAD + "Muls(b, a, 2.0f, n); SetAtomicAdd<float>();" + STORE + "SetAtomicNone();"
    launched(vector_kernel(body), [x, y], N, blocks=40)
    np.testing.assert_array_equal(y, 80)


NARROW = {
    "a repeat of 300": "Exp(b, a, 64, 300, {1, 1, 8, 8});",
    "a stride of 256 in a byte": "Exp(b, a, 64, 1, {1, 1, 256, 8});",
    "a block count of 70000": "DataCopyPad(a, gx, {70000, 4, 0, 0, 0}, {false, 0, 0, 0});",
}


@pytest.mark.parametrize("what", NARROW)
def test_parameters_that_would_be_cut_do_not_compile(what: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        compiled(vector_kernel(NARROW[what]))
    assert re.search("narrowing|overflow", caught.value.stderr)


OTHER_TYPES = {
    "signed indices": "LocalTensor<int32_t> i(TPosition::VECCALC, 65536, 64); Sort32(b, a, i, 1);",
    "scores of another type than the result": (
        "LocalTensor<half> h(TPosition::VECCALC, 65536, 64); LocalTensor<uint32_t> i(TPosition::VECCALC, 131072, 64);"
        " Sort32(b, h, i, 1);"),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHER_TYPES)
def test_operands_of_other_types_do_not_compile(what: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        compiled(vector_kernel(OTHER_TYPES[what]))
    assert "no matching function for call to" in caught.value.stderr and "Sort32" in caught.value.stderr


def test_both_drivers_answer(tmp_path: Path) -> None:
    source = vector_kernel(LOAD + "Exp(b, a, n);" + STORE)
    old = ("-c", "-x", "cce", "-O3", "--cce-aicore-arch=dav-c220-vec", "--cce-aicore-only", "-std=c++17",
           "-mllvm", "-cce-aicore-stack-size=0x8000", "-DTILING_KEY_VAR=0")  # fmt: skip
    made, binary = tmp_path / "k.o", tmp_path / "k.bin"
    made.write_bytes(compiled(source, *old, driver="ccec"))
    subprocess.run([str(built() / "bin" / "ld.lld"), "-m", "aicorelinux", str(made), "-o", str(binary)], check=True)
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    launched(source, [x, y], N, binary=binary.read_bytes())
    np.testing.assert_allclose(y, np.e, rtol=1e-6)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--npu-arch=dav-9999",), "unknown architecture 'dav-9999'; known are dav-2201"),
        ((), "unknown architecture ''"),
    ],
)
def test_the_driver_refuses_in_words(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        compiled(vector_kernel(""), "-x", "asc", *flags)
    assert message in caught.value.stderr


def test_arguments_that_are_too_few_are_refused() -> None:
    device = opened(built() / "lib64" / "libascendcl.so")
    try:
        function = device.load(compiled(vector_kernel(""))).function("k")
        with pytest.raises(AclError, match="k takes 20 bytes of arguments, not 8"):
            device.launch(function, 1, bytes(8))
        with pytest.raises(AclError, match="the binary has no kernel missing"):
            function.binary.function("missing")
        with pytest.raises(AclError, match="this is no kernel binary"):
            device.load(b"not an object")
    finally:
        device.close()


def test_results_are_there_only_after_the_wait() -> None:
    """A program that forgets to wait sees what was in memory before."""
    device = opened(built() / "lib64" / "libascendcl.so")
    try:
        x, y = device.copied(np.ones(N, np.float32)), device.copied(np.zeros(N, np.float32))
        function = device.load(compiled(vector_kernel(LOAD + "Exp(b, a, n);" + STORE))).function("k")
        device.launch(
            function, 1, x.address.to_bytes(8, "little") + y.address.to_bytes(8, "little") + N.to_bytes(4, "little")
        )
        early, late = np.full(N, 7, np.float32), np.full(N, 7, np.float32)
        y.read(early)
        device.synchronize()
        y.read(late)
        assert early[0] == 0 and abs(late[0] - np.e) < 1e-6
    finally:
        device.close()
