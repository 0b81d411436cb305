"""What all cases are made of: numbers, our side of a row, and the limit that is next to a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.runner import Impl

EPS: Final = 1e-5
LEVELS: Final = ((24 << 10, "L1"), (768 << 10, "L2"), (12 << 20, "L3"))


def random(*shape: int, spread: float = 4.0, dtype: Any = np.float32) -> Any:
    """Reproducible numbers around zero."""
    numbers = (np.random.default_rng(sum(shape)).random(shape, np.float32) - 0.5) * np.float32(spread)
    return numbers.astype(dtype)


def bind(result: Any, function: Callable[..., Any], *args: Any) -> Impl:
    """A function on its arguments, giving the result that it writes."""

    def run() -> Any:
        function(*args)
        return result

    return run


def memory_limit(name: str, size: float) -> str:
    """Name of the machine's limit for moving `size` bytes over and over.

    Examples
    --------
    >>> memory_limit("copy", 1 << 20), memory_limit("copy", 1 << 27)
    ('copy L3', 'copy DRAM')
    """
    return f"{name} {next((level for most, level in LEVELS if size <= most), 'DRAM')}"


def count(n: int) -> str:
    """A number of elements, short.

    Examples
    --------
    >>> count(1 << 20), count(4096), count(1000), count(10_000_000)
    ('1M', '4096', '1000', '10,000,000')
    """
    return f"{n >> 20}M" if n >= 1 << 20 and n % (1 << 20) == 0 else f"{n:,}" if n >= 10_000 else str(n)
