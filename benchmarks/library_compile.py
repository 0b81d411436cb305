"""Compile times of the library: ``python -m benchmarks.library_compile [ROW...]``, all rows without names.

Each row is called once at its size in models, in a new process with an empty disk cache and one thread. The CPU time of
that call is shown; it compiles the row's kernels and computes once. A row over `MOST` is an error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from typing import Final

from pypto import library

MOST: Final = 3.0  # seconds
FIRST_CALL: Final = """
import sys, time
import numpy as np
import pypto as pto
from pypto.library import rows

pto.set_num_threads(1)
row = rows[sys.argv[1]]
values = row.sample(np.random.default_rng(0), "model", str(row.signature.main_dtypes[0]))
start = time.process_time()
row(**values)
print(time.process_time() - start)
"""


def first_call(name: str) -> float:
    """Seconds of CPU time of a row's first call in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYPTO_CACHE_DIR": folder, "PYPTO_CACHE": "rw"}
        command = [sys.executable, "-c", FIRST_CALL, name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert os.listdir(folder), "nothing was compiled"
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names of rows; without any, all")
    options = parser.parse_args()
    seconds = {name: first_call(name) for name in options.rows or library.rows}
    for name, took in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{took:7.2f} s  {name}")
    slow = [name for name, took in seconds.items() if took > MOST]
    assert not slow, f"over {MOST:g} s: {', '.join(slow)}"


if __name__ == "__main__":
    main()
