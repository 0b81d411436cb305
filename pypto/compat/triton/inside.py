"""Names from the inside of Triton's runtime and compiler that other code imports, by module.

What has a meaning without a GPU works. The rest says why not when it is called.
"""

from __future__ import annotations

import base64
import enum
import functools
import hashlib
import re
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from pypto.compat.triton import compiler, driver, hooks, kernels, refused
from pypto.compat.triton.accesses import Module, Operation
from pypto.compat.triton.utils import mangle_type
from pypto.errors import PyptoError
from pypto.errors.language import OpTypeError
from pypto.jit import Kernel
from pypto.options import KernelOptions

Names = dict[str, Any]
_COMPILER: Final = "it is the inside of Triton's compiler; `kernel.warmup` compiles, `kernel.inspect` shows the levels"
_LAUNCHER: Final = "it serves launchers in C++ that Triton writes; `kernel[grid](...)` launches"
_INTERPRETER: Final = "it is the inside of Triton's interpreter; PYPTO_INTERPRET=1 runs kernels with numpy"


class AutotunerError(PyptoError):
    """An error of the tuner."""


# --- memory that kernels ask for --------------------------------------------------------------------------------------


class NullAllocator:
    """Gives no memory. Nothing asks for any here."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Any:
        raise RuntimeError("no allocator was set; `triton.set_allocator` sets one")


_allocator: ContextVar[Any] = ContextVar("allocator")
_profile_allocator: ContextVar[Any] = ContextVar("profile_allocator")


def set_allocator(allocator: Any) -> None:
    """Keeps an allocator for who asks. Tensor descriptors made in a kernel take no memory of their own."""
    _allocator.set(allocator)


def set_profile_allocator(allocator: Any) -> None:
    _profile_allocator.set(NullAllocator() if allocator is None else allocator)


def has_profile_allocator() -> bool:
    return not isinstance(_profile_allocator.get(None), NullAllocator | None)


def allocation() -> Names:
    _allocator.set(NullAllocator())
    return {
        "NullAllocator": NullAllocator, "set_allocator": set_allocator, "set_profile_allocator": set_profile_allocator,
        "has_profile_allocator": has_profile_allocator, "Allocator": Callable[[int, int, Any], Any], "Buffer": Any,
        "_allocator": _allocator, "_profile_allocator": _profile_allocator, "_NULL_ALLOCATOR": _allocator.get(),
    }  # fmt: skip


# --- triton.runtime.jit -----------------------------------------------------------------------------------------------


INDENT_PATTERN: Final = re.compile(r"^(?P<indent>[ \t]*)def[ \t]+\w+[ \t]*\(", re.MULTILINE)


def get_full_name(fn: Any) -> str:
    return f"{fn.__module__}.{fn.__qualname__}"


def get_def_line_number(raw_src: list[str], starting_line_number: int) -> int:
    """The line of `def`, behind the decorators."""
    head = (n for n, line in enumerate(raw_src) if line.lstrip().startswith("def "))
    return starting_line_number + next(head, 0)


def get_def_col_number(raw_src_str: str) -> int:
    """The column of `def`, from 1."""
    match = INDENT_PATTERN.search(raw_src_str)
    if match is None:
        raise ValueError("there is no function in this text")
    return len(match["indent"]) + 1


class InterpretedFunction(kernels.JITFunction):
    """A kernel that numpy runs. `triton.jit` makes none: its kernels ask `knobs.runtime.interpret` when they run."""

    @functools.cached_property
    def ours(self) -> Kernel:
        """The kernel that is launched."""
        return kernels.TritonKernel(self.fn, KernelOptions(interpret=True), self.do_not_specialize)


def convert_to_tuple_if_list(item: Any) -> Any:
    """Lists as tuples, also inside of lists and tuples."""
    return tuple(map(convert_to_tuple_if_list, item)) if isinstance(item, list | tuple) else item


def get_jit_fn_file_line(fn: Any) -> tuple[str, int]:
    """Where the function of a kernel stands: the file, and the line of `def`."""
    return fn.fn.__code__.co_filename, get_def_line_number(fn.raw_src, fn.starting_line_number)


def jit() -> Names:
    places = (get_jit_fn_file_line, get_full_name, get_def_line_number, get_def_col_number)
    inside = (
        "DependenciesFinder create_function_from_signature serialize_specialization_data compute_cache_key "
        "BoundConstexprFunction"
    )
    functions = {f.__name__: f for f in (*places, convert_to_tuple_if_list, mangle_type)}
    return {
        **refused.absent(inside, _COMPILER), **functions, "JitFunctionInfo": hooks.JitFunctionInfo,
        "native_specialize_impl": compiler.native_specialize_impl,
        "ConstexprFunction": kernels.ConstexprFunction, "INDENT_PATTERN": INDENT_PATTERN,
        "TRITON_MODULE": "triton.language", "GLUON_MODULE": "triton.experimental.gluon.language",
        "_triton_jit_function_registry": {},
    }  # fmt: skip


# --- triton.runtime.cache ---------------------------------------------------------------------------------------------


def _base32(key: str) -> str:
    """A number in hexadecimal digits as letters and digits for the name of a file."""
    return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")


def make_so_cache_key(version_hash: Any, signature: Any, constants: Any, ids: Any, **kwargs: Any) -> str:
    parts = (version_hash, *signature.values(), *constants.items(), ids, *sorted(kwargs.items()))
    return _base32(hashlib.sha256("-".join(map(str, parts)).encode()).hexdigest())


def get_cache_key(src: Any, backend: Any, backend_options: Any, env_vars: Any) -> str:
    """Changes with the source and the options."""
    parts = (compiler.triton_key(), src.fn.cache_key, sorted(src.signature.items()), backend_options, env_vars)
    return hashlib.sha256("-".join(map(str, parts)).encode()).hexdigest()


REMOTE: Final = refused.absent(
    "RemoteCacheBackend RedisRemoteCacheBackend RemoteCacheManager",
    "libraries' files are kept nowhere; pypto's own cache is a folder, see PYPTO_CACHE",
)


def cache() -> Names:
    ours = (compiler.FileCacheManager, compiler.get_cache_manager, compiler.default_cache_dir, compiler.triton_key)
    return {
        **{f.__name__: f for f in (*ours, _base32, make_so_cache_key, get_cache_key)},
        **dict.fromkeys(("get_override_manager", "get_dump_manager"), compiler.get_cache_manager),
        **REMOTE, "CacheManager": compiler.FileCacheManager,
    }  # fmt: skip


# --- triton.compiler, triton.backends ---------------------------------------------------------------------------------


class Language(enum.Enum):
    """Which of Triton's languages a kernel is written in."""

    TRITON = 0
    GLUON = 1


