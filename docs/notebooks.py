"""The tutorials as notebooks: executed, with what they print and draw, as .ipynb and as HTML.

    python -m docs.notebooks FOLDER [NAME…]

needs what ``pip install 'pypto-jit[notebook]'`` brings. Without names, all tutorials are taken.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "tutorials"
_SECONDS: Final = 300  # that a cell may take


def executed(path: Path) -> Any:
    """A tutorial as a notebook with the outputs of its cells.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        When a cell fails; its text has the cell and the traceback.
    """
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(path)
    NotebookClient(
        notebook, timeout=_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    return notebook


def convert(path: Path, folder: Path) -> tuple[Path, Path]:
    """Execute a tutorial; gives the .ipynb and the HTML file."""
    import nbformat
    from nbconvert import HTMLExporter

    notebook = executed(path)
    ipynb, page = (folder / f"{path.stem}{suffix}" for suffix in (".ipynb", ".html"))
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, ipynb)
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    return ipynb, page


def main(folder: str, *names: str) -> None:
    for path in sorted(FOLDER.glob("[0-9]*.py")):
        if not names or path.stem in names:
            print(*convert(path, Path(folder)))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
