"""Arrays of the host on a device, for one launch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.errors.device import NotOnDevice
from pypto.ops.public import constexpr
from pypto.runtime.arrays import ArrayInfo, array_info
from pypto.runtime.device_arrays import DeviceArray, Flags, host_view, spans
from pypto.runtime.launch import Values
from pypto.runtime.signature import Signature, fixed_fields, plain
from pypto.runtime.tensors import is_tensor, note_writes

_MOST: Final = 2**46  # bytes; more are said to be there where nobody knows


class Staging:
    """Copies of the arrays of one launch.

    What is copied are whole stretches of memory, and arrays that share memory share the copy: so strides, and what one
    array has of another, are on the device as they are here. Back come elements of arrays that were written, and
    nothing between them.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.staged: list[tuple[DeviceArray, ArrayInfo]] = []

    def move(self, signature: Signature, values: Values) -> Values:
        """The arguments with arrays of the device in place of the host's."""
        rows = zip(signature.names, values, signature.constant, strict=True)
        moved = tuple(self.stand_in(signature.kernel, name, value, fixed) for name, value, fixed in rows)
        self.upload()
        return moved

    def stand_in(self, kernel: str, arg: str, value: Any, fixed: bool) -> Any:
        """An argument as it is on the device; its memory is filled in later."""
        unwrapped = plain(value)
        if fixed or isinstance(value, constexpr):
            return value
        if isinstance(unwrapped, tuple):
            flags = fixed_fields(type(unwrapped)) or (False,) * len(unwrapped)
            parts = [self.stand_in(kernel, f"{arg}.{n}", x, flags[n]) for n, x in enumerate(unwrapped)]
            stand_ins: Any = getattr(unwrapped, "_make", tuple)(parts)
            return stand_ins
        info = array_info(value, kernel, arg)
        if info is None or info.device:
            return value
        if info.reach[1] - info.reach[0] > _MOST:
            way = "pass the array itself: how far a pointer reaches is not known"
            raise NotOnDevice(kernel=kernel, arg=arg, device=self.device.name, problem="it is a bare pointer", way=way)
        allowed = Flags(info.writable, is_tensor(type(info.owner)) and not info.writable)
        array = DeviceArray(self.device, None, 0, info.shape, info.strides, info.dtype, allowed)
        self.staged.append((array, info))
        return array

    def upload(self) -> None:
        """Copy all stretches of memory that the arrays lie in."""
        acl = self.device.acl
        parts = [(low, high, acl.empty(high - low)) for low, high in spans([info for _, info in self.staged])]
        for low, high, memory in parts:
            memory.write(low, high - low)
        for array, info in self.staged:
            start = info.address + info.reach[0]
            low, memory = next(((a, m) for a, b, m in parts if a <= start < b), (info.address, None))
            array.memory, array.offset = memory or acl.empty(0), info.address - low

    def copy_back(self, written: list[Any]) -> None:
        """Copy the elements of arrays that the kernel wrote."""
        for array, info in self.staged:
            if any(array is one for one in written) and info.reach[1]:
                if is_tensor(type(info.owner)):
                    note_writes([info.owner])
                np.copyto(host_view(info), array.fetch())
