"""Diagnostics of what Ascend chips cannot do."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import programs


class NotOnAscend(Diagnostic, TypeError):
    code = "E501"
    template = "{op} of {dtype} does not run on Ascend: {reason}"
    hint = "{way}"
    example = programs(
        """
        @pto.jit
        def f(y, address):
            y[0] = pto.load(address.to(pto.pointer_type(pto.float32)))

        f.compile(y, 2**40, target="ascend910b2")
        """,
        """
        @pto.jit
        def f(x, y):
            y[0] = pto.load(x)

        f.compile(x, y, target="ascend910b2")
        """,
    )


class NoRoomOnAscend(Diagnostic, MemoryError):
    code = "E502"
    template = "the tiles that are in use here need {needed:,} bytes of {space}, and {chip} has {available:,}"
    hint = (
        "make the tiles smaller: blocks of at most {percent} % of these sizes fit; "
        "{largest} takes most, {bytes:,} bytes{otherwise}"
    )
    example = programs(
        """
        @pto.jit
        def f(x, y):
            y[:] = pto.sort(x[:])

        f.compile(np.ones(2**20, np.float32), np.ones(2**20, np.float32), target="ascend910b2")
        """,
        """
        @pto.jit
        def f(x, y, BLOCK: pto.constexpr):
            i = pto.program_id(0) * BLOCK
            y[i : i + BLOCK] = pto.sort(x[i : i + BLOCK])

        f.compile(np.ones(2**20, np.float32), np.ones(2**20, np.float32), BLOCK=1024, target="ascend910b2")
        """,
    )


class NoForm(Diagnostic, TypeError):
    code = "E503"
    template = "{what} {problem} on Ascend"
    hint = "{way}"
    example = programs(
        """
        @pto.jit
        def f(x):
            pto.atomic_cas(x, 1.0, 2.0)

        f.compile(x.astype(np.float16), target="ascend910b2")
        """,
        """
        @pto.jit
        def f(x):
            pto.atomic_cas(x, 1.0, 2.0)

        f.compile(x, target="ascend910b2")
        """,
    )
