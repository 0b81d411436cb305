"""Two devices in one thread, several threads on one device, and the workspaces of queued kernels."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.plugin import npu, runtime_of
from pypto.backends.plugin import Services
from pypto.errors.device import DeviceFault
from pypto.options import Settings
from pypto.runtime.acl import AclError, Device, opened
from tests.runtime.simulated import folder
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
X = np.arange(64, dtype=np.float32)


@pytest.fixture
def pair() -> Iterator[list[Device]]:
    library = runtime_of(folder(), "ascend:0")
    opened(library).close()  # a reset concerns the whole library
    opened(library, shares_streams=True).close()
    made = [opened(library, number) for number in (0, 1)]
    yield made
    for device in made:
        device.close()


def live(device: Device) -> int:
    """Allocations of a device that the library keeps."""
    count = device.functions.ascsim_live
    count.restype = ctypes.c_size_t
    with device.lock:
        device.enter()
        return int(count(0))


def test_memory_lies_on_the_device_that_was_asked(pair: list[Device]) -> None:
    first, second = pair
    kept = [first.copied(X), second.copied(X + 1), first.copied(X + 2), second.copied(X + 3), first.copied(X + 4)]
    assert (live(first), live(second)) == (3, 2)
    for i, memory in enumerate(kept):
        found = np.zeros_like(X)
        memory.read(found)
        np.testing.assert_array_equal(found, X + i)


def test_another_part_of_the_process_sets_the_device(pair: list[Device]) -> None:
    first, second = pair
    kept = first.copied(X)
    assert second.soc_name()
    first.functions.aclrtSetDevice(1)
    more = first.copied(X)
    assert (live(first), live(second)) == (2, 0)
    del kept, more
    assert live(first) == 0


def test_memory_that_is_given_back_leaves_the_thread_its_device(pair: list[Device]) -> None:
    """Objects end between any two steps."""
    first, second = pair
    kept, memory = second.copied(X), first.copied(X)
    second.enter()
    del memory
    assert second.of_thread() == 1
    assert (live(first), live(second)) == (0, 1)
    del kept


def test_a_fault_is_over_after_one_reset_whoever_else_uses_the_device(pair: list[Device]) -> None:
    first, _ = pair
    workers = [threading.Thread(target=first.copied, args=(X,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with pytest.raises(AclError):
        first.call("aclrtMemcpy", 8, 8, X.ctypes.data, 8, 1)
    epoch = first.epoch
    first.close()
    first.copied(X)
    assert first.epoch == epoch + 1
    assert live(first) == 0


def test_resets_that_count_and_one_that_does_not(pair: list[Device]) -> None:
    functions = pair[0].functions
    pair[0].enter()
    assert functions.aclrtSetDevice(0) == functions.aclrtSetDevice(0) == 0
    functions.aclrtResetDevice.argtypes = (ctypes.c_int32,)
    assert functions.aclrtResetDevice(0) == 0
    assert pair[0].of_thread() == 0
    assert functions.aclrtResetDeviceForce(0) == 0
    assert pair[0].of_thread() == -1
    assert functions.aclrtResetDevice(0) == 107002


@pytest.fixture
def npus(monkeypatch: pytest.MonkeyPatch, pair: list[Device]) -> Iterator[list[Any]]:
    """Two devices through the way of real ones."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(folder()))
    made = [npu(f"ascend:{n}", n, Services(Settings(), pto.device)) for n in (0, 1)]
    yield made
    for device in made:
        device.acl.close()


@pto.jit
def scores(x, y, out):
    out[:, :] = pto.exp(pto.dot(x[:, :], y[:, :]) * 0.1)


@pto.jit
def double(x, out):
    out[:] = x[:] * 2.0


def test_launches_on_two_devices(npus: list[Any]) -> None:
    arrays = [[device.array(X), device.empty(64)] for device in npus]
    for _ in range(3):
        for device, (x, out) in zip(npus, arrays, strict=True):
            with device:
                double[1](x, out)
    for x, out in arrays:
        np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())


def test_queued_kernels_share_a_workspace_that_grows(npus: list[Any]) -> None:
    device = npus[0]
    acl = device.acl
    small, large = (np.full((n, n), 0.5, np.float32) for n in (16, 64))
    with device:
        x, y, out = device.array(small), device.array(small), device.empty((16, 16))
        for _ in range(20):
            scores[1](x, y, out)
        (before,) = acl.workspaces.values()
        assert len(before) == 1 and live(acl) == 4
        a, b, more = device.array(large), device.array(large), device.empty((64, 64))
        scores[1](a, b, more)
        scores[1](x, y, out)
    assert len(before) == 2 and before[1].size >= 2 * before[0].size
    assert not before[0].is_lost and live(acl) == 8  # what a captured graph may use is kept
    np.testing.assert_allclose(out.numpy(), np.exp(small @ small * 0.1), rtol=1e-5)
    np.testing.assert_allclose(more.numpy(), np.exp(large @ large * 0.1), rtol=1e-5)


def test_what_an_earlier_kernel_left_in_the_workspace_is_nobodys(pair: list[Device]) -> None:
    """A kernel that reads a tile which it did not send is found in its second launch, too."""
    first, _ = pair
    address = first.workspace(256)
    first.call("aclrtMemset", address, 256, 0, 256)
    assert first.workspace(128) == address
    first.synchronize()
    found = np.zeros(64, np.uint32)
    first.used.add(first.current_stream())
    first.synchronize()
    first.call("aclrtMemcpy", found.ctypes.data, 256, address, 256, 2)
    assert (found == 0xA5A5A5A5).all()


def test_a_fault_on_one_device_leaves_the_other_as_it_is(npus: list[Any]) -> None:
    kept = npus[1].array(X)
    with npus[0], pytest.raises(DeviceFault):
        double[1](npus[0].empty(64), npus[0].empty(64))
        npus[0].synchronize()
    np.testing.assert_array_equal(kept.numpy(), X)
    with npus[0]:
        out = np.zeros_like(X)
        double[1](X, out)
    np.testing.assert_array_equal(out, 2 * X)
