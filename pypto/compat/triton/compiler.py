"""The parts of Triton around the language that code touches: `triton.compile`, errors, caches, figures of a device."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from pypto import testing
from pypto.compat.triton.accesses import Module, module_of
from pypto.compat.triton.compiled import CompiledKernel, sample
from pypto.compat.triton.copies import copy_elements_alone
from pypto.compat.triton.driver import BACKEND
from pypto.compat.triton.kernels import LAUNCH_OPTIONS
from pypto.compat.triton.utils import mangle_type
from pypto.errors import PyptoError
from pypto.testing.bench import summary


class OutOfResources(PyptoError):
    """A launch that needs more than the device has."""

    def __init__(self, required: int, limit: int, name: str) -> None:
        self.required, self.limit, self.name = required, limit, name
        super().__init__(f"out of resource: {name}, required: {required}, limit: {limit}; make the blocks smaller")


class InterpreterError(PyptoError):
    """An error that the interpreter found."""


class PTXASError(PyptoError):
    """An error of the assembler for NVIDIA's GPUs; there is none here."""


class BaseBackend:
    """Base of Triton's backends, of which pypto has none; for code that derives from it."""

    def __init__(self, target: Any) -> None:
        self.target = target


class ASTSource:
    """A kernel with the types of its arguments, for `compile`.

    Parameters
    ----------
    fn : JITFunction
    signature : dict
        From the name of a parameter to its type: "*fp32", "i32", "constexpr".
    constexprs : dict
        From a name, a number or a path of numbers to the value of a constant.
    """

    def __init__(self, fn: Any, signature: Mapping[str, str], constexprs: Any = None, attrs: Any = None) -> None:
        self.fn, self.signature, self.attrs = fn, dict(signature), attrs
        self.constants = {self._name(key): x for key, x in (constexprs or {}).items()}

    def make_ir(self, options: Any, context: Any) -> Module:
        """What the kernel reads and writes, in the form of Triton's IR, for which torch asks when it traces a graph."""
        copy_elements_alone()
        arguments = {name: sample(text) for name, text in self.signature.items() if text != "constexpr"}
        module = module_of(self.fn, self.signature, {**arguments, **self.constants})
        pointers = [name for name, text in self.signature.items() if str(text).startswith("*")]
        self.fn.note_written(name for name in pointers if name in module.written)
        return module

    def _name(self, key: Any) -> str:
        number = key[0] if isinstance(key, tuple) else key
        return str(self.fn.arg_names[number] if isinstance(number, int) else number)


def compile(src: Any, target: Any = None, options: Any = None) -> CompiledKernel:
    """Compile a kernel for types, without arguments.

    Raises
    ------
    TypeError
        When the source is no `ASTSource`: files of Triton's IR cannot be compiled.
    """
    if not isinstance(src, ASTSource):
        raise TypeError("pypto compiles kernels from Python alone; give `triton.compile` an `ASTSource`")
    arguments = {name: sample(text) for name, text in src.signature.items() if text != "constexpr"}
    compiled: CompiledKernel = src.fn.warmup(**{**arguments, **src.constants})
    return compiled.from_source(src)


class CpuBackend(BaseBackend):
    """The backend for a CPU, as far as other code asks for one: `triton.compile` and launches need none."""

    def hash(self) -> str:
        """Names the compiler and its target."""
        return f"{triton_key()}-{self.target.backend}-{self.target.arch}"

    def parse_options(self, options: Mapping[str, Any]) -> SimpleNamespace:
        """Options of a launch as an object; here they mean nothing."""
        return SimpleNamespace(**dict.fromkeys(LAUNCH_OPTIONS), **options)

    def parse_attr(self, text: str) -> list[Any]:
        """Attributes of an argument, of which there are none; torch asks where a constant is a text."""
        return []

    def load_dialects(self, context: Any) -> None:
        """Nothing, since there is one IR."""

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Returns no functions: none depends on a target."""
        return {}


def native_specialize_impl(backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool) -> Any:
    """Returns the word for an argument's type, and no attribute: a kernel is specialised by what its code asks for."""
    return mangle_type(arg), None


def make_backend(target: Any) -> CpuBackend:
    """The backend for a target.

    Raises
    ------
    NotImplementedError
        For a target that is no CPU.
    """
    if getattr(target, "backend", None) != BACKEND:
        raise NotImplementedError(f"pypto compiles Triton for the CPU, not for {target!r}")
    return CpuBackend(target)


def triton_key() -> str:
    """Names the version of the compiler."""
    from pypto.compile import session

    return f"pypto-{type(session()).__module__}"


def must_use_result(x: Any, s: Any = True) -> Any:
    """A mark for functions whose result is to be used."""
    return x if callable(x) else lambda fn: fn


def keep_configs(configs: list[Any], named_args: Any = None, **_: Any) -> list[Any]:
    """All of them: none is too large here."""
    return configs


def no_estimate(*args: Any, **kwargs: Any) -> float:
    """Return one constant estimate for all configurations, because Triton's model describes GPUs."""
    return 1.0


# --- caches -----------------------------------------------------------------------------------------------------------


def default_cache_dir() -> str:
    """Folder for files of libraries; pypto's own cache is elsewhere."""
    return os.path.join(os.path.expanduser("~"), ".triton", "cache")


class FileCacheManager:
    """Files that a library keeps under a key: none are kept, so that each is made again."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key, self.cache_dir = key, default_cache_dir()

    def has_file(self, filename: str) -> bool:
        return False

    def get_file(self, filename: str) -> str | None:
        return None

    def get_group(self, filename: str) -> dict[str, str] | None:
        return None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        return os.path.join(self.cache_dir, self.key, filename)


def get_cache_manager(key: str) -> FileCacheManager:
    return FileCacheManager(key)


# --- figures of the device --------------------------------------------------------------------------------------------


def nvsmi(attrs: list[str]) -> NoReturn:
    raise NotImplementedError(f"there is no GPU to be asked for {', '.join(attrs)}")


def get_dram_gbps(device: Any = None) -> float:
    """Bandwidth of memory in GB/s: that of two channels of DDR5, a figure to compare with."""
    return 80.0


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """Peak of the CPU in TFLOP/s: 32 operations of float32 per cycle and thread."""
    from pypto.process import get_num_threads

    return get_num_threads() * clock_rate * 32 * 1e-9


def cuda_memcheck(**_: Any) -> Callable[[Any], Any]:
    """Nothing: the interpreter checks every access."""
    return lambda fn: fn


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """`pypto.testing.assert_close` with the tolerances that Triton's has when none is given: 0.01 and 0."""
    testing.assert_close(x, y, 1e-2 if atol is None else atol, 0.0 if rtol is None else rtol, err_msg)


TESTING: Final[dict[str, Any]] = {
    "assert_close": assert_close,
    "get_dram_gbps": get_dram_gbps, "get_max_tensorcore_tflops": get_max_tensorcore_tflops,
    "get_max_simd_tflops": get_max_tensorcore_tflops, "cuda_memcheck": cuda_memcheck, "ctypes": ctypes,
    "_summarize_statistics": summary,
}  # fmt: skip
