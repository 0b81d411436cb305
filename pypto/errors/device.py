"""What can go wrong between a kernel and a device: its toolkit, its memory, and the kernel's own faults."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, PyptoWarning


class NoToolkit(Diagnostic, RuntimeError):
    code = "E601"
    template = "{name} needs CANN: {problem}"
    hint = (
        "install the CANN toolkit and source its set_env.sh, or set ASCEND_HOME_PATH to its folder; without hardware, "
        'pto.device("ascend-sim") runs the same kernel on a simulated device'
    )


class NotCompiled(Diagnostic, RuntimeError):
    code = "E602"
    template = "{compiler} refused the Ascend C text of {kernel}: {words}"
    hint = "this is a fault of pypto, please report it; the whole text is what this error has as `fields['text']`"


class CompilerTimeout(Diagnostic, RuntimeError):
    code = "E603"
    template = "{compiler} did not finish {kernel} within {seconds} seconds"
    hint = "make the kernel's tiles or unrolled loops smaller; if the machine is slow, try again"


class DeviceFault(Diagnostic, RuntimeError):
    code = "E604"
    template = "{kernel} stopped at a fault on {device}: {words}"
    hint = "arrays that were on {device} are lost, and the device is ready again; run the kernel in pto.interpreter()"


class MixedDevices(Diagnostic, ValueError):
    code = "E605"
    template = "{kernel}: argument `{arg}` is on {device}, `{other}` is on {elsewhere}"
    hint = "a launch takes arrays of one device: move one of them, for instance `{other}.to({device!r})`"


class NotOnDevice(Diagnostic, TypeError):
    code = "E606"
    template = "{kernel}: argument `{arg}` cannot be copied to {device}: {problem}"
    hint = "{way}"


class LostMemory(Diagnostic, RuntimeError):
    code = "E607"
    template = "this array was on {device}, which was reset since; its memory is gone"
    hint = "copy the data to the device anew: `pto.to_device(x, {device!r})`"


class UnknownDevice(Diagnostic, ValueError):
    code = "E608"
    template = "there is no device {name!r}"
    hint = "devices are cpu, ascend, ascend:1 and so on, ascend-sim, and ascend-sim:ascend950 for another chip"


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
