"""What a command line says of a kernel and its arguments: `FILE:KERNEL` and `name=value`."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
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


def kernel_of(text: str) -> Any:
    """The kernel behind FILE:KERNEL.

    Raises
    ------
    UsageError
        When there is no such file or kernel; the message lists the kernels that there are.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file:
        raise UsageError(f"{text!r} names no kernel; write FILE:KERNEL, as in kernels.py:softmax")
    module = module_of(Path(file))
    kernels = {key: value for key, value in vars(module).items() if is_kernel(value)}
    if name not in kernels:
        there = ", ".join(sorted(kernels)) or "none"
        raise UsageError(f"{file} has no kernel {name!r}{suggestion(name, kernels)}; its kernels are: {there}")
    return kernels[name]


def is_kernel(value: Any) -> bool:
    return hasattr(value, "launch") and hasattr(value, "compile") and not isinstance(value, type)


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
            near = suggestion(name, names)
            raise UsageError(f"the kernel has no parameter {name!r}{near}; it takes {', '.join(names)}")
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
