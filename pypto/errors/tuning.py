"""What can be wrong with a search for the best configuration."""

from __future__ import annotations

from pypto.errors.base import Diagnostic


class Disagreement(Diagnostic):
    code = "E321"
    template = "{kernel}: its configurations compute different things, and none has a majority{grid}\n  {groups}"
    hint = (
        "tuned constants must not change the result: where one says how much a program does, the grid is a function "
        'of it, as in `lambda meta: (pto.cdiv(n, meta["BLOCK"]),)`'
    )
