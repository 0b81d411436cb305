"""`pto.fuse`: a function on arrays that runs as fused kernels."""

from __future__ import annotations

import functools
import gc
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, overload

import numpy as np

from pypto.errors.graph import NoKernel
from pypto.graph.dims import Dim, Size, Sizes, is_fixed
from pypto.graph.groups import partition
from pypto.graph.layout import Layouts
from pypto.graph.named import Shapes, donated_arrays, named_arrays, renamed
from pypto.graph.node import Graph, Node
from pypto.graph.outputs import run_into
from pypto.graph.plan import NO_SIZES, Plan, make_plan
from pypto.graph.pytree import children, mapped
from pypto.graph.store import key_of_plan, load_plan, store_plan
from pypto.graph.strides import contiguous
from pypto.graph.tensor import Tensor
from pypto.graph.trace import Slot, Traced, trace_by_name
from pypto.graph.views.shown import FusedViews
from pypto.process import get_num_threads

Array = np.ndarray[Any, Any]


@contextmanager
def without_collection() -> Iterator[None]:
    """A graph is many objects that stay: to walk them again and again would take longer than to make them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


NO_SHAPES: Shapes = {}
MOST_VERSIONS = 256  # plans of a function that are kept


class TracedArgument(TypeError):
    """An argument is no array of numpy, but one of a function that is being traced, or a lazy one."""

    def __init__(self) -> None:
        super().__init__("an argument is an array of a traced function, or a lazy one: pass `np.asarray(…)` of it")


@dataclass(frozen=True, slots=True)
class Version:
    """A plan, and what it was traced with."""

    plan: Plan
    traced: Traced

    def serves(self, sizes: Sizes) -> bool:
        """Whether what the function asked about sizes has the same answers."""
        guards = self.traced.graph.guards
        return guards is None or guards.hold(sizes)


class Fused(FusedViews):
    """A function on arrays. Called, it is traced once for shapes, types and layouts, and its plan runs.

    Parameters
    ----------
    function : callable
        On numpy arrays.
    precision : str
        How exact products of float32 are, see `pypto.dot`; empty, as exact as float32.
    dims : mapping from str to sequence of Dim or None
        Dimensions by name, of arrays by parameter and path.
    donate : sequence of str
        Arguments that are given away, by parameter and path.

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

    def __init__(
        self,
        function: Callable[..., Any],
        precision: str = "",
        dims: Mapping[str, Sequence[Dim | None]] | None = None,
        donate: Sequence[str] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.function: Any = function
        self.precision = precision
        self._named = named_arrays(function, dims) if dims else ()
        self._dims = tuple(dict.fromkeys(d for row in self._named for d in row.dims if d is not None))
        self._donated = donated_arrays(function, donate) if donate else ()
        self._versions: dict[Any, list[Version]] = {}
        plain = isinstance(function, FunctionType)
        self._cells: tuple[Any, ...] = (function.__closure__ or ()) if plain else ()
        self._names: tuple[str, ...] | None = None if plain else ()  # globals that are compared, from the first call on
        self._lock = threading.Lock()

    @functools.cached_property
    def _gives_out(self) -> bool:
        """Whether `out` is no argument of the function itself."""
        parameters = inspect.signature(self.function).parameters.values()
        return not any(p.name == "out" or p.kind is p.VAR_KEYWORD for p in parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None) if kwargs and self._gives_out else None
        try:
            shapes, sizes = self._shapes(args, kwargs) if self._named else (NO_SHAPES, NO_SIZES)
            arrays, key = self._key(args, kwargs, shapes)
        except TracedArgument:
            return self.function(*args, **kwargs)  # a part of what is traced, or lazy
        version = self._version(key, args, kwargs, shapes, sizes)
        if out is None and not self._donated:
            outputs = version.plan.run(arrays, sizes)
        else:
            donated = [(row.path, row.find(args, kwargs)) for row in self._donated]
            outputs = run_into(version.plan, version.traced, arrays, sizes, out, donated)
        for number, output in version.traced.updates:
            np.copyto(arrays[number], outputs[output])
        return filled(version.traced.result, outputs, sizes)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """The plan for arguments like these, made if need be; nothing runs."""
        return self.version_for(args, kwargs)[0].plan

    def version_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Version, list[Array], Sizes]:
        """The plan for some arguments, made if need be, with their arrays and the sizes of dimensions by name."""
        shapes, sizes = self._shapes(args, kwargs) if self._named else (NO_SHAPES, NO_SIZES)
        arrays, key = self._key(args, kwargs, shapes)
        return self._version(key, args, kwargs, shapes, sizes), arrays, sizes

    @property
    def versions(self) -> list[Version]:
        """The plans that were made, in order."""
        return [version for versions in self._versions.values() for version in versions]

    def verifier(self, atol: float | None, rtol: float | None) -> Any:
        """What `pto.verify` makes of this function."""
        from pypto.graph.function_verifier import FunctionVerifier

        return FunctionVerifier(self, atol, rtol)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<fused {self.__name__}>"  # type: ignore[attr-defined]

    def _shapes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Shapes, Sizes]:
        """Shapes with dimensions by name, of arrays by their `id`, and the sizes of the dimensions in this call."""
        shapes: Shapes = {}
        sizes: dict[str, int] = {}
        for row in self._named:
            array = row.find(args, kwargs)
            for dim, size in zip(row.dims, array.shape, strict=True):
                if dim is not None and sizes.setdefault(dim.name, size) != size:
                    problem = f"`{dim.name}` is {sizes[dim.name]} in one array and {size} in another"
                    raise row.at.wrong(problem)
            shapes[id(array)] = row.shape(array)
        return shapes, {dim.name: sizes[dim.name] for dim in self._dims}

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes) -> tuple[list[Array], Any]:
        """The arrays among the arguments, each once, and all else that a plan depends on."""
        arrays: dict[int, Array] = {}
        facts: list[Any] = []
        for x in args:
            collect(x, arrays, facts, shapes)
        if kwargs:
            facts.append(len(args))
            collect(kwargs, arrays, facts, shapes)
        if self._names is None:
            self._names = tuple(n for n in self.function.__code__.co_names if is_fact(self.function, n))
        if self._names or self._cells:
            facts += surroundings(self.function, self._names, self._cells)
        return list(arrays.values()), tuple(facts)

    def _version(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes, sizes: Sizes
    ) -> Version:
        """The plan for some arguments, made if need be."""
        for version in self._versions.get(key, ()):
            if version.serves(sizes):
                return version
        with self._lock:
            found = next((v for v in self._versions.get(key, ()) if v.serves(sizes)), None)
            if found is None:
                if len(self._versions) >= MOST_VERSIONS:
                    self._versions.clear()
                found = self._made(args, kwargs, shapes, sizes)
                self._versions[key] = [*self._versions.get(key, ()), found][-MOST_VERSIONS:]
            return found

    @without_collection()
    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes, sizes: Sizes) -> Version:
        traced = trace_by_name(self.function, args, kwargs, shapes, self._dims)
        guards = traced.graph.guards
        if guards is not None and not guards.hold(sizes):  # the answers for these sizes are others than for the hints
            hinted = {dim: replace(dim, hint=sizes[dim.name]) for dim in self._dims}
            shapes = {number: tuple(renamed(n, hinted) for n in shape) for number, shape in shapes.items()}
            traced = trace_by_name(self.function, args, kwargs, shapes, tuple(hinted.values()))
        graph = traced.graph
        layouts = Layouts({x: strides_in(x, a) for x, a in zip(graph.inputs, traced.arrays, strict=True)})
        fixed = dict(zip(graph.inputs[traced.given :], traced.arrays[traced.given :], strict=True))
        return Version(plan_of(graph, layouts, fixed, self.precision), traced)


