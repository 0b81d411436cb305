"""Warnings about kernels that work, and hardly do what their author wants, given once, when a kernel is compiled."""

from __future__ import annotations

import warnings
from typing import Any

from pypto.errors.base import Diagnostic, PyptoWarning
from pypto.errors.examples import bodies, programs


class StoresNothing(Diagnostic, PyptoWarning):
    code = "E701"
    template = "{kernel} stores nothing: a launch leaves every array as it is"
    hint = "{way}"
    example = bodies("y = x[:] * n", "y[:] = x[:] * n")


class CutsFractions(Diagnostic, PyptoWarning):
    code = "E702"
    template = "{given} is stored as {dtype}, which cuts what is behind the point"
    hint = "say so with `.to(pto.{dtype})`; for a division without a fraction, write `//`; else store into floats"
    example = bodies("y[:] = x[:] * 1.5", "y[:] = (x[:] * 1.5).to(pto.int32)", "f[(1,)](x, np.zeros(8, np.int32), 8)")


class ManyVersions(Diagnostic, PyptoWarning):
    code = "E703"
    template = "{count} versions of {kernel} were compiled for the same types; what keeps changing is {what}"
    hint = "{way}"
    example = programs(
        """
        @pto.jit
        def f(y, n: pto.constexpr):
            y[:] = n

        for n in range(12):
            f[(1,)](y, n)
        """,
        """
        @pto.jit
        def f(y, n):
            y[:] = n

        for n in range(12):
            f[(1,)](y, n)
        """,
    )


class PrintsNothing(Diagnostic, PyptoWarning):
    code = "E704"
    template = "{kernel} prints nothing on {device}"
    hint = "prints come from the CPU and from the interpreter: `pto.interpret({kernel})`"
    example = bodies("print(n)\ny[:] = x[:]", "y[:] = x[:]", "with pto.device('ascend-sim'):\n    f[(1,)](x, y, 8)")


class LoopUnrolled(Diagnostic, PyptoWarning):
    code = "E709"
    template = "this loop of {function} is unrolled, trip by trip, which has taken more than a second{reason}"
    hint = (
        "a loop becomes one loop of a kernel where it has numbers, parts of arrays and numpy's functions alone; "
        "`pypto.arrays.fori_loop(first, last, body, state)` traces its body once"
    )
    example = programs(
        """
        def f(x):
            for _ in range(100_000):
                x = np.sort(x)
            return x

        pto.fuse(f)(x)
        """,
        """
        def f(x):
            y = x * 2
            for _ in range(100_000):
                y[:] = np.sqrt(y)
            return y

        pto.fuse(f)(x)
        """,
    )


class ManyPlans(Diagnostic, PyptoWarning):
    code = "E710"
    template = "`{function}` has many plans, and each was traced and compiled: {reason}"
    hint = (
        "give a size that differs a name, by `dims=` of `pto.fuse`; pass a number that decides no shape as an array; "
        "or fuse the part that does not depend on it"
    )
    example = programs(
        """
        f = pto.fuse(lambda x, name: x * 2)

        for n in range(70):
            f(np.ones(100), f"layer {n}")
        """,
        """
        f = pto.fuse(lambda x: x * 2)

        for _ in range(70):
            f(np.ones(100))
        """,
    )


class OffTheCube(Diagnostic, PyptoWarning):
    code = "E705"
    template = "products of {kernel} run on vector cores of {chip}, not on the cube: {reason}"
    hint = (
        "the cube core is some hundred times faster; it takes operands of float16, bfloat16, float32, float8 and int8, "
        "which are slices or computed from slices; `pto.maximum(i, 0)` shows that a slice does not begin before its "
        "array"
    )
    example = programs(
        """
        @pto.jit
        def f(a, b, c):
            c[:, :] = pto.dot(a[:, :], b[:, :])

        w = np.ones((32, 32), np.int16)
        f.compile(w, w, w.astype(np.int32), target="ascend910b2")
        """,
        """
        @pto.jit
        def f(a, b, c):
            c[:, :] = pto.dot(a[:, :], b[:, :])

        w = np.ones((32, 32), np.float16)
        f.compile(w, w, w, target="ascend910b2")
        """,
    )


def tell(advice: Diagnostic, reported: set[str], variables: dict[str, Any]) -> None:
    """Give a warning at its place, as Python's own are given, unless it was given before.

    Parameters
    ----------
    advice : Diagnostic
        One of this module's, with a place.
    reported : set of str
        What was said of the kernel; it grows.
    variables : dict
        Those of the module whose code it is about: there Python keeps which warnings were shown.
    """
    assert advice.loc is not None and isinstance(advice, Warning)
    if str(advice) not in reported:
        registry = variables.setdefault("__warningregistry__", {})
        module = variables.get("__name__")
        warnings.warn_explicit(advice, type(advice), advice.loc.file, advice.loc.line, module, registry)
        reported.add(str(advice))
