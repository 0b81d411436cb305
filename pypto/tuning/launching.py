"""The interface of launchable kernels, which autotuners and heuristics wrap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from pypto.arguments import Boundary
from pypto.errors.launch import NotLaunched
from pypto.loc import Loc
from pypto.runtime.pickling import Pickled
from pypto.runtime.tensors import is_traced

Launchable = Any  # a kernel, or what wraps one: has `run(*args, grid=…, **kwargs)` and `arg_names`


class KernelInterface(Pickled):
    """A kernel that ``kernel[grid](arguments…)`` launches, by ``kernel.run(arguments…, grid=grid)``."""

    run: Callable[..., Any]
    lenient = False  # names that are no parameters are an error

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        if is_traced():
            from pypto.torch.graph.tracing import outside_subscript

            return outside_subscript(self, grid)
        return functools.partial(self.run, grid=grid, warmup=False)

    @Boundary()
    def launch(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`kernel[grid](…)`."""
        return self.run(*args, grid=grid, warmup=False, **kwargs)

    def named_function(self) -> Any:
        return base_of(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = base_of(self)
        with Boundary(lambda _: Loc.of_code(function.__code__)):
            raise NotLaunched(kernel=function.__name__)


def base_of(fn: Launchable) -> Any:
    """Return the Python function below a kernel's wrappers."""
    while hasattr(fn, "fn"):
        fn = fn.fn
    return fn


def let_vary(fn: Launchable, names: Iterable[str]) -> None:
    """Tell the kernel which constants its wrappers choose, so that many versions cause no warning."""
    while not hasattr(type(fn), "specializations") and hasattr(fn, "fn"):
        fn = fn.fn
    if hasattr(fn, "tuned"):
        fn.tuned = fn.tuned | frozenset(names)


def call_by_name(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a launch by name."""
    return {**dict(zip(names, args, strict=False)), **kwargs}
