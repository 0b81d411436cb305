"""Registers the backend `pypto-inductor` of torch.compile.

Inductor keeps its settings and its table of code generators for the whole process. They are changed while one graph of
this backend is compiled, and then put back: other calls of torch.compile find them as they were.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Final

from pypto.compile import session
from pypto.errors.inductor import WrongSetting
from pypto.options import KernelOptions
from pypto.torch.inductor import contract
from pypto.torch.inductor.collected import COLLECTED, Kernels

torch: Any = importlib.import_module("torch")

# Inductor's settings while it compiles for this backend, each with the reason.
SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({
    "cpu_backend": "triton",  # its own passes ask whether Triton is written for the CPU
    "compile_threads": 1,  # its pool of processes compiles for GPUs; ours is in `ahead.py`
    "coordinate_descent_tuning": False,
    "max_autotune_pointwise": False,
    "autotune_in_subproc": False,  # its processes import no kernels of ours
    "benchmark_fusion": False,  # it measures with the events of a GPU
    "benchmark_epilogue_fusion": False,
    "benchmark_combo_kernel": False,
    "benchmark_kernel": False,
    "triton.autotune_at_compile_time": False,
    "triton.cudagraphs": False,
    "triton.cooperative_reductions": False,  # programs of a launch cannot wait for each other
    "triton.mix_order_reduction": False,
    "triton.multi_kernel": 0,
    "bundle_triton_into_fx_graph_cache": False,  # pypto's own cache has the compiled kernels
})  # fmt: skip


_CHOSEN: Final = "blocks of kernels without a product are chosen by their sizes, and none is measured"
# Why a setting has one value alone, where that is not plain.
REASONS: Final[Mapping[str, str]] = MappingProxyType({
    "cpu_backend": "kernels are written in Triton",
    "coordinate_descent_tuning": _CHOSEN,
    "max_autotune_pointwise": _CHOSEN,
})  # fmt: skip


# Settings that can be chosen: what suits a CPU.
DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({
    "triton.prefer_nd_tiling": True,  # an index for each dimension: none is divided in a kernel
    "triton.max_tiles": 3,
    "triton.tile_reductions": True,
    "cpp.use_two_step_variance_threshold": 1 << 20,  # a row is read twice; one pass would divide at each element
})  # fmt: skip


NAME: Final = "pypto-inductor"
_BACKENDS: Final = "max_autotune_gemm_backends"
_TUNED: Final[Mapping[str, Any]] = MappingProxyType({"max_autotune": True})
MODES: Final[Mapping[Any, Mapping[str, Any]]] = MappingProxyType({
    None: {}, "default": {}, "max-autotune": _TUNED, "max-autotune-no-cudagraphs": _TUNED,
})  # fmt: skip


def pypto_inductor(graph: Any, inputs: Any, *, options: Mapping[str, Any] | None = None, mode: Any = None) -> Any:
    """Compiles a graph of torch.compile: Inductor schedules and fuses, pypto compiles its kernels.

    Parameters
    ----------
    graph : torch.fx.GraphModule
    inputs : list of torch.Tensor
    options : dict, optional
        Settings of Inductor, as torch.compile takes them for its own backend. Those of `SETTINGS` cannot be chosen,
        but for `compile_threads`: processes that compile, with this one. Kernels are then compiled ahead by the others.
    mode : str, optional
        "default", or "max-autotune": products and convolutions are measured as kernels of ours and as functions of
        ATen, and the quickest is taken. "reduce-overhead" is for GPUs.

    Examples
    --------
    >>> import torch
    >>> def scaled(x):
    ...     return torch.relu(x) * 2
    >>> fast = torch.compile(scaled, backend="pypto-inductor")
    >>> fast(torch.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    """
    given, kernels = {name.replace("-", "_"): value for name, value in (options or {}).items()}, Kernels()
    threads = given.pop("compile_threads", None)
    chosen = settings(given, mode)
    contract.checked(tunes(chosen))
    from torch._inductor import compile_fx

    context = functools.partial(compiling, chosen, kernels, threads)
    with context():
        run: Any = compile_fx.compile_fx(graph, inputs, inner_compile=during(context, compile_fx.compile_fx_inner))
    return kernels.of(run)


def settings(options: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Returns Inductor's settings for one compilation."""
    if mode not in MODES:
        raise WrongSetting(backend=NAME, setting=f"mode={mode!r}", problem="this mode of torch.compile is for GPUs")
    options = {**MODES[mode], **options}
    for name, value in options.items():
        if SETTINGS.get(name, value) != value:
            problem = REASONS.get(name, f"it works with {name}={SETTINGS[name]!r} alone")
            raise WrongSetting(backend=NAME, setting=f"{name}={value!r}", problem=problem)
    return {**DEFAULTS, **options, _BACKENDS: backends(options.get(_BACKENDS)), **SETTINGS}


def backends(given: str | None) -> str:
    """Returns who may compute products under `max_autotune`: by default ATen and Triton, and not Inductor's C++."""
    names = "ATEN,TRITON" if given is None else given
    if wrong := {name.strip().upper() for name in names.split(",")} - {"ATEN", "TRITON"}:
        raise WrongSetting(
            backend=NAME, setting=f"{_BACKENDS}={given!r}", problem=f"{wrong.pop()} is not compiled by pypto"
        )
    return names


def tunes(chosen: Mapping[str, Any]) -> bool:
    """Says whether templates are candidates, and so have to be measured."""
    return bool(chosen.get("max_autotune") or chosen.get("max_autotune_gemm"))


def during(context: Callable[[], AbstractContextManager[None]], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs in a context, because a backward pass is compiled when it is first needed."""

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        with context():
            return function(*args, **given)

    return run


@contextmanager
def compiling(chosen: Mapping[str, Any], kernels: Kernels, threads: int | None = None) -> Iterator[None]:
    """Sets Inductor's settings and CPU code generator while a graph is compiled."""
    from torch._higher_order_ops import triton_kernel_wrap
    from torch._inductor import config
    from torch._inductor.codegen import common

    from pypto.torch.inductor import ahead, codegen, user_kernels

    common.init_backend_registration()
    tag = f"{torch.compiler.config.cache_key_tag.removesuffix(version())}{version()}"
    table, before = common.device_codegens, common.device_codegens["cpu"]
    token = COLLECTED.set(kernels)
    workers = ahead.workers(config.compile_threads if threads is None else threads)
    patches = (torch.compiler.config.patch(cache_key_tag=tag), user_kernels.clones(triton_kernel_wrap))
    with workers, config.patch(dict(chosen)), patches[0], patches[1], templates(chosen):
        table["cpu"] = common.DeviceCodegen(codegen.Scheduling, codegen.Wrapper, InCpp, None)
        try:
            yield
        finally:
            table["cpu"] = before
            COLLECTED.reset(token)


class InCpp:
    """The factory of the writer of C++ calls, which imports its module at the first use."""

    supports_caching = True

    @staticmethod
    def create(*given: Any) -> Any:
        from pypto.torch.inductor import cpp

        return cpp.CppWrapper.create(*given)


def templates(chosen: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Returns a context in which templates are written by pypto, where candidates are measured."""
    if not tunes(chosen):
        return nullcontext()
    from pypto.torch.inductor import templates

    return templates.ours()


@functools.cache
def version() -> str:
    """Returns a name of the code generator and the target, so that torch's cache recompiles graphs of another version.

    Graphs in C++ contain machine code, so the CPU and the level that is set are part of the name.
    """
    import hashlib
    from pathlib import Path

    texts = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    target = repr(session().backend(KernelOptions()).key_parts()).encode()
    return f" pypto-inductor-{hashlib.sha256(texts + target).hexdigest()[:16]}"
