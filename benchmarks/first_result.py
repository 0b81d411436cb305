"""``python -m benchmarks.first_result result|compile``: seconds that the first softmax of this process costs."""

from __future__ import annotations

import sys
import time


def first_result() -> list[float]:
    """Seconds from ``import pypto`` to the first result."""
    start = time.perf_counter()
    from benchmarks.tutorials import load_tutorial

    tutorial = load_tutorial("02_fused_softmax")
    import numpy as np

    x = np.ones((64, 4096), np.float32)
    tutorial.softmax_rows(x, np.empty_like(x))
    return [time.perf_counter() - start]


def compiling(times: int = 8) -> list[float]:
    """Seconds from the kernel's source to something callable, all modules imported; the first one sets LLVM up."""
    import importlib
    import pkgutil

    import llvmlite.binding  # noqa: F401
    import numpy as np

    import pypto
    from benchmarks.tutorials import load_tutorial

    x = np.ones((64, 4096), np.float32)
    out = np.empty_like(x)
    for module in pkgutil.walk_packages(pypto.__path__, "pypto."):
        importlib.import_module(module.name)
    seconds = []
    for _ in range(times):
        kernel = load_tutorial("02_fused_softmax").softmax
        start = time.perf_counter()
        kernel.compile(x, out)
        seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    print(*{"result": first_result, "compile": compiling}[sys.argv[1]]())
