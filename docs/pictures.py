"""Makes the pictures of plans and of cards that pages show, from the programs on these pages.

``python -m docs.pictures`` draws plans, the same on every machine. ``python -m docs.pictures --cards`` also takes
pictures of what a notebook displays, with a headless Chromium, and measures the profile that one of them shows. A
program is the block of a page that begins with the name of its file, as in ``# layer.py``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pypto as pto
from docs.blocks import blocks, run_python
from docs.png import packed

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / "charts"
THREADS: Final = 1  # for which plans are made: as many as every machine has
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
NARROW: Final = 840  # pixels of a page; in a card of this width, its two sides stand one above the other
WIDE: Final = 1000
RUNS: Final = 30  # of what is profiled; the least disturbed one is shown
PROFILING: Final = HERE / "profiling.md"
TABLE: Final = re.compile(r"(?<=^```text\n)┏.*?(?=^```$)", re.MULTILINE | re.DOTALL)
HIGH: Final = 2000  # of the window, since a card that is long scrolls in a low one
SCALE: Final = 1.5  # pixels of a picture for one of a page
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-lcd-text",
    f"--force-device-scale-factor={SCALE}", "--blink-settings=preferredColorScheme=1",
)  # fmt: skip
# A page with one card in the light theme; its title is the height of the card.
_PAGE: Final = """<!doctype html><html><head><meta charset="utf-8"></head>
<body data-theme="light" style="margin:2px;background:#fff">CARD<script>addEventListener("load",()=>{
document.title=Math.ceil(document.querySelector(".pypto").getBoundingClientRect().bottom)})</script></body></html>"""


@contextmanager
def program(page: str, name: str) -> Iterator[Any]:
    """The names that a program of a page defines; its file is there as long as they are used."""
    found = [b for b in blocks((HERE / page).read_text(encoding="utf-8")) if b.text.startswith(f"# {name}\n")]
    threads = pto.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        pto.set_num_threads(THREADS)
        try:
            module = ModuleType(Path(name).stem)
            run_python(found[0], module, Path(folder))
            yield module
        finally:
            pto.set_num_threads(threads)


def drawn() -> dict[str, str]:
    """The drawings of plans by file name."""
    with program("arrays.md", "layer.py") as p:
        plan = p.layer.plan(p.x, p.weight, p.bias, p.residual)
        found = {"layer-tensor.svg": plan.drawing("tensor").svg}
    with program("arrays.md", "network.py") as p:
        plan = p.network.plan(p.images, p.inner, p.outer)
        return found | {f"network-{name}.svg": plan.drawing(name).svg for name in ("execution", "arena")}


def plan_card() -> str:
    """A plan as a notebook displays it."""
    with program("arrays.md", "network.py") as p:
        return str(p.network.plan(p.images, p.inner, p.outer)._repr_html_())


def inspection_card() -> str:
    """A kernel's inspection with the times of a profile, as a notebook displays it."""
    with program("notebooks.md", "scores.py") as p:
        return str(p.scores.inspect(p.x, p.weight, p.out, BLOCK=64, profile=p.prof)._repr_html_())


def profile_card() -> str:
    """A profile as a notebook displays it; the page's table is of the same one."""
    _, table, card = min((measured() for _ in range(RUNS)), key=lambda found: found[0])
    text = PROFILING.read_text(encoding="utf-8")
    PROFILING.write_text(TABLE.sub(lambda _: table.strip() + "\n", text), encoding="utf-8")
    return card


def measured() -> tuple[int, str, str]:
    """The total time that the program on the page has in a profile, its table, and its card."""
    with program("profiling.md", "kernels.py") as p:
        return p.prof.rows[0].total_ns, str(p.prof), str(p.prof._repr_html_())


# What makes each, and how wide it is.
CARDS: Final[dict[str, tuple[Callable[[], str], int]]] = {
    "plan-card.png": (plan_card, NARROW),
    "inspection-card.png": (inspection_card, NARROW),
    "profile-card.png": (profile_card, WIDE),
}


def photographed(card: str, width: int) -> bytes:
    """A card as a PNG, cut at its lower edge.

    Raises
    ------
    FileNotFoundError
        When there is no browser.
    """
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "card.html", Path(folder) / "card.png"
        page.write_text(_PAGE.replace("CARD", card), encoding="utf-8")
        window = f"--window-size={width},{HIGH}"
        height = int(browse(page, "--dump-dom", window).partition("<title>")[2].partition("</title>")[0]) + 2
        browse(page, f"--screenshot={picture}", window)
        return packed(picture.read_bytes(), int(height * SCALE))


def browse(page: Path, *flags: str) -> str:
    """What a headless browser prints when it opens a page."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise FileNotFoundError(f"a picture of a card needs a browser: {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
        return subprocess.run(command, check=True, text=True, encoding="utf-8", capture_output=True, timeout=120).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.pictures", description=__doc__)
    parser.add_argument("--cards", action="store_true", help="also take pictures of cards, with a headless browser")
    given = parser.parse_args(arguments)
    for name, svg in drawn().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    for name, (make, width) in CARDS.items() if given.cards else ():
        (FOLDER / name).write_bytes(photographed(make(), width))
    return 0


if __name__ == "__main__":
    sys.exit(main())
