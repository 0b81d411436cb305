"""The plugin of the CPU: the host, on which launches run unless another device is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pypto.backends.plugin import Diagnosis, HostPlugin, Services
from pypto.passes.manager import Pass


class CpuPlugin(HostPlugin):
    """The plugin of the CPU backend."""

    def open(self, name: str, services: Services) -> Any:
        from pypto.runtime.places import HostDevice

        return HostDevice(name)

    def backend(
        self, level: str, fast_math: bool, threads: int, stored: Callable[..., bytes], remember: Callable[..., bytes]
    ) -> Any:
        from pypto.backends.cpu.backend import CpuBackend
        from pypto.backends.cpu.target import host_target

        return CpuBackend(host_target(level, fast_math, remember), threads, stored)

    def default_threads(self) -> int:
        from pypto.backends.cpu.runtime.pool import default_threads

        return default_threads()

    def launcher(self, backend: Any, *state: Any) -> Any:
        from pypto.backends.cpu.runtime.launcher.native import make_launcher

        return make_launcher(backend.engine, backend.stored, *state)

    def ahead(self) -> Any:
        from pypto.backends.cpu.runtime import aot

        return aot

    def library_detail(self, library: str) -> str:
        if library != "llvmlite":
            return ""
        from pypto.backends.cpu.runtime.engine import llvm_version

        return f"LLVM {llvm_version()}"

    def passes(self) -> tuple[Pass, ...]:
        from pypto.backends.cpu.pipeline import PASSES

        return PASSES

    def diagnose(self) -> Iterator[Diagnosis]:
        from pypto.backends.cpu.target import detect_target
        from pypto.options import Settings

        target = detect_target(Settings.from_env().level)
        has = [n for n in ("fma", "half", "bf16_dot") if getattr(target, f"has_{n}")]
        width = f"vectors of {8 * target.vector_bytes} bits, int8 multiplied as {8 * target.int8_bytes}"
        yield Diagnosis("cpu", f"{target.cpu}, level {target.level}: {width}; {', '.join(has)}")
        yield Diagnosis("caches", ", ".join(f"{size >> 10:,} KiB" for size in target.caches))
        search = "in a checkout, `python -m benchmarks blocking` searches for one that is faster on this machine"
        yield Diagnosis("blocking", f"of matrix products, computed for {target.registers_and_caches}", search)


PLUGIN: Final = CpuPlugin()
