"""`triton.jit`: what libraries expect of a kernel, around one of ours."""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import inspect
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pickle import PicklingError
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

from pypto.compat.triton import versions
from pypto.compat.triton.compiled import CompiledKernel, MockTensor
from pypto.compat.triton.hooks import Hooks
from pypto.compat.triton.knobs import runtime_knobs, served
from pypto.compat.triton.utils import mangle_type
from pypto.errors.launch import NotLaunched
from pypto.jit import Kernel
from pypto.language.aggregates import constexpr_function
from pypto.ops.public import constexpr
from pypto.options import KernelOptions
from pypto.runtime.signature import annotation_word
from pypto.tuning import KernelInterface

# What compilers for GPUs and other accelerators are told at a launch; here it means nothing.
# fmt: off
LAUNCH_OPTIONS: Final = frozenset((
    "num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "ptx_version", "ptx_options", "ir_override",
    "enable_fp_fusion", "launch_cooperative_grid", "launch_cluster", "launch_pdl", "supported_fp8_dtypes",
    "deprecated_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision",
    "allowed_dot_input_precisions", "max_num_imprecise_acc_default", "extern_libs", "debug", "backend_name",
    "sanitize_overflow", "arch", "instrumentation_mode", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "allow_flush_denorm", "schedule_hint", "num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer",
    "reg_inc_consumer", "enable_warp_specialization", "enable_persistent", "grf_mode", "warp_size", "multibuffer",
    "stream", "device", "device_type", "optimize_epilogue", "isCloseUnrollControl", "buffer_size_limit",
    "isCloseVectorization", "isCloseCoreTiling", "isCloseOffsetAnalysis", "noinline", "minRegAutoWS", "maxRegAutoWS",
    "inherit_from", "warp_specialize", "use_cuda_graph", "pipeline", "bottleneck", "force_simt_only", "ctas_per_cga",
))
# fmt: on


class KernelParam:
    """A parameter of a kernel, as Triton describes it."""

    def __init__(self, num: int, param: inspect.Parameter, opaque: bool, opaque_alignment: bool) -> None:
        self.num, self.name, self._param = num, param.name, param
        self.do_not_specialize, self.do_not_specialize_on_alignment = opaque, opaque_alignment

    @property
    def annotation(self) -> str:
        """The annotation's text; empty without one."""
        annotation = self._param.annotation
        if annotation is inspect.Parameter.empty:
            return ""
        return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or repr(annotation)

    annotation_type = annotation

    @property
    def is_constexpr(self) -> bool:
        return annotation_word(self._param.annotation) == "constexpr"

    @property
    def is_const(self) -> bool:
        return not self.is_constexpr and annotation_word(self._param.annotation) == "const"

    @property
    def default(self) -> Any:
        return self._param.default

    @property
    def has_default(self) -> bool:
        return self._param.default is not inspect.Parameter.empty


def lenient_source(fn: Any) -> Any:
    """A function's source, to be read as Triton reads it."""
    from pypto.frontend import KernelSource

    return replace(KernelSource.of(fn), lenient=True)


class TritonKernel(Kernel):
    """A kernel of ours, whose source is read as Triton reads it."""

    ignored_options = LAUNCH_OPTIONS
    lenient = True

    @functools.cached_property
    def kernel_source(self) -> Any:
        return lenient_source(self.function)


