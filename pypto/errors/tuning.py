"""What can be wrong with a search for the best configuration."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import programs


class Disagreement(Diagnostic):
    code = "E321"
    template = "{kernel}: its configurations compute different things, and none has a majority{grid}\n  {groups}"
    hint = (
        "tuned constants must not change the result: where one says how much a program does, the grid is a function "
        'of it, as in `lambda meta: (pto.cdiv(n, meta["BLOCK"]),)`'
    )
    example = programs(
        """
        @pto.autotune([pto.Config({"BLOCK": 2}), pto.Config({"BLOCK": 4})])
        @pto.jit
        def f(x, y, BLOCK: pto.constexpr):
            at = pto.program_id(0) * BLOCK
            y[at : at + BLOCK] = x[at : at + BLOCK] * 2

        f[(2,)](x, y)
        """,
        """
        @pto.autotune([pto.Config({"BLOCK": 2}), pto.Config({"BLOCK": 4})])
        @pto.jit
        def f(x, y, BLOCK: pto.constexpr):
            at = pto.program_id(0) * BLOCK
            y[at : at + BLOCK] = x[at : at + BLOCK] * 2

        f[lambda meta: (8 // meta["BLOCK"],)](x, y)
        """,
    )
