"""Libraries of kernels that were compiled ahead of time: loaded and launched without a compiler.

Examples
--------
>>> import pypto.aot
>>> library = pypto.aot.load("libadd.so")  # doctest: +SKIP
>>> library.add[(4,)](x, y, out)  # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.aot import MissingFeatures, NotALibrary, NoVersion
from pypto.errors.launch import UndispatchedLaunch
from pypto.ir.types import DTYPE_BY_NAME
from pypto.runtime.arrays import ArrayInfo, array_info, check_writable, scalar_bits
from pypto.runtime.launch import Grid, check_grid, disjoint, overlaps
from pypto.runtime.signature import Signature
from pypto.runtime.specialization import observe
from pypto.runtime.tensors import active_mode, is_dispatched, note_written

ABI: Final = 1
_MANIFEST: Final = "pypto_manifest"
_LONGEST: Final = 1 << 24  # bytes of a manifest
_SLOTS: Final[Mapping[str, Callable[[ArrayInfo, int], int]]] = MappingProxyType({
    "ptr": lambda info, _: info.address, "shape": lambda info, dim: info.shape[dim],
    "stride": lambda info, dim: info.strides[dim],
})  # fmt: skip
_NO_CPU, _NO_MEMORY = 3, 4  # what an entry returns; a bad grid never comes to one


def load(path: str | os.PathLike[str], threads: int = 0) -> Library:
    """Load a library that ``pypto compile … --emit shared`` wrote.

    Parameters
    ----------
    path : path
        The library. Its code is run by this process, so load only what you trust.
    threads : int
        Threads of a launch; 0 is one for each CPU that the process may use.

    Returns
    -------
    Library
        The kernel is an attribute of it, and launched as ``library.add[grid](arguments…)``.

    Raises
    ------
    NotALibrary
        When the file cannot be loaded, or is none of those, or of another version of pypto's interface.

    Examples
    --------
    >>> import pypto.aot
    >>> pypto.aot.load("/nowhere/libadd.so")
    Traceback (most recent call last):
    pypto.errors.aot.NotALibrary: [E333] /nowhere/libadd.so is no library of kernels: there is no such file
      help: `pypto compile FILE:KERNEL … --emit shared` makes one
    """
    file = Path(path).absolute()
    if not file.is_file():
        raise NotALibrary(path=path, problem="there is no such file")
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise NotALibrary(path=path, problem=str(error)) from None
    try:
        start = ctypes.addressof(ctypes.c_char.in_dll(library, _MANIFEST))
        document = json.loads(ctypes.string_at(start)[:_LONGEST])
    except ValueError as error:
        raise NotALibrary(path=path, problem=str(error)) from None
    if document.get("abi") != ABI:
        raise NotALibrary(path=path, problem=f"its interface is version {document.get('abi')}, and this one's is {ABI}")
    return Library(str(path), [LoadedKernel.of(library, str(path), document, threads)])


class Library:
    """Kernels of a library, by name.

    Attributes
    ----------
    path : str
        Where it was loaded from.
    kernels : dict
        The kernels by name; each is an attribute, too, where its name can be one.
    """

    def __init__(self, path: str, kernels: Sequence[LoadedKernel]) -> None:
        self.path = path
        self.kernels = {kernel.name: kernel for kernel in kernels}

    def __getattr__(self, name: str) -> LoadedKernel:
        try:
            return self.__dict__["kernels"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('path')} has no kernel {name}") from None

    def __repr__(self) -> str:
        return f"<library {self.path}: {', '.join(self.kernels)}>"


@dataclass(frozen=True)
class LoadedVersion:
    """A version of a kernel: its entry, and what it takes, as the manifest says."""

    entry: Callable[..., int]
    parameters: tuple[Mapping[str, Any], ...]
    slots: tuple[tuple[str, str, int, str], ...]
    facts: tuple[tuple[str, str, int, int | bool | None], ...]
    noalias: bool
    levels: tuple[str, ...]

    @property
    def written(self) -> frozenset[str]:
        return frozenset(p["name"] for p in self.parameters if p["written"])

    def problem(self, values: Mapping[str, Any]) -> str:
        """Why it does not take these arguments, arrays as `ArrayInfo`; empty if it does."""
        for parameter in self.parameters:
            problem = mismatch(parameter, values[parameter["name"]])
            if problem:
                return problem
        for kind, arg, dim, expected in self.facts:
            if observe((kind, arg, dim), values) != expected:
                return unlike(kind, arg, dim, expected)
        if self.noalias and not disjoint(*overlaps(self.written, values)):
            return "an array that is written shares memory with another one"
        return ""

    def words(self, values: Mapping[str, Any]) -> Any:
        """The values of its slots."""
        words = []
        for kind, arg, dim, dtype in self.slots:
            value = values[arg]
            if kind == "scalar":
                words.append(scalar_bits(value, DTYPE_BY_NAME[dtype]))
            else:
                words.append(_SLOTS[kind](value, dim))
        return (ctypes.c_int64 * max(1, len(words)))(*words)


def mismatch(parameter: Mapping[str, Any], value: Any) -> str:
    """What is wrong with an argument for a parameter; empty for nothing."""
    name, kind = parameter["name"], parameter["kind"]
    if kind == "constant":
        same = type(value) is type(parameter["value"]) and value == parameter["value"]
        return "" if value is _UNGIVEN or same else f"`{name}` is the constant {parameter['text']}"
    dtype = DTYPE_BY_NAME[parameter["dtype"]]
    if kind == "array":
        wanted = f"`{name}` is an array of {dtype.public} with {parameter['ndim']} axes"
        fits = isinstance(value, ArrayInfo) and (value.dtype, len(value.shape)) == (dtype, parameter["ndim"])
        return "" if fits and not value.device else wanted
    is_number = isinstance(value, bool | int | float | np.generic)
    return "" if is_number and is_representable(value, dtype) else f"`{name}` is a number of type {dtype.public}"


def is_representable(value: Any, dtype: Any) -> bool:
    """Whether a number has a value in a type: a float is rounded, and nothing else is changed."""
    if dtype.is_float:
        return not isinstance(value, np.generic) or np.can_cast(value.dtype, dtype.numpy, "same_kind")
    if not isinstance(value, bool | int | np.bool_ | np.integer):
        return False
    limits = (0, 1) if dtype.is_bool else (int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max))
    return limits[0] <= int(value) <= limits[1]


def unlike(kind: str, arg: str, dim: int, expected: Any) -> str:
    if kind == "one":
        return f"`{arg}` is {'' if expected else 'not '}1"
    what = "size" if kind == "shape" else "stride, in elements,"
    return f"the {what} of axis {dim} of `{arg}` is {'neither 0 nor 1' if expected is None else expected}"


@dataclass(frozen=True)
class Ungiven:
    """Stands for a constant that a call does not give."""


_UNGIVEN: Final = Ungiven()


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel of a library, launched as ``kernel[grid](arguments…)``. Constants need not be given."""

    name: str
    path: str
    versions: tuple[LoadedVersion, ...]
    threads: int
    signature: Signature

    @staticmethod
    def of(library: Any, path: str, document: Mapping[str, Any], threads: int) -> LoadedKernel:
        """From a manifest."""
        versions = tuple(version_of(library, row) for row in document["versions"])
        first = versions[0].parameters
        names = tuple(p["name"] for p in first)
        defaults = {p["name"]: _UNGIVEN for p in first if p["kind"] == "constant"}
        signature = Signature(document["kernel"], names, tuple(n in defaults for n in names), defaults, {})
        return LoadedKernel(document["kernel"], path, versions, threads or cpus(), signature)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        def launch(*args: Any, **given: Any) -> None:
            self.launch(grid, *args, **given)

        return launch

    def launch(self, grid: Grid, /, *args: Any, **given: Any) -> None:
        """Run the kernel for every program of the grid.

        Raises
        ------
        WrongArguments, WrongGrid, UnsupportedArgument, ReadOnlyArgument
            As in a launch of the kernel itself.
        NoVersion
            When no version of the library takes these arguments.
        MissingFeatures
            When the library has no code for this CPU.
        MemoryError
            When there is no memory for the launch.
        """
        values = self.signature.bind(args, given)
        sizes = check_grid(grid, self.signature, self.with_constants(values))
        if is_dispatched(values):
            problem, way = "it is compiled, and a mode would not see it", "launch the kernel that it was compiled from"
            raise UndispatchedLaunch(kernel=self.name, mode=active_mode(), problem=problem, way=way)
        rows = zip(self.signature.names, values, strict=True)
        infos = {name: array_info(value, self.name, name) or value for name, value in rows}
        version = self.choose(infos)
        self.note(version, infos)
        block = (ctypes.c_int64 * 3)(*sizes)
        status = version.entry(block, version.words(infos), self.threads)
        if status == _NO_CPU:
            raise MissingFeatures(kernel=self.name, path=self.path, levels=", ".join(version.levels))
        if status == _NO_MEMORY:
            raise MemoryError(f"{self.name}: no memory for the launch's scratch")
        assert status == 0, status

    def with_constants(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments as a grid function sees them: constants that were not given are those of the first version."""
        return tuple(p["value"] if value is _UNGIVEN else value
            for p, value in zip(self.versions[0].parameters, values, strict=True))  # fmt: skip

    def choose(self, infos: Mapping[str, Any]) -> LoadedVersion:
        """The first version that takes these arguments."""
        problems = []
        for n, version in enumerate(self.versions):
            problem = version.problem(infos)
            if not problem:
                return version
            problems.append(f"in version {n}, {problem}")
        raise NoVersion(kernel=self.name, path=self.path, problem="; ".join(problems))

    def note(self, version: LoadedVersion, infos: Mapping[str, Any]) -> None:
        """Refuse what must not be written, and tell torch of what will be."""
        check_writable(self.name, version.written, infos)
        note_written(version.written, infos)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.signature.names)}) of {self.path}>"


def version_of(library: Any, row: Mapping[str, Any]) -> LoadedVersion:
    entry = getattr(library, row["symbol"])
    entry.restype, entry.argtypes = ctypes.c_int32, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    facts = tuple((kind, arg, dim, value) for kind, arg, dim, value in row["facts"])
    slots = tuple((kind, arg, dim, dtype) for kind, arg, dim, dtype in row["slots"])
    return LoadedVersion(entry, tuple(row["parameters"]), slots, facts, row["noalias"], tuple(row["levels"]))


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
