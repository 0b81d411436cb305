"""Diagnostics of types, shapes and values that every op can meet."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import bodies


class OpTypeError(Diagnostic, TypeError):
    code = "E101"
    template = "{op}: {problem}"
    example = bodies("y[0] = pto.sum(x[:], axis=1)", "y[0] = pto.sum(x[:], axis=0)")


class NoBroadcast(Diagnostic, TypeError):
    code = "E102"
    template = "shapes {a} and {b} do not broadcast together"
    hint = "sizes must be equal or 1, counted from the last dimension; add one with `[:, None]`"
    example = bodies("y[:] = x[0:4] + x[:]", "y[0:4] = x[0:4] + x[4:8]")


class ConstantOutOfRange(Diagnostic, TypeError):
    code = "E103"
    template = "{number} is out of range for {dtype}, which holds {low} to {high}"
    hint = "cast the tile to a wider type first, for instance `.to(pto.int64)`"
    example = bodies("y[:] = x[:].to(pto.int8) + 300", "y[:] = x[:].to(pto.int32) + 300")


class MixedSign(Diagnostic, TypeError):
    code = "E104"
    template = "Cannot use `{symbol}` with {a} and {b} because they have different signedness"
    hint = "cast one of them, for instance `.to(pto.int32)`"
    example = bodies("y[0] = n // pto.cast(n, pto.uint32)", "y[0] = n // pto.cast(n, pto.uint32).to(pto.int32)")
