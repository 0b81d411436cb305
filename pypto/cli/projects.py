"""`pypto compile --emit project`: versions of an operator from the command line, and from prototypes of msopgen."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.cli.grids import grid_of
from pypto.cli.output import say_json
from pypto.cli.specs import UsageError, arguments, kernel_of

if TYPE_CHECKING:
    from pypto.tools.prototype import Prototype

_DTYPE: Final = re.compile(r"(?P<name>\w+)=\w*\[")


@dataclass(frozen=True)
class Wishes:
    """What a project is to offer, as options of the command say it."""

    shapes: list[str]
    prototype: Path | None
    adjoint: str
    namespace: str


def project(  # each is an option of the command
    target: str, args: list[str], chip: str, grid: str, output: Path | None, also: list[str], wishes: Wishes, json: bool
) -> None:
    """Write a folder with all that CANN needs to build versions of the kernel and to try them."""
    from pypto.tools.project import Interface, write_project
    from pypto.tools.prototype import read_prototype

    kernel = kernel_of(target)
    folder = output or Path(f"{kernel.signature.kernel}_{chip}")
    if folder.exists():
        raise UsageError(f"{folder} is there already; choose another folder with -o, or remove it")
    parsed = read_prototype(wishes.prototype) if wishes.prototype else None
    sizes = grid_of(grid)
    wrt = tuple(name.strip() for name in wishes.adjoint.split(",") if name.strip())
    formula, shapes = grid if callable(sizes) else "", dict(map(named, wishes.shapes))
    interface = Interface(formula, shapes, parsed, wrt, wishes.namespace)
    versions = [[*args, *shlex.split(more)] for more in ("", *also)]
    every = [given for words in versions for given in combinations(words, kernel.arg_names, parsed)]
    defaults = kernel.signature.defaults
    launches = [(sizes({**defaults, **given}) if callable(sizes) else sizes, given) for given in every]
    files = write_project(folder, kernel, launches[0][0], chip, every[0], launches[1:], interface)
    notes = [f"{parsed.type}: {note}" for note in parsed.unused] if parsed is not None else []
    if parsed is not None and parsed.dynamic and not callable(sizes):
        names = ", ".join(parsed.dynamic)
        notes.append(f"{parsed.type}: {names} take exactly the shapes given here; a formula in --grid lets them vary")
    if json:
        say_json({"folder": str(folder), "files": files, "notes": notes})
    else:
        print(*notes, f"{folder}: {', '.join(files)}", f"Next: {folder}/build.sh, in an environment of CANN", sep="\n")


def named(text: str) -> tuple[str, str]:
    """The name and the sizes of `--shape`."""
    name, equals, sizes = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f'--shape {text} names no array; write NAME=SIZES, as in --shape "out=x.shape[0], 8"')
    return name, sizes


def combinations(words: list[str], names: Sequence[str], parsed: Prototype | None) -> Iterator[dict[str, Any]]:
    """The arguments of each version; with a prototype, for each combination of its dtypes."""
    if parsed is None:
        yield arguments(words, names)
        return
    given = {word.partition("=")[0] for word in words}
    defaults = [f"{name}={x!r}" for name, x in parsed.attributes.items()
                if x is not None and name in names and name not in given]  # fmt: skip
    for dtypes in parsed.combinations:
        combination = arguments([of_dtype(word, dtypes) for word in (*words, *defaults)], names)
        for name, dtype in dtypes.items():
            check_array(name, combination.get(name), dtype)
        yield combination


def of_dtype(word: str, dtypes: dict[str, str]) -> str:
    """An argument with the dtype of a combination, if it is an array's."""
    match = _DTYPE.match(word)
    if match is None or match["name"] not in dtypes:
        return word
    return f"{match['name']}={dtypes[match['name']]}{word[match.end() - 1 :]}"


def check_array(name: str, value: Any, dtype: str) -> None:
    from pypto.ir.types import DType

    if not isinstance(value, np.ndarray):
        raise UsageError(f"the prototype has an array `{name}`; give it a shape, as in {name}=[1024,64]")
    if value.dtype != DType(dtype).numpy:
        raise UsageError(f"{name} is of {value.dtype}, and the prototype's is {dtype}")
