"""`pypto new` and `pypto tutorials`: files to begin with."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from pypto.cli.output import Json, mistakes, say_json, say_table
from pypto.cli.specs import UsageError

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_TEMPLATES: Final = Path(__file__).resolve().parent / "template"
# File of the template -> file of the project.
_FILES: Final = (
    ("readme.txt", "README.md"),
    ("pyproject.txt", "pyproject.toml"),
    ("kernel.txt", "$name.py"),
    ("test.txt", "tests/test_$name.py"),
    ("benchmark.txt", "benchmark.py"),
    ("tune.txt", "tune.py"),
)
_FORMS: Final = ("py", "ipynb", "both")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder; it is made if need be.")]


def new(
    name: Annotated[str, typer.Argument(help="A Python name: of the folder, the module and the kernel.")],
    into: Annotated[Path, typer.Option(help="Where the folder is made.")] = Path(),
    json: Json = False,
) -> None:
    """Begin a kernel project: a kernel with its test against numpy, a benchmark and a tuning script.

    Example:

        pypto new scaled_add && cd scaled_add && python -m pytest
    """
    with mistakes():
        if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
            raise UsageError(f"{name!r} is no Python name; write letters, digits and _, as in scaled_add")
        folder = into / name
        if folder.exists():
            raise UsageError(f"{folder} is there already; choose another name, or remove it")
        written = [write(folder, source, Template(target).substitute(name=name), name) for source, target in _FILES]
        if json:
            say_json({"folder": str(folder), "files": written})
        else:
            print(f"{folder}: {', '.join(written)}\nNext: cd {folder} && python -m pytest")


def write(folder: Path, source: str, target: str, name: str) -> str:
    text = Template((_TEMPLATES / source).read_text(encoding="utf-8")).substitute(name=name)
    path = folder / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return target


def tutorials() -> list[Path]:
    """The files of the tutorials: in the installed package, or in the checkout."""
    folders = (_PACKAGE / "_tutorials", _PACKAGE.parent / "tutorials")
    folder = next((f for f in folders if f.is_dir()), None)
    if folder is None:
        raise UsageError("the tutorials are not there; install pypto-jit anew, or look into its repository")
    return sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def list_tutorials(json: Json = False) -> None:
    """The tutorials, with their titles."""
    with mistakes():
        titles = {p.name: title(p) for p in tutorials() if p.name[0].isdigit()}
        say_json({"tutorials": titles}) if json else say_table("tutorials", ("file", "title"), list(titles.items()))


def title(path: Path) -> str:
    """The first heading of a script in notebook form."""
    lines = (line.removeprefix("# ") for line in path.read_text(encoding="utf-8").splitlines())
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), path.stem)


def copy_tutorials(
    folder: Folder,
    form: Annotated[str, typer.Option("--as", help="py (scripts that are notebooks, too), ipynb, or both.")] = "py",
    json: Json = False,
) -> None:
    """Copy the tutorials to a folder of yours; what is there already stays as it is.

    Example:

        pypto tutorials copy tutorials --as ipynb && jupyter lab tutorials
    """
    with mistakes():
        if form not in _FORMS:
            raise UsageError(f"--as {form} is none of {', '.join(_FORMS)}")
        files = [file for path in tutorials() for file in written_as(path, form)]
        missing = [name for name, _ in files if not (folder / name).exists()]
        for name, content in files:
            if name in missing:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content())
        existing = len(files) - len(missing)
        if json:
            say_json({"folder": str(folder), "copied": [str(n) for n in missing], "kept": existing})
        else:
            print(f"{len(missing)} files copied to {folder}, {existing} were there")


def written_as(path: Path, form: str) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """The files that a file of the tutorials becomes, with what is in them. What they import stays a module."""
    from pypto.cli.notebooks import notebook

    name = path.relative_to(tutorials()[0].parent)
    is_tutorial = path.suffix == ".py" and path.name[0].isdigit()
    if form != "ipynb" or not is_tutorial:
        yield name, path.read_bytes
    if form != "py" and is_tutorial:
        yield name.with_suffix(".ipynb"), lambda: notebook(path.read_text(encoding="utf-8")).encode()
