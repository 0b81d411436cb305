"""Configurations of tuned constants, and spaces of configurations."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Final

from pypto.arguments import Boundary
from pypto.errors.launch import WrongConfiguration
from pypto.loc import Caller
from pypto.options import TUNABLE

HINTS: Final = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


class Config:
    """A candidate of tuning: values for some of a kernel's constants.

    Parameters
    ----------
    kwargs : dict
        The constants by name.
    num_warps, num_stages, num_ctas, maxnreg, ir_override and others
        What GPUs are told; kept, passed on to the kernel, and without a meaning on a CPU.
    pre_hook : function, optional
        Called with the arguments by name before every launch with this configuration.
    target : str
        Where it is to be tried, as in ``"cpu"``, ``"ascend"`` or ``"ascend910b2"``; everywhere without.
    affinity, blocking, disable, fast_math, level and num_threads
        Options of the kernel, as `pto.jit` takes them, for this configuration. They can also stand among the constants,
        and in a `Space`. A name that is a parameter of the kernel is that parameter.

    Examples
    --------
    >>> import pypto as pto
    >>> pto.Config({"BLOCK": 256})
    Config(BLOCK=256)
    >>> pto.Config({"BLOCK": 256}, disable=["prefetch"])
    Config(BLOCK=256, disable=('prefetch',))
    """

    def __init__(
        self,
        kwargs: dict[str, Any] | None = None,
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[..., Any] | None = None,
        ir_override: str | None = None,
        target: str = "",
        **others: Any,
    ) -> None:
        if not isinstance(kwargs, dict):
            with Boundary(Caller.of(sys._getframe(1)).loc):
                raise no_constants(kwargs, others)
        options = {name: others.pop(name) for name in TUNABLE if name in others}
        self.kwargs = {name: as_constant(value) for name, value in (*kwargs.items(), *options.items())}
        self.pre_hook, self.others = pre_hook, others
        self.num_warps, self.num_stages, self.num_ctas = num_warps, num_stages, num_ctas
        self.maxnreg, self.ir_override, self.target = maxnreg, ir_override, target

    def all_kwargs(self) -> dict[str, Any]:
        """Return the keywords with which the kernel is launched."""
        hints = {name: getattr(self, name) for name in HINTS if getattr(self, name) is not None}
        return {**self.kwargs, **hints, **self.others}

    def __str__(self) -> str:
        names = ("num_warps", "num_ctas", "num_stages", "maxnreg")
        return ", ".join(f"{k}: {v}" for k, v in (*self.kwargs.items(), *((n, getattr(self, n)) for n in names)))

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{k}={v!r}' for k, v in self.kwargs.items())})"

    def fits(self, target: str) -> bool:
        """Whether this configuration applies to a target."""
        return target.startswith(self.target)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (*sorted(self.all_kwargs().items()), self.pre_hook)


class Space:
    """A search space: all combinations of values for some of a kernel's constants, searched within a time limit.

    Parameters
    ----------
    where : function, optional
        Takes the constants as keywords, and says whether a combination is to be tried.
    **values : sequence
        The values of each constant, or option of the kernel: ``disable=[(), ("prefetch",)]``.

    Examples
    --------
    >>> import pypto as pto
    >>> space = pto.Space(BM=[32, 64, 128], BN=[64, 128], where=lambda BM, BN: BM <= BN)
    >>> len(list(space)), next(iter(space))
    (5, Config(BM=32, BN=64))
    """

    def __init__(self, where: Callable[..., bool] | None = None, **values: Iterable[Any]) -> None:
        self.where = where
        self.values = {name: tuple(of) for name, of in values.items()}
        empty = [name for name, of in self.values.items() if not of]
        if empty or not values:
            raise ValueError(f"a space needs values for every constant{': ' + ', '.join(empty) if empty else ''}")

    def __iter__(self) -> Iterator[Config]:
        for point in itertools.product(*self.values.values()):
            chosen = dict(zip(self.values, point, strict=True))
            if self.where is None or self.where(**chosen):
                yield Config(chosen)

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={list(of)}' for name, of in self.values.items())})"


def as_constant(value: Any) -> Any:
    """Return a hashable form of a value: a list, such as names of passes, becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value


def constants(config: Config, parameters: Container[str] = ()) -> dict[str, Any]:
    """Return a configuration's constants, and those hints for GPUs that are parameters of the kernel."""
    more = {**config.all_kwargs(), **config.kwargs}
    return {name: value for name, value in sorted(more.items()) if name in config.kwargs or name in parameters}


def no_constants(given: Any, others: dict[str, Any]) -> WrongConfiguration:
    """Return the error for constants that are no dict."""
    shown = others if given is None else {"BLOCK": 64}
    problem = "the constants are a dict" + ("" if given is None else f", not {given!r}")
    return WrongConfiguration(kernel="pto.Config", problem=problem, way=f"write `pto.Config({shown!r})`")


def name_of(config: Config, parameters: Container[str] = ()) -> str:
    """Return the name of a configuration, which is equal in every process."""
    return ", ".join(f"{name}={value!r}" for name, value in constants(config, parameters).items())


def launch_of(config: Config, parameters: Container[str]) -> Any:
    """Return a key that configurations with equal launches share; hints for GPUs do not count."""
    return name_of(config, parameters), config.pre_hook


def labels(configs: Sequence[Config], parameters: Container[str] = ()) -> dict[int, str]:
    """Return names of configurations by their `id`: the constants, with hints for GPUs if they distinguish some."""
    names = {id(c): name_of(c, parameters) for c in configs}
    doubles = {name for name, count in Counter(names.values()).items() if count > 1}
    printed = {name: {repr(c.all_kwargs().get(name)) for c in configs} for name in (*HINTS, *sorted(others(configs)))}
    vary = [name for name, values in printed.items() if len(values) > 1 and name not in parameters]
    for c in configs:
        if names[id(c)] in doubles:
            hints = (f"{name}={c.all_kwargs().get(name)!r}" for name in vary)
            names[id(c)] = ", ".join(part for part in (names[id(c)], *hints) if part)
    return names


def others(configs: Iterable[Config]) -> set[str]:
    return {name for c in configs for name in c.others}
