"""`triton.knobs`: settings that the environment or assignments give.

`inert_knobs` lists those that mean nothing here. The others are obeyed: `runtime.interpret`, the hooks of `hooks`, and
the folders for files of libraries.

A group is a class whose knobs are descriptors. A knob is what was assigned to it, else what its variable says, else its
default. What is assigned is written to the variable too, unless `propagate_env` of the module is False.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from pypto.compat.triton.inert_knobs import QUIET, warn_of, warn_of_unknown

TRUE: Final = frozenset(("1", "true", "on", "y", "yes"))
FALSE: Final = frozenset(("0", "false", "off", "n", "no"))
PROPAGATE: Final = "propagate_env"  # of the module that is served


class Env:
    """Assigned to a knob: go by the environment again."""


env: Final = Env()


class env_base:
    """A knob: the variable `key` of the environment, read as `read` says, or a default."""

    def __init__(self, key: str, default: Any = None) -> None:
        self.key, self.default, self.name = key, default, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: Any = None) -> Any:
        if group is None:
            return self
        return vars(group)[self.name] if self.name in vars(group) else self.get()

    def __set__(self, group: Any, value: Any) -> None:
        if isinstance(value, Env):
            self.__delete__(group)
            return
        vars(group)[self.name] = value
        text = toenv(value)
        if text is not None:
            setenv(self.key, text[0])

    def __delete__(self, group: Any) -> None:
        vars(group).pop(self.name, None)

    def get(self) -> Any:
        """What the environment says, or the default."""
        text = os.environ.get(self.key)
        if text is not None:
            return self.read(text)
        return self.default() if callable(self.default) else self.default

    def read(self, text: str) -> Any:
        return text


class env_str(env_base):
    """A text."""


class env_opt_str(env_base):
    """A text, or None."""


class env_class(env_base):
    """The name of a class, which pypto does not load; or None."""


class env_nvidia_tool(env_base):
    """A program for GPUs, or None."""


class env_bool(env_base):
    """True or False."""

    def __init__(self, key: str, default: bool | None = False) -> None:
        super().__init__(key, default)

    def read(self, text: str) -> Any:
        word = text.lower()
        if word not in TRUE | FALSE:
            raise RuntimeError(f"{self.key}={text}: expected 1 or 0")
        return word in TRUE


class env_opt_bool(env_bool):
    """True, False or None."""

    def __init__(self, key: str) -> None:
        super().__init__(key, None)


class env_int(env_base):
    """An integer."""

    def __init__(self, key: str, default: int = 0) -> None:
        super().__init__(key, default)

    def read(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise RuntimeError(f"{self.key}={text}: expected an integer") from None


class base_knobs:
    """A group of knobs. What a group does not have is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name) and name not in vars(self):
            warn_of_unknown(group_of(type(self)), name)
        elif not isinstance(value, Env) and value != getattr(self, name):
            warn_of(group_of(type(self)), name)
        super().__setattr__(name, value)

    @property
    def knob_descriptors(self) -> dict[str, env_base]:
        return {name: x for name, x in vars(type(self)).items() if isinstance(x, env_base)}

    @property
    def knobs(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self) -> Self:
        copy = type(self)()
        vars(copy).update(vars(self))
        return copy

    def reset(self) -> Self:
        """Forget what was assigned."""
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """At the end of a `with` block, knobs and their variables are as they were."""
        saved, variables = dict(vars(self)), {d.key: os.environ.get(d.key) for d in self.knob_descriptors.values()}
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(saved)
            for key, text in variables.items():
                write(key, text)


def group_of(kind: type[base_knobs]) -> str:
    """The name of a group of knobs in the module."""
    return kind.__name__.removesuffix("_knobs")


