"""What a command line says of a kernel and its arguments: `FILE:KERNEL` and `name=value`."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pypto.errors import PyptoError
from pypto.ir.types import DType
from pypto.options import suggestion

_ARRAY: Final = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?::(?P<fill>\w+))?")
_FILLS: Final = ("random", "zeros", "ones", "arange")
GRAMMAR: Final = (
    "Arguments are NAME=VALUE. An array is NAME=DTYPE[SHAPE], as in x=f32[1024,64]: seeded random numbers, or with "
    ":zeros, :ones or :arange behind it those; NAME=@FILE.npy reads one. Everything else is a Python literal, as in "
    "n=1000 or BLOCK=128."
)


class UsageError(PyptoError, ValueError):
    """The command line says something that cannot be done; the message says what to write."""


def module_of(path: Path) -> Any:
    """A Python file as a module; its folder is on the path meanwhile, as if it were run."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        sys.modules[spec.name] = module  # where dataclasses and pickling look for it
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def found_in(text: str, fused: bool = False) -> tuple[Any, Any]:
    """The module and the kernel behind FILE:KERNEL; the kernel may be wrapped in what chooses its constants.

    With `fused` it may be a fused function, too.

    Raises
    ------
    UsageError
        When there is no such file or kernel; the message lists the kernels that there are.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file:
        raise UsageError(f"{text!r} names no kernel; write FILE:KERNEL, as in kernels.py:softmax")
    module = module_of(Path(file))
    kernels = {key: value for key, value in vars(module).items() if is_kernel(value) or (fused and is_fused(value))}
    if name not in kernels:
        known_names = ", ".join(sorted(kernels)) or "none"
        raise UsageError(f"{file} has no kernel {name!r}{suggestion(name, kernels)}; its kernels are: {known_names}")
    return module, kernels[name]


def kernel_of(text: str) -> Any:
    """The kernel itself behind FILE:KERNEL, to which constants are given like all other arguments."""
    return bare(found_in(text)[1])


def completed_kernel(begun: str) -> list[str]:
    """For the shell: Python files, and behind the colon the functions of one that have a decorator. Nothing is run."""
    file, colon, _ = begun.rpartition(":")
    if not colon:
        folder = Path(begun).parent
        return [f"{path}:" for path in sorted(folder.glob("*.py")) if str(path).startswith(begun)]
    try:
        body = ast.parse(Path(file).read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return []
    names = (node.name for node in body if isinstance(node, ast.FunctionDef) and node.decorator_list)
    return [f"{file}:{name}" for name in names if f"{file}:{name}".startswith(begun)]


def bare(kernel: Any, given: Collection[str] | None = None) -> Any:
    """The kernel inside of a tuner; the tuner itself, where what it chooses is not given."""
    from pypto.tuning import Autotuner

    while isinstance(kernel, Autotuner):
        if given is not None and not {n for config in kernel.configs for n in config.kwargs} <= set(given):
            break
        kernel = kernel.fn
    return kernel


def is_kernel(value: Any) -> bool:
    return hasattr(value, "launch") and hasattr(value, "arg_names") and not isinstance(value, type)


def is_fused(value: Any) -> bool:
    return getattr(value, "is_fused", False) is True


@dataclass(frozen=True, slots=True)
class Launch:
    """What a command line asks for: a kernel, arguments by name, a grid."""

    kernel: Any
    args: dict[str, Any]
    grid: Any


def launch_of(target: str, texts: Sequence[str], grid: Any, wrapped: bool = False) -> Launch:
    """A launch of a kernel, with the arguments of the command line, or those that its file makes.

    A file makes them in a function without parameters, ``NAME_args`` of a kernel NAME or ``make_args`` of all: a dict
    by parameter, which may hold the grid, too, as "grid". The kernel may be a tuner with `wrapped`, and where the
    constants that it chooses are missing.
    """
    module, kernel = found_in(target)
    name = target.rpartition(":")[2]
    maker = getattr(module, f"{name}_args", None) or getattr(module, "make_args", None)
    arguments_given = dict(maker()) if maker is not None and not texts else {}
    given = arguments_given or arguments(texts, kernel.arg_names)
    chosen = given.pop("grid", 1) if grid is None else grid
    unknown = sorted(given.keys() - set(kernel.arg_names))
    if unknown and maker is not None:
        raise UsageError(f"{maker.__name__}() gives {', '.join(unknown)}; {name} takes {', '.join(kernel.arg_names)}")
    return Launch(kernel if wrapped else bare(kernel, given), given, chosen)


def arguments(texts: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Values by parameter.

    Raises
    ------
    UsageError
        When a text is no argument of the kernel.

    Examples
    --------
    >>> arguments(["n=3", "x=f32[2]:ones"], ["x", "n"])
    {'n': 3, 'x': array([1., 1.], dtype=float32)}
    """
    given: dict[str, Any] = {}
    for seed, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text!r} is no argument. {GRAMMAR}")
        if name not in names:
            close_names = suggestion(name, names)
            raise UsageError(f"the kernel has no parameter {name!r}{close_names}; it takes {', '.join(names)}")
        given[name] = value_of(name, value.strip(), seed)
    return given


def value_of(name: str, text: str, seed: int) -> Any:
    if text.startswith("@"):
        return from_file(Path(text[1:]))
    if match := _ARRAY.fullmatch(text):
        return array_of(match, seed)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(f"{name}={text} is neither an array nor a Python literal. {GRAMMAR}") from None


def from_file(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as an array: {error}") from None


def array_of(match: re.Match[str], seed: int) -> Any:
    """An array as its text says, the same on every machine."""
    name, fill = match["dtype"], match["fill"] or "random"
    if fill not in _FILLS:
        raise UsageError(f"an array cannot be filled with {fill!r}; write one of {', '.join(_FILLS)}")
    shape = tuple(int(n) for n in match["shape"].replace(" ", "").split(",") if n)
    try:
        return filled(DType(name), shape, fill, seed)
    except ValueError as error:
        raise UsageError(f"{name}[...]: {error}") from None


def filled(dtype: DType, shape: tuple[int, ...], fill: str, seed: int) -> Any:
    kind, count = dtype.numpy, int(np.prod(shape))
    if fill != "random":
        flat = np.arange(count) if fill == "arange" else np.full(count, fill == "ones")
        return flat.astype(kind).reshape(shape)
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) if dtype.is_float else rng.integers(0, 100, shape)
    return (values > 50 if dtype.kind == "bool" else values).astype(kind)


def shown(values: Mapping[str, Any]) -> str:
    """Arguments for people."""
    texts = (f"{n}={v.dtype}{list(v.shape)}" if isinstance(v, np.ndarray) else f"{n}={v!r}" for n, v in values.items())
    return ", ".join(texts)
