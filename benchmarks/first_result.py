"""``python -m benchmarks.first_result``: seconds from ``import pypto`` to the first result, in this fresh process."""

from __future__ import annotations

import time


def main() -> None:
    """Print the seconds."""
    start = time.perf_counter()
    from benchmarks.tutorials import load_tutorial

    tutorial = load_tutorial("02_fused_softmax")
    import numpy as np

    x = np.ones((64, 4096), np.float32)
    out = np.empty_like(x)
    tutorial.softmax_rows(x, out)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
