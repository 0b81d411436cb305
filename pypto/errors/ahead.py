"""What can be wrong with kernels that are compiled ahead of time, and with libraries of them."""

from __future__ import annotations

from pypto.errors.base import Diagnostic


class NotAhead(Diagnostic, ValueError):
    code = "E321"
    template = "{kernel} cannot be compiled ahead of time: {problem}"


class NoLinker(Diagnostic, RuntimeError):
    code = "E322"
    template = "{output} cannot be linked: {problem}"
    hint = "install a C compiler or name one in CC; an object (`--emit object`) needs none"


class NotALibrary(Diagnostic, ValueError):
    code = "E323"
    template = "{path} is no library of kernels: {problem}"
    hint = "`pypto compile FILE:KERNEL … --emit shared` makes one"


class NoVersion(Diagnostic, TypeError):
    code = "E324"
    template = "{kernel}: no version in {path} takes these arguments: {problem}"
    hint = "pass arguments that a version takes, or compile one for these: `pypto compile … --also \"…\"`"


class MissingFeatures(Diagnostic, RuntimeError):
    code = "E325"
    template = "{kernel}: this CPU has none of the feature levels in {path}: {levels}"
    hint = "compile for a lower one, as in `--level x86-64-v2`"
