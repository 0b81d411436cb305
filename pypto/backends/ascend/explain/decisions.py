"""Why a kernel was compiled as it was for a chip: which cores it runs on, why on no better ones, and its accesses."""

from __future__ import annotations

import linecache
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.explain.remarks import remarks
from pypto.backends.ascend.pipeline import choose_form
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.findings import Finding, Findings, access_findings, order_findings
from pypto.ir.core import Function
from pypto.loc import UNKNOWN, Loc
from pypto.passes import optimize

_CORES: Final = MappingProxyType({
    "vector": "vector cores", "cube": "cube cores", "mix": "cube cores, with the vector cores of their blocks",
})  # fmt: skip
_FORMS: Final = ("cube cores alone", "cube and vector cores together")  # in the order in which they are tried


def explain(prepared: Function, target: AscendTarget) -> Findings:
    """All decisions about a prepared function that its user can see or change."""
    function = optimize(prepared)
    block, reasons = choose_form(function, target)
    loc, cores = function.loc, _CORES[block.kind]
    better = (f"not on {form}: {text.splitlines()[0]}" for form, text in zip(_FORMS, reasons, strict=False))
    forms = [Finding("form", loc, text) for text in (f"it runs on {cores}", *better)]
    file, noted = loc.user.file, remarks(block)
    slow = [Finding(topic, whole_line(file, line) if line else loc, text) for topic, line, text in noted]
    return Findings((*forms, *order_findings(function), *slow, *access_findings(function)), block.workspace, "block")


def whole_line(file: str, line: int) -> Loc:
    """The code of a line as a place."""
    code = linecache.getline(file, line).rstrip()
    return replace(UNKNOWN, file=file, line=line, col=len(code) - len(code.lstrip()), end_line=line, end_col=len(code))
