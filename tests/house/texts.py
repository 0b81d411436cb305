"""Hashes of all texts that the compiler makes: the proof that a restructuring changes nothing.

Each kernel of the conformance suite, the benchmarks and the tutorials is lowered for fixed CPU targets and Ascend
chips, plain, checked and profiled. Nothing is handed to LLVM or to a toolkit, and the host's processor does not matter.

    python -m tests.house.texts --write FILE            keep the hashes
    python -m tests.house.texts --compare FILE          name the texts that differ; exit status 1 if there are any
    python -m tests.house.texts --only 'matmul' ...     kernels whose name matches
    python -m tests.house.texts --show 'NAME TARGET MODE WHAT'    print one text
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import multiprocessing
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

ROOT: Final = Path(__file__).resolve().parents[2]
V3: Final = ("sse4.2", "popcnt", "ssse3", "avx2", "fma", "f16c", "bmi2")
V4: Final = (*V3, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
LINUX: Final = "x86_64-unknown-linux-gnu"
CACHES: Final = (32 << 10, 1 << 20, 32 << 20)
CPUS: Final = {
    "v2": ("x86-64-v2", LINUX, V3[:3]),
    "v3": ("x86-64-v3", LINUX, V3),
    "v4": ("x86-64-v4", LINUX, V4),
    "v4-vnni-bf16": ("znver4", LINUX, (*V4, "avx512vnni", "avx512bf16")),
    "v4-amx": ("sapphirerapids", LINUX, (*V4, "avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8")),
    "aarch64": ("generic", "aarch64-unknown-linux-gnu", ("neon",)),
}
MODES: Final = ("plain", "checked", "profile")
CHIPS: Final = ("ascend910b2", "ascend950")
CONFORMANCE_PARTS: Final = 12
SETTINGS: Final = {"PYPTO_CACHE": "off", "PYPTO_LAUNCHER": "python"}  # of processes that record kernels
TUTORIALS: Final = ("01", "02", "03", "04", "05", "07", "08", "09", "11")


@dataclass(frozen=True)
class Text:
    """One text, under the name of its kernel, the target, the mode and the level."""

    name: str
    target: str
    mode: str
    what: str
    text: str

    @property
    def title(self) -> str:
        return f"{self.name} {self.target} {self.mode} {self.what}"

    @property
    def line(self) -> str:
        """The title with a hash of the text. Files are named from the root of the checkout, so that checkouts agree."""
        portable = self.text.replace(f"{ROOT}/", "")
        return f"{self.title} {hashlib.sha256(portable.encode()).hexdigest()[:20]}"


class RecordingBackend:
    """A backend that compiles for a fixed target and runs nothing, so that each kernel of a program is only lowered."""

    name = "cpu"
    keeps_places = False
    reports = True
    has_native_launches = True

    def __init__(self) -> None:
        self.target = cpu_target("v3")

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        return (("target", "recorded"),)

    def sources(self) -> Path:
        return Path(__file__)

    def compile(self, function: Any, timings: dict[str, float]) -> Any:
        from pypto.backends.base import Artifact

        made = cpu_lowered(function, self.target)
        return Artifact(made.name, made.abi, made.scratch_bytes, 1.0, b"", sites=made.sites, checks=made.checks)

    def load(self, artifact: Any) -> object:
        return object()

    def located(self, artifact: Any, executable: Any, place: str) -> None:
        return None

    def advice(self, artifact: Any) -> tuple[()]:
        return ()

    def run(self, executable: object, args: int, programs: int, cost: float, threads: int) -> None:
        """Nothing is run."""


def cpu_target(name: str) -> Any:
    from pypto.backends.cpu import target as targets

    cpu, triple, features = CPUS[name]
    with mock.patch.object(targets, "may_use_tiles", lambda: True):
        made = targets.describe(cpu, "", cpu, triple, set(features))
    return replace(made, caches=CACHES)


def cpu_lowered(function: Any, target: Any) -> Any:
    from pypto.backends.cpu.codegen.function import lower

    return lower(function, target)


def schedule_text(schedule: Any) -> str:
    from pypto.backends.cpu.loopir.printer import print_schedule

    return print_schedule(schedule)


def ascend_texts(function: Any, chip: str) -> tuple[str, str]:
    """Block IR and Ascend C."""
    from pypto.backends.ascend.blockir.printer import listing
    from pypto.backends.ascend.pipeline import lower_to_text
    from pypto.backends.ascend.target import ascend_target

    kernel, text = lower_to_text(function, ascend_target(chip))
    return listing(kernel), text


def texts_of(name: str, function: Any) -> Iterator[Text]:
    """All texts of one prepared function."""
    from pypto.errors import PyptoError
    from pypto.passes import optimize

    for mode in MODES:
        attrs = {k: v for k, v in function.attrs.items() if k not in MODES}
        attrs |= {} if mode == "plain" else {mode: True}
        optimized = optimize(replace(function, attrs=attrs))
        for target in CPUS:
            made = cpu_lowered(optimized, cpu_target(target))
            yield Text(name, target, mode, "llvm", made.text)
            yield Text(
                name,
                target,
                mode,
                "abi",
                f"{made.abi} {made.scratch_bytes} {made.locality.encoded} {made.sites} {made.checks}",
            )
            yield Text(name, target, mode, "loops", schedule_text(made.schedule))
        for chip in CHIPS if mode == "plain" else ():
            try:
                block, text = ascend_texts(optimized, chip)
            except PyptoError as refused:
                yield Text(name, chip, mode, "refused", type(refused).__name__)
                continue
            yield Text(name, chip, mode, "blocks", block)
            yield Text(name, chip, mode, "ascendc", text)


# --- where kernels come from -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def recording() -> Iterator[dict[str, Any]]:
    """Prepared functions of all kernels that are compiled inside, by name and by a hash of their IR."""
    import pypto.compile as compiler
    from pypto.ir.printer import print_function
    from pypto.library.kernels.quantized import int8_convolution, quant
    from pypto.passes import optimize

    found: dict[str, Any] = {}
    backend = RecordingBackend()

    def noted(function: Any) -> Any:
        text = re.sub(r"\s+", " ", print_function(function))
        found[f"{function.name}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"] = function
        return optimize(function)

    with (
        mock.patch.object(compiler, "optimize", noted),
        mock.patch.object(compiler.Session, "backend", lambda self, options: backend),
        mock.patch.object(compiler.Session, "launcher", None),
        # Nothing runs, so that results are whatever memory holds.
        mock.patch.object(quant, "refuse_nan"),
        mock.patch.object(int8_convolution, "refuse_nan"),
    ):
        yield found


def from_conformance(part: int) -> dict[str, Any]:
    from tests.conformance.running import ALL, make_launch

    found = {}
    for name in sorted(ALL)[part::CONFORMANCE_PARTS]:
        launch = make_launch(name)
        found[name] = launch.kernel.compile(**launch.arguments).program.function
    return found


def from_benchmarks(suite: str) -> None:
    """Ours of all rows once, which runs nothing but makes all kernels."""
    from benchmarks.runner import Missing
    from benchmarks.suites import SUITES

    for row in SUITES[suite].rows:
        if "torch" in row.needs or row.name.startswith(("sentence encoder", "launch torch")):
            continue
        case = row.build()
        if not isinstance(case.ours, Missing):
            with contextlib.suppress(AssertionError):
                case.ours()


def from_tutorial(number: str) -> None:
    """A tutorial up to its first check of a result, of which there is none here."""
    (path,) = (ROOT / "tutorials").glob(f"{number}_*.py")
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(path), run_name="__main__")


def jobs() -> list[tuple[str, Any]]:
    from benchmarks.suites import SUITES

    suites = [name for name in SUITES if name not in ("core", "compile", "scaling", "checked")]
    conformance = [("conformance", n) for n in range(CONFORMANCE_PARTS)]
    return [*conformance, *(("benchmarks", s) for s in suites), *(("tutorial", n) for n in TUTORIALS)]


SOURCES: Final[dict[str, Callable[[Any], Any]]] = {
    "conformance": from_conformance, "benchmarks": from_benchmarks, "tutorial": from_tutorial,
}  # fmt: skip


def functions_of(job: tuple[str, Any]) -> dict[str, Any]:
    kind, argument = job
    with recording() as found:
        named = SOURCES[kind](argument)
    return {f"{kind}:{name}": function for name, function in (named or found).items()}


def texts(job: tuple[str, Any], only: str = "") -> list[Text]:
    """All texts of the kernels of a job whose names match."""
    functions = functions_of(job)
    return [text for name in sorted(functions) if re.search(only, name) for text in texts_of(name, functions[name])]


# --- the command -----------------------------------------------------------------------------------------------------


def lines_of_job(given: tuple[tuple[str, Any], str]) -> list[str]:
    return [text.line for text in texts(*given)]


def all_lines(only: str, processes: int) -> list[str]:
    """Sorted lines of all texts."""
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=1) as pool:
        made = pool.map(lines_of_job, [(job, only) for job in jobs()], chunksize=1)
    return sorted({line for part in made for line in part})


def read_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


def write_lines(path: Path, lines: list[str]) -> None:
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def differences(before: list[str], now: list[str], only: str = "") -> list[str]:
    """What has changed, come and gone, by title."""
    old, new = (dict(line.rsplit(" ", 1) for line in lines if re.search(only, line)) for lines in (before, now))
    changed = [f"changed {title}" for title in sorted(old.keys() & new.keys()) if old[title] != new[title]]
    gone = [f"gone    {title}" for title in sorted(old.keys() - new.keys())]
    return [*changed, *gone, *(f"new     {title}" for title in sorted(new.keys() - old.keys()))]


def show(title: str) -> int:
    name = title.split(" ", 1)[0]
    for job in jobs():
        if job[0] == name.split(":", 1)[0]:
            for text in texts(job, f"^{re.escape(name)}$"):
                if text.title == title:
                    print(text.text)
                    return 0
    print(f"there is no text {title!r}", file=sys.stderr)
    return 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.texts", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", default="")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    os.environ |= SETTINGS  # the processes of the pool get them, too
    if given.show:
        return show(given.show)
    lines = all_lines(given.only, given.processes)
    print(f"{len(lines)} texts of {len({line.split(' ', 1)[0] for line in lines})} kernels")
    if given.write:
        write_lines(given.write, lines)
    found = differences(read_lines(given.compare), lines, given.only) if given.compare else []
    print("\n".join(found) if found else "nothing differs" if given.compare else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