class JITFunction(KernelInterface):
    """A function under `triton.jit`: launched over a grid, or called by other kernels.

    Parameters
    ----------
    fn : function
        Written in the kernel language.
    version, do_not_specialize_on_alignment, debug, noinline, repr, launch_metadata
        Kept, without a meaning here.
    do_not_specialize : sequence of str or int, optional
        Parameters of whose values no compiled version is to make use.
    """

    cache_hook = compiled_hook = None  # of versions without `triton.knobs`

    def __init__(
        self,
        fn: Callable[..., Any],
        version: Any = None,
        do_not_specialize: Iterable[str | int] | None = None,
        do_not_specialize_on_alignment: Iterable[str | int] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable[..., Any] | None = None,
        launch_metadata: Callable[..., Any] | None = None,
        **_: Any,
    ) -> None:
        functools.update_wrapper(self, fn)
        self.lenient = True
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.fn, self.version, self.debug, self.noinline = fn, version, debug, noinline
        self.module, self.launch_metadata, self._repr = fn.__module__, launch_metadata, repr
        self._file = fn.__code__.co_filename
        self.do_not_specialize = list(do_not_specialize or ())
        self.do_not_specialize_on_alignment = list(do_not_specialize_on_alignment or ())
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.written: list[str] = []  # arrays that the kernel writes, once torch has asked for it
        self.signature = inspect.signature(fn)
        self.params = [self._param(n, p) for n, p in enumerate(self.signature.parameters.values())]
        self.arg_names = list(self.signature.parameters)
        self.constexprs = [p.num for p in self.params if p.is_constexpr]
        self.device_caches = versions.Devices(self)
        self.used_global_vals: dict[Any, Any] = {}
        self.kernel, self.hash = None, None
        self.__globals__ = getattr(fn, "__globals__", {})

    def __reduce__(self) -> Any:
        """A kernel whose function was taken out, as Inductor's workers do before they send it, is that of its file."""
        return super().__reduce__() if self.fn is not None else (loaded, (self._file, self.__name__))

    def _param(self, num: int, param: inspect.Parameter) -> KernelParam:
        opaque, alignment = self.do_not_specialize, self.do_not_specialize_on_alignment
        return KernelParam(num, param, bool({num, param.name} & {*opaque}), bool({num, param.name} & {*alignment}))

    @functools.cached_property
    def ours(self) -> Kernel:
        """The kernel that is launched. A function that only other kernels call never needs it."""
        options = KernelOptions(interpret=(served("runtime") or runtime_knobs()).interpret)
        return TritonKernel(self.fn, options, self.do_not_specialize)

    @functools.cached_property
    def kernel_source(self) -> Any:
        """What the front end reads when another kernel calls this one."""
        return lenient_source(self.fn)

    def run(self, *args: Any, grid: Any = None, warmup: bool = False, **given: Any) -> CompiledKernel | None:
        """Launch, or with `warmup` only compile. Options for GPUs are ignored."""
        if not LAUNCH_OPTIONS.isdisjoint(given):
            if given.get("launch_cooperative_grid") and not warmup:
                self._refuse_waiting(grid, args, given)
            names = self.arg_names
            given = {name: x for name, x in given.items() if name in names or name not in LAUNCH_OPTIONS}
        if hooks := Hooks(served("runtime"), type(self)):
            return self._run_hooked(hooks, args, grid, warmup, given)
        return self._run(args, grid, warmup, given)

    def _run(self, args: tuple[Any, ...], grid: Any, warmup: bool, given: dict[str, Any]) -> CompiledKernel:
        if warmup:
            return self._warmup(args, given)
        for hook in self.pre_run_hooks:
            hook(*args, **given)
        self.ours[_plain_grid(grid)](*args, **given)
        return CompiledKernel.of(self, None, args, given)

    def _run_hooked(
        self, hooks: Hooks, args: tuple[Any, ...], grid: Any, warmup: bool, given: dict[str, Any]
    ) -> CompiledKernel | None:
        """A launch or a compilation with hooks around it; None where a hook forbids to compile."""
        if not hooks.compiles(self, *((self._of_types(args, given)) if warmup else (args, given)), warmup):
            return None
        with nullcontext() if warmup else hooks.around(self, grid, args, given):
            return self._run(args, grid, warmup, given)

    def _refuse_waiting(self, grid: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """Programs of a cooperative launch wait for each other: there may be one, since not all run at once here."""
        if callable(grid):
            named = {name: x for name, x in given.items() if name in self.arg_names}
            grid = grid(self.signature.bind_partial(*args, **named).arguments)
        programs = math.prod(grid) if isinstance(grid, tuple | list) else grid
        if programs > 1:
            way = "programs of a launch do not all run at once, so they cannot wait for each other; launch one program"
            raise NotImplementedError(f"{self.__name__}: launch_cooperative_grid with {programs} programs: {way}")

    def warmup(self, *args: Any, grid: Any = None, **given: Any) -> CompiledKernel | None:
        """Compile for these arguments without running; a dtype stands for an array of it."""
        return self.run(*args, grid=grid, warmup=True, **given)

    def preload(self, specialization_data: str) -> CompiledKernel | None:
        """Compile what a hook of another process was told of."""
        return self.warmup(**versions.deserialized(self, specialization_data))

    def _warmup(self, args: tuple[Any, ...], given: dict[str, Any]) -> CompiledKernel:
        values, named = self._of_types(args, given)
        warmed = self.ours.warmup(*values, **named)
        return CompiledKernel.of(self, warmed, args, given, self._name(args, given))

    @staticmethod
    def _of_types(args: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with a stand-in for each dtype of torch."""
        wrap = MockTensor.wrap_dtype
        return tuple(map(wrap, args)), {name: wrap(x) for name, x in given.items()}

    def _name(self, args: tuple[Any, ...], given: dict[str, Any]) -> str:
        """What `repr` calls the kernel for these arguments: it is told their types, and what is constant."""
        if self._repr is None:
            return self.__name__
        bound = self.signature.bind(*args, **given)
        bound.apply_defaults()
        fixed = {p.name for p in self.params if p.is_constexpr}
        signature = {n: "constexpr" if n in fixed else mangle_type(x) for n, x in bound.arguments.items()}
        ones = {n for n, x in bound.arguments.items() if type(x) is int and x == 1}
        constants = {n: x for n, x in bound.arguments.items() if n in fixed | ones or x is None}
        return self.repr(SimpleNamespace(signature=signature, constants=constants, fn=self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotLaunched(kernel=self.__name__)

    def __repr__(self) -> str:
        return f"JITFunction({self.module}:{self.__qualname__})"

    def note_written(self, names: Iterable[str]) -> None:
        """Keep which arrays the kernel writes, for tuners of others."""
        self.written = list(names)

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call a function with the arguments of every launch, before it."""
        self.pre_run_hooks.append(hook)

    def repr(self, specialization: Any = None) -> str:
        """The kernel's name in reports."""
        return str(self._repr(specialization)) if self._repr else f"{self.module}.{self.__qualname__}"

    def get_capture_scope(self) -> dict[str, Any]:
        return {**self.__globals__, **inspect.getclosurevars(self.fn).nonlocals}

    # --- what is asked about the source -----------------------------------------------------------------------

    @functools.cached_property
    def raw_src(self) -> list[str]:
        """The lines of the source, with decorators."""
        return inspect.getsourcelines(self.fn)[0]

    @functools.cached_property
    def starting_line_number(self) -> int:
        return inspect.getsourcelines(self.fn)[1]

    @functools.cached_property
    def file_name(self) -> str:
        return str(self.fn.__code__.co_filename)

    @functools.cached_property
    def def_file_line_number(self) -> int:
        """The line of the file on which `def` stands, behind the decorators."""
        return self.starting_line_number + self._line_of_def[0]

    @functools.cached_property
    def def_file_col_number(self) -> int:
        """The column of `def`, counted from 1."""
        return self._line_of_def[1] + 1

    @property
    def _line_of_def(self) -> tuple[int, int]:
        """The number of the source's line that starts with `def`, and its indentation."""
        lines = ((n, line.lstrip(), line) for n, line in enumerate(self.raw_src))
        return next((n, len(line) - len(text)) for n, text, line in lines if text.startswith("def "))

    @functools.cached_property
    def src(self) -> str:
        """The text of the function, without decorators, and behind it imports of Triton's names that it uses bare.

        Inductor writes this text into modules of its own, in which the names of the user's module are not known.
        """
        return source_of(self.fn)

    def _unsafe_update_src(self, new_src: str) -> None:
        """Read another text in place of the function's; versions that were compiled are forgotten."""
        from pypto.frontend import REWRITTEN

        old = self.fn
        self.fn = FunctionType(old.__code__, old.__globals__, old.__name__, old.__defaults__, old.__closure__)
        functools.update_wrapper(self.fn, old)
        self.fn.__kwdefaults__ = old.__kwdefaults__
        setattr(self.fn, REWRITTEN, new_src)
        for name in ("ours", "kernel_source"):
            vars(self).pop(name, None)
        vars(self)["src"] = new_src

    @property
    def cache_key(self) -> str:
        """Changes with the text of the function. Its versions are not found by it."""
        return hashlib.sha256(f"{self.module}.{self.__qualname__}\n{self.src}".encode()).hexdigest()

    @property
    def cache(self) -> Mapping[int, Mapping[Any, Any]]:
        """Compiled versions by device and key; there is one device."""
        return {0: versions.Versions(self)}

    @property
    def type(self) -> Any:
        return constexpr


def loaded(file: str, name: str) -> JITFunction:
    """Returns the kernel that a file of Python defines under a name, which decorators may have wrapped.

    Raises
    ------
    PicklingError
        When the file has no such kernel.
    """
    spec = importlib.util.spec_from_file_location(f"pypto.kernels.{name}", file)
    if spec is not None and spec.loader is not None and os.path.exists(file):
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, name, None)
        while kernel is not None and not isinstance(kernel, JITFunction):
            kernel = getattr(kernel, "fn", None)
        if kernel is not None:
            return kernel
    raise PicklingError(f"the kernel {name} cannot be had in another process, since {file} has none of that name")


class ConstexprFunction(constexpr_function):
    """A function of the host that kernels call with constants, as Inductor reads it: with `fn` and `src`."""

    @property
    def fn(self) -> Any:
        return inspect.unwrap(self.function)

    @functools.cached_property
    def src(self) -> str:
        """The text of the function, as that of a kernel."""
        return source_of(self.fn)


def source_of(function: Any) -> str:
    """The text of a function, without decorators, and behind it imports of Triton's names that it uses bare."""
    text = textwrap.dedent(inspect.getsource(function))
    return "\n".join((text[text.index("def ") :], *imports(function)))


def imports(function: Any) -> list[str]:
    """Imports for the global names that a function reads and that are names of Triton's language, or annotated by them.

    Examples
    --------
    A function that calls ``fetch``, behind ``from triton.language import load as fetch``, needs that line. One that
    reads ``SIZE: tl.constexpr = 4`` needs pypto's module of that class, since Inductor writes its full name.
    """
    code, outer = function.__code__, function.__globals__
    read = {x.argval: outer[x.argval] for x in dis.Bytecode(code) if x.opname == "LOAD_GLOBAL" and x.argval in outer}
    places = ("triton.language.extra.libdevice", "triton.language")
    served = {id(x): (place, name) for place in places if place in sys.modules
              for name, x in vars(sys.modules[place]).items() if not name.startswith("_")}  # fmt: skip
    used = ((name, served.get(id(x))) for name, x in sorted(read.items()) if not isinstance(x, int | ModuleType))
    kinds = (outer.get("__annotations__", {}).get(name) for name in read)
    modules = {kind.__module__ for kind in kinds if isinstance(kind, type) and kind.__module__ != "builtins"}
    bare = [f"from {source[0]} import {source[1]} as {name}" for name, source in used if source]
    return [*(f"import {module}" for module in sorted(modules)), *bare]


def _plain_grid(grid: Any) -> Any:
    """Sizes as a tuple; numbers of numpy and torch are taken by the launch."""
    return tuple(grid) if isinstance(grid, list) else grid


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function; see `JITFunction` for the options."""
    if fn is None:
        return functools.partial(jit, **options)
    if isinstance(fn, JITFunction):
        return fn
    return JITFunction(fn if isinstance(fn, FunctionType) else inspect.unwrap(fn), **options)
