"""What torch runs in graphs of the backend `pypto`: warned of once, counted, or refused."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pypto import routing
from pypto.errors import PyptoWarning
from pypto.errors.inductor import RunByTorch
from pypto.routing.monitor import Report
from pypto.torch.dynamo.lowering import TorchStep

_SHOWN: Final = 5  # operations that a warning or an error lists


class TorchSteps:
    """The operations that torch runs in compiled graphs of this process, with how many graphs have them."""

    def __init__(self) -> None:
        self.counts: Counter[TorchStep] = Counter()
        self.warned: set[tuple[str, str]] = set()

    def add(self, steps: Sequence[TorchStep]) -> list[TorchStep]:
        """Count the steps of a plan, and return those that were not warned of yet."""
        self.counts.update(steps)
        kinds = {(step.op, step.reason): step for step in steps}
        fresh = [step for key, step in kinds.items() if key not in self.warned]
        self.warned.update(kinds)
        return fresh


STEPS: Final = TorchSteps()


def announce(graph: str, steps: Sequence[TorchStep], strict: bool) -> None:
    """Count and warn of the operations of a plan that torch runs; under `strict` they are an error.

    Raises
    ------
    RunByTorch
    """
    if not steps:
        return
    if strict:
        raise RunByTorch(listed=listed(steps))
    fresh = STEPS.add(steps)
    if fresh:
        text = f"torch runs operations of the {graph} graph between kernels: {listed(fresh)}"
        warnings.warn(text, PyptoWarning, stacklevel=4)


def listed(steps: Sequence[TorchStep]) -> str:
    """Return the first operations as a text."""
    more = f"; and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    return "; ".join(map(str, steps[:_SHOWN])) + more


def report() -> Report:
    """Return the counts of all routes, with the operations that torch runs in graphs of the backend `pypto`.

    Returns
    -------
    Report
        Its `remarks` list these operations.

    Examples
    --------
    >>> import pypto.torch
    >>> pypto.torch.report().stuck
    0
    """
    remarks = tuple(f"{count} x {step}" for step, count in STEPS.counts.items())
    return replace(routing.report(), remarks=remarks)
