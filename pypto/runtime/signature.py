"""A kernel's parameters, and the binding of a call to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, NoReturn

from pypto.errors.launch import WrongArguments
from pypto.ops.public import Promise, constexpr
from pypto.options import suggestion

_STARS: Final = 0x04 | 0x08  # flags of code with *args or **kwargs
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
    def of(function: FunctionType) -> Signature:
        code, kernel = function.__code__, function.__name__
        count = code.co_argcount + code.co_kwonlyargcount
        names, positional = code.co_varnames[:count], function.__defaults__ or ()
        if code.co_flags & _STARS:
            problem = f"a kernel takes no *args or **kwargs (`{code.co_varnames[count]}`); name its parameters"
            raise WrongArguments(kernel=kernel, problem=problem)
        optional = names[code.co_argcount - len(positional) : code.co_argcount]
        defaults = {**dict(zip(optional, positional, strict=True)), **(function.__kwdefaults__ or {})}
        words = {name: annotation_word(function.__annotations__.get(name)) for name in names}
        declared = {name: word for name, word in words.items() if word in ("dynamic", "static")}
        return Signature(kernel, names, tuple(words[n] == "constexpr" for n in names), defaults, declared)

    def bind(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values in the order of the parameters.

        Raises
        ------
        WrongArguments
            When one is missing, unknown, given twice or too many.
        """
        names, count = self.names, len(args)
        rest = names[count:]
        if count + len(given) == len(names) and all(map(given.__contains__, rest)):
            return (*args, *map(given.__getitem__, rest)) if given else args
        if count > len(names):
            self.fail(f"takes {len(names)} arguments, but {count} were given")
        for name in given:
            if name in names[:count]:
                self.fail(f"argument `{name}` was given twice")
            if name not in names and name not in IGNORED:
                near = suggestion(name, names, "; did you mean `{}`?") or f"; it has {', '.join(names)}"
                self.fail(f"has no parameter `{name}`{near}")
        values = {**self.defaults, **dict(zip(names, args, strict=False)), **given}
        missing = [f"`{name}`" for name in names if name not in values]
        if missing:
            self.fail(f"missing {', '.join(missing)}")
        return tuple(values[name] for name in names)

    def fail(self, problem: str) -> NoReturn:
        raise WrongArguments(kernel=self.kernel, problem=problem)


def annotation_word(annotation: Any) -> str:
    """What an annotation says, also under a module's name or in quotes: `constexpr`, `dynamic`, `static` or else."""
    if annotation is constexpr:
        return "constexpr"
    name = annotation.name if isinstance(annotation, Promise) else annotation
    return name.strip("'\"").rpartition(".")[2] if isinstance(name, str) else ""
