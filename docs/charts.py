"""Writes the charts of the site, ``docs/charts``, from the figures in ``docs/measured.json``.

``python -m benchmarks site --threads 1 --json docs/measured.json`` measures; ``python -m docs.charts`` draws the charts
anew and puts the machine's name behind the mark of each page that shows one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from benchmarks.charts import charts, machine_text, write

HERE: Final = Path(__file__).parent
MEASURED: Final = HERE / "measured.json"
FOLDER: Final = HERE / "charts"
PAGES: Final = (HERE / "index.md", HERE / "performance.md")
MARK: Final = "<!-- machine -->"


def sentence() -> str:
    """What stands below a chart."""
    run = json.loads(MEASURED.read_text(encoding="utf-8"))
    return (
        f"> Measured on {machine_text(run)}. Each figure compares the fastest calls, taken in turns in one process; "
        "results are checked before they are timed. `python -m benchmarks site --threads 1 --json docs/measured.json` "
        "measures again, and `python -m docs.charts` draws."
    )


def marked(text: str) -> str:
    """A page with the sentence behind its mark."""
    return re.sub(re.escape(MARK) + r"\n(\n> .*\n)?", lambda m: f"{MARK}\n\n{sentence()}\n", text)


def drawn() -> dict[str, str]:
    """The charts by file name."""
    return charts(MEASURED)


def main() -> None:
    write(MEASURED, FOLDER)
    for page in PAGES:
        page.write_text(marked(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
