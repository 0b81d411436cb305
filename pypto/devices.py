"""Where kernels run: devices by their names, their facts, and copies of arrays on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pypto.ops.target import FACTS, TargetConstants, TargetName, similar_fact


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


class Target(TargetName):
    """The facts of the machine that runs a launch: constants in kernels, and numbers on the host.

    In a kernel, `pto.target.NAME` is a compile-time constant of the machine that the kernel is compiled for, so it can
    be the size of a tile or decide an `if` at compile time. On the host it is the fact of the device in force, which a
    grid may follow; ``pto.target(name)`` gives the facts of another device or chip.

    Attributes
    ----------
    name : str
        ``"cpu"``, or the name of a chip such as ``"ascend910b2"``.
    cores : int
        Cores that run programs: threads of the pool on a CPU, vector cores on Ascend.
    cube_cores : int
        Cores that compute matrix products, on chips that have separate ones for them.
    l2_bytes : int
        Bytes of the second-level cache: of one core on a CPU, of the chip on Ascend.
    vector_bytes : int
        Bytes that one vector instruction processes.
    has_exp2 : bool
        Whether `exp2` takes fewer instructions than `exp`; on Ascend `exp` is an instruction, and `exp2` is not.

    Raises
    ------
    NoTargetFact
        When the backend does not give a fact: a CPU has no `cube_cores`, and kernels that are compiled ahead of time
        run on any number of cores.

    Notes
    -----
    `pto.set_num_threads` changes how many threads a launch uses, and not `cores`.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     WIDTH = pto.target.vector_bytes // 4
    ...     for i in range(pto.program_id(0) * WIDTH, x.shape[0], pto.target.cores * WIDTH):
    ...         y[i : i + WIDTH] = x[i : i + WIDTH] * 2
    >>> x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    >>> double[(pto.target.cores,)](x, y)
    >>> y.sum()
    np.float32(2000.0)
    >>> chip = pto.target("ascend910b2")
    >>> chip.cores, chip.cube_cores, chip.has_exp2
    (48, 24, False)
    """

    __name__ = "target"
    name: str
    cores: int
    cube_cores: int
    l2_bytes: int
    vector_bytes: int
    has_exp2: bool

    def __call__(self, name: str = "") -> TargetConstants:
        """The facts of a device or chip by its name; without a name, of the device in force."""
        from pypto.compile import session
        from pypto.options import KernelOptions

        shared = session()
        backend = getattr(shared.devices.device_or_chip(name), "backend", None) or shared.backend(KernelOptions())
        constants: TargetConstants = backend.constants
        return constants

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in FACTS:
                raise AttributeError(f"pto.target has no fact `{name}`; {similar_fact(name)}")
            return self().read(name)


target: Final = Target()
