"""How long processes and threads may take before a test gives them up: limits that follow the machine.

A limit is there for what never ends. What is merely slow must not meet it: a machine with other work on it may take
twenty times as long. So a limit is written in seconds of an idle machine, and grows with the time that a process takes
to start here.
"""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import time
from typing import Final

from tests.house.measure import ROOT

IDLE: Final = 0.3  # seconds in which a process imports pypto on a machine without other work
SPARE: Final = 4.0  # for work that others begin later, and for jobs with more than one thread


def limit(seconds: float) -> int:
    """What is allowed here and now for what takes at most so many seconds on an idle machine."""
    return math.ceil(seconds * SPARE * max(1.0, start_up(int(time.monotonic() // 60)) / IDLE))


@functools.cache
def start_up(minute: int) -> float:
    """Seconds that a process takes to import pypto, measured at most once in each minute in which somebody asks."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import pypto"], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return time.monotonic() - began
