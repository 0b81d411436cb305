"""Explains the compilation of a kernel: the decisions of its backend, and the reasons for its versions.

The backend explains exactly the IR and target of the version that the arguments select.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pypto.arguments import Boundary
from pypto.backends.findings import Finding, byte_text
from pypto.errors.notebook import cell_name
from pypto.loc import Loc
from pypto.markup import Shown


@dataclass(frozen=True, slots=True)
class Explanation(Shown):
    """All findings for one version of a kernel, in the order of the source; `print` shows them below their lines."""

    kernel: str
    version: str
    scratch_bytes: int
    findings: tuple[Finding, ...]
    scratch_of: str = "thread"

    @property
    def scratch_text(self) -> str:
        """Says how much scratch memory the kernel needs."""
        return f"scratch memory: {byte_text(self.scratch_bytes)} per {self.scratch_of}"

    def about(self, topic: str) -> list[Finding]:
        """Return the findings of a topic, such as ``access``, ``order``, ``stream``, ``fusion`` or ``memory``."""
        return [finding for finding in self.findings if finding.topic == topic]

    def __str__(self) -> str:
        lines = [f"{self.kernel}, compiled for {self.version}"]
        lines.append(self.scratch_text)
        for (file, line), group in groupby(self.findings, lambda f: (f.loc.user.file, f.loc.user.line)):
            lines += ["", f"{short(file)}:{line}  {linecache.getline(file, line).strip()}"]
            for finding in group:
                lines.append(f"  {finding.topic:8}{finding.text}" + (f"; {finding.way}" if finding.way else ""))
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        from pypto.debug.cards import explanation_card

        return explanation_card(self)


def short(file: str) -> str:
    """Returns a file name without its folder; a notebook's cell by its number."""
    cell = cell_name(file)
    return cell if cell != file else Path(file).name


@Boundary()
def explain(kernel: Any, *args: Any, **given: Any) -> Explanation:
    """Explains the version of a kernel that a launch with these arguments runs; compiles it if necessary.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def total(x, y):
    ...     y[0] = pto.sum(x[:])
    >>> from pypto.debug.explain import explain
    >>> [f.text for f in explain(total, np.ones((4, 8), np.float32)[:, 0], np.ones(1, np.float32)).about("access")]
    ['its elements lie apart by a stride known at run time: each is loaded alone']
    """
    return explained(kernel, kernel.compile(*args, **given))


def explained(kernel: Any, version: Any) -> Explanation:
    """Explains a compiled version."""
    function = version.program.function
    advice = version.program.backend.explain(function)
    findings = [*advice.items, *versions(kernel, function.loc)]
    return Explanation(
        kernel.signature.kernel, str(version), advice.scratch_bytes, in_order(findings), advice.scratch_of
    )


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Findings by line, each once."""
    ordered = sorted(findings, key=lambda f: (f.loc.user.file, f.loc.user.line))
    unique = {(f.topic, f.loc.user.file, f.loc.user.line, f.text): f for f in ordered}
    return tuple(unique.values())


def versions(kernel: Any, loc: Loc) -> Iterator[Finding]:
    """Why there are several versions, where that is so."""
    specializations = kernel.specializations
    for number, version in enumerate(specializations, 1):
        if len(specializations) > 1:
            yield Finding("version", loc, f"number {number} of {len(specializations)}: {version.reason}")
