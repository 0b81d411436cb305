"""The knobs of Triton that mean nothing here, with the reason and the way out; to set one of them is warned about."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_GPU: Final = "it is for compilers of GPUs"
_CACHE: Final = "compiled kernels are kept in the folder of PYPTO_CACHE_DIR"
_STAGES: Final = "pypto has no stages of Triton's compiler; `kernel.inspect` shows its own"
_LOADED: Final = "kernels are loaded when they are compiled: add the hook to `jit_post_compile_hook`"
# Knobs without an effect, with the reason; a group stands for all of its knobs.
INERT: Final[Mapping[str, str]] = MappingProxyType({
    **dict.fromkeys(("build", "nvidia", "amd"), _GPU),
    "redis": _CACHE, "proton": "`pypto.profiler` measures kernels",
    **dict.fromkeys((f"cache.{name}" for name in ("dump_dir", "override_dir", "manager_class", "remote_manager_class")),
                    _CACHE),
    **dict.fromkeys((f"compilation.{name}" for name in ("override", "dump_ir", "use_ir_loc", "listener")), _STAGES),
    "compilation.store_binary_only": _CACHE,
    "compilation.always_compile": "PYPTO_CACHE=off compiles anew",
    "compilation.enable_asan": "PYPTO_CHECKED=1 finds accesses out of bounds",
    "compilation.disable_line_info": "lines are kept always",
    "compilation.front_end_debugging": "PYPTO_LOG says what the compiler does",
    "compilation.allow_non_constexpr_globals": "kernels read global numbers always",
    "compilation.instrumentation_mode": _GPU,
    "autotuning.cache": "what the tuner has measured is kept always",
    "autotuning.print": "`kernel.tuning_report()` shows what the tuner has measured",
    "autotuning.listener": "`kernel.tuning_report()` shows what the tuner has measured",
    "runtime.debug": "PYPTO_CHECKED=1 checks assertions and overflows",
    "runtime.override_arch": "PYPTO_LEVEL chooses the instructions of the CPU",
    "runtime.add_stages_inspection_hook": _STAGES,
    **dict.fromkeys((f"runtime.kernel_{name}_hook" for name in ("load_start", "load_end", "unload")), _LOADED),
    "language.fp32_default": "products of float32 are computed in float32",
    "language.default_fp_fusion": "a product and a sum are fused where the CPU does so",
})  # fmt: skip
# Groups whose variables are set for other programs too, so that nothing is said of them.
QUIET: Final = frozenset(("build", "redis", "cache", "nvidia", "amd", "proton"))


def warn_of(group: str, name: str) -> None:
    """Warns where a knob is set that means nothing here."""
    reason = INERT.get(group) or INERT.get(f"{group}.{name}")
    if reason is not None:
        warnings.warn(f"triton.knobs.{group}.{name} has no effect in pypto: {reason}", stacklevel=3)


def warn_of_unknown(group: str, name: str) -> None:
    """Warns where a knob is set that Triton does not have, or that is newer than the interface that pypto serves."""
    warnings.warn(f"triton.knobs.{group} has no {name} in pypto, so that it has no effect", stacklevel=3)
