"""The report of tuning a plan, as text and HTML."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pypto.markup import Shown, card
from pypto.tuning.report import Section, TuningReport, section_parts


@dataclass(frozen=True, slots=True)
class PlanTuning(Shown):
    """The report of `tune` for a fused function; `print` shows it as text, a notebook as tables.

    Parameters
    ----------
    function : str
        The name of the function.
    sections : tuple of Section
        The candidates of each kernel with their times, the fastest first.
    before, after : float
        Milliseconds of the whole plan with the default sizes and with the best sizes.
    kept : bool
        Whether the tuned plan is faster as a whole, and replaces the old one.
    seconds : float
        The duration of the search.
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
