"""A kernel's parameters, and the binding of a call to them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any, Final, NoReturn

from pypto.errors.launch import WrongArguments
from pypto.ir.types import DType, Elem, PtrType, void, written_type
from pypto.ops.public import Promise, constexpr
from pypto.options import suggestion

# Launch parameters of GPU compilers that are accepted and mean nothing here.
IGNORED: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg", "warmup", "enable_fp_fusion", "waves_per_eu")


@dataclass(frozen=True)
class Signature:
    """Names of a kernel's parameters, which of them are constants, and what annotations promise.

    `positional` is the number of parameters before `*args`, which is the last one, or -1 where there is none. `typed`
    has the types that annotations state.
    """

    kernel: str
    names: tuple[str, ...]
    constant: tuple[bool, ...]
    defaults: Mapping[str, Any]
    declared: Mapping[str, str]
    positional: int = -1
    typed: Mapping[str, Elem] = field(default_factory=dict)

    @staticmethod
    def of(function: FunctionType) -> Signature:
        parameters = [*inspect.signature(function, follow_wrapped=False).parameters.values()]
        kernel, kinds = function.__name__, [p.kind for p in parameters]
        if inspect.Parameter.VAR_KEYWORD in kinds:
            problem = f"a kernel takes no **kwargs (`{parameters[-1].name}`)"
            raise WrongArguments(kernel=kernel, problem=problem, way="name its parameters")
        positional = kinds.index(inspect.Parameter.VAR_POSITIONAL) if inspect.Parameter.VAR_POSITIONAL in kinds else -1
        parameters += [parameters.pop(positional)] if positional >= 0 else []
        stated = {p.name: None if p.annotation is p.empty else p.annotation for p in parameters}
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        words = {name: annotation_word(annotation) for name, annotation in stated.items()}
        declared = {name: word for name, word in words.items() if word in ("dynamic", "static")}
        constant = tuple(word == "constexpr" for word in words.values())
        typed = {name: t for name, annotation in stated.items() if (t := stated_type(annotation))}
        return Signature(kernel, tuple(stated), constant, defaults, declared, positional, typed)

    def bind(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values in the order of the parameters.

        Raises
        ------
        WrongArguments
            When one is missing, unknown, given twice or too many.
        """
        names, count = self.names, len(args)
        by_name = names[count:]
        if count + len(given) == len(names) and all(map(given.__contains__, by_name)):
            return (*args, *map(given.__getitem__, by_name)) if given else args
        if count > len(names):
            self.fail(f"takes {len(names)} arguments, but {count} were given", self.call_text())
        for name in given:
            if name in names[:count]:
                self.fail(f"argument `{name}` was given twice", "give it by position or by name")
            if name not in names and name not in IGNORED:
                hint = suggestion(name, names, "did you mean `{}`?") or f"it has {', '.join(names)}"
                self.fail(f"has no parameter `{name}`", hint)
        values = {**self.defaults, **dict(zip(names, args, strict=False)), **given}
        missing = [f"`{name}`" for name in names if name not in values]
        if missing:
            self.fail(f"missing {', '.join(missing)}", self.call_text())
        return tuple(values[name] for name in names)

    def bind_star(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
        """`bind` of a kernel with `*args`, which get the positional arguments that are left."""
        return self.bind(args[: self.positional], {**given, self.names[-1]: args[self.positional :]})

    def call_text(self) -> str:
        """How a launch is written: constants by name, in brackets what has a default."""
        rows = zip(self.names, self.constant, strict=True)
        words = [f"{n}=…" if fixed else n for n, fixed in rows]
        shown = (f"[{word}]" if n in self.defaults else word for n, word in zip(self.names, words, strict=True))
        return f"launch it as {self.kernel}[grid]({', '.join(shown)})"

    def fail(self, problem: str, way: str) -> NoReturn:
        raise WrongArguments(kernel=self.kernel, problem=problem, way=way)


Leaves = tuple[tuple[Any, ...], tuple[Any, ...], tuple[bool, ...]]


def flatten(values: tuple[Any, ...], constant: tuple[bool, ...]) -> Leaves:
    """How tuples are nested in arguments, their leaves, and which of these are constants."""
    nesting: list[Any] = []
    leaves: list[Any] = []
    flags: list[bool] = []
    for value, fixed in zip(values, constant, strict=True):
        unwrapped = plain(value)
        if fixed or isinstance(value, constexpr) or not isinstance(unwrapped, tuple):
            inner: Leaves = ((), (value,), (fixed,))
        else:
            inner = flatten(unwrapped, fixed_fields(type(unwrapped)) or (False,) * len(unwrapped))
        nesting.append((type(unwrapped), *inner[0]) if isinstance(unwrapped, tuple) else None)
        leaves += inner[1]
        flags += inner[2]
    return tuple(nesting), tuple(leaves), tuple(flags)


def plain(value: Any) -> Any:
    """What an argument stands for: a constant in its wrapper, or a tuple that another object makes of itself."""
    if isinstance(value, constexpr):
        return value.value
    return value.as_argument() if hasattr(type(value), "as_argument") else value


@lru_cache(maxsize=256)
def fixed_fields(kind: type) -> tuple[bool, ...]:
    """Which fields of a named tuple its annotations make constants."""
    words = inspect.get_annotations(kind)
    return tuple(annotation_word(words.get(name)) == "constexpr" for name in getattr(kind, "_fields", ()))


def stated_type(annotation: Any) -> Elem | None:
    """The type that an annotation states. `const` alone leaves open what the pointer points at."""
    if isinstance(annotation, DType | PtrType):
        return annotation
    word = annotation_word(annotation)
    if word == "const":
        return PtrType(void, True)
    return written_type(word) if word not in ("bool", "void") else None  # `bool` is Python's


def annotation_word(annotation: Any) -> str:
    """What an annotation says, also under a module's name or in quotes: `constexpr`, `dynamic`, `static` or else."""
    if annotation is constexpr:
        return "constexpr"
    name = annotation.name if isinstance(annotation, Promise) else getattr(annotation, "__forward_arg__", annotation)
    return name.strip("'\"").rpartition(".")[2] if isinstance(name, str) else ""
