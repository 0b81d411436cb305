"""Launches on a device: copies there and back, faults, and what is given back."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
import sys
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compile import session
from pypto.errors.device import DeviceFault, LostMemory, MixedDevices, NoToolkit, UnknownDevice
from pypto.errors.launch import ReadOnlyArgument, UnsupportedArgument
from pypto.runtime.acl import AclError, opened
from pypto.runtime.device_arrays import DeviceArray
from pypto.runtime.devices import Device
from pypto.runtime.dlpack import capsule
from pypto.runtime.mode import MODE, PLAIN
from pypto.runtime.simulator import NoSimulator, toolkit
from tests.patience import limit
from tests.runtime.simulated import live, new_device, new_scale, written_by_hand

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


@pytest.fixture
def device() -> Any:
    made = new_device()
    yield made
    made.acl.close()


def numbers(count: int) -> Any:
    return np.arange(1, count + 1, dtype=np.float32)


def test_arrays_of_the_host_are_copied_there_and_back(device: Device) -> None:
    x, y, scale = numbers(37), np.zeros(37, np.float32), new_scale()
    with device:
        scale[(3,)](x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(x, numbers(37))
    assert MODE.get() is PLAIN


@pytest.mark.parametrize("step", [2, 3, -1, -2])
def test_strides_and_what_lies_between_stay(device: Device, step: int) -> None:
    base, memory = numbers(40), np.full(40, -7, np.float32)
    x, y = base[::step], memory[::step]
    with device:
        new_scale()[(5,)](x, y, 3.0)
    expected = np.full(40, -7, np.float32)
    expected[::step] = 3 * base[::step]
    np.testing.assert_array_equal(memory, expected)


def test_arrays_that_share_memory_share_it_there(device: Device) -> None:
    memory = numbers(20)
    with device:
        new_scale()[(1,)](memory[:10], memory[1:11], 2.0)  # one after the other: each is twice the one before
    np.testing.assert_array_equal(memory[:11], 2.0 ** np.arange(11))
    np.testing.assert_array_equal(memory[11:], numbers(20)[11:])


def test_what_nobody_wrote_is_not_copied_back(device: Device) -> None:
    """The elements beside those of a written array may be another thread's."""
    x, rows = numbers(4), np.zeros((4, 2), np.float32)
    scale = new_scale()

    def meanwhile(*args: Any) -> None:
        rows[:, 1] = 5

    scale.add_pre_run_hook(meanwhile)
    with device:
        scale[(2,)](x, rows[:, 0], 2.0)
    np.testing.assert_array_equal(rows, np.stack([2 * x, np.full(4, 5)], 1))


def test_a_read_only_array_is_refused_before_anything_runs(device: Device) -> None:
    x, y = numbers(4), np.zeros(4, np.float32)
    y.flags.writeable = False
    with device, pytest.raises(ReadOnlyArgument, match="writes to `y`"):
        new_scale()[(1,)](x, y, 2.0)
    assert not y.any()


def test_no_programs_and_no_elements(device: Device) -> None:
    x, y = numbers(4), np.zeros(4, np.float32)
    with device:
        new_scale()[(0,)](x, y, 2.0)
        new_scale()[(1,)](x[:0], y[:0], 2.0)
    assert not y.any()


def test_arrays_of_the_device_need_no_block_and_no_wait(device: Device) -> None:
    scale = new_scale()
    x, y = device.array(numbers(9)), device.array(np.zeros(9, np.float32))
    scale[(2,)](x, y, 2.0)
    assert y.fetch()[0] == 0, "nothing has waited"
    np.testing.assert_array_equal(y.numpy(), 2 * numbers(9))
    scale[(2,)](y, y, 2.0)
    device.synchronize()
    np.testing.assert_array_equal(y.fetch(), 4 * numbers(9))


def test_many_launches_without_a_wait(device: Device) -> None:
    scale, x = new_scale(), device.array(np.ones(1, np.float32))
    for _ in range(1100):
        scale[(1,)](x, x, 1.0)
    assert len(device.acl.queued) <= 512
    assert x.numpy()[0] == 1


def test_devices_are_not_mixed(device: Device) -> None:
    x, y = device.array(numbers(4)), np.zeros(4, np.float32)
    with pytest.raises(MixedDevices, match=r"`y` is on cpu, `x` is on ascend-sim"):
        new_scale()[(1,)](x, y, 2.0)
    with device:  # where arrays of the host are copied
        new_scale()[(1,)](x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * numbers(4))


