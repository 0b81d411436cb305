"""What can be launched over a grid, and wrapped by what chooses its constants."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pypto.runtime.tensors import is_traced

Launchable = Any  # a kernel, or what wraps one: has `run(*args, grid=…, **kwargs)` and `arg_names`


class KernelInterface:
    """Launched as ``kernel[grid](arguments…)``, which is ``kernel.run(arguments…, grid=grid)``."""

    run: Callable[..., Any]

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        if is_traced():
            from pypto.torch.graph import outside_subscript

            return outside_subscript(self, grid)
        return functools.partial(self.run, grid=grid, warmup=False)

    def launch(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`kernel[grid](…)`."""
        return self.run(*args, grid=grid, warmup=False, **kwargs)


def base_of(fn: Launchable) -> Any:
    """The Python function at the bottom of a kernel and its wrappers."""
    while hasattr(fn, "fn"):
        fn = fn.fn
    return fn


def call_by_name(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a launch by name."""
    return {**dict(zip(names, args, strict=False)), **kwargs}
