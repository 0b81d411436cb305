"""Devices, and launches on them: arrays of the host are copied there, and what was written is copied back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.errors.device import UnalignedCopies
from pypto.runtime.acl import AclError
from pypto.runtime.acl import Device as AclDevice
from pypto.runtime.arrays import array_info
from pypto.runtime.device_arrays import DeviceArray, host_view
from pypto.runtime.dlpack import CPU_DEVICE
from pypto.runtime.launch import Sizes, Values
from pypto.runtime.places import Place
from pypto.runtime.staging import Staging


@dataclass(eq=False, repr=False)
class Device(Place):
    """A device, as `pto.device` gives it.

    Parameters
    ----------
    name : str
        What `pto.device` calls it.
    acl : pypto.runtime.acl.Device
        The device as the runtime library has it.
    backend : Backend
        Compiles for it and launches on it.
    other : callable
        Gives a device by its name.
    tells_time : bool
        Whether the time of a launch says anything: that of a simulated device is the time of its checks.
    dlpack_device : tuple of int
        Kind and number of the device for DLPack; another kind than the host's stands for memory that others know.
    """

    name: str
    acl: AclDevice
    backend: Any
    other: Callable[[str], Any]
    tells_time: bool = False
    dlpack_device: tuple[int, int] = CPU_DEVICE
    reported: set[tuple[str, str]] = field(default_factory=set)

    def array(self, x: Any) -> DeviceArray:
        """A copy of an array on this device.

        Parameters
        ----------
        x : array_like
            A numpy array, a tensor, whatever offers DLPack, a device's array, or numbers.

        Returns
        -------
        DeviceArray
            Of the same shape and dtype, its elements one behind the other.

        Raises
        ------
        UnsupportedArgument
            When it is an array whose type no kernel works on.
        """
        if isinstance(x, DeviceArray):
            x = x.numpy()
        info = array_info(x, "to_device", "x") or array_info(np.asarray(x), "to_device", "x")
        assert info is not None
        contiguous = np.ascontiguousarray(host_view(info)) if info.shape else host_view(info).copy()
        copy = self.empty(info.shape, info.dtype.numpy)
        assert copy.memory is not None
        copy.memory.write(contiguous.ctypes.data, contiguous.nbytes)
        return copy

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> DeviceArray:
        """An array on this device whose elements hold anything."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        like = array_info(np.empty((0,), dtype), "empty", "dtype")
        assert like is not None
        steps = tuple(int(np.prod(sizes[n + 1 :], dtype=np.int64)) for n in range(len(sizes)))
        size = int(np.prod(sizes, dtype=np.int64)) * like.dtype.itemsize
        return DeviceArray(self, self.acl.empty(size), 0, sizes, steps, like.dtype)

    @property
    def stream(self) -> tuple[Any, int]:
        """What tells launches whose order the device keeps: itself, and its stream for them."""
        return self, self.acl.current_stream()

    def synchronize(self) -> None:
        """Wait until all launches are done.

        Raises
        ------
        DeviceFault
            When a kernel stopped at a fault, with its name and, where the device tells it, the line. The device's
            memory is lost then; the device itself can be used again at once.
        """
        try:
            self.acl.synchronize()
        except AclError as error:
            kernels = tuple(f.owner for f in error.queued if f.owner is not None)
            raise self.backend.fault(self.name, error.words, kernels) from None
        remarks, self.acl.remarks = self.acl.remarks, []
        for words, queued in remarks:
            self.tell(self.backend.remark(words, tuple(f.owner for f in queued if f.owner is not None)))

    def tell(self, remark: UnalignedCopies | None) -> None:
        """A warning at the user's line, once for each."""
        if remark is None or remark.loc is None:
            return
        loc, key = remark.loc, (remark.fields["kernel"], str(remark.loc))
        if key not in self.reported:
            self.reported.add(key)
            warnings.warn_explicit(remark, type(remark), loc.file, loc.line)

    def launch(self, kernel: Any, sizes: Sizes, values: Values) -> None:
        """Run a kernel here. Arrays of the host are copied, and the launch is done when this returns."""
        staging = Staging(self)
        moved = staging.move(kernel.signature, values)
        plan, launch = kernel.ready(sizes, moved)
        if sizes[0] * sizes[1] * sizes[2] == 0:
            return
        plan.run(*launch)
        if staging.staged:
            self.synchronize()
            staging.copy_back([launch[1][n] for n in plan.written])

    def __repr__(self) -> str:
        return f"Device({self.name})"
