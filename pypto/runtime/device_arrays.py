"""Arrays in a device's memory, and host arrays that are copied there for a launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.errors.device import LostMemory
from pypto.ir.types import DType
from pypto.runtime.acl import Memory
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.dlpack import CPU_DEVICE, capsule

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Flags:
    """What numpy calls the flags of an array, as far as launches look at them; `recorded`, by torch's autograd."""

    writeable: bool = True
    recorded: bool = False


@dataclass(eq=False)
class DeviceArray:
    """An array in the memory of a device, as `Device.array` and `to_device` make it.

    Attributes
    ----------
    shape : tuple of int
        Elements along each axis.
    strides : tuple of int
        Bytes from one element to the next along each axis.
    dtype : numpy.dtype
        Type of the elements.
    device : Device
        Where it is.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> pto.to_device(np.arange(6).reshape(2, 3), "cpu").shape
    (2, 3)
    """

    device: Any
    memory: Memory | None
    offset: int  # of the first element, in bytes
    shape: tuple[int, ...]
    steps: tuple[int, ...]  # strides in elements
    elem: DType
    flags: Flags = Flags()

    @property
    def dtype(self) -> Any:
        return np.dtype(self.elem.numpy)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(step * self.elem.itemsize for step in self.steps)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.elem.itemsize

    @property
    def is_lost(self) -> bool:
        """Whether the device was reset after the allocation."""
        return self.memory is not None and self.memory.is_lost

    @property
    def address(self) -> int:
        """Of the first element, on the device."""
        assert self.memory is not None
        if self.is_lost:
            raise LostMemory(device=self.device.name)
        return self.memory.address + self.offset

    def __len__(self) -> int:
        return len(self.like())

    def __bool__(self) -> bool:
        raise ValueError("an array on a device has no truth value; ask `.numpy()` of it")

    def __getitem__(self, index: Any) -> DeviceArray:
        """A view, by basic indices; one element is an array without axes."""
        basic = index if isinstance(index, tuple) else (index,)
        return self.viewed(lambda like: like[basic if Ellipsis in basic else (*basic, ...)])

    def reshape(self, *shape: Any) -> DeviceArray:
        """A view in another shape."""
        sizes = shape[0] if len(shape) == 1 else shape
        return self.viewed(lambda like: np.reshape(like, sizes, copy=False))

    def viewed(self, view: Callable[[Array], Array]) -> DeviceArray:
        """The view that `view` gives of an array of the host with this layout.

        Raises
        ------
        ValueError
            When it gives a copy.
        """
        like = self.like()
        seen = view(like)
        if seen.size and not np.may_share_memory(seen, like):
            raise ValueError("a view of an array on a device is asked for, and that index or shape makes a copy")
        moved = seen.ctypes.data - like.ctypes.data if seen.size else 0
        steps = tuple(stride // self.elem.itemsize for stride in seen.strides)
        return DeviceArray(self.device, self.memory, self.offset + moved, seen.shape, steps, self.elem, self.flags)

    def like(self) -> Array:
        """An array of the host with this type and layout, whose elements are not there."""
        low, high = self.as_array_info().reach
        return np.ndarray(self.shape, self.dtype, np.empty(high - low, np.uint8), -low, self.strides)

    def as_array_info(self) -> ArrayInfo:
        """What a launch must know of it."""
        return ArrayInfo(self.address, self.shape, self.steps, self.elem, self.flags.writeable, self, self.device)

    def numpy(self) -> Array:
        """A copy on the host, once all that was launched is done.

        Raises
        ------
        DeviceFault
            When a kernel stopped at a fault.
        """
        self.device.synchronize()
        return self.fetch()

    def to(self, device: Any) -> Any:
        """A copy on another device, given itself or by its name; a numpy array for ``"cpu"``."""
        return self.device.other(getattr(device, "name", device)).array(self)

    def fetch(self) -> Array:
        """The elements as they are now."""
        low, high = self.as_array_info().reach
        assert self.memory is not None
        span = np.empty(high - low, np.uint8)
        self.memory.read(span, self.offset + low)
        if not span.size:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, span, -low, self.strides).copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array on a device is copied to become a numpy array")
        return np.asarray(self.numpy(), dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = self.device.dlpack_device
        return place

    def __dlpack__(self, **given: Any) -> Any:
        """The array itself where it is on an NPU; of the simulated device, which nobody else knows, a host's copy."""
        kind, number = self.__dlpack_device__()
        if (kind, number) == CPU_DEVICE:
            return self.numpy().__dlpack__()
        self.device.synchronize()
        return capsule(self, (kind, number))

    def __repr__(self) -> str:
        return f"DeviceArray({self.shape}, {self.dtype}, {self.device.name})"


def host_view(info: ArrayInfo) -> Array:
    """An array of the host, whatever it belongs to, as numpy sees it; without its owner."""
    low, high = info.reach
    memory = (ctypes.c_uint8 * (high - low)).from_address(info.address + low)
    strides = tuple(s * info.dtype.itemsize for s in info.strides)
    return np.ndarray(info.shape, np.dtype(info.dtype.numpy), memoryview(memory), -low, strides)


def spans(infos: Sequence[ArrayInfo]) -> list[tuple[int, int]]:
    """Stretches of the host's memory, in order, in which all of the arrays lie: those that overlap are in one."""
    intervals: list[tuple[int, int]] = []
    ends = sorted((i.address + i.reach[0], i.address + i.reach[1]) for i in infos if i.reach[1] > i.reach[0])
    for low, high in ends:
        if intervals and low < intervals[-1][1]:
            intervals[-1] = intervals[-1][0], max(high, intervals[-1][1])
        else:
            intervals.append((low, high))
    return intervals


def zero(x: Any) -> None:
    """Set an array or tensor to zero."""
    if hasattr(x, "zero_"):
        x.zero_()
    elif isinstance(x, DeviceArray):
        assert x.memory is not None
        x.device.synchronize()
        zeros = np.zeros(x.nbytes, np.uint8)
        x.memory.write(zeros.ctypes.data, x.nbytes, x.offset)
    else:
        x.fill(0)
