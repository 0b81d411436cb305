"""The tutorials as notebooks: executed, with what they print and draw, as .ipynb and as HTML.

    python -m docs.notebooks FOLDER [NAME…]

needs what ``pip install 'pypto-jit[notebook]'`` brings. Without names, all tutorials are taken. A tutorial that fails
does not stop the others; the exit code says so at the end. What was executed before, and has not changed since, is
taken as it is.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from pypto.cli.notebooks import notebook

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "tutorials"
_START: Final = 600  # seconds that the process of a notebook may take to start; a cell may take as long as it likes
# What a tutorial needs beside the package: the name of a module.
_NEEDS: Final = {
    "06_sentence_encoder": "safetensors", "14_a_compiled_transformer": "torch", "20_one_operator_for_a_block": "torch",
    "21_sepia_as_a_torch_operator": "torch",
}  # fmt: skip


def missing(path: Path) -> str:
    """What a tutorial needs that is not installed; empty where it can run."""
    needed = _NEEDS.get(path.stem, "")
    return needed if needed and importlib.util.find_spec(needed) is None else ""


def key_of(path: Path) -> str:
    """A digest of all that a tutorial's outputs depend on: its own text, what it imports, and the package."""
    digest = hashlib.sha256(path.read_bytes())
    beside = (file for file in FOLDER.rglob("*.py") if not file.name[0].isdigit())
    for file in sorted([*beside, *(ROOT / "pypto").rglob("*.py")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def executed(path: Path) -> Any:
    """A tutorial as a notebook with the outputs of its cells.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        When a cell fails; its text has the cell and the traceback.
    """
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.reads(notebook(path.read_text(encoding="utf-8")), as_version=4)
    at = {"metadata": {"path": str(path.parent)}}
    NotebookClient(made, timeout=None, startup_timeout=_START, kernel_name="python3", resources=at).execute()
    made.metadata["pypto"] = {"key": key_of(path)}
    return made


def convert(path: Path, folder: Path) -> tuple[Path, Path]:
    """Execute a tutorial; gives the .ipynb and the HTML file."""
    import nbformat
    from nbconvert import HTMLExporter

    made = executed(path)
    ipynb, page = (folder / f"{path.stem}{suffix}" for suffix in (".ipynb", ".html"))
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, ipynb)
    page.write_text(HTMLExporter().from_notebook_node(made)[0], encoding="utf-8")
    return ipynb, page


def is_current(path: Path, folder: Path) -> bool:
    """Whether a folder has the tutorial as it would be executed now."""
    done = folder / f"{path.stem}.ipynb"
    return done.is_file() and f'"key": "{key_of(path)}"' in done.read_text(encoding="utf-8")


def convert_all(paths: Iterable[Path], folder: Path, run: Callable[[Path, Path], Any] = convert) -> list[str]:
    """Execute tutorials one after the other, as they time themselves; gives the names of those that failed."""
    failed = []
    for path in paths:
        start = time.perf_counter()
        if is_current(path, folder):
            print(f"{path.stem}: as before")
            continue
        if lacking := missing(path):
            print(f"{path.stem}: shown without outputs, as {lacking} is not installed (`make model` brings it)")
            continue
        try:
            run(path, folder)
            print(f"{path.stem}: {time.perf_counter() - start:.0f} s", flush=True)
        except Exception as error:  # whatever it is, the others are to be shown
            failed.append(path.stem)
            print(f"{path.stem}: failed: {type(error).__name__}: {error}", file=sys.stderr)
    return failed


def tutorials(*names: str) -> list[Path]:
    return [path for path in sorted(FOLDER.glob("[0-9]*.py")) if not names or path.stem in names]


def main(folder: str, *names: str) -> int:
    failed = convert_all(tutorials(*names), Path(folder))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
