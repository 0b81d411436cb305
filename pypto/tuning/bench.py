"""One configuration on memory of its own: what is called, and what is put back before every call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.runtime.copies import Copies
from pypto.runtime.mode import mode
from pypto.tuning.config import Config
from pypto.tuning.launching import call_by_name
from pypto.tuning.snapshot import Snapshot, written_by, zero

if TYPE_CHECKING:
    from pypto.tuning.autotune import Autotuner

Array = np.ndarray[Any, Any]
_REPEAT_MS: Final = 10.0
_MOST_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class Bench:
    """A configuration, compiled, with the arguments of its runs.

    Arrays that it writes to are stand-ins. Where one is nothing that can be copied (a view of something else, memory
    reached through an address), the runs go to the user's memory, which is put back.
    """

    tuner: Autotuner
    config: Config
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    named: dict[str, Any]
    memory: Copies | Snapshot

    @staticmethod
    def of(tuner: Autotuner, args: tuple[Any, ...], kwargs: dict[str, Any], config: Config) -> Bench:
        current = {**kwargs, **config.all_kwargs()}
        named = call_by_name(tuner.arg_names, args, current)
        version = tuner.fn.run(*args, **{**current, "warmup": True})
        touched = {n: named[n] for n in (*tuner.restore_value, *tuner.reset_to_zero)}
        written = written_by(version, named) | touched
        copies = Copies.of(written)
        if copies is None:
            return Bench(tuner, config, args, current, named, Snapshot.of(written))
        given = dict(zip(tuner.arg_names, args, strict=False)) | copies.stand_ins
        ours = tuple(given[n] for n in tuner.arg_names[: len(args)])
        by_name = {n: copies.stand_ins.get(n, x) for n, x in current.items()}
        return Bench(tuner, config, ours, by_name, {**named, **copies.stand_ins}, copies)

    def prepare(self) -> None:
        self.memory.restore()
        for name in self.tuner.reset_to_zero:
            zero(self.named[name])
        for hook in (self.config.pre_hook or nothing, self.tuner.pre_hook):
            hook(self.named)

    def call(self) -> None:
        with mode(watch=None):  # a profile would slow some configurations down more than others
            self.tuner.fn.run(*self.args, **self.kwargs)
        self.tuner.post_hook(self.named, exception=None)

    def results(self) -> list[Array]:
        """What a run left in the arrays that it writes to."""
        if isinstance(self.memory, Copies):
            return list(self.memory.typed.values())
        return [x for x, _ in self.memory.copies if isinstance(x, np.ndarray)]

    def restore(self) -> None:
        """Undo what runs did to the user's memory."""
        if isinstance(self.memory, Snapshot):
            self.memory.restore()


def nothing(named: Mapping[str, Any], **_: Any) -> None:
    """The hook where there is none."""


def in_order(*functions: Callable[[], None]) -> Callable[[], None]:
    """One function that calls several."""

    def call_all() -> None:
        for function in functions:
            function()

    return call_all


def measured(prepare: Callable[[], None], call: Callable[[], None]) -> tuple[float, float, float]:
    """Times of a few runs, of which one is for warming up; slow calls run twice."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < _MOST_RUNS and sum(times) < _REPEAT_MS):
        prepare()
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e6)
    ordered = sorted(times[1:])
    last = len(ordered) - 1
    return ordered[last // 2], ordered[last // 5], ordered[last * 4 // 5]


