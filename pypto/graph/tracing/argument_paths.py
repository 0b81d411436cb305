"""Paths of arrays within a function's arguments, for named dimensions and donated arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pypto.errors.graph import WrongDims
from pypto.errors.launch import UnsupportedArgument
from pypto.graph.capture.kinds import is_array, objection
from pypto.graph.ir.dims import Dim, Size, size_of
from pypto.graph.tracing.pytree import children

Named = Dim | int | None  # what a user writes for one dimension
Shapes = dict[int, tuple[int, ...]]  # of arrays by their `id`


@dataclass(frozen=True, slots=True)
class ArrayPath:
    """The path of an array in the arguments.

    Parameters
    ----------
    path : str
        The user's text: a parameter, then keys or numbers within it.
    position : int
        The position of the parameter.
    names : tuple of str
        The parts of the path.
    """

    path: str
    position: int
    names: tuple[str, ...]

    @staticmethod
    def of(path: str, parameters: list[str]) -> ArrayPath:
        """Parse a path.

        Raises
        ------
        WrongDims
            When the parameter does not exist.
        """
        names = tuple(path.split("."))
        if names[0] not in parameters:
            raise WrongDims(what=f"`{path}`", problem=f"there is no parameter `{names[0]}`")
        return ArrayPath(path, parameters.index(names[0]), names)

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """The array in the arguments of a call."""
        parameter, *way = self.names
        tree = args[self.position] if self.position < len(args) else kwargs.get(parameter)
        for name in way:
            items = children(tree)
            tree = None if items is None else dict(items[1]).get(name)
        refused = objection(tree)
        if refused is not None:
            raise UnsupportedArgument(kernel="the function", arg=self.path, got=refused[0], way=refused[1])
        if not is_array(tree):
            raise self.wrong("there is no array of numpy")
        return cast("np.ndarray[Any, Any]", tree)

    def wrong(self, problem: str) -> WrongDims:
        return WrongDims(what=f"`{self.path}`", problem=problem)


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array argument with named dimensions, or dimensions of fixed sizes."""

    at: ArrayPath
    dims: tuple[Dim | None, ...]
    fixed: tuple[int | None, ...]

    @staticmethod
    def of(at: ArrayPath, row: Any) -> NamedArray:
        """Read the user's dimensions of an array: a `Dim`, an integer or None for each.

        Raises
        ------
        WrongDims
            When a dimension is anything else.
        """
        if isinstance(row, str) or not isinstance(row, Sequence):
            raise at.wrong(f"its dimensions are a tuple, as in `(Dim(…), None)`, and not {row!r}")
        for dim in row:
            is_size = isinstance(dim, int | np.integer) and not isinstance(dim, bool) and dim >= 0
            if not (dim is None or isinstance(dim, Dim) or is_size):
                raise at.wrong(f"a dimension is a `Dim`, a size of at least 0, or None for any size, and not {dim!r}")
        dims = tuple(dim if isinstance(dim, Dim) else None for dim in row)
        return NamedArray(at, dims, tuple(None if dim is None or isinstance(dim, Dim) else int(dim) for dim in row))

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """The array in the arguments of a call."""
        tree = self.at.find(args, kwargs)
        if tree.ndim != len(self.dims):
            raise self.at.wrong(f"it has {tree.ndim} dimensions, and names for {len(self.dims)} were given")
        if not tree.flags.c_contiguous:
            raise self.at.wrong("an array with dimensions by name is in C order: pass `np.ascontiguousarray(…)` of it")
        for dim, size in zip(self.dims, tree.shape, strict=True):
            if dim is not None and not dim.low <= size <= dim.high:
                raise self.at.wrong(f"`{dim.name}` is from {dim.low} to {dim.high}, not {size}")
        for axis, (wanted, size) in enumerate(zip(self.fixed, tree.shape, strict=True)):
            if wanted is not None and wanted != size:
                raise self.at.wrong(f"its dimension {axis} has the size {wanted}, not {size}")
        return tree

    def shape(self, array: np.ndarray[Any, Any]) -> tuple[int, ...]:
        """Return the shape of an array with its named dimensions."""
        rows = zip(self.dims, array.shape, strict=True)
        return tuple(size if dim is None else size_of(dim) for dim, size in rows)


def donated_arrays(function: Callable[..., Any], paths: Sequence[str]) -> tuple[ArrayPath, ...]:
    """Return the paths of donated arrays."""
    parameters = list(inspect.signature(function).parameters)
    return tuple(ArrayPath.of(path, parameters) for path in paths)


def named_arrays(function: Callable[..., Any], dims: Mapping[str, Sequence[Named]]) -> tuple[NamedArray, ...]:
    """Return the arrays with named dimensions.

    Raises
    ------
    WrongDims
        When a parameter does not exist, two dims share a name, or a dimension is no `Dim`, integer or None.
    """
    parameters = list(inspect.signature(function).parameters)
    rows, known = [], dict[str, Dim]()
    for path, row in dims.items():
        array = NamedArray.of(ArrayPath.of(path, parameters), row)
        for dim in array.dims:
            if dim is not None and known.setdefault(dim.name, dim) != dim:
                raise WrongDims(what=f"`{path}`", problem=f"there are two dimensions named `{dim.name}`")
        rows.append(array)
    return tuple(rows)


def places_of(dims: Sequence[Dim], named: Sequence[NamedArray]) -> tuple[tuple[int, int], ...] | None:
    """Return for each named dimension an argument and the axis with its size; None if an argument is no array."""
    rows = [(d, row.at.position, n) for row in named if len(row.at.names) == 1 for n, d in enumerate(row.dims)]
    places = {dim: (position, axis) for dim, position, axis in reversed(rows) if dim is not None}
    return tuple(places[dim] for dim in dims) if all(dim in places for dim in dims) else None


def positional(function: Callable[..., Any]) -> list[str]:
    """Return the names of positional parameters, or no names for a function without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def path_of(place: str, parameters: Sequence[str]) -> str:
    """Return the path of an array from its position in ``(args, kwargs)``.

    Examples
    --------
    >>> path_of("0.1.ids", ["weights", "batch"]), path_of("1.scale", []), path_of("0.2", ["x"])
    ('batch.ids', 'scale', 'args.2')
    """
    kind, _, path = place.partition(".")
    if kind == "1":
        return path
    position, dot, inner = path.partition(".")
    known = int(position) < len(parameters)
    return f"{parameters[int(position)] if known else f'args.{position}'}{dot}{inner}"


def renamed(size: Any, dims: Mapping[Dim, Dim]) -> Any:
    """Replace a dimension of an argument by the dim of equal name with another hint."""
    if not isinstance(size, Size):
        return size
    ((atom,),) = (atoms for atoms, _ in size.terms)
    return size_of(dims[atom]) if isinstance(atom, Dim) else size
