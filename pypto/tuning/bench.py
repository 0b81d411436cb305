"""The benchmark of one configuration on private memory, which is restored before every call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.runtime.copies import Copies
from pypto.runtime.mode import mode
from pypto.tuning.config import Config
from pypto.tuning.grids import sizes
from pypto.tuning.launching import call_by_name
from pypto.tuning.search import Clock
from pypto.tuning.snapshot import Snapshot, as_numpy, has_no_atomics, unread_by, written_by, zero

if TYPE_CHECKING:
    from pypto.tuning.autotune import Autotuner

Array = np.ndarray[Any, Any]
_REPEAT_MS: Final = 10.0
_MOST_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class Bench:
    """A configuration, compiled, with the arguments of its runs.

    Arrays that it writes to are stand-ins. Where one is nothing that can be copied (a view of something else, memory
    reached through an address), the runs go to the user's memory, which is put back. `unread` are the stand-ins that
    the kernel does not read. Configurations of equal `code` are one to the machine.
    """

    tuner: Autotuner
    config: Config
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    named: dict[str, Any]
    memory: Copies | Snapshot
    unread: frozenset[str] = frozenset()
    code: Any = None
    separate: bool = False

    @staticmethod
    def of(tuner: Autotuner, args: tuple[Any, ...], kwargs: dict[str, Any], config: Config) -> Bench:
        current = {**kwargs, **config.all_kwargs()}
        named = call_by_name(tuner.arg_names, args, current)
        version = tuner.fn.run(*args, **{**current, "warmup": True})
        code = code_of(version, config, kwargs.get("grid"), named)
        touched = {n: named[n] for n in (*tuner.restore_value, *tuner.reset_to_zero)}
        written = written_by(version, named) | touched
        copies = Copies.of(written)
        if copies is None:
            return Bench(tuner, config, args, current, named, Snapshot.of(written), code=code)
        given = dict(zip(tuner.arg_names, args, strict=False)) | copies.stand_ins
        ours = tuple(given[n] for n in tuner.arg_names[: len(args)])
        by_name = {n: copies.stand_ins.get(n, x) for n, x in current.items()}
        unread = unread_by(version, copies.typed, named)
        return Bench(tuner, config, ours, by_name, {**named, **copies.stand_ins}, copies, unread, code,
                     has_no_atomics(version))  # fmt: skip

    def prepare(self, fill: int | None = None) -> None:
        """Copy the user's memory to the stand-ins, or fill arrays that the kernel does not read with a byte."""
        self.memory.restore()
        for name in self.unread if fill is not None else ():
            array = self.memory.typed[name] if isinstance(self.memory, Copies) else None
            if array is not None:
                bits = array.view(f"u{array.dtype.itemsize}")
                bits[...] = int.from_bytes(bytes([fill or 0]) * array.dtype.itemsize, "little")
        for name in self.tuner.reset_to_zero:
            zero(self.named[name])
        for hook in (self.config.pre_hook or nothing, self.tuner.pre_hook):
            hook(self.named)

    def call(self) -> None:
        with mode(watch=None):  # a profile would slow some configurations down more than others
            self.tuner.fn.run(*self.args, **self.kwargs)
        self.tuner.post_hook(self.named, exception=None)

    def probe(self) -> bool:
        """Run the first of several programs alone, unless programs may wait for each other or accumulate."""
        if not self.separate or programs_of(self.kwargs.get("grid"), self.named) < 2:
            return False
        with mode(watch=None):
            self.tuner.fn.run(*self.args, **{**self.kwargs, "grid": (1,)})
        self.tuner.post_hook(self.named, exception=None)
        return True

    def arrays(self) -> list[tuple[str, Array, bool]]:
        """Return the arrays that a run stored: name, elements, and whether `prepare` can fill them."""
        if isinstance(self.memory, Copies):
            return [(name, array, name in self.unread) for name, array in self.memory.typed.items()]
        return [(name, as_numpy(x), False) for name, x, _ in self.memory.copies]

    def restore(self) -> None:
        """Restore the user's memory after the runs."""
        if isinstance(self.memory, Snapshot):
            self.memory.restore()


def nothing(named: Mapping[str, Any], **_: Any) -> None:
    """Do nothing, as the default hook."""


def in_order(*functions: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls several functions in order."""

    def call_all() -> None:
        for function in functions:
            function()

    return call_all


def programs_of(grid: Any, named: Mapping[str, Any]) -> int:
    """Return the number of programs of a grid, or 0 if it is unknown."""
    programs = sizes(grid, named)
    return math.prod(programs) if programs and all(isinstance(n, int) for n in programs) else 0


def code_of(version: Any, config: Config, grid: Any, named: Mapping[str, Any]) -> Any:
    """Return a key that configurations share if they run equal machine code with equal grids and threads.

    The key is None if that is unknown.
    """
    artifact = getattr(getattr(version, "program", None), "artifact", None)
    programs = sizes(grid, named)
    if artifact is None or programs is None:
        return None
    threads = config.kwargs.get("num_threads")
    return artifact.code, artifact.abi, artifact.scratch_bytes, artifact.locality, programs, threads, config.pre_hook


def median_of(prepare: Callable[[], None], call: Callable[[], None], clock: Clock) -> tuple[float, float, float]:
    """Measure median, 20 % and 80 % quantile of a few runs after a warm-up run; slow calls run twice."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < _MOST_RUNS and sum(times) < _REPEAT_MS):
        prepare()
        start = clock()
        call()
        times.append((clock() - start) / 1e6)
    ordered = sorted(times[1:])
    last = len(ordered) - 1
    return ordered[last // 2], ordered[last // 5], ordered[last * 4 // 5]