def test_arrays_of_a_device_as_arrays(device: Device) -> None:
    data = np.arange(6, dtype=np.int16).reshape(2, 3)
    x = device.array(data.T)
    assert (x.shape, x.strides, x.dtype, x.ndim, x.size, x.nbytes) == ((3, 2), (4, 2), np.int16, 2, 6, 12)
    np.testing.assert_array_equal(x.numpy(), data.T)
    np.testing.assert_array_equal(np.asarray(x), data.T)
    np.testing.assert_array_equal(np.from_dlpack(x), data.T)
    np.testing.assert_array_equal(x.to("cpu"), data.T)
    np.testing.assert_array_equal(device.array(x).numpy(), data.T)
    assert device.array([1.5, 2.5]).numpy().tolist() == [1.5, 2.5]
    assert device.array(3.0).shape == ()
    assert device.empty((2, 0), np.int8).numpy().shape == (2, 0)
    assert repr(x) == "DeviceArray((3, 2), int16, ascend-sim)"
    with pytest.raises(UnsupportedArgument, match="complex64"):
        device.array(np.zeros(2, np.complex64))


@dataclass
class Lent:
    """An array of the simulated device, whose memory is the host's, through the capsule that an NPU's would give."""

    array: DeviceArray

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **given: Any) -> Any:
        return capsule(self.array, (1, 0))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64"])
def test_dlpack_shares_memory(device: Device, dtype: str) -> None:
    gc.freeze()  # collections look at what this test makes alone
    x = np.arange(6).reshape(2, 3).astype(dtype)
    there = device.array(x)
    seen = np.from_dlpack(Lent(there))
    np.testing.assert_array_equal(seen, x)
    assert seen.dtype == x.dtype
    assert seen.ctypes.data == there.address
    before = live(device)[0]
    del there
    gc.collect()
    assert live(device)[0] == before, "whoever reads it keeps it"
    del seen
    gc.collect()
    assert live(device)[0] == before - 1
    capsule(device.array(x), (1, 0))  # which nobody takes over
    gc.collect()
    assert live(device)[0] == before - 1


def test_arrays_of_an_npu_say_so(device: Device) -> None:
    x = device.array([1.0])
    device.dlpack_device = (12, 3)
    assert x.__dlpack_device__() == (12, 3)
    assert "dltensor" in repr(x.__dlpack__())


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_copies_keep_every_byte(device: Device, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    there = device.array(x).numpy()
    assert (there.dtype, there.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(there, x)


def test_a_fault_names_the_line_and_leaves_the_device_usable(device: Device) -> None:
    scale = new_scale()
    x, y = device.array(numbers(8)), device.array(np.zeros(4, np.float32))
    scale[(1,)](x, y, 2.0)  # beyond the end of y
    with pytest.raises(DeviceFault, match=r"scale stopped at a fault on ascend-sim: core AIV 0, .*DataCopy") as caught:
        device.synchronize()
    assert "y[i] = value * a" in str(caught.value)
    assert caught.value.loc is not None
    assert caught.value.loc.file.endswith("simulated.py")
    with pytest.raises(LostMemory, match="reset since"):
        x.numpy()
    with pytest.raises(LostMemory):
        scale[(1,)](x, x, 2.0)
    z = device.array(numbers(8))
    scale[(1,)](z, z, 2.0)
    np.testing.assert_array_equal(z.numpy(), 2 * numbers(8))


def test_a_fault_leaves_arrays_of_the_host_as_they_were(device: Device) -> None:
    x, y = numbers(8), np.zeros(4, np.float32)
    with device, pytest.raises(DeviceFault):
        new_scale()[(1,)](x, y, 2.0)
    assert not y.any()


def test_everything_is_given_back(device: Device) -> None:
    scale, y = new_scale(), np.zeros(9, np.float32)
    with device:
        scale[(2,)](numbers(9), y, 2.0)
    gc.collect()
    before = live(device)
    assert before == (0, 1, 1)
    for _ in range(3):
        x = device.array(numbers(9))
        scale[(2,)](x, x, 2.0)
        del x  # while the kernel that uses it waits
        with device:
            scale[(2,)](numbers(9), y, 2.0)
        with device, pytest.raises(DeviceFault):
            scale[(2,)](numbers(9), y[:3], 2.0)
    with device:
        scale[(2,)](numbers(9), y, 2.0)
    del scale
    gc.collect()
    assert live(device) == (0, 0, 1)


def test_threads_launch_on_one_device(device: Device) -> None:
    scale, found = new_scale(), {}

    def work(n: int) -> None:
        y = np.zeros(50, np.float32)
        with device:
            for _ in range(5):
                scale[(3,)](numbers(50), y, float(n))
        found[n] = y

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, y in found.items():
        np.testing.assert_array_equal(y, n * numbers(50))
    assert len(found) == 4


def test_blocks_nest(device: Device) -> None:
    x, y, scale = numbers(4), np.zeros(4, np.float32), new_scale()
    with device:
        with pto.device("cpu"):
            scale[(1,)](x, y, 2.0)
            assert scale.specializations[-1].program.backend.name == "cpu"
        with device:
            scale[(1,)](x, y, 3.0)
        assert MODE.get().device is device
        with pto.interpreter():
            scale[(1,)](x, y, 4.0)
    np.testing.assert_array_equal(y, 4 * x)
    assert MODE.get() is PLAIN
    assert [s.program.backend.name for s in scale.specializations] == ["cpu", "ascend"]


def test_a_profile_times_whole_launches_on_a_device(device: Device) -> None:
    x, y, scale = numbers(4), np.zeros(4, np.float32), new_scale()
    there = device.array(x)
    with pto.profile() as found:
        with device:
            scale[(1,)](x, y, 2.0)
        scale[(1,)](there, there, 3.0)
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(there.numpy(), 3 * x)
    assert [launch.kernel for launch in found.launches] == ["scale", "scale"]
    assert any("only whole launches" in problem for problem in found.problems)


def test_compiling_under_a_device(device: Device) -> None:
    x = numbers(4)
    with device:
        version = new_scale().compile(x, x, 2.0)
    assert version.program.backend is device.backend


def test_the_chip_is_that_of_the_device() -> None:
    device, y = new_device(chip="ascend950"), np.zeros(9, np.float32)
    with device:
        new_scale()[(2,)](numbers(9), y, 2.0)
    np.testing.assert_array_equal(y, 2 * numbers(9))


def test_a_binary_for_other_cores_is_not_loaded(device: Device) -> None:
    text = written_by_hand(new_scale().compile(numbers(1), numbers(1), 1.0).program.function, None)[1]
    binary = device.backend.toolchain.compile(text, "scale", "vector", "dav-2201")
    assert device.acl.load(binary, "vector").function("scale").name == "scale"
    with pytest.raises(AclError, match="another kind of cores"):
        device.acl.load(binary, "cube")


def test_a_library_that_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text('extern "C" int aclInit(const char*) { return 0; }\n', encoding="utf-8")
    library = tmp_path / "libascendcl.so"
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "old.c", "-o", library], check=True, timeout=limit(60))
    with pytest.raises(NoToolkit, match="lacks aclFinalize, aclrtSetDevice"):
        opened(library)


