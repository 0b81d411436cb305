"""Heuristics: rules that compute a kernel's constants from the other arguments at launch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pypto.arguments import Boundary
from pypto.errors.launch import WrongConfiguration
from pypto.loc import Caller, Loc
from pypto.ops.public import constexpr
from pypto.runtime.launch import Named, NoSuchArgument
from pypto.runtime.tensors import is_traced
from pypto.tuning.checking import check_kernel
from pypto.tuning.launching import KernelInterface, Launchable, base_of, call_by_name, let_vary

Rule = Callable[[dict[str, Any]], Any]


class Heuristics(KernelInterface):
    """A kernel whose parameters in `values` are computed from the arguments of the launch, one after the other.

    Each rule sees all arguments, defaults too, and what the rules before it gave. All else is as the kernel has it.
    """

    def __init__(self, fn: Launchable, arg_names: list[str], values: Mapping[str, Rule]) -> None:
        self.fn, self.arg_names, self.values = fn, arg_names, values
        self.__name__, self.__doc__ = getattr(fn, "__name__", "?"), fn.__doc__
        let_vary(fn, values)

    def __getattr__(self, name: str) -> Any:
        if name == "fn":  # not made yet
            raise AttributeError(name)
        return getattr(self.fn, name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self.traced, grid) if is_traced() else super().__getitem__(grid)

    def traced(self, grid: Any, *args: Any, **kwargs: Any) -> Any:
        """Launch in a function that torch.compile traces: the rules run at that time, on what is known then."""
        given = {**dict(zip(self.arg_names, args)), **kwargs}  # noqa: B905  # as Dynamo follows it
        for name, rule in self.values.items():
            kwargs[name] = given[name] = rule(given)
        return self.fn[grid](*args, **kwargs)

    @Boundary()
    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn.run(*args, **self.completed(args, kwargs))

    def completed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return a launch's arguments by name, with the results of the rules.

        Raises
        ------
        WrongConfiguration
            When a rule reads a name that is no parameter.
        """
        kwargs = dict(kwargs)
        defaults = getattr(getattr(self.fn, "signature", None), "defaults", {})
        values = {**defaults, **call_by_name(self.arg_names, args, kwargs)}
        given = Named((name, x.value if isinstance(x, constexpr) else x) for name, x in values.items())
        for name, rule in self.values.items():
            try:
                kwargs[name] = given[name] = rule(given)
            except NoSuchArgument as error:
                place, kernel = Loc.of_code(base_of(self).__code__), base_of(self).__name__
                problem = f"the rule of `{name}` asks for {error.name!r}, which is no parameter"
                raise WrongConfiguration(place, kernel=kernel, problem=problem, way=error.way) from None
        return kwargs

    def warmup(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **{"grid": 1, **kwargs, "warmup": True})


def heuristics(values: Mapping[str, Rule]) -> Callable[[Launchable], Heuristics]:
    """Decorator of a kernel that computes constants from the arguments of a launch.

    Parameters
    ----------
    values : dict
        From the name of a parameter to a function of the arguments by name.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> from pypto.tuning import heuristics
    >>> @heuristics({"BLOCK": lambda args: len(args["x"])})
    ... @pto.jit
    ... def fill(x, value, BLOCK: pto.constexpr):
    ...     pto.store(x + pto.arange(0, BLOCK), value)
    >>> x = np.zeros(3, np.int32)
    >>> fill[(1,)](x, 7)
    >>> x
    array([7, 7, 7], dtype=int32)
    """
    caller = Caller.of(sys._getframe(1))

    def decorate(fn: Launchable) -> Heuristics:
        with Boundary(caller.loc):
            check_kernel(fn, "pto.heuristics")
        return Heuristics(fn, fn.arg_names, values)

    return decorate
