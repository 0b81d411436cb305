"""Maps operators to routes: rows of the library by their names, and functions that users register."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pypto.errors.library import NoSuchOperator
from pypto.ir.types import DType
from pypto.library import rows
from pypto.library.binding import backend_in_force
from pypto.library.row import Implementation, Operator
from pypto.library.tolerance import TOLERANCES, Close, Tolerance
from pypto.options import suggestion
from pypto.routing.calls import Call
from pypto.routing.monitor import Report
from pypto.routing.route import Route
from pypto.routing.versions import Version
from pypto.runtime.arrays import array_info
from pypto.runtime.tensors import is_traced


class RowRoute(Route):
    """The route of a library row; while it is installed, it receives calls of the row that name no version."""

    def __init__(self, row: Operator) -> None:
        super().__init__(row.name)
        self.row = row
        self.versions = {one.version: Version(one) for one in row.implementations}
        self.outputs = tuple(spec.name for spec in row.signature.outputs)

    def __call__(self, *args: Any, **given: Any) -> Any:
        return self.row(*args, **given)

    def routed(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
        """Computes a call of the row that names no version."""
        row, first = self.row, args[0] if args else given.get(self.row.signature.inputs[0].name)
        kind = getattr(first, "dtype", None)
        info = array_info(first, row.name, "first") if kind is not None else None
        fits = partial(fits_on, backend_in_force(), info.dtype if info else None)
        named = self.versions.get(self.reference)
        right = named if named and fits(named.implementation) else self.first(fits)
        call = Call(args, given, row.signature.names, row.effects, self.outputs, row.tolerance_of)
        return self.answer(call, right, fits, kind)

    def first(self, fits: Callable[[Implementation], bool]) -> Version:
        """Returns the first version that fits.

        If no version fits, it returns the first of all, and the row refuses the call.
        """
        versions = self.versions.values()
        return next((version for version in versions if fits(version.implementation)), next(iter(versions)))

    def function(self, version: Version) -> Callable[..., Any]:
        return partial(self.row, version=version.name)

    def check(self, call: Call) -> None:
        self.row.bind(call.args, call.given)

    def switch(self, on: bool) -> None:
        vars(self.row).pop("route", None)
        if on:
            vars(self.row)["route"] = self.routed

    def changed(self) -> None:
        self.row.install(tuple(version.implementation for version in self.versions.values()))


class FunctionRoute(Route):
    """The route of a function that users register; it is called as the function is.

    Parameters
    ----------
    name : str
    tolerance : Tolerance, optional
        How far results may be from those of the reference; by default, what is usual for their dtype.
    effects : sequence of str
        Arguments that the function writes in place.
    """

    def __init__(self, name: str, tolerance: Tolerance | None = None, effects: Sequence[str] = ()) -> None:
        super().__init__(name)
        self.tolerance = tolerance
        self.effects = tuple(effects)
        self.names: tuple[str, ...] = ()

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Computes a call by the version that the route chooses."""
        if is_traced():
            from pypto.torch.graph.tracing import outside_call

            return outside_call(self, args, given)
        right = self.versions[self.reference or next(iter(self.versions))]
        call = Call(args, given, self.names, self.effects, (), self.tolerance_of)
        dtypes = tuple(str(x.dtype).rpartition(".")[2] for x in call.values.values() if hasattr(x, "dtype"))
        return self.answer(call, right, partial(suits, dtypes), dtypes)

    def tolerance_of(self, _name: str, dtype: DType) -> Tolerance:
        """Returns the tolerance of a result."""
        return self.tolerance or TOLERANCES.get(str(dtype), Close())

    def changed(self) -> None:
        if self.effects:  # arguments by position have the names that the reference gives them
            self.names = tuple(inspect.signature(next(iter(self.versions.values())).run).parameters)


def fits_on(plugin: Any, dtype: DType | None, implementation: Implementation) -> bool:
    """Says whether a version of a row runs on a backend with a dtype."""
    return dtype is not None and implementation.fits(plugin, dtype)


def suits(dtypes: tuple[str, ...], implementation: Implementation) -> bool:
    """Says whether a version of a function takes arrays of these dtypes."""
    return not implementation.dtypes or set(dtypes) <= set(implementation.dtypes)


class Routes(Mapping[str, Route]):
    """A mapping from operators to their routes: names of library rows, and of registered functions.

    Examples
    --------
    >>> import numpy as np
    >>> routes = Routes()
    >>> double = routes.register("double", "1.0", lambda x: x * 2)
    >>> _ = routes.register("double", "2.0", lambda x: x + x).ab({"1.0": 0.75, "2.0": 0.25}, shadow=0.01)
    >>> [float(double(np.float32(n))) for n in range(4)]
    [0.0, 2.0, 4.0, 6.0]
    >>> [(row.version, row.calls, row.fallbacks) for row in routes.report().rows]
    [('1.0', 3, 0), ('2.0', 1, 0)]
    """

    __hash__ = object.__hash__  # collectors of `prometheus_client` are keys of a dict

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}

    def __getitem__(self, name: str) -> Route:
        route = self._routes.get(name)
        row = rows.all().get(name)
        if row is not None and getattr(route, "row", None) is not row:
            route = self._routes[name] = RowRoute(row)
        if route is None:
            raise NoSuchOperator(name=repr(name), suggestion=suggestion(name, self))
        return route

    def __contains__(self, name: object) -> bool:
        return name in {*rows.all(), *self._routes}

    def __iter__(self) -> Iterator[str]:
        return iter({**rows.all(), **self._routes})

    def __len__(self) -> int:
        return len({**rows.all(), **self._routes})

    def register(
        self,
        name: str,
        version: str,
        run: Callable[..., Any],
        *,
        dtypes: Sequence[str] = (),
        tolerance: Tolerance | None = None,
        effects: Sequence[str] = (),
        replace: bool = False,
    ) -> Route:
        """Adds a version of an operator; the first version of a new name is its reference.

        Parameters
        ----------
        name : str
            A row of the library, or a name of the user's.
        version : str
        run : callable
            A function, also one of `pypto.torch.op`. For a library row, what `Implementation.run` is.
        dtypes : sequence of str
            Dtypes of arrays for which the version runs; empty means all.
        tolerance : Tolerance, optional
            How far results of a new function may be from those of its reference.
        effects : sequence of str
            Arguments that a new function writes in place.
        replace : bool
            Whether it replaces a version of that name.

        Returns
        -------
        Route
            The route, which is called as the function is, where it is no row of the library.

        Raises
        ------
        AlreadyRegistered
        """
        if name not in self:
            self._routes[name] = FunctionRoute(name, tolerance, effects)
        return self[name].register(version, run, dtypes=dtypes, replace=replace)

    def report(self) -> Report:
        """Returns the counts of all routes so far."""
        return Report.of(self._routes.values())

    def collect(self) -> Any:
        """Yields the metrics, for the registry of `prometheus_client`, as one of its collectors."""
        from pypto.routing.prometheus import families

        return families(self.report())

    def clear(self) -> None:
        """Ends all routes, and removes registered functions."""
        for route in self._routes.values():
            route.clear()
        self._routes.clear()
