"""What can go wrong between a kernel and a device: its toolkit, its memory, and the kernel's own faults."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, PyptoWarning
from pypto.errors.examples import programs


class NoToolkit(Diagnostic, RuntimeError):
    code = "E601"
    template = "{name} needs CANN: {problem}"
    hint = (
        "install the CANN toolkit and source its set_env.sh, or set ASCEND_HOME_PATH to its folder; without hardware, "
        'pto.device("ascend-sim") runs the same kernel on a simulated device'
    )
    example = programs(
        """
        pto.device("ascend")
        """,
        """
        pto.device("cpu")
        """,
    )


class NotCompiled(Diagnostic, RuntimeError):
    code = "E602"
    template = "{compiler} refused the Ascend C text of {kernel}: {words}"
    hint = "this is a fault of pypto, please report it; the whole text is what this error has as `fields['text']`"
    example = programs(
        """
        from pypto.backends.ascend.toolchain.toolchain import Toolchain

        folder = pto.device("ascend-sim").backend.find()
        Toolchain(folder).compile("nonsense", "f", "vector", "dav-2201")
        """,
        """
        @pto.jit
        def f(x, y):
            y[:] = x[:] * 2

        with pto.device("ascend-sim"):
            f[(1,)](x, y)
        """,
    )


class CompilerTimeout(Diagnostic, RuntimeError):
    code = "E603"
    template = "{compiler} did not finish {kernel} within {seconds} seconds"
    hint = "make the kernel's tiles or unrolled loops smaller; if the machine is slow, try again"
    example = programs(
        """
        from pypto.backends.ascend.toolchain.toolchain import Toolchain

        folder = pto.device("ascend-sim").backend.find()
        Toolchain(folder, timeout=0.001).compile("", "f", "vector", "dav-2201")
        """,
        """
        @pto.jit
        def f(x, y):
            y[:] = x[:] * 2

        with pto.device("ascend-sim"):
            f[(1,)](x, y)
        """,
    )


class DeviceFault(Diagnostic, RuntimeError):
    code = "E604"
    template = "{kernel} stopped at a fault on {device}: {words}"
    hint = "arrays that were on {device} are lost, and the device is ready again; run the kernel in pto.interpreter()"
    example = programs(
        """
        @pto.jit
        def f(y):
            pto.store(y + pto.arange(0, 1024), 1.0)

        with pto.device("ascend-sim"):
            f[(1,)](y)
        """,
        """
        @pto.jit
        def f(y):
            i = pto.arange(0, 1024)
            pto.store(y + i, 1.0, mask=i < 8)

        with pto.device("ascend-sim"):
            f[(1,)](y)
        """,
    )


class MixedDevices(Diagnostic, ValueError):
    code = "E605"
    template = "{kernel}: argument `{arg}` is on {device}, `{other}` is on {elsewhere}"
    hint = "a launch takes arrays of one device: move one of them, for instance `{other}.to({device!r})`"
    example = programs(
        """
        @pto.jit
        def f(x, y):
            y[:] = x[:] * 2

        f[(1,)](pto.to_device(x, "ascend-sim"), y)
        """,
        """
        @pto.jit
        def f(x, y):
            y[:] = x[:] * 2

        f[(1,)](pto.to_device(x, "ascend-sim"), pto.to_device(y, "ascend-sim"))
        """,
    )


class NotOnDevice(Diagnostic, TypeError):
    code = "E606"
    template = "{kernel}: argument `{arg}` cannot be copied to {device}: {problem}"
    hint = "{way}"
    example = programs(
        """
        class Pointer:
            dtype = x.dtype

            def data_ptr(self):
                return x.ctypes.data

        @pto.jit
        def f(x, y):
            pto.store(y, pto.load(x))

        with pto.device("ascend-sim"):
            f[(1,)](Pointer(), y)
        """,
        """
        @pto.jit
        def f(x, y):
            pto.store(y, pto.load(x))

        with pto.device("ascend-sim"):
            f[(1,)](x, y)
        """,
    )


class LostMemory(Diagnostic, RuntimeError):
    code = "E607"
    template = "this array was on {device}, which was reset since; its memory is gone"
    hint = "copy the data to the device anew: `pto.to_device(x, {device!r})`"
    example = programs(
        """
        from pypto.errors.device import DeviceFault

        @pto.jit
        def f(y):
            pto.store(y + pto.arange(0, 1024), 1.0)

        there = pto.to_device(y, "ascend-sim")
        f[(1,)](there)
        try:
            pto.device("ascend-sim").synchronize()
        except DeviceFault:
            there.numpy()
        """,
        """
        @pto.jit
        def f(y):
            pto.store(y + pto.arange(0, 8), 1.0)

        there = pto.to_device(y, "ascend-sim")
        f[(1,)](there)
        there.numpy()
        """,
    )


class UnknownDevice(Diagnostic, ValueError):
    code = "E608"
    template = "there is no device {name!r}"
    hint = "devices are cpu, ascend, ascend:1 and so on, ascend-sim, and ascend-sim:ascend950 for another chip"
    example = programs(
        """
        pto.device("gpu")
        """,
        """
        pto.device("cpu")
        """,
    )


class UnalignedCopies(Diagnostic, PyptoWarning):
    code = "E609"
    template = (
        "{kernel}: this copy touches {touched} lines of 512 bytes of device memory where {needed} would do, since its "
        "rows begin between such lines"
    )
    hint = (
        "the chip moves whole lines: let rows lie a multiple of 512 bytes apart, and views and blocks begin at such "
        "offsets; or, where the sizes are given, ignore warnings of pypto.errors.device.UnalignedCopies"
    )
    example = programs(
        """
        @pto.jit
        def f(x, y):
            i = 32 * pto.program_id(0)
            y[i : i + 32, 0:512] = 2 * x[i : i + 32, 0:512]

        wide = np.ones((64, 704), np.float32)
        with pto.device("ascend-sim"):
            f[(2,)](wide, np.zeros_like(wide))
        """,
        """
        @pto.jit
        def f(x, y):
            i = 32 * pto.program_id(0)
            y[i : i + 32, 0:512] = 2 * x[i : i + 32, 0:512]

        wide = np.ones((64, 640), np.float32)
        with pto.device("ascend-sim"):
            f[(2,)](wide, np.zeros_like(wide))
        """,
    )


class UnsupportedChip(Diagnostic, ValueError):
    code = "E610"
    template = "no kernel can be compiled for {chip}: {reason}"
    hint = "targets are the chips of the families ascend910b, ascend910_93 and ascend950; the CPU runs every kernel"
    example = programs(
        """
        @pto.jit
        def f(x, y):
            y[:] = x[:] * 2

        f.compile(x, y, target="ascend310p3")
        """,
        """
        @pto.jit
        def f(x, y):
            y[:] = x[:] * 2

        f.compile(x, y, target="ascend910b2")
        """,
    )
