"""``python -m benchmarks.quickstart``: the first figure that a reader of the quick start sees, on each CPU level.

It runs the two files of the page, which check the result before they time, on one thread and on two, with all at one
CPU level. Memory of numpy's temporaries stays mapped, as it does for every benchmark: elsewhere numpy takes longer. The
exit code is 1 where numpy takes less than `PROMISED` times as long.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.levels import PEERS, environment
from benchmarks.steady import STEADY
from pypto.backends.cpu.target import detect_target
from pypto.errors import OptionError

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "quickstart.md"
FILES: Final = ("tuned.py", "measure.py")
PROMISED: Final = 2.0
ASKED: Final = "from measure import found; print(found.ratio('numpy'))"


def files(text: str) -> dict[str, str]:
    """The files of the page that are measured, by name."""
    return {name: text.split(f"```python\n# {name}\n", 1)[1].split("\n```", 1)[0] for name in FILES}


def levels() -> list[str]:
    """The levels that this CPU can run, and at the end all that it has."""
    found = []
    for level in PEERS:
        try:
            detect_target(level)
        except OptionError:
            continue
        found.append(level)
    return [*found, ""]


def ratio(folder: Path, level: str, threads: int) -> float:
    """How many times as long numpy takes, in a process of its own."""
    settings = {**STEADY, **environment(level), "PYPTO_NUM_THREADS": str(threads), "PYPTO_CACHE": "off"}
    path = os.pathsep.join([str(PAGE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", "-c", ASKED]  # numpy warns of features that it does not know
    env = {**os.environ, **settings, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=env, text=True, check=True, stdout=subprocess.PIPE)
    return float(done.stdout.split()[-1])


def main() -> int:
    """Print a line for each level and number of threads; 1 where one is below what the page says."""
    least = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files(PAGE.read_text(encoding="utf-8")).items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for level in levels():
            for threads in (1, 2):
                found = ratio(Path(folder), level, threads)
                print(f"{level or 'host'}, {threads} threads: numpy takes {found:.2f} times as long", flush=True)
                least = min(least, found)
    print(f"at least {least:.2f}; the quick start says {PROMISED:g}")
    return int(least < PROMISED)


if __name__ == "__main__":
    sys.exit(main())
