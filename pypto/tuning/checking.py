"""Checks of the autotuner's arguments, which report mistakes at the decorator, before any launch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from pypto.errors import PyptoWarning
from pypto.errors.launch import WrongConfiguration, WrongDecorator
from pypto.options import TUNABLE, KernelOptions, no_option, suggestion
from pypto.runtime.signature import IGNORED
from pypto.tuning.config import Config, Space
from pypto.tuning.launching import Launchable, base_of

_ONE = "pto.Config({'BLOCK': 64})"


def check_configs(configs: Any) -> list[Config] | Space:
    """Return the configurations to try, as a list or a space.

    Raises
    ------
    WrongDecorator
        When the argument is the kernel itself: `@pto.autotune` without arguments.
    WrongConfiguration
        When an element is no `Config`.
    """
    if isinstance(configs, FunctionType) or hasattr(configs, "arg_names"):
        way = f"write `@pto.autotune([{_ONE}, …], key=[…])` above `@pto.jit`"
        raise WrongDecorator(decorator="pto.autotune", given="a kernel", wanted="configurations", way=way)
    if isinstance(configs, Space):
        return configs
    if isinstance(configs, Config):
        raise no_config("a list of configurations is wanted, not one", f"put it into a list: `[{_ONE}]`")
    if isinstance(configs, Mapping):
        way = "values of each constant make a space, `pto.Space(BLOCK=[64, 128])`; single ones a list, " + f"`[{_ONE}]`"
        raise no_config("a list of configurations is wanted, not a dict", way)
    checked = list(configs or ())
    wrong = next((c for c in checked if not isinstance(c, Config)), None)
    if wrong is not None:
        way = f"write `pto.Config({wrong!r})`" if isinstance(wrong, dict) else f"write for instance `{_ONE}`"
        raise no_config(f"a configuration is a `pto.Config`, not {wrong!r}", way)
    return checked


def no_config(problem: str, way: str) -> WrongConfiguration:
    return WrongConfiguration(kernel="pto.autotune", problem=problem, way=way)


def check_options(options: Iterable[str], function: Callable[..., Any]) -> None:
    """Refuse unknown options of `pto.autotune`.

    Raises
    ------
    WrongOption
        For the first unknown option.
    """
    fixed = ("self", "fn", "arg_names")
    known = [name for name in inspect.signature(function).parameters if name not in fixed]
    for name in options:
        if name not in known:
            raise no_option("pto.autotune", name, known)


def check_kernel(fn: Launchable, decorator: str) -> None:
    """Refuse a plain function in place of a kernel.

    Raises
    ------
    WrongDecorator
        When `@pto.jit` is missing, or stands above.
    """
    if hasattr(fn, "arg_names"):
        return
    name = getattr(fn, "__name__", type(fn).__name__)
    way = f"decorators apply from the bottom up: write `@pto.jit` below `@{decorator}`, right above the function"
    raise WrongDecorator(decorator=decorator, given=f"the function `{name}`", wanted="a kernel", way=way)


def check_names(fn: Launchable, configs: Iterable[Config], lists: Mapping[str, Any]) -> None:
    """Refuse names in configurations and in options such as `key` that are no parameters.

    Triton takes every name; for its kernels such a name of an option is a warning.

    Raises
    ------
    WrongConfiguration
        For the first of them.
    """
    names, ours, kernel = list(fn.arg_names), not is_lenient(fn), base_of(fn).__name__
    for option, given in lists.items():
        problem, way = wrong_names(option, given, names)
        if problem and ours:
            raise WrongConfiguration(kernel=kernel, problem=problem, way=way)
        if problem:
            warnings.warn(f"{kernel}: {problem}; {way}", PyptoWarning, stacklevel=4)
    for config in configs if ours else ():
        unknown = [n for n in (*config.kwargs, *config.others) if n not in (*names, *TUNABLE) and n not in IGNORED]
        if unknown:
            problem = f"{config!r} sets `{unknown[0]}`, which is no parameter"
            raise WrongConfiguration(kernel=kernel, problem=problem, way=nearest(unknown[0], names))
        check_kernel_options(config, names)


def check_kernel_options(config: Config, names: list[str]) -> None:
    """Refuse invalid values of a kernel's options.

    Raises
    ------
    WrongOption
        For the first of another type.
    WrongPass
        Where `disable` names a pass that there is not, or that code would not be right without.
    """
    options = {name: x for name, x in config.kwargs.items() if name in TUNABLE and name not in names}
    disabled = KernelOptions().changed(options, "pto.Config").disable
    if disabled:
        from pypto.compile import check_disabled

        check_disabled(disabled)


def wrong_names(option: str, given: Sequence[str], names: list[str]) -> tuple[str, str]:
    """Return the mistake in a list of names and its correction, or empty strings."""
    if isinstance(given, str):
        return f"`{option}` is a list of names, not a string", f"write `{option}=[{given!r}]`"
    unknown = [name for name in given if name not in names]
    if not unknown:
        return "", ""
    return f"`{option}` names `{unknown[0]}`, which is no parameter", nearest(unknown[0], names)


def nearest(name: str, names: list[str]) -> str:
    return suggestion(name, names, "did you mean `{}`? ") + f"its parameters are {', '.join(names)}"


def is_lenient(fn: Launchable) -> bool:
    """Whether a kernel under its decorators comes from Triton, which accepts every name."""
    while not getattr(fn, "lenient", False) and hasattr(fn, "fn"):
        fn = fn.fn
    return bool(getattr(fn, "lenient", False))