def test_what_to_install_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSimulator, match="apt-get install g\\+\\+"):
        toolkit(tmp_path)


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(NoSimulator, match="can be written by other users"):
        toolkit(tmp_path)


def test_names() -> None:
    assert pto.device("cpu").array([1, 2]).tolist() == [1, 2]
    for name in ("gpu", "ascend-sim:7", "ascend:x", "", 3):
        with pytest.raises(UnknownDevice, match="there is no device"):
            pto.device(name)  # type: ignore[arg-type]  # what is refused


def test_the_public_way(device: Device) -> None:
    there = pto.to_device(numbers(3), "ascend-sim:0")
    assert isinstance(there, DeviceArray)
    assert there.device is pto.device("ascend-sim")
    np.testing.assert_array_equal(there.to("cpu"), numbers(3))


class NpuTensor:
    """What torch_npu's tensors offer, for memory of the simulated device."""

    device = types.SimpleNamespace(type="npu", index=0)

    def __init__(self, array: DeviceArray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def data_ptr(self) -> int:
        return self.array.address

    def stride(self) -> tuple[int, ...]:
        return self.array.steps


def test_tensors_of_torch_npu_go_by_pointer(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session().devices.known, "ascend:0", device)
    x, y, scale = device.array(numbers(6)), device.array(np.zeros(6, np.float32)), new_scale()
    scale[(2,)](NpuTensor(x), NpuTensor(y), 2.0)
    assert scale.specializations[0].program.backend is device.backend
    assert y.fetch()[0] == 0
    np.testing.assert_array_equal(y.numpy(), 2 * numbers(6))
    with pytest.raises(MixedDevices, match="`y` is on cpu, `x` is on ascend:0"):
        scale[(2,)](NpuTensor(x), numbers(6), 2.0)


def test_launches_go_to_the_stream_of_torch(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = ctypes.c_void_p()
    device.acl.call("aclrtCreateStream", ctypes.byref(stream))
    npu = types.SimpleNamespace(current_stream=lambda number: types.SimpleNamespace(npu_stream=stream.value))
    monkeypatch.setitem(sys.modules, "torch_npu", types.ModuleType("torch_npu"))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(npu=npu))
    monkeypatch.setattr(device.acl, "shares_streams", True)
    x = device.array(numbers(6))
    new_scale()[(2,)](x, x, 2.0)
    assert device.acl.used == {stream.value}
    np.testing.assert_array_equal(x.numpy(), 2 * numbers(6))
