"""The peers: who can be imported, how their implementations are made, and with how many threads everybody runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

from benchmarks.levels import forced_level
from benchmarks.runner import Impl, Missing

EXTRAS: Final = ("torch", "numba", "jax", "onnxruntime", "onnx")
PACKAGES: Final = ("numpy", "llvmlite", *EXTRAS, "threadpoolctl", "pypto-jit")
VARIABLE: Final = "BENCHMARK_PEERS"


def is_wanted(peer: str) -> bool:
    """Whether a peer may take part: all do, unless the environment names those that may."""
    return peer in os.environ.get(VARIABLE, peer).split(",")


def imported(name: str) -> Any | Missing:
    """A library's module, or Missing with the reason why it cannot be used."""
    if not is_wanted(name):
        return Missing(f"left out: {VARIABLE} does not name it")
    if find_spec(name) is None:
        how = f"; run: python -m pip install {name}" if name in EXTRAS else ""
        return Missing(f"{name} is not installed{how}")
    try:
        with quiet():
            return import_module(name)
    except Exception as problem:  # an installation may be broken in any way, and the row has to say how
        return Missing(f"{name} cannot be imported: {type(problem).__name__}: {problem}")


@contextmanager
def quiet() -> Iterator[None]:
    """What a library warns of while it is made ready is no business of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def torch_peers(make: Callable[[Any], Mapping[str, Impl | Missing]]) -> Mapping[str, Impl | Missing]:
    """What `make` builds with the torch module, or a note that it is not there."""
    torch = imported("torch")
    return {"torch": torch} if isinstance(torch, Missing) else make(torch)


def torch_function(function: Callable[..., Any], *arrays: Any, compiled: bool = True) -> Mapping[str, Impl | Missing]:
    """``function(torch, *tensors)`` as eager torch and as torch.compile make it."""

    def make(torch: Any) -> Mapping[str, Impl | Missing]:
        given = [tensor(torch, array) for array in arrays]

        def eager(*tensors: Any) -> Any:
            return function(torch, *tensors)

        both: dict[str, Impl | Missing] = {"torch": lambda: eager(*given)}
        return {**both, "torch.compile": compiled_torch(torch, eager, given)} if compiled else both

    return torch_peers(make)


def compiled_torch(torch: Any, function: Callable[..., Any], given: Sequence[Any]) -> Impl | Missing:
    """The function through torch.compile, compiled once for these tensors."""
    if not is_wanted("torch.compile"):
        return Missing(f"left out: {VARIABLE} does not name it")
    try:
        with quiet():
            torch.compiler.reset()
            made = torch.compile(function, dynamic=False)
            made(*given)
    except Exception as problem:  # no C++ compiler, or an operation that it cannot take: the row has to say so
        return Missing(f"torch.compile: {type(problem).__name__}: {str(problem).strip().splitlines()[0]}")
    return lambda: made(*given)


def tensor(torch: Any, array: Any) -> Any:
    """A torch tensor over an array's memory, bfloat16 too."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def numba_function(name: str, *args: Any, result: Any = None) -> Mapping[str, Impl | Missing]:
    """A function of `numba_kernels` on its arguments; gives `result`, by default the last argument."""
    numba = imported("numba")
    if isinstance(numba, Missing):
        return {"numba": numba}
    function = getattr(import_module("benchmarks.numba_kernels"), name)
    given = args[-1] if result is None else result

    def run() -> Any:
        function(*args)
        return given

    return {"numba": run}


def jax_function(function: Callable[..., Any], *arrays: Any) -> Mapping[str, Impl | Missing]:
    """``function(jax, *arrays)`` under jax.jit, on arrays of jax's own."""
    jax = imported("jax")
    if isinstance(jax, Missing):
        return {"jax": jax}
    import pypto

    if pypto.get_num_threads() < cores():
        return {"jax": Missing("jax takes all cores; it has no switch for the number of threads")}
    given = [jax.numpy.asarray(array) for array in arrays]
    made = jax.jit(lambda *args: function(jax, *args))
    return {"jax": lambda: jax.block_until_ready(made(*given))}


def jax_product(function: Callable[..., Any], *arrays: Any) -> Mapping[str, Impl | Missing]:
    """`jax_function` of a product, which a library computes that keeps to no CPU level."""
    if forced_level():
        return {"jax": Missing("its products cannot be held to a CPU level")}
    return jax_function(function, *arrays)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """How many cores others kept busy during the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def versions() -> dict[str, str]:
    """Versions of the installed packages that the figures depend on."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Everybody but jax runs on `count` threads: the BLAS of numpy, torch, numba and pypto."""
    with ExitStack() as stack:
        if find_spec("threadpoolctl") is not None:
            from threadpoolctl import threadpool_limits

            stack.enter_context(threadpool_limits(count))
        torch, numba = imported("torch"), imported("numba")
        if not isinstance(numba, Missing):  # before torch: as it starts, it sets the threads of an OpenMP that both use
            before = numba.get_num_threads()
            numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
            stack.callback(numba.set_num_threads, before)
        if not isinstance(torch, Missing):
            before = torch.get_num_threads()
            torch.set_num_threads(count)
            stack.callback(torch.set_num_threads, before)
            stack.enter_context(torch.inference_mode())
            if torch.get_num_threads() != count:
                raise RuntimeError(f"torch runs on {torch.get_num_threads()} threads, not on {count}")
        stack.enter_context(_pypto_threads(count))
        yield


@contextmanager
def _pypto_threads(count: int) -> Iterator[None]:
    import pypto

    pypto.set_num_threads(count)
    try:
        yield
    finally:
        pypto.set_num_threads(0)