@dataclass(frozen=True)
class Backend:
    """A compiler and the driver that runs what it makes."""

    compiler: Any
    driver: Any


def max_shared_mem(device: Any) -> int:
    """Bytes that the programs of a GPU share, as many as a current one has."""
    return 232448


def filter_traceback(e: BaseException) -> None:
    """Nothing: errors of kernels show the kernel alone."""


def build() -> Names:
    """What `triton.compiler` and `triton.compiler.compiler` share."""
    ours = (max_shared_mem, filter_traceback, get_cache_key)
    ir = "files of Triton's IR cannot be compiled; give `triton.compile` an `ASTSource`"
    return {
        **{f.__name__: f for f in ours}, **refused.absent("IRSource parse", ir), "AsmDict": dict,
        **refused.absent("CompileTimer convert_type_repr", _COMPILER),
    }  # fmt: skip


def code_generator() -> Names:
    names = "CodeGenerator ast_to_ttir flatten_values_to_ir unflatten_ir_values mangle_fn ContainsReturnChecker"
    return refused.absent(names, _COMPILER)


def ignored(*_: Any) -> None:
    """Does nothing: there is one IR, whose ops are all known."""


def decompose_descriptor(arg: Any) -> list[Any]:
    """A tensor descriptor as what it is made of."""
    return [arg.base, *arg.shape, *arg.strides, arg.padding == "nan", *arg.shape, *arg.strides]