def plan_of(graph: Graph, layouts: Layouts, fixed: dict[Node, Array], precision: str) -> Plan:
    """The plan of a graph: from disk where it is there, else made, and kept when its kernels have been compiled."""
    key = key_of_plan(graph, layouts, precision)
    stored = None if key is None else load_plan(key, graph, fixed)
    if stored is not None:
        return stored
    parts = partition(graph, layouts, get_num_threads())
    for group in parts.groups:
        if group.problem:
            node = group.nodes[-1]
            raise NoKernel(node.loc, op=node.op, type=node.type, problem=group.problem)
    plan = make_plan(graph, parts, fixed, precision)
    plan.keep = None if key is None else partial(store_plan, key)
    return plan


def strides_in(node: Node, array: Array) -> tuple[int, ...]:
    """Strides of an input, in elements; those with dimensions by name are in C order."""
    if all(map(is_fixed, node.shape)):
        return tuple(s // max(1, array.itemsize) for s in array.strides)
    return contiguous(node.shape)


def collect(tree: Any, arrays: dict[int, Array], facts: list[Any], shapes: Shapes) -> None:
    """Arrays by their first place, and facts in order: the form of the tree, types and layouts, constants."""
    if isinstance(tree, np.ndarray):
        if id(tree) in arrays:
            facts.append(list(arrays).index(id(tree)))
        else:
            arrays[id(tree)] = tree
            shape = shapes.get(id(tree))
            facts.append((tree.shape, tree.dtype, tree.strides) if shape is None else (shape, tree.dtype))
        return
    found = children(tree)
    if found is None:
        if isinstance(tree, Tensor):
            raise TracedArgument
        facts.append((type(tree), tree))
        return
    facts.append((found[0], tuple(name for name, _ in found[1])))
    for _, x in found[1]:
        collect(x, arrays, facts, shapes)


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


def filled(tree: Any, outputs: list[Array], sizes: Sizes) -> Any:
    """A result with its arrays; arrays without dimensions are numbers of numpy, as numpy gives them."""
    if isinstance(tree, Size):
        return tree.at(sizes)
    if isinstance(tree, Slot):
        found = outputs[tree.number]
        return found if found.ndim else found[()]
    if is_dataclass(tree) or isinstance(tree, tuple | list | dict):
        return mapped(tree, lambda _, leaf: filled(leaf, outputs, sizes) if isinstance(leaf, Slot | Size) else leaf)
    return tree


@overload
def fuse(
    function: Callable[..., Any],
    /,
    *,
    precision: str = "",
    dims: Mapping[str, Sequence[Dim | None]] | None = None,
    donate: Sequence[str] = (),
) -> Fused: ...
@overload
def fuse(
    *, precision: str = "", dims: Mapping[str, Sequence[Dim | None]] | None = None, donate: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Fused]: ...
def fuse(
    function: Callable[..., Any] | None = None,
    /,
    *,
    precision: str = "",
    dims: Mapping[str, Sequence[Dim | None]] | None = None,
    donate: Sequence[str] = (),
) -> Any:
    """Make a function on arrays run as fused kernels.

    Parameters
    ----------
    function : callable
        On numpy arrays, or on dicts, lists, tuples and dataclasses of them. It is traced: it runs once for each new
        shape, type, layout or constant, on stand-ins that note what it does.
    precision : str
        How exact products of float32 are, see `pypto.dot`; empty, as exact as float32.

    dims : mapping from str to sequence of Dim or None, optional
        Dimensions by name: for an array, by its parameter or a path such as ``"batch.ids"``, a `Dim` for each dimension
        that differs from call to call, and None for the others. One plan serves all sizes of their ranges, and no
        kernel is compiled anew. The arrays are in C order.
    donate : sequence of str, optional
        Arguments, by parameter or path, that nobody reads after the call: results may be made in their memory.

    Returns
    -------
    Fused
        A call takes ``out=`` besides, unless the function has an argument of that name: arrays, in the form of the
        result, that it is written to; None where a new array will do.

    Raises
    ------
    WrongDims
        When an argument does not fit its dimensions by name.
    WrongOut
        When an array of `out` has another shape or type, or it or an argument given away overlaps another array.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> f = pto.fuse(lambda x, y: np.sqrt(x * x + y * y))
    >>> f(np.float32([3]), np.float32([4]))
    array([5.], dtype=float32)
    >>> from pypto.arrays import Dim
    >>> n = Dim("n", 1, 1000)
    >>> f = pto.fuse(lambda x: x / x.sum(), dims={"x": (n,)})
    >>> plans = {f.plan(np.ones(size, np.float32)) for size in (1, 10, 1000)}
    >>> len(plans), f(np.float32([1, 3]))
    (1, array([0.25, 0.75], dtype=float32))
    """
    make = functools.partial(Fused, precision=precision, dims=dims, donate=donate)
    return make if function is None else make(function)
