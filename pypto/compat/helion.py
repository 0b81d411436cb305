"""Helion on the CPU: its Triton is `pypto.compat.triton`, and its search for a configuration learns what a CPU is.

Helion writes Triton and tunes it. Its search asks the hardware for a name, under which results are kept, and for a
number of processors; for a CPU it has neither. `install()` enters both where Helion looks them up.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
from types import MappingProxyType
from typing import Any, Final

from pypto.compat import triton
from pypto.compat.triton.driver import BACKEND

__all__ = ["install"]

# The search's helper processes would import `triton` anew, and a forked one has none of the threads of ours.
SETTINGS: Final = MappingProxyType({"HELION_AUTOTUNE_PRECOMPILE": "0", "HELION_AUTOTUNE_BENCHMARK_SUBPROCESS": "0"})
CACHES: Final = ("LocalAutotuneCache", "StrictLocalAutotuneCache")


def install() -> None:
    """Serve pypto as `triton` to this process, and let Helion tune on the CPU.

    Environment variables of Helion that are set already stay as they are. Kernels must be decorated after this call.

    Raises
    ------
    ModuleNotFoundError
        When Helion is not installed.

    Examples
    --------
    >>> from pypto.compat.helion import install
    >>> install()  # doctest: +SKIP
    >>> import helion  # doctest: +SKIP
    """
    triton.install()
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    runtime: Any = importlib.import_module("helion.runtime")
    autotuner: Any = importlib.import_module("helion.autotuner")
    if hasattr(runtime.get_num_sm, "__wrapped__"):
        return
    runtime.get_num_sm = processors(runtime.get_num_sm)
    base = autotuner.cache_classes["LocalAutotuneCache"]
    named = type("CpuAutotuneCache", (CpuKey, base), {})
    for name in CACHES:
        cache_class = autotuner.cache_classes[name]
        autotuner.cache_classes[name] = named if cache_class is base else type(f"Cpu{name}", (cache_class, named), {})


def processors(others: Any) -> Any:
    """The function that gives the programs of a persistent kernel: one for a CPU, for other devices as `others` says.

    A persistent kernel may have a barrier, at which its programs wait for each other. Programs of a launch do not all
    run at once here, so there can be one only.
    """

    def get_num_sm(device: Any, *, reserved_sms: int = 0) -> int:
        return 1 if device.type == BACKEND else int(others(device, reserved_sms=reserved_sms))

    get_num_sm.__wrapped__ = others  # type: ignore[attr-defined]
    return get_num_sm


class CpuKey:
    """Before a cache of Helion's: the key of results for a CPU names this machine and the version of pypto."""

    kernel: Any
    args: Any
    autotuner: Any

    def _generate_key(self) -> Any:
        if not isinstance(self.args, tuple | list) or self.kernel.env.device.type != BACKEND:
            return super()._generate_key()  # type: ignore[misc]
        from pypto import __version__
        from pypto.tuning.store import machine

        bound, kernel = self.kernel, self.kernel.kernel
        args, where = tuple(self.args), machine()
        memory = kernel._create_bound_kernel_cache_key(bound, args, kernel._base_specialization_key(args))
        fields: dict[str, Any] = {
            "specialization_key": memory.specialization_key,
            "extra_results": memory.extra_results,
            "compiler_seed_results": memory.compiler_seed_results,
            "kernel_source_hash": hashed(inspect.getsource(kernel.fn)),
            "hardware": where[0],
            "runtime_name": f"pypto {__version__} {hashed(*where[1:])}",
            "backend": bound.env.backend.name,
            "config_spec_hash": bound.config_spec.cache_fingerprint_hash(),
            "extra_cache_key": bound.extra_cache_key(),
            "best_of_k": self.autotuner.settings.autotune_best_of_k,
        }
        return importlib.import_module("helion.autotuner.base_cache").LooseAutotuneCacheKey(**fields)


def hashed(*texts: str) -> str:
    """A digest of texts, as a part of a key."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
