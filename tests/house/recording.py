"""Records the Tile IR of every kernel that other code compiles: the conformance suite, the benchmarks, the tutorials.

A source is recorded in a process of its own, since a kernel is compiled once in each. Nothing has to be listed here:
what a source launches is found when it is compiled.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pypto.compile as compiler
from pypto.backends.base import Artifact
from pypto.ir.core import Function
from pypto.ir.printer import print_function
from pypto.options import KernelOptions
from pypto.passes import prepare

ROOT: Final = Path(__file__).resolve().parents[2]
TUTORIALS: Final = ROOT / "tutorials"
GROWTH_LINES: Final = 30


@dataclass(frozen=True)
class Recorded:
    """One version of a kernel: its Tile IR as the front end made it, and what else its code depends on."""

    name: str
    built: Function
    noalias: bool
    fast_math: bool

    def prepared(self, *modes: str) -> Function:
        """Tile IR that is ready to be optimised, for a mode of compilation."""
        function = prepare(self.built)
        function.attrs["noalias"] = self.noalias
        function.attrs |= dict.fromkeys(modes, True)
        return function


class Idle:
    """A backend whose kernels do nothing."""

    name = "idle"

    def run(self, executable: Any, args: int, programs: int, cost: float, threads: int) -> None:
        pass


@dataclass
class Recorder:
    """Stands for `compile_program`: notes what is compiled; compiles it as before if kernels have to run."""

    runs: bool
    where: str = ""
    built: list[Any] = field(default_factory=list)  # for a prediction, unless it is compiled
    found: dict[tuple[str, bool, bool], Recorded] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    compile: Callable[..., Any] = field(default=compiler.compile_program)
    build: Callable[..., Any] = field(default=compiler.to_ir)

    def __call__(self, built: Any, noalias: bool, options: KernelOptions, timings: dict[str, float],
                 backend: Any) -> Any:
        self.note(built.function, noalias, options)
        self.built = [other for other in self.built if other is not built]
        if self.runs:
            return self.compile(built, noalias, options, timings, backend)
        function, empty = prepare(built.function), Artifact(built.function.name, (), 0, 1.0, b"")
        written = compiler.written_arrays(function)
        return compiler.Program(built, function, written, timings, Idle(), empty)

    def to_ir(self, *given: Any) -> Any:
        self.built.append(self.build(*given))
        return self.built[-1]

    def all(self) -> list[Recorded]:
        """What was compiled, and then what was built to be looked at alone."""
        for built in self.built:
            self.note(built.function, False, KernelOptions())
        return list(self.found.values())

    def note(self, function: Function, noalias: bool, options: KernelOptions) -> None:
        key = print_function(function), noalias, options.fast_math
        if key in self.found:
            return
        name = f"{self.where}/{function.name}".lstrip("/").replace(" ", "_")
        number = self.counts[name] = self.counts.get(name, 0) + 1
        self.found[key] = Recorded(f"{name}#{number}", function, noalias, options.fast_math)


@contextlib.contextmanager
def recording(runs: bool) -> Iterator[Recorder]:
    """Record what is compiled inside."""
    recorder = Recorder(runs)
    vars(compiler).update(compile_program=recorder, to_ir=recorder.to_ir)
    try:
        yield recorder
    finally:
        vars(compiler).update(compile_program=recorder.compile, to_ir=recorder.build)


def conformance() -> list[Recorded]:
    from tests.conformance.running import ALL, make_launch

    with recording(runs=False) as recorder:
        for name in ALL:
            launch, recorder.where = make_launch(name), name
            launch.kernel.compile(**launch.arguments)
    return recorder.all()


def benchmarks() -> list[Recorded]:
    """Every row of every suite, and the kernels whose compilation is measured."""
    os.environ["BENCHMARK_PEERS"] = ""  # read when a row is built: others take no part
    from benchmarks.growth import GROWTHS, compile_lines
    from benchmarks.runner import Missing
    from benchmarks.suites import ALL

    rows = {(row.name, row.shape): row for suite in ALL for row in suite.rows}
    with recording(runs=False) as recorder:
        for row in rows.values():
            recorder.where = f"{row.name} {row.shape}"
            try:
                ours = row.build().ours
            except ModuleNotFoundError as missing:
                ours = Missing(str(missing))
            if isinstance(ours, Missing):
                print(f"left out: {recorder.where}: {ours.reason}", file=sys.stderr)
            else:
                ours()
        for growth in GROWTHS:
            recorder.where = "growth"
            compile_lines(growth.name, GROWTH_LINES)
    return recorder.all()


def guide() -> list[Recorded]:
    """The page on performance, whose code is run with its checks."""
    import tempfile

    from benchmarks.guide import CASES, check, page

    with recording(runs=True) as recorder, tempfile.TemporaryDirectory() as folder:
        module = page(Path(folder))
        for recorder.where, make in CASES.items():
            check(make(module, 130))
    return recorder.all()


def tutorial(path: Path) -> list[Recorded]:
    """A tutorial as a script. Searches take the time that they need, so that all configurations are compiled."""
    autotune = importlib.import_module("pypto.tuning.autotune")  # the package has a function of that name
    search = autotune.Search
    sys.path.insert(0, str(path.parent))
    os.environ |= {"CI": "1", "ROUNDS": "1"}
    vars(autotune)["Search"] = lambda outcomes, trial, budget, tell: search(outcomes, trial, math.inf, tell)
    try:
        with recording(runs=True) as recorder, contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        vars(autotune)["Search"] = search
    return recorder.all()


def on_ascend() -> list[Recorded]:
    """The tutorials' kernels as they are compiled for a chip, and a kernel for each op and some of its dtypes."""
    from benchmarks.tutorials import load_tutorial
    from pypto.debug.simulate import function_of
    from tests.backends_ascend import test_every_op, test_golden_kernels
    from tests.conformance.sources import define

    with recording(runs=False) as recorder:
        for tutorial, name, arguments, constants in (test_golden_kernels.CASES | test_golden_kernels.PRODUCTS).values():
            kernel = getattr(load_tutorial(tutorial), name)
            function_of(kernel, kernel.signature.bind(arguments(), constants))
        for case in test_every_op.CASES:
            kernel = define(case.text, name=str(case))
            function_of(kernel, kernel.signature.bind(tuple(case.arguments()[0]), {}))
    return recorder.all()


SOURCES: Final = MappingProxyType[str, Callable[[], list[Recorded]]]({
    **{f"tutorials/{path.stem}": partial(tutorial, path) for path in sorted(TUTORIALS.glob("[0-9]*.py"))},
    "ascend": on_ascend, "benchmarks": benchmarks, "conformance": conformance, "guide": guide,
})  # fmt: skip
