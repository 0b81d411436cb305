"""What this backend refuses, with the line of the kernel that asks for it."""

from __future__ import annotations

from pypto.errors import Diagnostic


class NotInPortableC(Diagnostic, TypeError):
    code = "C001"
    template = "{what} is not supported by portable-c"
    hint = "run the kernel on the CPU, without a device"


class NoCompiler(Diagnostic, RuntimeError):
    code = "C002"
    template = "portable-c cannot compile {kernel}: {problem}"
    hint = "install a C compiler, or name one in CC"
