"""`pypto compile`, and `pypto explain` of a kernel: what the compiler makes of it, without running it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pypto.cli.aot import KINDS, compile_aot
from pypto.cli.output import Json, mistakes, say_json, say_table
from pypto.cli.projects import Wishes, project
from pypto.cli.running import Arguments, Kernel, MadeArguments
from pypto.cli.specs import UsageError, arguments, bare, found_in, is_fused, launch_of

_LEVELS: Final = ("tile-ir", "optimized-ir", "loop-ir", "llvm-ir", "assembly", "block-ir", "ascendc")
_EMITTED: Final = (*_LEVELS, "project", *KINDS)
EXAMPLE_CHIP: Final = "ascend910b2"
Adjoint = Annotated[
    str, typer.Option(help="Of a project: arrays by which its torch extension is differentiated, as in x,weight.")
]
Namespace = Annotated[
    str, typer.Option(help="Of a project: of its operator in torch that gives new tensors, as in op_api.")
]


def compile_kernel(  # noqa: PLR0913, PLR0917  # each is an option of the command
    target: Kernel,
    args: Arguments = None,
    emit: Annotated[
        str, typer.Option(help=f"timings, {', '.join(_EMITTED)}, or after: with a pass, as in after:fusion.")
    ] = "timings",
    chip: Annotated[
        str, typer.Option("--target", help="An Ascend chip, as in ascend910b2, which need not be there.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for the text or code, or the folder of a project.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help="Of an object, library or project: arguments of a further version, in quotes."),
    ] = None,
    level: Annotated[
        list[str] | None, typer.Option(help="Of an object or library: a feature level, as in x86-64-v3; all if none.")
    ] = None,
    grid: Annotated[
        str, typer.Option(help="Of a project: of its launch, as in 8,4, or of each, as in 'cdiv(x.shape[0], BLOCK)'.")
    ] = "1",
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Of a project with a grid of formulas: an output's shape, as in 'out=x.shape[0], 8'."),
    ] = None,
    prototype: Annotated[
        Path | None, typer.Option(help="Of a project: msopgen's JSON, which names the operator and its dtypes.")
    ] = None,
    adjoint: Adjoint = "",
    namespace: Namespace = "",
    json: Json = False,
) -> None:
    """Compile a kernel for the types of its arguments, and show a level of it or how long each stage took.

    Of a fused function, the levels are traced, graph, schedule and plan, and after: names a pass of the graph compiler.

    Example:

        pypto compile kernels.py:softmax x=f32[64,128] y=f32[64,128] --emit loop-ir

        pypto compile kernels.py:softmax x=f32[64,128] y=f32[64,128] --emit after:fusion

        pypto compile kernels.py:softmax x=f32[64,128] y=f32[64,128] --emit shared -o libsoftmax.so

        pypto compile kernels.py:softmax x=f32[64,128] y=f32[64,128] --target ascend910b2 --emit project --grid 64
    """
    with mistakes():
        if emit == "project" and chip:
            interface = Wishes(shape or [], prototype, adjoint, namespace)
            project(target, args or [], chip, grid, output, also or [], interface, json)
        elif emit in KINDS and not chip:
            compile_aot(target, args or [], emit, output, also or [], level or [], json)
        elif also or level:
            raise UsageError(f"--also and --level are for --emit {' and '.join(KINDS)}, not {emit}")
        elif shape or prototype or adjoint or namespace:
            options = "--shape, --prototype, --adjoint and --namespace"
            raise UsageError(f"{options} are for --emit project with a --target, not {emit}")
        else:
            show_level(target, args or [], emit, chip, output, json)


def show_level(target: str, args: list[str], emit: str, chip: str, output: Path | None, json: bool) -> None:
    """A level of a kernel as text, or how long each stage took."""
    from pypto.compile import session
    from pypto.debug.levels import level_names, level_text
    from pypto.debug.passes import AFTER, text_after
    from pypto.options import KernelOptions

    _, function = found_in(target, fused=True)
    if is_fused(function):
        show_text(target, "", emit, fused_text(function, args, emit, chip), output, json)
        return
    backend = session().devices.chip(chip).backend if chip else session().backend(KernelOptions())
    levels = level_names(backend)
    if emit.startswith(AFTER):
        check_pass(emit.removeprefix(AFTER), backend)
    elif emit != "timings" and emit not in levels:
        known = ", ".join(("timings", *levels, *KINDS))
        raise UsageError(f"--emit {emit} is none of {known}{target_hint(emit, chip)}")
    kernel = bare(function)
    with session().devices.chip(chip) if chip else nullcontext():
        version = kernel.compile(**arguments(args, kernel.arg_names))
    if emit == "timings":
        show_timings(target, str(version), version.timings, json)
        return
    text = text_after(version, emit.removeprefix(AFTER)) if emit.startswith(AFTER) else level_text(version, emit)
    if not text:
        raise UsageError(f"--emit {emit}: the pass does not run for this kernel")
    show_text(target, str(version), emit, text, output, json)


def fused_text(function: Any, args: list[str], emit: str, chip: str) -> str:
    """A level of a fused function, or what a pass gives."""
    from inspect import signature

    if chip:
        raise UsageError(f"--target {chip}: the passes of a fused function know no chip; leave it out")
    given = arguments(args, tuple(signature(function).parameters))
    return str(function.emit("plan" if emit == "timings" else emit, **given))


def show_text(target: str, version: str, emit: str, text: str, output: Path | None, json: bool) -> None:
    if output:
        output.write_text(text, encoding="utf-8")
    elif json:
        say_json({"kernel": target, "version": version, emit: text})
    else:
        print(text)


def check_pass(name: str, backend: Any) -> None:
    """Refuse the name of a pass that gives no IR."""
    from pypto.debug.passes import passes_of
    from pypto.options import suggestion

    if name not in (known := passes_of(backend)):
        hint = f"{suggestion(name, known)}; there are {', '.join(known)}"
        raise UsageError(f"--emit after:{name} names no pass that gives IR{hint}")


def target_hint(emit: str, chip: str) -> str:
    from pypto.compile import session

    is_known = not chip and (emit == "project" or emit in session().devices.chip(EXAMPLE_CHIP).backend.levels)
    return f"; it needs --target {EXAMPLE_CHIP} or another chip" if is_known else ""


def show_timings(target: str, version: str, timings: dict[str, float], json: bool) -> None:
    if json:
        say_json({"kernel": target, "version": version, "seconds": timings})
        return
    rows = [(stage, f"{1e3 * seconds:.3f} ms") for stage, seconds in timings.items()]
    say_table(f"{target}{version}", ("stage", "time"), [*rows, ("all", f"{1e3 * sum(timings.values()):.3f} ms")])


def explain(
    what: Annotated[
        str, typer.Argument(metavar="CODE | FILE:KERNEL", help="A diagnostic's code, as in E204, or a kernel.")
    ],
    args: MadeArguments = None,
    chip: Annotated[str, typer.Option("--target", help="An Ascend chip, as in ascend910b2.")] = "",
    json: Json = False,
) -> None:
    """Explain a diagnostic by its code, or why a kernel was compiled as it was.

    Examples:

        pypto explain E204

        pypto explain kernels.py:softmax x=f32[64,128] y=f32[64,128]
    """
    from pypto.debug.codes import find
    from pypto.errors.examples import PRELUDE

    with mistakes():
        if ":" in what:
            explain_kernel(what, args or [], chip, json)
            return
        code = find(what)
        if json:
            programs = {"prelude": PRELUDE, "wrong": code.example.wrong, "right": code.example.right}
            say_json({"code": code.code, "name": code.name, "message": code.message, "help": code.hint, **programs})
        else:
            print(code)


def explain_kernel(target: str, args: list[str], chip: str, json: bool) -> None:
    from pypto.compile import session
    from pypto.debug.explain import explain as explained

    request = launch_of(target, args, None)
    with session().devices.chip(chip) if chip else nullcontext():
        explanation = explained(bare(request.kernel), **request.args)
    if not json:
        print(explanation, end="")
        return
    rows = [{"topic": f.topic, "file": f.loc.user.file, "line": f.loc.user.line, "text": f.text, "way": f.way}
            for f in explanation.findings]  # fmt: skip
    say_json(
        {"kernel": target, "version": explanation.version, "scratch_bytes": explanation.scratch_bytes, "findings": rows}
    )
