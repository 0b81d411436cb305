"""A kernel's parameters, and the binding of a call to them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pypto.errors.launch import WrongArguments
from pypto.ops.public import Promise, constexpr

_EMPTY: Final = inspect.Parameter.empty
# Launch parameters of GPU compilers that are accepted and mean nothing here.
IGNORED: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg", "warmup", "enable_fp_fusion", "waves_per_eu")


@dataclass(frozen=True)
class Signature:
    """Names of a kernel's parameters, which of them are constants, and what annotations promise."""

    kernel: str
    names: tuple[str, ...]
    constant: tuple[bool, ...]
    defaults: Mapping[str, Any]
    declared: Mapping[str, str]

    @staticmethod
    def of(function: Callable[..., Any]) -> Signature:
        parameters = inspect.signature(function).parameters.values()
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise WrongArguments(kernel=function.__name__, problem=f"a kernel takes no *args or **kwargs (`{p.name}`); name its parameters")
        return Signature(
            function.__name__, tuple(p.name for p in parameters), tuple(is_constant(p.annotation) for p in parameters),
            {p.name: p.default for p in parameters if p.default is not _EMPTY},
            {p.name: promise for p in parameters if (promise := promise_of(p.annotation))})

    def bind(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values in the order of the parameters.

        Raises
        ------
        WrongArguments
            When one is missing, unknown, given twice or too many.
        """
        if not given and len(args) == len(self.names):
            return args
        if len(args) > len(self.names):
            self.fail(f"takes {len(self.names)} arguments, but {len(args)} were given")
        values = dict(zip(self.names, args, strict=False))
        for name, value in given.items():
            if name in values:
                self.fail(f"argument `{name}` was given twice")
            if name not in self.names:
                if name in IGNORED:
                    continue
                near = difflib.get_close_matches(name, self.names, 1)
                self.fail(f"has no parameter `{name}`" + (f"; did you mean `{near[0]}`?" if near else f"; it has {', '.join(self.names)}"))
            values[name] = value
        missing = [n for n in self.names if n not in values and n not in self.defaults]
        if missing:
            self.fail("missing " + ", ".join(f"`{n}`" for n in missing))
        return tuple(values[n] if n in values else self.defaults[n] for n in self.names)

    def fail(self, problem: str) -> None:
        raise WrongArguments(kernel=self.kernel, problem=problem)


def is_constant(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == "constexpr"
    return annotation is constexpr


def promise_of(annotation: Any) -> str:
    """``dynamic`` or ``static``, where an annotation says so."""
    name = annotation.name if isinstance(annotation, Promise) else annotation if isinstance(annotation, str) else ""
    name = name.rpartition(".")[2]
    return name if name in ("dynamic", "static") else ""
