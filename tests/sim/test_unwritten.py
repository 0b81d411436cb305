"""Device memory that nothing has written: to read it is a fault, whoever allocated it."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from pypto.runtime.acl import AclError, Device, Memory, opened
from tests.sim.device import LOAD, STORE, built, launched, needs_compiler, together, vector_kernel

pytestmark = needs_compiler
N = 64
X = np.ones(N, np.float32)
BODIES = {
    "reads": LOAD + "Exp(b, a, n);" + STORE,
    "adds": "Duplicate(b, 1.0f, n);\nSetAtomicAdd<float>();" + STORE + "SetAtomicNone();",
    "writes first": "Duplicate(b, 1.0f, n);" + STORE
    + "SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0); DataCopy(a, gy, n);",
    "reads a number": "(void)gx.GetValue(16);",
}  # fmt: skip


@pytest.fixture
def device():
    made = opened(built() / "lib64" / "libascendcl.so")
    yield made
    made.close()


def run(device: Device, what: str, x: Memory, y: Memory, n: int = N) -> None:
    binary = together(vector_kernel, tuple(BODIES.values()))
    function = device.load(binary).function(f"k{list(BODIES).index(what)}")
    device.launch(function, 1, struct.pack("2Qi", x.address, y.address, n))
    device.synchronize()


def test_memory_that_nothing_wrote(device: Device) -> None:
    with pytest.raises(AclError, match=r"AIV 0, line \d+: DataCopyPad: reads byte 0 of device memory that has 256"):
        run(device, "reads", device.empty(4 * N), device.copied(X))


def test_the_first_byte_that_is_missing(device: Device) -> None:
    x = device.empty(4 * N)
    x.write(X.ctypes.data, 100)
    run(device, "reads", x, device.copied(X), n=25)
    with pytest.raises(AclError, match="reads byte 100 of device memory that has 256, which nothing has written"):
        run(device, "reads", x, device.copied(X))


def test_additions_to_what_nothing_wrote(device: Device) -> None:
    with pytest.raises(AclError, match="adds to byte 0 of device memory that has 256, which nothing has written"):
        run(device, "adds", device.copied(X), device.empty(4 * N))


def test_numbers_that_the_scalar_unit_reads(device: Device) -> None:
    x = device.empty(4 * N)
    x.write(X.ctypes.data, 64)
    with pytest.raises(AclError, match="GetValue: reads byte 64 of device memory"):
        run(device, "reads a number", x, device.copied(X))


def test_what_a_kernel_wrote_may_be_read(device: Device) -> None:
    y = device.empty(4 * N)
    run(device, "writes first", device.copied(X), y)
    run(device, "adds", device.copied(X), y)
    run(device, "reads", y, device.empty(4 * N))


def test_copies_within_the_device_keep_what_is_missing(device: Device) -> None:
    x, copy = device.empty(4 * N), device.copied(X)
    x.write(X.ctypes.data, 40)
    device.call("aclrtMemcpy", copy.address + 8, 248, x.address, 248, 3)
    with pytest.raises(AclError, match="reads byte 48 of device memory"):
        run(device, "reads", copy, device.copied(X))
    y = device.empty(4 * N)
    device.call("aclrtMemset", y.address, 256, 0, 256)
    run(device, "reads", y, device.empty(4 * N))


def test_arrays_of_the_host_are_written() -> None:
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    launched(vector_kernel(BODIES["reads"]), [x, y], N)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
