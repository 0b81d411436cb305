"""Warnings about kernels that work, and hardly do what their author wants, given once, when a kernel is compiled."""

from __future__ import annotations

import warnings
from typing import Any

from pypto.errors.base import Diagnostic, PyptoWarning


class StoresNothing(Diagnostic, PyptoWarning):
    code = "E701"
    template = "{kernel} stores nothing: a launch leaves every array as it is"
    hint = "{way}"


class CutsFractions(Diagnostic, PyptoWarning):
    code = "E702"
    template = "{given} is stored as {dtype}, which cuts what is behind the point"
    hint = "say so with `.to(pto.{dtype})`; for a division without a fraction, write `//`; else store into floats"


class ManyVersions(Diagnostic, PyptoWarning):
    code = "E703"
    template = "{count} versions of {kernel} were compiled for the same types; what keeps changing is {what}"
    hint = "{way}"


class PrintsNothing(Diagnostic, PyptoWarning):
    code = "E704"
    template = "{kernel} prints nothing on {device}"
    hint = "prints come from the CPU and from the interpreter: `pto.interpret({kernel})`"


def tell(advice: Diagnostic, told: set[str], variables: dict[str, Any]) -> None:
    """Give a warning at its place, as Python's own are given, unless it was given before.

    Parameters
    ----------
    advice : Diagnostic
        One of this module's, with a place.
    told : set of str
        What was said of the kernel; it grows.
    variables : dict
        Those of the module whose code it is about: there Python keeps which warnings were shown.
    """
    assert advice.loc is not None and isinstance(advice, Warning)
    if str(advice) not in told:
        registry = variables.setdefault("__warningregistry__", {})
        module = variables.get("__name__")
        warnings.warn_explicit(advice, type(advice), advice.loc.file, advice.loc.line, module, registry)
        told.add(str(advice))