# --- triton.profiler --------------------------------------------------------------------------------------------------

_PROFILER: Final = "it counts what a GPU does; `pypto.profiler` times kernels, and torch.profiler shows their launches"


class Scope(ContextDecorator):
    """A part of a program, named for a profiler: without one it means nothing."""

    def __init__(self, name: str, metrics: Any = None) -> None:
        self.name, self.metrics = name, metrics

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""


def profiler() -> dict[str, Names]:
    """Parts of a program can be named. A profile is refused."""
    marks = dict.fromkeys(("enter_scope", "exit_scope", "enter_state", "exit_state"), ignored)
    return {
        "triton.profiler": {
            **dict.fromkeys(("scope", "cpu_timed_scope", "state"), Scope), **marks,
            **refused.absent("start activate deactivate finalize profile", _PROFILER)},
        "triton.profiler.language": refused.absent(
            "enter_scope exit_scope scope record enable_semantic disable_semantic", _PROFILER),
        "triton.profiler.viewer": refused.absent("parse read print_tree", _PROFILER),
        "triton.profiler.hooks": refused.absent("HookManager Hook LaunchHook InstrumentationHook", _PROFILER),
    }  # fmt: skip


def cpu_backend() -> dict[str, Names]:
    """The backend as Triton's fork for CPUs names it."""
    driver_names = {"CPUDriver": driver.CpuDriver, "CPUDeviceInterface": driver.DeviceInterface}
    return {
        "triton.backends.cpu": {},
        "triton.backends.cpu.driver": {**driver_names, **refused.absent("CPUUtils CPULauncher", _LAUNCHER)},
        "triton.backends.cpu.compiler": {
            "CPUBackend": compiler.CpuBackend, **refused.absent("CPUOptions", _COMPILER)},
    }  # fmt: skip


def modules() -> dict[str, Names]:
    """What each module has besides its own."""
    return {
        **profiler(),
        **cpu_backend(),
        "triton.runtime.jit": jit(),
        "triton.runtime.cache": cache(),
        "triton.runtime._allocation": allocation(),
        "triton.runtime._async_compile": {"active_mode": ContextVar("active_mode", default=None), **refused.ASYNC},
        "triton.runtime.build": refused.absent("compile_module_from_src", "pypto builds no modules of C"),
        "triton.compiler": build(),
        "triton.compiler.compiler": build(),
        "triton.compiler.code_generator": code_generator(),
        "triton._C.libtriton": refused.absent("passes llvm interpreter getenv", _COMPILER),
        "triton._C.libtriton.ir": {
            "context": SimpleNamespace, "load_dialects": ignored, "module": Module, "operation": Operation},
        "triton.backends": {"Backend": Backend},
        "triton.tools.disasm": refused.absent(
            "extract get_sass path_to_cuobjdump path_to_nvdisasm is_tool", "there is no code of a GPU"),
        "triton.backends.compiler": {"Language": Language},
        "triton.backends.driver": {
            "Benchmarker": Any, "decompose_descriptor": decompose_descriptor,
            **refused.absent("expand_signature wrap_handle_tensordesc", _LAUNCHER)},
        "triton.runtime.interpreter": refused.absent(
            "_implicit_cvt GridExecutor InterpreterBuilder TensorHandle", _INTERPRETER),
        "triton.language.semantic": {
            **refused.absent("TritonSemantic", _COMPILER), "IncompatibleTypeErrorImpl": OpTypeError},
    }  # fmt: skip
