"""What the hardware would not forgive is a fault with the line, at the wait for the stream."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from pypto.runtime.acl import AclError, opened
from tests.sim.device import LOAD, STORE, built, compiled, launched, needs_compiler, vector_kernel

pytestmark = needs_compiler
N = 512
COPY = "DataCopyPad(a, gx, {1, static_cast<uint32_t>(n) * 4u, 0, 0, 0}, {false, 0, 0, 0});\n"
MTE2_V = "SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);\n"
QUEUE = """
    TPipe pipe;
    TQue<TPosition::VECIN, 2> queue;
    pipe.InitBuffer(queue, 2, 2048);
"""

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
    "a comparison of part of a repeat": (
        LOAD + "CompareScalar(bits, a, 0.0f, CMPMODE::LT, 100);", "whole repeats of 256 bytes"),
    "operands that overlap partly": (LOAD + "Exp(a[8], a, 64);", "overlap partly"),
    "a buffer that is not given back": (
        QUEUE + "auto t = queue.AllocTensor<float>(); queue.EnQue(t);", "FreeTensor is missing"),
    "more buffers than a queue has": (
        QUEUE + "queue.AllocTensor<float>(); queue.AllocTensor<float>(); queue.AllocTensor<float>();",
        "every buffer of the queue is in use"),
    "a queue that is empty": (QUEUE + "queue.DeQue<float>();", "nothing was queued"),
    "a queued buffer that is queued again": (
        QUEUE + "auto t = queue.AllocTensor<float>(); queue.EnQue(t); queue.EnQue(t);", "the buffer is queued"),
    "products on a vector core": (
        "LocalTensor<half> l(TPosition::A2, 0, 256); LocalTensor<float> c(TPosition::CO1, 0, 256); Mmad(c, l, l, {});",
        "this core has no unit M"),
    "an atomic mode that stays on": ("SetAtomicAdd<float>();", "SetAtomicNone is missing"),
    "a scalar read before the vector unit is done": (
        LOAD + "Exp(b, a, n); if (b.GetValue(0) > 1.0f) PipeBarrier<PIPE_V>();", "V_S is missing"),
    "scalars between cores without a flag": (
        "CrossCoreWaitFlag(0);", "every core that is left waits for another one"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_found(what: str) -> None:
    body, message = FAULTS[what]
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(AclError, match=message) as caught:
        launched(vector_kernel(body), [x, y], N)
    assert caught.value.code in (507035, 507015)
    assert re.search(r"k, core AIV \d+, line \d+: |waits for another", str(caught.value))


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


def test_both_drivers_answer() -> None:
    source = vector_kernel(LOAD + "Exp(b, a, n);" + STORE)
    old = (
        "-c",
        "-x",
        "cce",
        "-O3",
        "--cce-aicore-arch=dav-c220-vec",
        "--cce-aicore-only",
        "-std=c++17",
        "-mllvm",
        "-cce-aicore-stack-size=0x8000",
        "-DTILING_KEY_VAR=0",
    )
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    launched(source, [x, y], N, binary=compiled(source, *old, driver="ccec"))
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
