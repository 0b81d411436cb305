"""How compile time grows: kernels of 10 to 3,000 generated lines, and the exponent of each stage.

``python -m benchmarks.growth KIND LINES`` compiles one such kernel, in a process of its own and without the disk
cache, and prints the seconds of each stage as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from benchmarks.runner import Missing
from benchmarks.steady import plain_environment

LINES: Final = (10, 30, 100, 300, 1000, 3000)
EXPONENT: Final = 1.2  # linear, with room for noise and n log n
SHARE: Final = 0.01  # a stage below this share of the whole cannot be timed well
PATIENCE: Final = 120.0
HEAD: Final = "import pypto as pto\n\n\n@pto.jit\ndef kernel(x, y):\n    row = pto.program_id(0)\n"


@dataclass(frozen=True, slots=True)
class Growth:
    """A kind of generated kernel."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Grown:
    """Seconds by stage for each number of lines; what stopped it, if something did."""

    growth: Growth
    lines: tuple[int, ...]
    seconds: Mapping[str, tuple[float, ...]]
    reason: str = ""

    def exponent(self, stage: str) -> float | None:
        """The power of the lines that a stage's time grows with, from 100 lines on; None if it is too short."""
        times = self.seconds[stage]
        if not times or times[-1] < SHARE * self.seconds["total"][-1]:
            return None
        points = [(n, t) for n, t in zip(self.lines, times, strict=True) if n >= 100 and t > 0]
        if len(points) < 2:
            return None
        x, y = np.log(np.array(points)).T
        return float(np.polyfit(x, y, 1)[0])


def straight(n: int) -> str:
    """One chain of arithmetic on a tile; every line reads the one before and an older one."""
    forms = ("t{0} * {3} + t{1}", "pto.maximum(t{0}, t{1})", "t{0} - t{1} * {3}", "pto.where(t{0} > {3}, t{1}, t{0})")
    lines = ["    t0 = x[row, 0:64]"]
    for k in range(1, n):
        form = forms[k % len(forms)]
        lines.append(f"    t{k} = {form.format(k - 1, max(0, k - 7), k, k / 7)}")
    return "\n".join([*lines, f"    y[row, 0:64] = t{n - 1}"])


SECTION: Final = """\
    a{0} = x[{0}, :]
    m{0} = pto.max(a{0})
    e{0} = pto.exp(a{0} - m{0})
    s{0} = pto.sum(e{0})
    p{0} = e{0} / s{0}
    q{0} = p{0} * p{0}
    r{0} = pto.sum(q{0})
    u{0} = a{0} * r{0}
    v{0} = u{0} + p{0} * {0}
    y[{0}, :] = v{0} + x[{0}, :]
"""
LOOP: Final = """\
    low = t * 0
    high = t + 1
    for i in range({0}, row + {0} + 3):
        part = x[i, 0:64]
        if i > 2:
            low = low + part * {0}
        else:
            high = high - part
        high = high * 0.5
    t = pto.maximum(low, high)
"""


def sections(n: int) -> str:
    """Ten lines again and again: a row is loaded, reduced, normalised and stored."""
    return "".join(SECTION.format(k) for k in range(max(1, n // 10)))


def control(n: int) -> str:
    """Ten lines again and again: a loop that carries two tiles, with a branch in it."""
    loops = "".join(LOOP.format(k) for k in range(max(1, n // 10)))
    return f"    t = x[0, 0:64]\n{loops}    y[0, 0:64] = t"


SOURCES: Final = MappingProxyType[str, Callable[[int], str]](
    {"straight": straight, "sections": sections, "control": control}
)
GROWTHS: Final = (
    Growth("straight", "one chain of arithmetic"),
    Growth("sections", "row after row: load, reduce, store"),
    Growth("control", "loops with branches in them"),
)


def compile_lines(kind: str, n: int, times: int = 1) -> dict[str, float]:
    """Least seconds of each stage, over some compilations of a generated kernel of n lines."""
    x, y = np.ones((n // 10 + 8, 256), np.float32), np.ones((n // 10 + 8, 256), np.float32)
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.py"
        path.write_text(f"{HEAD}{SOURCES[kind](n)}\n", "utf-8")
        for _ in range(times):
            spec = importlib.util.spec_from_file_location(f"{kind}_{n}", path)
            assert spec is not None and spec.loader is not None, path
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            runs.append(dict(module.kernel.compile(x, y).timings))
    return {stage: min(run.get(stage, 0.0) for run in runs) for stage in runs[0]}


def run_growth(growth: Growth, sizes: Sequence[int] = LINES) -> Grown:
    """Compile every size in a process of its own, until one takes too long."""
    found: list[dict[str, float]] = []
    reason = ""
    for n in sizes:
        result = in_new_process(growth.name, n)
        if isinstance(result, Missing):
            reason = f"{n} lines: {result.reason}"
            break
        found.append({**result, "total": sum(result.values())})
    stages = list(dict.fromkeys(stage for one in found for stage in one))
    seconds = {stage: tuple(one.get(stage, 0.0) for one in found) for stage in stages}
    return Grown(growth, tuple(sizes[: len(found)]), seconds, reason)


def in_new_process(kind: str, n: int) -> dict[str, float] | Missing:
    """What this module prints, as a program."""
    command = [sys.executable, "-m", "benchmarks.growth", kind, str(n)]
    environment = plain_environment(PYPTO_CACHE="off")
    try:
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return Missing(f"took longer than {PATIENCE:.0f} s")
    if done.returncode:
        return Missing(done.stderr.strip().splitlines()[-1])
    timings: dict[str, Any] = json.loads(done.stdout)
    return timings


def main(kind: str, n: int) -> None:
    from benchmarks.first_result import everything_loaded

    everything_loaded()
    compile_lines(kind, 10)  # sets LLVM up
    print(json.dumps(compile_lines(kind, n, 3 if n <= 300 else 1)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
