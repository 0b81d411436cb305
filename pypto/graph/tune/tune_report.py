"""The report of tuning a plan, for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pypto.markup import Shown, card
from pypto.tuning.report import Section, TuningReport, section_parts


@dataclass(frozen=True, slots=True)
class PlanTuning(Shown):
    """What `tune` tried for a fused function. `print` shows it; a notebook shows tables.

    Parameters
    ----------
    function : str
        Its name.
    sections : tuple of Section
        The candidates of each kernel with their times, the fastest at the head.
    before, after : float
        Milliseconds of the whole plan with the sizes that were decided on, and with those that won.
    kept : bool
        Whether the tuned plan stays: it is faster as a whole.
    seconds : float
        That the search took.
    """

    function: str
    sections: tuple[Section, ...]
    before: float
    after: float
    kept: bool
    seconds: float

    @property
    def title(self) -> str:
        what = "the tuned plan stays" if self.kept else "the plan stays as it was"
        if not math.isfinite(self.after):
            return f"tuning of {self.function}: {what}, the tuned one computes something else"
        ratio = self.before / self.after
        return f"tuning of {self.function}: {self.before:.4g} ms, tuned {self.after:.4g} ms ({ratio:.2f}x); {what}"

    def __str__(self) -> str:
        rows = str(TuningReport(self.function, self.sections)).partition("\n")[2] if self.sections else ""
        return "\n".join([f"{self.title}, after {self.seconds:.2g} s", *([rows] if rows else [])])

    def _repr_html_(self) -> str:
        parts = (part for section in self.sections for part in section_parts(section))
        return card(self.title, *parts, note=f"{self.seconds:.2g} s")
