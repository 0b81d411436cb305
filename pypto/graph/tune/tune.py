"""Autotuning of a plan: measures other tile sizes and blockings of its kernels, and keeps the fastest.

Each distinct kernel is measured alone, interleaved with its candidates, on the inputs of its first step in a run of the
plan. That run uses copies of the user's arrays, and every array between steps has its own memory. A candidate is valid
if its results equal the plan's, up to the order of sums. Finally the plan with all best candidates is compared with the
old plan, and the faster one stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTuned
from pypto.graph.codegen.best_configurations import choice_of, key_of, winners_of
from pypto.graph.codegen.kernel_text import texts_of
from pypto.graph.codegen.tile_candidates import blocking_candidates, tile_candidates, tile_sizes, variant_text
from pypto.graph.codegen.writer import KernelText
from pypto.graph.ir.dims import Sizes
from pypto.graph.ir.node import Node
from pypto.graph.plan.execution_context import Frame, compile_ahead
from pypto.graph.plan.pipeline import PlanContext, groups_of, key_on_disk, make_plan, surroundings_of
from pypto.graph.plan.plan import Plan
from pypto.graph.plan.schedule import Schedule, Step
from pypto.graph.plan.store import compiles_here, store_plan
from pypto.graph.schedule.fusion import Partition
from pypto.graph.schedule.tiling import Program
from pypto.graph.tracing.trace import Traced
from pypto.graph.tune.candidate_run import KernelTrial, milliseconds
from pypto.graph.tune.tune_report import PlanTuning
from pypto.process import get_num_threads
from pypto.runtime.copies import Copies
from pypto.tuning.agreement import alike
from pypto.tuning.config import Config, labels
from pypto.tuning.interrupts import Interrupts, noting_interrupts
from pypto.tuning.report import Section
from pypto.tuning.search import Outcome, Search

Array = np.ndarray[Any, Any]
_FOR_KERNELS: Final = 0.8  # of the budget; the rest is for the comparison of plans
_TRYING: Final = 0.6  # of a kernel's time; the rest is for turns of those that are fast
_GAIN: Final = 0.01  # by which a plan has to be faster to take another's place
_LEAST_ROUNDS: Final = 5  # of the comparison of plans
_MOST_ROUNDS: Final = 100


def check_tunable(function: str, budget: float) -> None:
    """Refuse kernels that cannot be tuned, and searches without time.

    Raises
    ------
    NotTuned
    """
    if not budget > 0:
        way = "give the seconds that the search may take, as in `budget=20`"
        raise NotTuned(function=function, problem=f"a budget of {budget} s leaves no time", way=way)
    if not compiles_here():
        way = "tune outside of `pto.device`, `pto.checked` and the interpreter"
        raise NotTuned(function=function, problem="its kernels are not compiled for this machine", way=way)


def tuned_plan(
    traced: Traced, precision: str, disabled: tuple[str, ...], arrays: Sequence[Array], sizes: Sizes, budget: float
) -> tuple[Plan, PlanTuning]:
    """Tune the plan of a traced function, store it on disk, and return it with the report."""
    layouts, fixed = surroundings_of(traced)
    parts = groups_of(traced.graph, layouts, disabled)
    plan, report = Tuner(parts, fixed, precision, disabled, arrays, sizes, budget).run()
    key = key_on_disk(traced.graph, layouts, precision, disabled)
    versions = compile_ahead(plan, arrays)
    if key is not None and versions is not None:
        store_plan(key, plan, versions)
    return plan, report


@dataclass(frozen=True, slots=True)
class Job:
    """A distinct kernel of a plan to tune: its program, its text, its first step, and its share of the time."""

    program: Program
    text: KernelText
    step: Step
    share: float


class Tuner:
    """A tuning in progress.

    Parameters
    ----------
    parts : Partition
        The groups of the plan that is tuned.
    fixed : mapping from Node to ndarray
        Constant arrays from outside of the function.
    precision : str
    disabled : tuple of str
        The passes that are switched off.
    arrays : sequence of ndarray
        The inputs of a call, which are copied.
    sizes : mapping from str to int
        The sizes of named dimensions.
    budget : float
        The seconds that tuning may take.
    """

    def __init__(
        self, parts: Partition, fixed: dict[Node, Array], precision: str, disabled: tuple[str, ...],
        arrays: Sequence[Array], sizes: Sizes, budget: float,
    ) -> None:  # fmt: skip
        self.start = time.perf_counter()
        self.parts = parts
        self.precision = precision
        self.sizes = sizes
        self.budget = budget
        self.context = PlanContext(fixed, precision, None, get_num_threads(), disabled)
        self.plan = make_plan(parts, self.context)
        copies = Copies.of({str(n): array for n, array in enumerate(arrays)})
        if copies is None:
            self.arrays = [array.copy() for array in arrays]
        else:
            copies.restore()
            self.arrays = [copies.typed[str(n)] for n in range(len(arrays))]

    def run(self) -> tuple[Plan, PlanTuning]:
        """Return the faster plan, compiled, and the report."""
        self.plan.compile(self.arrays)
        frame, times = traced_run(self.plan, self.arrays, self.sizes)
        sections: list[Section] = []
        chosen: dict[str, Config] = {}
        with noting_interrupts() as interrupts:
            jobs = self.jobs(times)
            for job in jobs:
                best = self.search(job, frame, sections, interrupts)
                if best.kwargs:
                    chosen[job.text.name] = best
                if any(section.interrupted for section in sections):
                    break
        choose = choice_of(chosen, self.precision)
        tuned = make_plan(self.parts, replace(self.context, choose=choose))
        before, after = self.compared(tuned)
        is_faster = bool(chosen) and after < (1 - _GAIN) * before
        if is_faster:
            for job in jobs:
                best = chosen.get(job.text.name, Config(tile_sizes(job.program)))
                winners_of(job.program, job.text).keep(key_of(job.text), best, after)
        seconds = time.perf_counter() - self.start
        report = PlanTuning(self.plan.graph.name, tuple(sections), before, after, is_faster, seconds)
        return (tuned if is_faster else self.plan), report

    def jobs(self, times: Sequence[float]) -> list[Job]:
        """Return the distinct kernels, the slowest first."""
        by_name = {
            t.name: (g, t) for g, t in zip(self.parts.groups, texts_of(self.parts, self.precision), strict=True) if t
        }
        steps: dict[str, list[int]] = {}
        for number, step in enumerate(self.plan.steps):
            if step.kernel is not None:
                steps.setdefault(step.kernel.name, []).append(number)
        total = sum(times) or 1.0
        jobs = []
        for name, numbers in steps.items():
            if name not in by_name:  # an update by indices has no sizes to try
                continue
            group, text = by_name[name]
            assert group.program is not None
            share = sum(times[n] for n in numbers) / total
            jobs.append(Job(group.program, text, self.plan.steps[numbers[0]], share))
        return sorted(jobs, key=lambda job: -job.share)

    def search(self, job: Job, frame: Frame, sections: list[Section], interrupts: Interrupts) -> Config:
        """Search the best sizes for a kernel: first of its tiles, then of its products' blocking."""
        seconds = job.share * _FOR_KERNELS * self.budget
        tiles = [Config(dict(sizes)) for sizes in tile_candidates(job.program)]
        fields = blocking_candidates(job.program)
        part = seconds / 2 if fields else seconds
        best = self.searched(job, tiles, part, frame, sections, interrupts)
        if fields:
            configs = [best, *(Config({**best.kwargs, **field}) for field in fields)]
            best = self.searched(job, configs, part, frame, sections, interrupts)
        return Config({}) if best == tiles[0] else best

    def searched(
        self, job: Job, configs: list[Config], seconds: float, frame: Frame, sections: list[Section],
        interrupts: Interrupts,
    ) -> Config:  # fmt: skip
        """Return the fastest of some candidates of a kernel; the first one is known to be correct."""
        if len(configs) < 2:
            return configs[0]
        start = time.perf_counter()
        names = labels(configs)
        search = Search([Outcome(c) for c in configs], lambda c: self.trial(job, c, frame), seconds, lambda _: None)
        search.label = lambda config: names[id(config)]
        search.interrupts = interrupts
        search.trying = _TRYING
        best = search.run()
        key = (job.text.name, f"{job.share:.0%} of the time")
        elapsed = time.perf_counter() - start
        sections.append(Section.of(key, search.outcomes, names, best, elapsed, search.interrupted))
        return configs[0] if best is None else best.config

    def trial(self, job: Job, config: Config, frame: Frame) -> KernelTrial:
        """Compile a candidate, and compare it with the plan's results."""
        return KernelTrial.of(variant_text(job.program, config.kwargs, self.precision), frame)

    def compared(self, tuned: Plan) -> tuple[float, float]:
        """Measure the old and the tuned plan in turns, in milliseconds; wrong results give infinity."""
        tuned.compile(self.arrays)
        runs: list[Callable[[], Any]] = [
            lambda: self.plan.run(self.arrays, self.sizes),
            lambda: tuned.run(self.arrays, self.sizes),
        ]
        before, after = (run() for run in runs)
        if not all(alike(a, b) for a, b in zip(before, after, strict=True)):
            return milliseconds(runs[0]), float("inf")
        times: tuple[list[float], list[float]] = ([], [])
        for n in range(_MOST_ROUNDS):
            if n >= _LEAST_ROUNDS and time.perf_counter() - self.start > self.budget:
                break
            for run, durations in zip(runs, times, strict=True):
                durations.append(milliseconds(run))
        low = [sorted(durations)[len(durations) // 5] for times_again in times]
        return low[0], low[1]


def traced_run(plan: Plan, arrays: Sequence[Array], sizes: Sizes) -> tuple[Frame, list[float]]:
    """Run the plan with separate memory for every array; return the frame and the milliseconds of each step."""
    separate = {node: (0, len(plan.steps)) for node in plan.lifetimes}
    frame = Frame(Schedule(plan.graph, plan.steps, separate, plan.fixed, plan.constants), len(arrays), sizes)
    frame.arrays.update(zip(plan.graph.inputs, arrays, strict=False))
    frame.make_results()
    times = []
    for step in frame.steps:
        step.run(frame)
        durations = [milliseconds(lambda step=step: step.run(frame)) for _ in range(3)]  # type: ignore[misc]
        times.append(min(durations))
    return frame, times
