"""Every flag, in one table: the process's settings from the environment, and a kernel's own options."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final

from pypto.blocking import AUTO, Blocking
from pypto.errors import OptionError, PyptoWarning
from pypto.errors.launch import WrongOption

_KINDS: Final = MappingProxyType({
    bool: "True or False", int: "an integer", str: "a string", tuple: "a tuple of names of passes",
    Blocking: "a `pto.Blocking`",
})  # fmt: skip
_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def flag(default: Any, env: str, doc: str, choices: tuple[str, ...] = (), tunable: bool = False) -> Any:
    """A row of the table: default, environment name, what it does, allowed values, whether a launch may choose it."""
    return field(default=default, metadata={"env": env, "doc": doc, "choices": choices, "tunable": tunable})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the process. Each can be given in the environment under its name.

    Examples
    --------
    >>> Settings.from_env({"PYPTO_CACHE": "off"}).cache
    'off'
    """

    interpret: bool = flag(False, "PYPTO_INTERPRET", "run every kernel in the interpreter")
    checked: bool = flag(False, "PYPTO_CHECKED", "run every kernel with checks, as under `pto.checked`")
    cache: str = flag("rw", "PYPTO_CACHE", "use of the disk cache", ("rw", "ro", "off"))
    cache_dir: str = flag("", "PYPTO_CACHE_DIR", "folder of the disk cache; empty is the user's cache folder")
    num_threads: int = flag(0, "PYPTO_NUM_THREADS", "threads of a launch; 0 is what the machine allows")
    level: str = flag("", "PYPTO_LEVEL", "CPU feature level to compile for; empty is the host's own")
    device: str = flag("cpu", "PYPTO_DEVICE", "where kernels run: cpu, ascend, ascend:1, ascend-sim")
    launcher: str = flag("native", "PYPTO_LAUNCHER", "how warm launches are made", ("native", "python"))
    traceback: str = flag("short", "PYPTO_TRACEBACK", "frames above a mistake in a kernel", ("short", "full"))
    log: str = flag("", "PYPTO_LOG", "topics to log to stderr, separated by commas: specialize, passes")

    @staticmethod
    def from_env(environ: Mapping[str, str] | None = None) -> Settings:
        """Read the environment; warn of names that mean nothing.

        Raises
        ------
        OptionError
            When a value cannot be used.
        """
        environ = os.environ if environ is None else environ
        rows = {f.metadata["env"]: f for f in fields(Settings)}
        for name in sorted(environ):
            if name.startswith("PYPTO_") and name not in (*rows, OF_PYPTO_TRITON):
                text = f"{name} is no setting of pypto{suggestion(name, rows)}"
                warnings.warn(text, PyptoWarning, stacklevel=3)
        return Settings(**{row.name: read(env, environ[env], row) for env, row in rows.items() if env in environ})


def setting(name: str) -> Any:
    """One setting, as the environment has it now."""
    row = next(f for f in fields(Settings) if f.name == name)
    env = row.metadata["env"]
    return read(env, os.environ[env], row) if env in os.environ else row.default


OF_PYPTO_TRITON: Final = "PYPTO_TRITON"  # the distribution pypto-triton reads it
INTERNAL: Final = frozenset({"differentiable", "profile"})  # options that no user gives


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Options of one kernel, given to `pto.jit`. Those that change code are in the cache's key.

    Those in `TUNABLE` change how fast a kernel is, and at most how it rounds: an autotuner may try them.
    """

    interpret: bool = flag(False, "", "run this kernel in the interpreter")
    checked: bool = flag(False, "", "stop at accesses out of bounds, races, failed assertions, overflowing indices")
    num_threads: int = flag(0, "", "threads of a launch of this kernel; 0 is the process's setting", tunable=True)
    level: str = flag("", "", "CPU feature level to compile this kernel for", tunable=True)
    fast_math: bool = flag(False, "", "let elementwise arithmetic contract into FMA", tunable=True)
    max_ops: int = flag(30_000, "", "operations that this kernel may become, with its loops at compile time unrolled")
    blocking: Blocking = flag(AUTO, "", "sizes of the tiles of matrix products, as far as set", tunable=True)  # noqa: RUF009  # frozen
    disable: tuple[str, ...] = flag((), "", "passes and techniques that this kernel does without", tunable=True)
    affinity: str = flag("", "", "array whose blocks programs share that follow one another on a core", tunable=True)
    differentiable: bool = flag(False, "", "build with forms of functions that have gradients; only `pto.adjoint` does")
    profile: bool = flag(False, "", "let every statement note its time; only `pto.profile` may, which gives the memory")

    def changed(self, given: Mapping[str, Any], function: str = "pto.jit") -> KernelOptions:
        """These options with others by name; `function` is what they were given to.

        Raises
        ------
        WrongOption
            When a name is unknown or a value has the wrong type.
        """
        kinds = {f.name: type(f.default) for f in fields(KernelOptions) if f.name not in INTERNAL}
        given = {name: tuple(x) if isinstance(x, list | set | frozenset) else x for name, x in given.items()}
        for name, value in given.items():
            if name not in kinds:
                raise no_option(function, name, kinds)
            if type(value) is not kinds[name]:
                wanted = _KINDS[kinds[name]]
                problem = f"takes no {value!r} as `{name}`"
                raise WrongOption(function=function, problem=problem, way=f"`{name}` is {wanted}")
        return replace(self, **{**given, "disable": tuple(sorted({*given.get("disable", self.disable)}))})


TUNABLE: Final = tuple(row.name for row in fields(KernelOptions) if row.metadata["tunable"])


def no_option(function: str, name: str, known: Iterable[str]) -> WrongOption:
    """That a decorator has no such option, with the one that may be meant."""
    names = list(known)
    way = suggestion(name, names, "did you mean `{}`? ") + f"its options are {', '.join(names)}"
    return WrongOption(function=function, problem=f"has no option `{name}`", way=way)


def suggestion(name: str, known: Iterable[str], form: str = "; did you mean {}?") -> str:
    """A hint at the nearest known name, or nothing; names of protocols, which `hasattr` asks for, are never meant."""
    from difflib import get_close_matches

    likely = [] if name.startswith("__") else [n for n in known if not n.startswith((".", "__"))]
    close_names = get_close_matches(name, likely, 1)
    return form.format(close_names[0]) if close_names else ""


def read(env: str, text: str, row: Any) -> Any:
    """A setting's value from its text."""
    kind, choices = type(row.default), row.metadata["choices"]
    if kind is bool and text.lower() not in (*_ON, *_OFF):
        raise OptionError(f"{env}={text!r} is neither on nor off; use 1 or 0")
    if kind is int and not text.strip().isdecimal():
        raise OptionError(f"{env}={text!r} is no whole number of 0 or more")
    if choices and text not in choices:
        raise OptionError(f"{env}={text!r} is none of {', '.join(choices)}")
    return text.lower() in _ON if kind is bool else kind(text)
