"""Diagnostics of types, shapes and values that every op can meet."""

from __future__ import annotations

from pypto.errors.base import Diagnostic


class OpTypeError(Diagnostic, TypeError):
    code = "E101"
    template = "{op}: {problem}"


class NoBroadcast(Diagnostic, TypeError):
    code = "E102"
    template = "shapes {a} and {b} do not broadcast together"
    hint = "sizes must be equal or 1, counted from the last dimension; add one with `[:, None]`"


class ConstantOutOfRange(Diagnostic, TypeError):
    code = "E103"
    template = "{number} is out of range for {dtype}, which holds {low} to {high}"
    hint = "cast the tile to a wider type first, for instance `.to(pto.int64)`"


class MixedSign(Diagnostic, TypeError):
    code = "E104"
    template = "Cannot use `//` or `%` with {a} and {b} because they have different signedness"
    hint = "cast one of them, for instance `.to(pto.int32)`"
