"""``python -m benchmarks.first_result WHAT``: prints seconds that first results, or compilations, cost a process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final


def first_result() -> list[float]:
    """Seconds from ``import pypto`` to the first result."""
    start = time.perf_counter()
    from benchmarks.tutorials import load_tutorial

    tutorial = load_tutorial("02_fused_softmax")
    import numpy as np

    x = np.ones((64, 4096), np.float32)
    tutorial.softmax_rows(x, np.empty_like(x))
    return [time.perf_counter() - start]


def everything_loaded() -> None:
    """Import all modules of the compiler, so that none of them is part of a compilation's time."""
    import importlib
    import pkgutil

    import llvmlite.binding  # noqa: F401

    import pypto

    for module in pkgutil.walk_packages(pypto.__path__, "pypto."):
        if not module.name.startswith(("pypto.torch.", "pypto.quant.")):  # those load torch
            importlib.import_module(module.name)


def compiling(tutorial: str, kernel: str, arrays: int, shape: tuple[int, ...], times: int, **meta: Any) -> list[float]:
    """Seconds from the kernel's source to something callable, all modules imported; the first one sets LLVM up."""
    import numpy as np

    from benchmarks.tutorials import load_tutorial

    given = [np.ones(shape, np.float32) for _ in range(arrays)]
    everything_loaded()
    seconds = []
    for _ in range(times):
        made = getattr(load_tutorial(tutorial), kernel)
        start = time.perf_counter()
        made.compile(*given, **meta)
        seconds.append(time.perf_counter() - start)
    return seconds


def softmax(times: int = 8) -> list[float]:
    return compiling("02_fused_softmax", "softmax", 2, (64, 4096), times)


def attention() -> list[float]:
    return compiling("05_flash_attention", "attention", 4, (4, 512, 64), 6, CAUSAL=False, BM=128, BN=128)


def loading() -> list[float]:
    """Seconds of a kernel that the disk cache holds, in a process whose machinery is warm from another one."""
    compiling("01_vector_add", "add", 3, (4096,), 2, BLOCK=256)
    return softmax(1)


def by_numba() -> list[float]:
    """Seconds of numba for softmax, compiled afresh a few times."""
    import numba
    import numpy as np

    from benchmarks import numba_kernels

    x = np.ones((64, 4096), np.float32)
    seconds = []
    for _ in range(3):
        made = numba.njit(parallel=True, fastmath=True)(numba_kernels.softmax.py_func)
        start = time.perf_counter()
        made(x, np.empty_like(x))
        seconds.append(time.perf_counter() - start)
    return seconds


def by_torch() -> list[float]:
    """Seconds of torch.compile for softmax, compiled afresh a few times."""
    import torch

    x = torch.ones(64, 4096)
    seconds = []
    torch._inductor.config.force_disable_caches = True
    for _ in range(3):
        torch.compiler.reset()
        start = time.perf_counter()
        torch.compile(lambda t: torch.softmax(t, -1))(x)
        seconds.append(time.perf_counter() - start)
    return seconds


KINDS: Final = MappingProxyType[str, Callable[[], list[float]]](
    {
        "result": first_result, "compile": softmax, "attention": attention, "load": loading,
        "numba": by_numba, "torch": by_torch,
    }
)  # fmt: skip

if __name__ == "__main__":
    print(*KINDS[sys.argv[1]]())
