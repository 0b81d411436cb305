"""Every flag, in one table: the process's settings from the environment, and a kernel's own options."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pypto.errors import OptionError, PyptoWarning

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def flag(default: Any, env: str, doc: str, choices: tuple[str, ...] = ()) -> Any:
    """A row of the table: default, environment name, what it does, allowed values."""
    return field(default=default, metadata={"env": env, "doc": doc, "choices": choices})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the process. Each can be given in the environment under its name.

    Examples
    --------
    >>> Settings.from_env({"PYPTO_CACHE": "off"}).cache
    'off'
    """

    interpret: bool = flag(False, "PYPTO_INTERPRET", "run every kernel in the interpreter")
    cache: str = flag("rw", "PYPTO_CACHE", "use of the disk cache", ("rw", "ro", "off"))
    cache_dir: str = flag("", "PYPTO_CACHE_DIR", "folder of the disk cache; empty is the user's cache folder")
    num_threads: int = flag(0, "PYPTO_NUM_THREADS", "threads of a launch; 0 is what the machine allows")
    level: str = flag("", "PYPTO_LEVEL", "CPU feature level to compile for; empty is the host's own")
    log: str = flag("", "PYPTO_LOG", "topics to log to stderr, separated by commas: specialize")

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
            if name.startswith("PYPTO_") and name not in rows:
                warnings.warn(f"{name} is no setting of pypto{suggestion(name, list(rows))}", PyptoWarning, stacklevel=3)
        return Settings(**{f.name: read(env, environ[env], f.type, f.metadata["choices"]) for env, f in rows.items() if env in environ})


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Options of one kernel, given to `pto.jit`. Those that change code are in the cache's key."""

    interpret: bool = flag(False, "", "run this kernel in the interpreter")
    num_threads: int = flag(0, "", "threads of a launch of this kernel; 0 is the process's setting")
    level: str = flag("", "", "CPU feature level to compile this kernel for")
    fast_math: bool = flag(False, "", "let elementwise arithmetic contract into FMA")

    @staticmethod
    def of(given: Mapping[str, Any]) -> KernelOptions:
        """Options by name.

        Raises
        ------
        OptionError
            When a name is unknown or a value has the wrong type.
        """
        rows = {f.name: f for f in fields(KernelOptions)}
        for name, value in given.items():
            if name not in rows:
                raise OptionError(f"pto.jit has no option `{name}`{suggestion(name, list(rows))}; its options are {', '.join(rows)}")
            kind = type(rows[name].default)
            if type(value) is not kind:
                raise OptionError(f"option `{name}` of pto.jit takes a {kind.__name__}, not {value!r}")
        return KernelOptions(**given)


def suggestion(name: str, known: list[str]) -> str:
    """A hint at the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def read(env: str, text: str, kind: Any, choices: tuple[str, ...]) -> Any:
    """A setting's value from its text."""
    kind = kind if isinstance(kind, str) else kind.__name__
    if kind == "bool":
        if text.lower() not in (*_TRUE, *_FALSE):
            raise OptionError(f"{env}={text!r} is neither on nor off; use 1 or 0")
        return text.lower() in _TRUE
    if kind == "int":
        if not text.strip().isdecimal():
            raise OptionError(f"{env}={text!r} is no whole number of 0 or more")
        return int(text)
    if choices and text not in choices:
        raise OptionError(f"{env}={text!r} is none of {', '.join(choices)}")
    return text
