"""`pto.fuse`: a function on arrays that runs as fused kernels."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from types import FunctionType, ModuleType
from typing import Any, overload

import numpy as np

from pypto.errors.graph import NoKernel
from pypto.graph.groups import partition
from pypto.graph.layout import Layouts
from pypto.graph.plan import Plan, make_plan
from pypto.graph.pytree import children, mapped
from pypto.graph.trace import Slot, Traced, trace
from pypto.process import get_num_threads

Array = np.ndarray[Any, Any]
MOST_VERSIONS = 256  # plans of a function that are kept


@dataclass(frozen=True, slots=True)
class Version:
    """A plan, and what it was traced with."""

    plan: Plan
    traced: Traced


class Fused:
    """A function on arrays. Called, it is traced once for shapes, types and layouts, and its plan runs.

    Parameters
    ----------
    function : callable
        On numpy arrays.
    precision : str
        How exact products of float32 are, see `pypto.dot`; empty, as exact as float32.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.fuse
    ... def normalize(x):
    ...     return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    >>> normalize(np.array([[1, 2, 3]], np.float32))
    array([[-1.2247448,  0.       ,  1.2247448]], dtype=float32)
    >>> len(normalize.plan(np.zeros((1, 3), np.float32)).kernels)
    1
    """

    def __init__(self, function: Callable[..., Any], precision: str = "") -> None:
        functools.update_wrapper(self, function)
        self.function: Any = function
        self.precision = precision
        self._versions: dict[Any, Version] = {}
        plain = isinstance(function, FunctionType)
        self._cells: tuple[Any, ...] = (function.__closure__ or ()) if plain else ()
        self._names: tuple[str, ...] | None = None if plain else ()  # globals that are compared, from the first call on
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arrays, key = self._key(args, kwargs)
        version = self._versions.get(key)
        if version is None:
            version = self._version(key, args, kwargs)
        outputs = version.plan.run(arrays)
        for number, output in version.traced.updates:
            np.copyto(arrays[number], outputs[output])
        return filled(version.traced.result, outputs)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """The plan for arguments like these, made if need be; nothing runs."""
        _, key = self._key(args, kwargs)
        version = self._versions.get(key)
        return (self._version(key, args, kwargs) if version is None else version).plan

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<fused {self.__name__}>"  # type: ignore[attr-defined]

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Array], Any]:
        """The arrays among the arguments, each once, and all else that a plan depends on."""
        arrays: dict[int, Array] = {}
        facts: list[Any] = []
        for x in args:
            collect(x, arrays, facts)
        if kwargs:
            facts.append(len(args))
            collect(kwargs, arrays, facts)
        if self._names is None:
            self._names = tuple(n for n in self.function.__code__.co_names if is_fact(self.function, n))
        if self._names or self._cells:
            facts += surroundings(self.function, self._names, self._cells)
        return list(arrays.values()), tuple(facts)

    def _version(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Version:
        with self._lock:
            if len(self._versions) >= MOST_VERSIONS:
                self._versions.clear()
            if key not in self._versions:
                self._versions[key] = self._made(args, kwargs)
            return self._versions[key]

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Version:
        traced = trace(self.function, *args, **kwargs)
        graph = traced.graph
        strides = (tuple(s // max(1, a.itemsize) for s in a.strides) for a in traced.arrays)
        layouts = Layouts(dict(zip(graph.inputs, strides, strict=True)))
        parts = partition(graph, layouts, get_num_threads())
        for group in parts.groups:
            if group.problem:
                node = group.nodes[-1]
                raise NoKernel(node.loc, op=node.op, type=node.type, problem=group.problem)
        fixed = dict(zip(graph.inputs[traced.given :], traced.arrays[traced.given :], strict=True))
        return Version(make_plan(graph, parts, fixed, self.precision), traced)


def collect(tree: Any, arrays: dict[int, Array], facts: list[Any]) -> None:
    """Arrays by their first place, and facts in order: the form of the tree, types and layouts, constants."""
    if isinstance(tree, np.ndarray):
        if id(tree) in arrays:
            facts.append(list(arrays).index(id(tree)))
        else:
            arrays[id(tree)] = tree
            facts.append((tree.shape, tree.dtype, tree.strides))
        return
    found = children(tree)
    if found is None:
        facts.append((type(tree), tree))
        return
    facts.append((found[0], tuple(name for name, _ in found[1])))
    for _, x in found[1]:
        collect(x, arrays, facts)


def is_fact(function: FunctionType, name: str) -> bool:
    """Whether a global is no function, class or module: then a plan holds it as it was, and it is compared."""
    value = function.__globals__.get(name)
    return value is not None and not callable(value) and not isinstance(value, ModuleType)


def surroundings(function: FunctionType, names: tuple[str, ...], cells: tuple[Any, ...]) -> list[Any]:
    """Numbers, texts and arrays that a function takes from outside; a plan holds them as they were."""
    values = [function.__globals__.get(name) for name in names]
    values += [cell.cell_contents for cell in cells if cell_is_full(cell)]
    found: list[Any] = []
    for x in values:
        if isinstance(x, int | float | str | bool):
            found.append((type(x), x))
        elif isinstance(x, np.ndarray):
            found.append((id(x), x.shape, x.dtype, x.strides))
    return found


def cell_is_full(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def filled(tree: Any, outputs: list[Array]) -> Any:
    """A result with its arrays; arrays without dimensions are numbers of numpy, as numpy gives them."""
    if isinstance(tree, Slot):
        found = outputs[tree.number]
        return found if found.ndim else found[()]
    if is_dataclass(tree) or isinstance(tree, tuple | list | dict):
        return mapped(tree, lambda _, leaf: filled(leaf, outputs) if isinstance(leaf, Slot) else leaf)
    return tree


@overload
def fuse(function: Callable[..., Any], /) -> Fused: ...
@overload
def fuse(*, precision: str = "") -> Callable[[Callable[..., Any]], Fused]: ...
def fuse(function: Callable[..., Any] | None = None, /, *, precision: str = "") -> Any:
    """Make a function on arrays run as fused kernels.

    Parameters
    ----------
    function : callable
        On numpy arrays, or on dicts, lists, tuples and dataclasses of them. It is traced: it runs once for each new
        shape, type, layout or constant, on stand-ins that note what it does.
    precision : str
        How exact products of float32 are, see `pypto.dot`; empty, as exact as float32.

    Returns
    -------
    Fused

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> f = pto.fuse(lambda x, y: np.sqrt(x * x + y * y))
    >>> f(np.float32([3]), np.float32([4]))
    array([5.], dtype=float32)
    """
    make = functools.partial(Fused, precision=precision)
    return make if function is None else make(function)
