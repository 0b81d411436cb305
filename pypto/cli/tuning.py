"""`pypto tune`: the search for a kernel's fastest configuration, from the command line."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pypto.cli.grids import GRID, grid_of
from pypto.cli.output import Json, mistakes, say_json
from pypto.cli.running import Kernel, MadeArguments, Threads, settings
from pypto.cli.specs import UsageError, launch_of, shown

if TYPE_CHECKING:
    from pypto.tuning import Autotuner, TuningReport

Spaces = Annotated[
    list[str] | None,
    typer.Option("--space", help="Values of a constant to try, as in BLOCK=64,128,256; several make all combinations."),
]


def tune(  # noqa: PLR0913, PLR0917  # options of a command
    target: Kernel,
    args: MadeArguments = None,
    grid: Annotated[str, typer.Option(help=GRID)] = "",
    space: Spaces = None,
    budget: Annotated[float, typer.Option(help="Seconds; 0 is what the kernel's own decorator says.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A JSON file for the winner; what is in it stays.")
    ] = None,
    chip: Annotated[
        str, typer.Option("--target", help="A chip, as in ascend910b2: its timing model ranks, and nothing runs.")
    ] = "",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Try the configurations of a kernel under @pto.autotune, or those of --space, and keep the fastest.

    The winner stays in the disk cache, so that launches with the same key need no search; with -o it goes to a file,
    too, which is kept with the code: @pto.autotune(…, results="tuning.json"). Ctrl-C ends a search with what it has.

    Examples:

        pypto tune kernels.py:add -o tuning.json

        pypto tune kernels.py:add x=f32[1000000] y=f32[1000000] out=f32[1000000] --space BLOCK=1024,4096,16384
        --grid 'cdiv(x.size, BLOCK)' --budget 10
    """
    with mistakes(), settings(False, threads):
        request = launch_of(target, args or [], grid_of(grid) if grid else None, wrapped=True)
        tuner = tuner_of(target, request.kernel, space or [])
        tuner.budget = budget or tuner.budget
        tuned = {constant for config in tuner.configs for constant in config.kwargs}
        known = {name: x for name, x in request.args.items() if name not in tuned} | {"grid": request.grid}
        report = tuner.rank(**known, target=chip) if chip else tuner.tune(**known)
        written = tuner.export_tuning(output) if output is not None else 0
        if json:
            say_json(facts_of(target, request.args, tuner, report) | ({"file": str(output)} if output else {}))
            return
        show(f"{target}({shown(request.args)})", report)
        if output is not None:
            use = f"@pto.autotune(…, key={tuner.keys!r}, results={str(output)!r})"
            print(f"{output}: {written} winner{'s' * (written != 1)}; {use} reads it")


def tuner_of(target: str, kernel: Any, spaces: list[str]) -> Autotuner:
    """The kernel's own tuner, or one for the values of the command line."""
    from pypto.cli.specs import bare
    from pypto.tuning import Autotuner, Space, autotune

    if spaces:
        values: dict[str, Any] = dict(values_of(kernel.arg_names, text) for text in spaces)
        return autotune(Space(**values))(bare(kernel))
    if not isinstance(kernel, Autotuner):
        way = "put @pto.autotune(…) above it, or write --space BLOCK=64,128"
        raise UsageError(f"{target} has no configurations: {way}")
    return kernel


def values_of(names: list[str], text: str) -> tuple[str, tuple[Any, ...]]:
    """A constant with the values to try."""
    name, _, values = text.partition("=")
    try:
        parsed = ast.literal_eval(f"({values},)")
    except (ValueError, SyntaxError):
        parsed = ()
    if name not in names or not parsed:
        way = f"as in BLOCK=64,128; the kernel takes {', '.join(names)}"
        raise UsageError(f"--space {text} is no constant with values, {way}")
    return name, parsed


def show(title: str, report: TuningReport) -> None:
    from rich.console import Console

    console = Console(width=None if Console().is_terminal else 200, markup=False)
    console.print(title)
    for table in report.tables():
        console.print(table)


def facts_of(target: str, args: dict[str, Any], tuner: Autotuner, report: TuningReport) -> dict[str, Any]:
    """A search for programs; times in milliseconds, null where there are none."""
    from pypto.tuning.config import labels

    (section,) = report.sections
    names = labels(tuner.configs, tuner.parameters)
    rows = [{"config": r.config, "status": r.status, "reason": r.reason, "median_ms": finite(r.median),
             "low_ms": finite(r.low), "high_ms": finite(r.high), "chosen": r.chosen} for r in section.rows]  # fmt: skip
    best = next((r.config for r in section.rows if r.chosen), "")
    winner = next((dict(c.kwargs) for c in tuner.configs if names[id(c)] == best), None)
    return {"kernel": target, "arguments": shown(args), "seconds": section.seconds, "interrupted": section.interrupted,
            "winner": winner, "configurations": rows}  # fmt: skip


def finite(time: float) -> float | None:
    return time if math.isfinite(time) else None