class HookChain:
    """Functions that are called in order, each once."""

    def __init__(self, reversed: bool = False) -> None:
        self.calls: list[Callable[..., Any]] = []
        self.reversed = reversed

    def add(self, function: Callable[..., Any]) -> None:
        if function not in self.calls:
            self.calls.append(function)

    def remove(self, function: Callable[..., Any]) -> None:
        if function in self.calls:
            self.calls.remove(function)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for function in self.calls[::-1] if self.reversed else tuple(self.calls):
            function(*args, **kwargs)


class InertChain(HookChain):
    """Functions that nothing calls, which a warning says when one is added."""

    def __init__(self, name: str, reversed: bool = False) -> None:
        super().__init__(reversed)
        self.name = name

    def add(self, function: Callable[..., Any]) -> None:
        warn_of("runtime", self.name)
        super().add(function)


@dataclass(frozen=True)
class CompileTimes:
    """Microseconds that a compilation took."""

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        return self.ir_initialization + self.total_lowering + self.store_results


def getenv(key: str, default: str | None = None) -> str | None:
    return os.environ.get(key, default)


def getenv_bool(key: str, default: bool = False) -> bool:
    return bool(env_bool(key, default).get())


def setenv(key: str, value: Any) -> None:
    """Write a variable, unless the module forbids it."""
    if getattr(sys.modules.get("triton.knobs"), PROPAGATE, True):
        write(key, value)


def write(key: str, value: Any) -> None:
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = str(value)


# --- the groups -------------------------------------------------------------------------------------------------------


def folder(name: str) -> Callable[[], str]:
    """A folder below Triton's own, which `TRITON_HOME` may move."""
    return lambda: os.path.join(os.environ.get("TRITON_HOME", os.path.expanduser("~/")), ".triton", name)


class build_knobs(base_knobs):
    """How a compiler of C is called: not at all."""

    cc, cudacrt_path = env_opt_str("CC"), env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path, impl = env_opt_str("TRITON_CUDART_PATH"), None

    @property
    def backend_dirs(self) -> set[str]:
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host, port = env_str("TRITON_REDIS_HOST", "localhost"), env_int("TRITON_REDIS_PORT", 6379)


class cache_knobs(base_knobs):
    home_dir = env_str("TRITON_HOME", lambda: os.path.expanduser("~/"))
    dump_dir = env_str("TRITON_DUMP_DIR", folder("dump"))
    override_dir = env_str("TRITON_OVERRIDE_DIR", folder("override"))
    dir = env_str("TRITON_CACHE_DIR", folder("cache"))
    manager_class, remote_manager_class = env_class("TRITON_CACHE_MANAGER"), env_class("TRITON_REMOTE_CACHE_BACKEND")

    def get_triton_dir(self, dirname: str) -> str:
        return os.path.join(self.home_dir, ".triton", dirname)


