"""``python -m benchmarks.first_result``: seconds from ``import pypto`` to the first result, in this fresh process."""

from __future__ import annotations

import runpy
import time
from pathlib import Path


def main() -> None:
    """Print the seconds."""
    start = time.perf_counter()
    tutorial = runpy.run_path(str(Path(__file__).parent.parent / "tutorials" / "02_fused_softmax.py"))
    import numpy as np

    x = np.ones((64, 4096), np.float32)
    out = np.empty_like(x)
    tutorial["softmax_rows"](x, out)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
