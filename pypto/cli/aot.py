"""`pypto compile … --emit object|shared`: a kernel ahead of time, with a C header."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pypto.cli.output import say_json
from pypto.cli.specs import UsageError, arguments, kernel_of

KINDS: Final = ("object", "shared")


def compile_aot(
    target: str,
    texts: Sequence[str],
    emit: str,
    output: Path | None,
    also: Sequence[str],
    levels: Sequence[str],
    json: bool,
) -> None:
    """Write the object or library, and say which files there are.

    Each text of `also` has the arguments in which a further version differs from the first one.
    """
    from pypto.tools.aot.build import SUFFIX, build, symbol

    kernel = kernel_of(target)
    versions = [arguments([*texts, *shlex.split(more)], kernel.arg_names) for more in ("", *also)]
    name = symbol(kernel.signature.kernel)
    path = output or Path(f"lib{name}.so" if emit == "shared" else f"{name}.o")
    if path.suffix != SUFFIX[emit]:
        raise UsageError(f"--emit {emit} writes a file that ends in {SUFFIX[emit]}, not {path.name}")
    files = [str(file) for file in build(kernel, versions, path, emit, levels)]
    if json:
        say_json({"kernel": target, "versions": len(versions), "files": files})
    else:
        print(f"{len(versions)} version{'s' * (len(versions) > 1)} of {name}: {', '.join(files)}")
