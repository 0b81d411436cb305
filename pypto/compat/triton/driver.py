"""The device that kernels ask about: a CPU, with the figures of a GPU where code divides by them."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import numpy as np

from pypto.process import get_num_threads
from pypto.testing import do_bench

BACKEND: Final = "cpu"
MAX_SHARED_MEM: Final = 232448  # bytes, as of a current GPU, so that no block is too large


@dataclass(frozen=True)
class GPUTarget:
    """What is compiled for: the CPU's architecture is no number, so that comparisons with those of GPUs are False."""

    backend: str = BACKEND
    arch: int | str = 0
    warp_size: int = 32


class Event:
    """A point in time, as GPUs record them."""

    def __init__(self, enable_timing: bool = True, **_: Any) -> None:
        self.at = 0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter_ns()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds until another event."""
        return (end.at - self.at) / 1e6

    def synchronize(self) -> None:
        """Launches are done when they return."""

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        """Launches are done when they return."""


class DeviceInterface:
    """What `torch.cuda` is to a GPU, for one CPU."""

    Event = Event

    def synchronize(self, device: Any = None) -> None:
        """Launches are done when they return."""

    def current_device(self) -> int:
        return 0

    def set_device(self, device: Any) -> None:
        """There is one device."""

    def device_count(self) -> int:
        return 1

    def is_available(self) -> bool:
        return True

    def current_stream(self, device: Any = None) -> int:
        return 0

    def empty_cache(self) -> None:
        """Nothing is kept for later."""

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return 0, 0

    def get_device_name(self, device: Any = None) -> str:
        return BACKEND

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """As of a GPU without a name; the cache is that of a current CPU's core."""
        return SimpleNamespace(
            name=BACKEND, major=0, minor=0, multi_processor_count=get_num_threads(), L2_cache_size=1 << 21,
            warp_size=32, total_memory=1 << 33, shared_memory_per_block=MAX_SHARED_MEM,
            shared_memory_per_block_optin=MAX_SHARED_MEM, regs_per_multiprocessor=1 << 16,
        )  # fmt: skip

    @contextmanager
    def device(self, device: Any) -> Any:
        yield device

    @contextmanager
    def stream(self, stream: Any) -> Any:
        yield stream


class DriverUtils:
    """What kernels' launchers ask about the device."""

    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        """One multiprocessor per thread; the rest as large as a current GPU's, so that no block is too large."""
        return {
            "multiprocessor_count": get_num_threads(), "max_shared_mem": MAX_SHARED_MEM, "max_num_regs": 65536,
            "warpSize": 32, "sm_clock_rate": 3_000_000, "mem_clock_rate": 3_200_000, "mem_bus_width": 128,
            "max_threads_per_sm": 2048,
        }  # fmt: skip

    def fill_1d_tma_descriptor(self, *_: Any) -> NoReturn:
        """Refuses a descriptor of a GPU's memory: `tl.make_tensor_descriptor` makes one in a kernel."""
        raise NotImplementedError("a CPU has no such descriptors; make one in the kernel by tl.make_tensor_descriptor")

    fill_2d_tma_descriptor = fill_1d_tma_descriptor


class CpuDriver:
    """`triton.runtime.driver.active`."""

    def __init__(self) -> None:
        self.utils, self.interface = DriverUtils(), DeviceInterface()

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget()

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: Any) -> None:
        """There is one device."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return 0, 0

    def get_active_torch_device(self) -> Any:
        return importlib.import_module("torch").device(BACKEND)

    def get_device_interface(self) -> DeviceInterface:
        return self.interface

    def get_benchmarker(self) -> Callable[..., Any]:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        return np.zeros(1 << 25, np.uint8)

    def clear_cache(self, cache: Any) -> None:
        cache[:] = 0

    def assemble_tensormap_to_arg(self, tensormaps: Any, args: Any) -> Any:
        return args


class DriverConfig:
    """`triton.runtime.driver`: which driver is active."""

    def __init__(self) -> None:
        self.default: Any = CpuDriver()
        self.active: Any = self.default

    def set_active(self, driver: Any) -> None:
        self.active = driver

    def reset_active(self) -> None:
        self.active = self.default
