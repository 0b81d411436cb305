"""`pypto inspect`: a kernel from its source down to machine code, in the terminal or as a page."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pypto.cli.output import Json, mistakes, say_json
from pypto.cli.running import Kernel, MadeArguments
from pypto.cli.specs import UsageError, bare, launch_of
from pypto.options import suggestion

if TYPE_CHECKING:
    from pypto.debug.inspection import Inspection, Level

_SHORT: Final = MappingProxyType({"asm": "assembly", "optimized": "optimized-ir", "tile": "tile-ir", "loop": "loop-ir",
    "llvm": "llvm-ir", "block": "block-ir"})  # fmt: skip
# How a terminal colours a level.
_LEXERS: Final = MappingProxyType({"llvm-ir": "llvm", "assembly": "gas", "ascendc": "cpp", "block-ir": "python"})


def completed_level(begun: str) -> list[str]:
    """Levels that begin like this, for the shell."""
    return [name for name in ("source", *_SHORT, "ascendc") if name.startswith(begun)]


def inspect(
    target: Kernel,
    args: MadeArguments = None,
    level: Annotated[
        str,
        typer.Option(
            help="source (with the type of what every line makes), tile, optimized, loop, llvm, asm; block, ascendc.",
            autocompletion=completed_level,
        ),
    ] = "source",
    page: Annotated[
        Path | None, typer.Option("--html", help="A file for the page: source and all levels, linked by line.")
    ] = None,
    chip: Annotated[
        str, typer.Option("--target", help="An Ascend chip, as in ascend910b2, which need not be there.")
    ] = "",
    json: Json = False,
) -> None:
    """Look inside a kernel: its source with types, or one level of what it becomes with the line it comes from.

    Examples:

        pypto inspect kernels.py:add x=f32[1000] y=f32[1000] out=f32[1000] BLOCK=256

        pypto inspect kernels.py:add x=f32[1000] y=f32[1000] out=f32[1000] BLOCK=256 --level asm

        pypto inspect kernels.py:add x=f32[1000] y=f32[1000] out=f32[1000] BLOCK=256 --html add.html

        pypto inspect kernels.py:softmax x=f16[64,512] y=f16[64,512] --target ascend910b2 --level ascendc
    """
    with mistakes():
        request = launch_of(target, args or [], None)
        inspection = bare(request.kernel).inspect(**request.args, **({"target": chip} if chip else {}))
        name = "" if level == "source" else known_level(inspection, level, chip)
        if page is not None:
            inspection.save(page)
        if json:
            say_json(facts_of(inspection, name) | ({"html": str(page)} if page else {}))
        elif page is not None:
            print(f"{page}: {inspection.kernel}{inspection.version}")
        elif name:
            show(next(lv for lv in inspection.levels if lv.name == name))
        else:
            show_source(inspection)


def known_level(inspection: Inspection, requested: str, chip: str) -> str:
    """The full name of a level that this version has."""
    names = [level.name for level in inspection.levels]
    name = _SHORT.get(requested, requested)
    if name not in names:
        hint = "" if chip else "; block and ascendc need --target ascend910b2 or another chip"
        raise UsageError(
            f"--level {requested} is none of source, {', '.join(names)}{suggestion(requested, names)}{hint}"
        )
    return name


def facts_of(inspection: Inspection, only: str) -> dict[str, object]:
    """An inspection for programs: every line with the user's line that it comes from, 0 where there is none."""
    levels = [level for level in inspection.levels if level.name == only or not only]
    return {
        "kernel": inspection.kernel, "version": inspection.version, "file": inspection.file,
        "source": [{"line": s.number, "text": s.text, "types": s.types} for s in inspection.source],
        "levels": {lv.name: [{"line": n, "text": text} for n, text in lv.lines] for lv in levels},
    }  # fmt: skip


def show(level: Level) -> None:
    """The text of a level, with the user's lines beside it; in colours on a terminal."""
    gutter = [f"{number or '':>5} │ " for number, _ in level.lines]
    if not sys.stdout.isatty():
        print("\n".join((g + text).rstrip() for g, (_, text) in zip(gutter, level.lines, strict=True)))
        return
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    shown = Syntax(level.text, _LEXERS.get(level.name, "text")).highlight(level.text).split("\n")
    console = Console()
    for g, line in zip(gutter, shown, strict=False):
        console.print(Text(g, style="dim") + line, soft_wrap=True)


def show_source(inspection: Inspection) -> None:
    """The source with its types."""
    if not sys.stdout.isatty():
        print(inspection)
        return
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    console, text = Console(), "\n".join(line.text for line in inspection.source)
    console.print(Text(f"{inspection.kernel}{inspection.version}", style="bold"))
    width = max(len(line.text) for line in inspection.source)
    for line, shown in zip(inspection.source, Syntax(text, "python").highlight(text).split("\n"), strict=False):
        gap = " " * (width - len(line.text) + 2)
        types = Text(gap + "  ".join(line.types), style="cyan")
        console.print(Text(f"{line.number:5} │ ", style="dim") + shown + types, soft_wrap=True)
    console.print(Text(f"levels: {', '.join(level.name for level in inspection.levels)}", style="dim"))
