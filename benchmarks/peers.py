"""The peers: who is installed, and with how many threads everybody runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

from benchmarks.runner import Impl, Missing

PACKAGES: Final = ("numpy", "llvmlite", "torch", "threadpoolctl", "pypto-jit")


def torch_peers(make: Callable[[Any], Mapping[str, Impl]]) -> Mapping[str, Impl | Missing]:
    """What `make` builds with the torch module, or a note that it is not installed."""
    if find_spec("torch") is None:
        return {"torch": Missing("torch is not installed; run: python -m pip install 'pypto-jit[torch]'")}
    import torch

    return make(torch)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """How many cores others kept busy during the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def versions() -> dict[str, str]:
    """Versions of the installed packages that the figures depend on."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Everybody runs on `count` threads: the BLAS of numpy, torch, and pypto."""
    with ExitStack() as stack:
        if find_spec("threadpoolctl") is not None:
            from threadpoolctl import threadpool_limits

            stack.enter_context(threadpool_limits(count))
        if find_spec("torch") is not None:
            import torch

            before = torch.get_num_threads()
            torch.set_num_threads(count)
            stack.callback(torch.set_num_threads, before)
            stack.enter_context(torch.inference_mode())
        stack.enter_context(_pypto_threads(count))
        yield


@contextmanager
def _pypto_threads(count: int) -> Iterator[None]:
    import pypto

    pypto.set_num_threads(count)
    try:
        yield
    finally:
        pypto.set_num_threads(0)
