"""The module tree that stands under the name `triton`: which name is what, and nothing else."""

from __future__ import annotations

import math as python_math
from collections.abc import Mapping
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from pypto import language, testing
from pypto.compat.triton import (
    aggregates,
    compiled,
    compiler,
    driver,
    gluon,
    hooks,
    inside,
    kernels,
    knobs,
    lang,
    mxfp,
    ragged,
    refused,
    standard,
    utils,
)
from pypto.compat.triton.testing_helpers import filecheck, internal_testing
from pypto.errors import Diagnostic, PyptoError
from pypto.errors.frontend import AssertionFailed, UnknownSyntax
from pypto.ir.types import DType
from pypto.language import libdevice
from pypto.ops.public import constexpr
from pypto.tuning import Autotuner, Config, Heuristics, KernelInterface, autotune, heuristics

VERSION: Final = "3.4.0"
Names = dict[str, Any]

# fmt: off
_MATH: Final = (
    "umulhi", "exp", "exp2", "fma", "log", "log2", "cos", "rsqrt", "sin", "sqrt", "sqrt_rn", "abs", "fdiv", "div_rn",
    "erf", "floor", "ceil",
)
# Folders of libdevice for one make of GPU or another.
_MAKES: Final = ("cuda", "hip", "intel", "xpu", "cpu", "ascend", "cann")
# fmt: on


def build() -> dict[str, ModuleType]:
    """New modules by their full names."""
    modules = {name: module(name, names) for name, names in contents().items()}
    for name, served in modules.items():
        parent, _, last = name.rpartition(".")
        if parent and last not in _NOT_ON_PARENT.get(parent, ()):
            setattr(modules[parent], last, served)
    for name, imported in _IMPORTED.items():
        setattr(modules[name], imported.rpartition(".")[2], modules[imported])
    return modules


# Modules that another one imports, which packages import from there.
_IMPORTED: Final = {"triton.runtime.autotuner": "triton.knobs"}


# `triton.runtime.driver` is both a module and, on its parent, an object of that module.
_NOT_ON_PARENT: Final[Mapping[str, tuple[str, ...]]] = {"triton.runtime": ("driver",), "triton.compiler": ("compile",)}