class compilation_knobs(base_knobs):
    override, dump_ir = env_bool("TRITON_KERNEL_OVERRIDE"), env_bool("TRITON_KERNEL_DUMP")
    store_binary_only, always_compile = env_bool("TRITON_STORE_BINARY_ONLY"), env_bool("TRITON_ALWAYS_COMPILE")
    use_ir_loc, enable_asan = env_opt_str("USE_IR_LOC"), env_bool("TRITON_ENABLE_ASAN")
    disable_line_info = env_bool("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = env_bool("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    instrumentation_mode, listener = "", None


class autotuning_knobs(base_knobs):
    cache, print, listener = env_bool("TRITON_CACHE_AUTOTUNING"), env_bool("TRITON_PRINT_AUTOTUNING"), None


class runtime_knobs(base_knobs):
    interpret, debug = env_bool("TRITON_INTERPRET"), False
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH")
    jit_cache_hook = jit_post_compile_hook = add_stages_inspection_hook = None

    def __init__(self) -> None:
        vars(self).update(launch_enter_hook=HookChain(), launch_exit_hook=HookChain(reversed=True))
        names = ("kernel_load_start_hook", "kernel_load_end_hook", "kernel_unload_hook")
        vars(self).update({name: InertChain(name, "end" in name) for name in names})


class language_knobs(base_knobs):
    fp32_default, default_fp_fusion = env_opt_str("TRITON_F32_DEFAULT"), env_bool("TRITON_DEFAULT_FP_FUSION", True)


class nvidia_knobs(base_knobs):
    dump_nvptx, disable_ptxas_opt = env_bool("NVPTX_ENABLE_DUMP"), env_bool("DISABLE_PTXAS_OPT")
    ptxas_options, libdevice_path = env_opt_str("PTXAS_OPTIONS"), env_opt_str("TRITON_LIBDEVICE_PATH")
    mock_ptx_version, libcuda_path = env_opt_str("TRITON_MOCK_PTX_VERSION"), env_opt_str("TRITON_LIBCUDA_PATH")
    ptxas, cuobjdump = env_nvidia_tool("TRITON_PTXAS_PATH"), env_nvidia_tool("TRITON_CUOBJDUMP_PATH")
    nvdisasm = env_nvidia_tool("TRITON_NVDISASM_PATH")


class amd_knobs(base_knobs):
    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True)
    dump_amdgcn, libhip_path = env_bool("AMDGCN_ENABLE_DUMP"), env_opt_str("TRITON_LIBHIP_PATH")
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_opt_bool("TRITON_HIP_USE_ASYNC_COPY")
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS")


class proton_knobs(base_knobs):
    disable, enable_nvtx = env_bool("TRITON_PROTON_DISABLE"), env_bool("TRITON_ENABLE_NVTX", True)
    enable_hw_trace = env_bool("TRITON_ENABLE_HW_TRACE")


KINDS: Final[Mapping[str, type[base_knobs]]] = {
    group_of(kind): kind
    for kind in (
        *(build_knobs, redis_knobs, cache_knobs, compilation_knobs, autotuning_knobs, runtime_knobs, language_knobs),
        *(nvidia_knobs, amd_knobs, proton_knobs),
    )
}
_SHARED: Final[tuple[Any, ...]] = (
    *(Env, env_base, env_str, env_opt_str, env_class, env_nvidia_tool, env_bool, env_opt_bool, env_int, base_knobs),
    *(HookChain, CompileTimes, getenv, getenv_bool, setenv),
)


# Types of hooks and listeners, for annotations.
_TYPES: Final = (
    *("AutotuneListener", "BuildImpl", "CompilationListener", "InitHandleHook", "JITHook", "JITHookCompileInfo"),
    *("KernelAttr", "LaunchHook", "NvidiaTool", "PipelineStagesHook"),
)


def toenv(val: Any) -> tuple[str | None] | None:
    """The text of a variable for a value, in a tuple; None for a value that no variable can have."""
    if val is None or isinstance(val, str | int):
        return (None if val is None else str(int(val)) if isinstance(val, bool) else str(val),)
    return None


def names() -> dict[str, Any]:
    """What the module holds: the groups, their classes, and what other groups are made of."""
    groups: dict[str, Any] = {name: kind() for name, kind in KINDS.items()}
    for group in groups.keys() - QUIET:
        for name, knob in groups[group].knob_descriptors.items():
            if knob.key in os.environ and getattr(groups[group], name) != knob.default:
                warn_of(group, name)

    def refresh_knobs() -> None:
        groups["runtime"].debug = getenv_bool("TRITON_DEBUG")
        groups["compilation"].instrumentation_mode = getenv("TRITON_INSTRUMENTATION_MODE", "")

    shared = {x.__name__: x for x in (*_SHARED, *KINDS.values(), toenv, refresh_knobs)}
    older = {"env_str_callable_default": env_str, "env_opt_base": env_base}
    return {**shared, **older, **dict.fromkeys(_TYPES, Any), **groups, "env": env, PROPAGATE: True}


def served(group: str) -> Any:
    """A group of the module that the process has imported, or None."""
    return getattr(sys.modules.get("triton.knobs"), group, None)
