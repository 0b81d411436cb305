"""Where kernels run: devices by their names, and copies of arrays on them."""

from __future__ import annotations

from typing import Any


def device(name: str) -> Any:
    """A device by its name, on which launches run for the length of a `with` block.

    Parameters
    ----------
    name : str
        ``"cpu"``; ``"ascend"`` or ``"ascend:1"`` for an NPU; ``"ascend-sim"`` for a simulated Ascend 910B2, and
        ``"ascend-sim:ascend950"`` for another chip.

    Returns
    -------
    Device
        It has `array`, `empty` and `synchronize`.

    Raises
    ------
    UnknownDevice
        When there is no such device.
    NoToolkit
        When it needs a toolkit that is not installed.

    Notes
    -----
    A launch on arrays of a device runs there, without a `with` block too, and returns at once. Under one, arrays of
    the host are copied to the device and what was written is copied back; then a launch is done when it returns.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     y[:] = x[:] * 2
    >>> x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    >>> with pto.device("cpu"):
    ...     double[(1,)](x, y)
    >>> y
    array([0., 2., 4., 6.], dtype=float32)
    """
    from pypto.compile import session

    return session().devices.named(name)


def to_device(x: Any, name: str) -> Any:
    """A copy of an array on a device.

    Parameters
    ----------
    x : array_like
        A numpy array, a tensor, whatever offers DLPack, a device's array, or numbers.
    name : str
        As for `device`.

    Returns
    -------
    DeviceArray
        Of the same shape and dtype; for ``"cpu"`` a numpy array.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> pto.to_device(np.arange(3), "cpu")
    array([0, 1, 2])
    """
    return device(name).array(x)
