"""One first call of a fused function goes through few files of the graph compiler, so that it can be read."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from tests.house.measure import ROOT

FILES: Final = 38  # may only fall; it rose by tensors of torch, complex numbers and caches of their own
PROGRAM: Final = """
import sys, threading
from pathlib import Path
import numpy as np
import pypto as pto
import pypto.graph.fuse

def network(x, w):
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    y = y @ w
    return y - y.max(axis=-1, keepdims=True)

root, files = str(Path(pto.__file__).parent / "graph"), set()

def entered(frame, event, argument):
    code = frame.f_code
    if code.co_filename.startswith(root) and code.co_name != "<module>" and "__qualname__" not in code.co_names[:2]:
        files.add(code.co_filename[len(root) + 1 :])

function = pto.fuse(network)
sys.settrace(entered)
threading.settrace(entered)
function(np.ones((8, 64), np.float32), np.ones((64, 32), np.float32))
sys.settrace(None)
print(*sorted(files))
"""


def test_a_first_call_takes_few_files_of_the_graph_compiler() -> None:
    environment = {**os.environ, "PYPTO_CACHE": "off"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    files = done.stdout.split()
    assert {"fused.py", "schedule/fusion.py", "plan/plan.py"} <= set(files)
    assert len(files) <= FILES, files