class Served(Loader):
    """Gives a module that is there already to who loads by hand."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """The module has all its names."""


def module(name: str, names: Mapping[str, Any]) -> ModuleType:
    """A module that is a package too, so that its parts can be imported by name."""
    new_module = ModuleType(name, f"{name}, as pypto serves it.")
    spec = ModuleSpec(name, Served(new_module), is_package=True)
    vars(new_module).update(names, __spec__=spec, __path__=[], __package__=name)
    if "__all__" not in names:
        new_module.__dict__["__all__"] = sorted(n for n in names if not n.startswith("_"))
    return new_module


def contents() -> dict[str, Names]:
    """What every module holds, parents first."""
    core = names_of_language()
    device = {name: getattr(libdevice, name) for name in libdevice.__all__}
    config, errors = driver.DriverConfig(), names_of_errors()
    inner = {**{name: getattr(lang, name) for name in lang.INSIDE}, **standard.names()}
    tree = {
        "triton": names_of_triton(errors),
        "triton.language": core,
        "triton.language.core": {
            **core, **inner, **refused.INSIDE, "must_use_result": compiler.must_use_result,
            "tensor_descriptor_base": core["tensor_descriptor"]},
        "triton.language.standard": {**core, **inner},
        "triton.language.math": {**device, **{n: core[n] for n in _MATH}},
        "triton.language.random": {n: x for n, x in core.items() if n in language.random.__all__} | {
            n: core[n] for n in ("rand4x", "uint32_to_uniform_float")} | {"N_ROUNDS_DEFAULT": constexpr(10)},
        "triton.language.target_info": {
            **{n: getattr(lang, n) for n in ("is_cuda", "cuda_capability_geq")},
            **dict.fromkeys(("is_hip", "is_hip_cdna3", "is_hip_cdna4", "is_hip_gfx1250"), lang.is_cuda),
            "current_target": config.active.get_current_target},
        "triton.language.libdevice": device,
        "triton.language.extra": {},
        "triton.language.extra.libdevice": device,
    }  # fmt: skip
    for make in _MAKES:
        tree[f"triton.language.extra.{make}"] = names_of_make()
        tree[f"triton.language.extra.{make}.libdevice"] = device
    tree["triton.language.extra.cann.extension"] = names_of_ascend()
    tree |= names_of_runtime(config, errors) | gluon.modules(core)
    for name, names in inside.modules().items():
        tree[name] = {**names, **tree.get(name, {})}
    return {name: {**refused.ELSEWHERE.get(name, {}), **names} for name, names in tree.items()}


def names_of_language() -> Names:
    """All public names of `triton.language`, of versions 2 and 3."""
    names = {name: getattr(language, name) for name in language.__all__ if name not in lang.NOT_OF_TRITON}
    names |= {name: getattr(lang, name) for name in lang.ADAPTERS} | dict(lang.BUILTINS) | refused.NAMES
    names |= {name: utils.named(x) for name, x in names.items() if isinstance(x, DType)}
    names["aggregate"] = aggregates.aggregate
    names |= {old: names[new] for old, new in lang.RENAMED}
    old = {name: getattr(lang, name) for name in lang.INSIDE}
    return names | old | {"tensor_descriptor": language.descriptors.tensor_descriptor}


def names_of_make() -> Names:
    names = ("gdc_wait", "gdc_launch_dependents", "num_threads", "num_warps")
    return {name: getattr(lang, name) for name in names} | refused.OF_GPUS


def names_of_ascend() -> Names:
    """The dialect of Triton-Ascend: hints mean nothing here, and what says how one chip works is refused."""
    return {"parallel": language.range, "compile_hint": lang.compile_hint, "multibuffer": lang.compile_hint,
            **refused.OF_ASCEND}  # fmt: skip


def names_of_errors() -> Names:
    """Errors of the compiler and of launches are pypto's own, under Triton's names."""
    return {
        "TritonError": PyptoError, "CompilationError": Diagnostic, "CompileTimeAssertionFailure": AssertionFailed,
        "UnsupportedLanguageConstruct": UnknownSyntax, "InterpreterError": compiler.InterpreterError,
        "OutOfResources": compiler.OutOfResources, "PTXASError": compiler.PTXASError,
        "AutotunerError": inside.AutotunerError,
    }  # fmt: skip


def names_of_jit() -> Names:
    return {
        "jit": kernels.jit, "JITFunction": kernels.JITFunction, "KernelInterface": KernelInterface,
        "KernelParam": kernels.KernelParam, "MockTensor": compiled.MockTensor,
        "TensorWrapper": compiled.TensorWrapper, "reinterpret": compiled.reinterpret,
        "constexpr_function": kernels.ConstexprFunction,
    }  # fmt: skip


def names_of_tuning() -> Names:
    return {
        "Autotuner": Autotuner, "Config": Config, "Heuristics": Heuristics, "autotune": autotune,
        "heuristics": heuristics,
    }  # fmt: skip


def names_of_triton(errors: Names) -> Names:
    return {
        **names_of_jit(), **names_of_tuning(), **errors, "__version__": VERSION, "compile": compiler.compile,
        "cdiv": lang.cdiv, "next_power_of_2": language.next_power_of_2, "set_allocator": inside.set_allocator,
        "must_use_result": compiler.must_use_result, "aggregate": aggregates.aggregate,
    }  # fmt: skip


def names_of_runtime(config: driver.DriverConfig, errors: Names) -> dict[str, Names]:
    """Everything beside the language."""
    jit, tuning = names_of_jit(), names_of_tuning()
    build_names = {
        "ASTSource": compiler.ASTSource, "CompiledKernel": compiled.CompiledKernel, "compile": compiler.compile,
        "LazyDict": hooks.LazyDict, "make_backend": compiler.make_backend, "triton_key": compiler.triton_key,
    }  # fmt: skip
    settings = knobs.names()
    target = {"GPUTarget": driver.GPUTarget, "BaseBackend": compiler.BaseBackend}
    return {
        "triton.runtime": {**jit, **tuning, **errors, **inside.REMOTE, "driver": config},
        "triton.runtime.jit": {
            **jit, "driver": config, "T": Any, "type_canonicalisation_dict": utils.type_canonicalisation_dict,
            "JITCallable": kernels.JITFunction},
        "triton.runtime.autotuner": {
            **tuning, **errors, "KernelInterface": KernelInterface, "JITFunction": kernels.JITFunction,
            "driver": config, "triton_key": compiler.triton_key, "get_cache_manager": compiler.get_cache_manager,
            "get_cache_invalidating_env_vars": dict},
        "triton.runtime.driver": {
            **names_of_driver(config), "driver": config, "DriverConfig": driver.DriverConfig},
        "triton.runtime.errors": errors,
        "triton.runtime.cache": {"knobs": settings["cache"]},
        "triton.runtime.interpreter": {**errors, "InterpretedFunction": inside.InterpretedFunction},
        "triton.errors": {"TritonError": PyptoError},
        "triton.compiler": {**build_names, **errors},
        "triton.compiler.compiler": {**build_names, **errors, **target},
        "triton.compiler.errors": errors,
        "triton.backends": {
            "backends": backends(), "DriverBase": driver.CpuDriver, "BaseBackend": compiler.BaseBackend},
        "triton.backends.compiler": target,
        "triton.backends.driver": {"DriverBase": driver.CpuDriver, "GPUDriver": driver.CpuDriver},
        "triton.testing": names_of_testing(),
        "triton.tools": {},
        "triton.tools.mxfp": mxfp.names(),
        "triton.tools.ragged_tma": ragged.names(),
        "triton.tools.tensor_descriptor": {"TensorDescriptor": language.TensorDescriptor},
        "triton.ops": {},
        "triton.ops.matmul_perf_model": {
            "early_config_prune": compiler.keep_configs, "estimate_matmul_time": compiler.no_estimate},
        "triton.knobs": settings,
        "triton._utils": utils.names(),
        "triton._filecheck": filecheck.names(),
        "triton._internal_testing": internal_testing.names(),
        "triton._C": {},
        "triton._C.libtriton": {
            "get_cache_invalidating_env_vars": dict, "native_specialize_impl": compiler.native_specialize_impl},
    }  # fmt: skip


def backends() -> Names:
    """The backends of Triton that are there: ours, under the name of the device."""
    return {driver.BACKEND: inside.Backend(compiler.CpuBackend, driver.CpuDriver)}


def names_of_driver(config: driver.DriverConfig) -> Names:
    """`triton.runtime.driver` imported as a module is asked for what the active driver has."""
    return {"active": config.active, "default": config.default, "set_active": config.set_active}


def names_of_testing() -> Names:
    names = {name: getattr(testing, name) for name in testing.__all__}
    return {**names, **compiler.TESTING, "nvsmi": compiler.nvsmi, "math": python_math}
