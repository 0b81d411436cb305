"""`pypto run` and `pypto bench`: scripts and kernels from the command line."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from pypto.cli.grids import GRID, grid_of
from pypto.cli.output import Json, mistakes, say_json, say_table
from pypto.cli.specs import GRAMMAR, Launch, bare, completed_kernel, launch_of, shown

MADE = "Without any, the function NAME_args or make_args of the file gives them, and the grid."
Target = Annotated[str, typer.Argument(help="A Python FILE, or FILE:KERNEL.")]
Kernel = Annotated[
    str, typer.Argument(metavar="FILE:KERNEL", help="A kernel in a Python file.", autocompletion=completed_kernel)
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help=GRAMMAR)]
Grid = Annotated[str, typer.Option(help=GRID)]
MadeArguments = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help=f"{GRAMMAR} {MADE}")]
Interpret = Annotated[bool, typer.Option("--interpret", help="In the interpreter, with every access checked.")]
Threads = Annotated[int, typer.Option(help="Threads of a launch; 0 is what the machine allows.")]


@contextlib.contextmanager
def settings(interpret: bool, threads: int, check: bool = False) -> Iterator[None]:
    import pypto

    before = pypto.get_num_threads()
    pypto.set_num_threads(threads or before)
    try:
        with contextlib.ExitStack() as stack:
            if interpret:
                stack.enter_context(pypto.interpreter())
            if check:
                stack.enter_context(pypto.checked())
            yield
    finally:
        pypto.set_num_threads(before)


def run(
    target: Target,
    args: MadeArguments = None,
    grid: Grid = "",
    interpret: Interpret = False,
    compare: Annotated[
        bool, typer.Option("--verify", help="Compiled and interpreted, and compared: the first difference is an error.")
    ] = False,
    check: Annotated[bool, typer.Option("--checked", help="Compiled with checks of every access.")] = False,
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Run a script, or launch one kernel and show what it wrote.

    Examples:

        pypto run tutorials/01_vector_add.py

        pypto run kernels.py:add x=f32[1000] y=f32[1000] out=f32[1000]:zeros BLOCK=256 --grid 4
    """
    with mistakes(), settings(interpret, threads, check):
        if Path(target).is_file() and ":" not in target:
            sys.argv = [target, *(args or [])]
            sys.path.insert(0, str(Path(target).resolve().parent))
            runpy.run_path(target, run_name="__main__")
            return
        request = launch_of(target, args or [], grid_of(grid) if grid else None)
        given = request.args
        before = {name: x.copy() for name, x in given.items() if isinstance(x, np.ndarray)}
        verified = verify(request) if compare else request.kernel.launch(request.grid, **given)
        written = {n: given[n] for n, x in before.items() if given[n].tobytes() != x.tobytes()}
        if verified and not json:
            print(verified)
        report(target, given, written, json)


def verify(request: Launch) -> Any:
    """Launch compiled and interpreted, and compare."""
    from pypto.debug.verify import verify as verifier

    return verifier(bare(request.kernel)).launch(request.grid, **request.args)


def report(target: str, given: dict[str, Any], written: dict[str, Any], json: bool) -> None:
    if json:
        rows = {
            n: {"dtype": str(x.dtype), "shape": x.shape, "first": x.ravel()[:64].tolist()} for n, x in written.items()
        }
        say_json({"kernel": target, "arguments": shown(given), "written": rows})
        return
    print(f"{target}({shown(given)})")
    for name, x in written.items():
        with np.printoptions(threshold=64, edgeitems=4):
            print(f"{name} = {x}")
    if not written:
        print("nothing was written")


def bench(
    target: Kernel,
    args: MadeArguments = None,
    grid: Grid = "",
    threads: Threads = 0,
    interpret: Interpret = False,
    ms: Annotated[float, typer.Option(help="Milliseconds to measure for.")] = 500,
    json: Json = False,
) -> None:
    """Time launches of a kernel.

    Example:

        pypto bench kernels.py:add x=f32[1000000] y=f32[1000000] out=f32[1000000] BLOCK=4096
        --grid 'cdiv(x.size, BLOCK)'
    """
    from pypto.testing import do_bench, quantile

    with mistakes(), settings(interpret, threads):
        request = launch_of(target, args or [], grid_of(grid) if grid else None)
        given = request.args
        ready = getattr(request.kernel, "bind", None)
        call = ready(grid=request.grid, **given) if ready else partial(request.kernel.launch, request.grid, **given)
        call()
        times = sorted(do_bench(call, rep=ms, return_mode="all"))
        moved = sum(x.nbytes for x in given.values() if isinstance(x, np.ndarray))
        summary = {"launches": len(times), "min_ms": times[0], "median_ms": quantile(times, 0.5),
                 "p90_ms": quantile(times, 0.9), "argument_bytes": moved}  # fmt: skip
        if json:
            say_json({"kernel": target, "arguments": shown(given), **summary})
            return
        speed = f"{moved / times[0] / 1e6:.3g} GB/s" if moved else ""
        row = (summary["launches"], *(f"{summary[n]:.4g} ms" for n in ("min_ms", "median_ms", "p90_ms")), speed)
        say_table(f"{target}({shown(given)})", ("launches", "min", "median", "90 %", "arguments, at min"), [row])
