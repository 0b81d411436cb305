"""Named dimensions of arguments, and the paths of arrays in them, for named dimensions and donated arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pypto.errors.graph import WrongDims
from pypto.errors.launch import UnsupportedArgument
from pypto.graph.capture.guards import is_array, objection
from pypto.graph.ir.dims import Dim, Size, Sizes, size_of
from pypto.graph.tracing.arguments import Shapes, check_place, children

Named = Dim | int | None  # what a user writes for one dimension
Dims = Mapping[str, Sequence[Named] | Dim]  # what a user writes for all arguments


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

    def leaf(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What the arguments of a call have there."""
        parameter, *way = self.names
        tree = args[self.position] if self.position < len(args) else kwargs.get(parameter)
        for name in way:
            items = children(tree)
            parts = {} if items is None else dict(items[1])
            if name not in parts:
                raise self.wrong("there is no array of numpy")
            tree = parts[name]
        check_place(tree)
        return tree

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """The array in the arguments of a call."""
        tree = self.leaf(args, kwargs)
        refused = objection(tree)
        if refused is not None:
            raise UnsupportedArgument(kernel="the function", arg=self.path, got=refused[0], way=refused[1])
        if not is_array(tree):
            raise self.wrong("there is no array of numpy")
        return cast("np.ndarray[Any, Any]", tree)

    def check_ranges(self, dims: Sequence[Dim | None], sizes: Sequence[int]) -> None:
        """Refuse sizes outside of the ranges of their dimensions."""
        for dim, size in zip(dims, sizes, strict=True):
            if dim is not None and not dim.low <= size <= dim.high:
                raise self.wrong(f"`{dim.name}` is from {dim.low} to {dim.high}, not {size}")

    def wrong(self, problem: str) -> WrongDims:
        return WrongDims(what=f"`{self.path}`", problem=problem)


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array argument with named dimensions, or dimensions of fixed sizes."""

    at: ArrayPath
    dims: tuple[Dim | None, ...]
    fixed: tuple[int | None, ...]

    @staticmethod
    def of(at: ArrayPath, row: Any) -> NamedArray | NamedNumber:
        """Read the user's dimensions of an array: a `Dim`, an integer or None for each; a `Dim` alone is of a number.

        Raises
        ------
        WrongDims
            When a dimension is anything else.
        """
        if isinstance(row, Dim):
            return NamedNumber(at, (row,))
        if isinstance(row, str) or not isinstance(row, Sequence):
            raise at.wrong(f"its dimensions are a tuple, as in `(Dim(…), None)`, and not {row!r}")
        for dim in row:
            is_size = isinstance(dim, int | np.integer) and not isinstance(dim, bool) and dim >= 0
            if not (dim is None or isinstance(dim, Dim) or is_size):
                raise at.wrong(f"a dimension is a `Dim`, a size of at least 0, or None for any size, and not {dim!r}")
        dims = tuple(dim if isinstance(dim, Dim) else None for dim in row)
        return NamedArray(at, dims, tuple(None if dim is None or isinstance(dim, Dim) else int(dim) for dim in row))

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int | None, tuple[int, ...]]:
        """Return the `id` of the array in the arguments of a call, and its shape; None where the argument is None."""
        if self.at.leaf(args, kwargs) is None:
            return None, ()
        tree = self.at.find(args, kwargs)
        if tree.ndim != len(self.dims):
            raise self.at.wrong(f"it has {tree.ndim} dimensions, and names for {len(self.dims)} were given")
        if not tree.flags.c_contiguous:
            way = "pass `np.ascontiguousarray(…)` of it, or `.contiguous()` of a tensor"
            raise self.at.wrong(f"an array with dimensions by name is in C order: {way}")
        self.at.check_ranges(self.dims, tree.shape)
        for axis, (wanted, size) in enumerate(zip(self.fixed, tree.shape, strict=True)):
            if wanted is not None and wanted != size:
                raise self.at.wrong(f"its dimension {axis} has the size {wanted}, not {size}")
        return id(tree), tree.shape


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """An integer argument that is a size, such as the bound of a slice: a plan serves all its values."""

    at: ArrayPath
    dims: tuple[Dim]

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, tuple[int]]:
        """Return the path of the number, and its value in a call."""
        number = self.at.leaf(args, kwargs)
        if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer):
            raise self.at.wrong(f"a dimension by name alone is of an integer, and there is {number!r}")
        self.at.check_ranges(self.dims, (int(number),))
        return self.at.path, (int(number),)


def donated_arrays(function: Callable[..., Any], paths: Sequence[str]) -> tuple[ArrayPath, ...]:
    """Return the paths of donated arrays."""
    parameters = list(inspect.signature(function).parameters)
    return tuple(ArrayPath.of(path, parameters) for path in paths)


def named_arrays(function: Callable[..., Any], dims: Dims) -> tuple[NamedArray | NamedNumber, ...]:
    """Return the arrays with named dimensions, and the integers that are sizes.

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


def shapes_of_call(
    named: Sequence[NamedArray | NamedNumber], dims: Sequence[Dim], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Shapes, Sizes]:
    """Return shapes with named dimensions, by the `id` of the array or the path of the number, and their sizes.

    Raises
    ------
    WrongDims
        When arguments do not fit their dimensions.
    """
    shapes: Shapes = {}
    sizes: dict[str, int] = {}
    for row in named:
        key, shape = row.find(args, kwargs)
        if key is None:
            continue
        for dim, size in zip(row.dims, shape, strict=True):
            if dim is not None and sizes.setdefault(dim.name, size) != size:
                raise row.at.wrong(f"`{dim.name}` is {sizes[dim.name]} in one array and {size} in another")
        shapes[key] = tuple(n if dim is None else size_of(dim) for dim, n in zip(row.dims, shape, strict=True))
    return shapes, {dim.name: sizes.get(dim.name, dim.hint) for dim in dims}


def places_of(
    dims: Sequence[Dim], named: Sequence[NamedArray | NamedNumber], arrays: Sequence[Any], args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[tuple[int, int | None], ...] | None:  # fmt: skip
    """Return for each named dimension the number of an array of the call, and the axis of this size.

    Where an argument is the size itself, there is its position, and None. The result is None if the size is an integer
    in a container.
    """
    numbers = {id(array): n for n, array in enumerate(arrays)}
    places: dict[Dim, tuple[int, int | None]] = {}
    for row in named:
        if isinstance(row, NamedNumber):
            if len(row.at.names) == 1:
                places.setdefault(row.dims[0], (row.at.position, None))
        elif row.at.leaf(args, kwargs) is not None:
            n = numbers[id(row.at.find(args, kwargs))]
            for axis, dim in enumerate(row.dims):
                if dim is not None:
                    places.setdefault(dim, (n, axis))
    return tuple(places[dim] for dim in dims) if all(dim in places for dim in dims) else None


def renamed(size: Any, dims: Mapping[Dim, Dim]) -> Any:
    """Replace a dimension of an argument by the dim of equal name with another hint."""
    if not isinstance(size, Size):
        return size
    ((atom,),) = (atoms for atoms, _ in size.terms)
    return size_of(dims[atom]) if isinstance(atom, Dim) else size
