"""Run all trials and write what was found: ``python -m tests.compat.report [part of a name]``."""

from __future__ import annotations

import os
import statistics
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pypto.compat.triton.kernels import JITFunction
from tests.compat.sources import libraries, load
from tests.compat.trials import SOURCES, TRIALS
from tests.compat.world import Trial

PAGE = Path(__file__).parents[2] / "docs" / "triton-kernels.md"
HEAD = """# Triton's kernels on pypto

Kernels of public libraries run through `pypto.compat.triton` on torch tensors on the CPU, unedited but for the device
that their launchers allocate on, and are compared with references in float64. All are compiled; none is interpreted.
`tests/compat/world_*.py` calls them, and `python -m tests.compat.report` writes this page. Times are milliseconds from
a kernel's source to machine code, without the disk cache, of the version that took longest.
"""


@dataclass
class Outcome:
    trial: Trial
    problem: str = ""
    kernels: dict[str, float] = field(default_factory=dict)


def jit_functions(x: Any) -> Any:
    """The kernel under wrappers of tuners, or None."""
    while x is not None and not isinstance(x, JITFunction):
        x = vars(x).get("fn") if hasattr(x, "__dict__") else None
    return x


def compiled() -> dict[str, float]:
    """Milliseconds of the slowest version of every kernel that was compiled, by name."""
    packages = {r.package for r in SOURCES}
    found: dict[str, float] = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in packages:
            continue
        for x in list(vars(module).values()):
            kernel = jit_functions(x)
            if kernel is not None and "ours" in vars(kernel) and kernel.ours.specializations:
                times = [1000 * sum(s.timings.values()) for s in kernel.ours.specializations]
                found[f"{kernel.module}.{kernel.__name__}"] = max(times)
    return found


def attempt(trial: Trial) -> Outcome:
    with libraries(SOURCES):
        torch.manual_seed(0)
        outcome = Outcome(trial)
        try:
            trial.check(load(trial.repository, trial.path))
            assert compiled(), "no kernel was launched"
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            where = " ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in frames)
            outcome.problem = f"{type(error).__name__}: {error} [{where}]"
        outcome.kernels = compiled()
        return outcome


def page(outcomes: list[Outcome]) -> str:
    times = sorted({k: t for o in outcomes for k, t in o.kernels.items()}.values())
    good = [o for o in outcomes if not o.problem]
    kernels = {k for o in good for k in o.kernels}
    lines = [HEAD, f"{len(kernels)} kernels in {len(good)} trials of {len(outcomes)} give the right numbers. "
             f"Compiling takes {statistics.median(times):.0f} ms in the median and {times[-1]:.0f} ms at most.", "",
             "| library | file | trial | kernels | ms | result |", "|---|---|---|---|---|---|"]  # fmt: skip
    for o in outcomes:
        names = ", ".join(k.rpartition(".")[2] for k in o.kernels)
        slowest = f"{max(o.kernels.values()):.0f}" if o.kernels else ""
        result = o.problem.split("\n")[0].split(" [")[0] if o.problem else "right"
        where = f"{o.trial.repository.name}@{o.trial.repository.commit[:7]} | {o.trial.path}"
        lines.append(f"| {where} | {o.trial.check.__name__} | {names} | {slowest} | {result} |")
    commits = dict.fromkeys(f"- {r.name} at `{r.commit}`" for r in SOURCES)
    return "\n".join([*lines, "", "## Versions", "", *commits, ""])


def main(part: str = "") -> None:
    os.environ["PYPTO_CACHE"] = "off"
    outcomes = []
    for trial in TRIALS:
        if part in trial.name:
            start = time.perf_counter()
            outcomes.append(attempt(trial))
            took = time.perf_counter() - start
            print(f"{trial.name}: {outcomes[-1].problem or 'right'} ({took:.1f} s)", flush=True)
    if not part:
        PAGE.write_text(page(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
