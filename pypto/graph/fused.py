"""Fused functions: the first call with a new form of arguments makes a plan, and later calls run it."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.compile import session
from pypto.graph.capture.attributes import as_seen
from pypto.graph.capture.guards import Roots
from pypto.graph.exchange.call import OF_NUMPY, Call
from pypto.graph.ir.dims import Sizes
from pypto.graph.pipeline import check_names, emitted, logged
from pypto.graph.plan.bound_call import BoundCall, bound_call
from pypto.graph.plan.fast_path import NOT_REPLAYED, FastPath
from pypto.graph.plan.foreign_call import foreign_call, outside_call
from pypto.graph.plan.foreign_path import fast_path_for
from pypto.graph.plan.on_device import device_call
from pypto.graph.plan.outputs import check_updates, donated_inputs, run_into, write_back
from pypto.graph.plan.pipeline import plan_of, surroundings_of
from pypto.graph.plan.plan import NO_DONATION, NO_SIZES, Donated, Plan
from pypto.graph.plan.plan_cache import PlanCache, Version, without_arguments
from pypto.graph.rewrite.pipeline import rewritten
from pypto.graph.tracing.arguments import (
    NO_SHAPES,
    DeviceArgument,
    ForeignArgument,
    Shapes,
    TracedArgument,
    check_call,
    check_fusable,
    collect,
    filled,
)
from pypto.graph.tracing.named_dims import Dims, donated_arrays, named_arrays, renamed, shapes_of_call
from pypto.graph.tracing.trace import trace_by_name
from pypto.markup import Shown
from pypto.runtime.collection import without_collection
from pypto.runtime.pickling import Pickled
from pypto.runtime.tensors import is_traced, tracing_test

if TYPE_CHECKING:
    from pypto.debug.inspection import Inspection
    from pypto.graph.tune.tune_report import PlanTuning
    from pypto.graph.views.measured import PlanProfile

Array = np.ndarray[Any, Any]
FAST_PATHS: Final = 8  # kinds of arguments that calls may alternate between


class Fused(Pickled, Shown, pickled=("function", "precision", "dims", "donate", "overlap", "disable")):
    """A function that is compiled to a plan of kernels: a call traces it once for each form of arguments.

    Parameters
    ----------
    function : callable
        A function of numpy arrays.
    precision : str
        The precision of float32 products, see `pypto.dot`; an empty string means full float32 precision.
    dims : mapping from str to sequence of Dim, int or None, or to Dim
        Named dimensions of arrays and integers that are sizes, by parameter or path.
    donate : sequence of str
        Donated arguments, by parameter or path.
    overlap : bool
        Whether small independent steps run at the same time.
    disable : sequence of str
        Passes to switch off.

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

    is_fused = True

    def __init__(
        self,
        function: Callable[..., Any],
        precision: str = "",
        dims: Dims | None = None,
        donate: Sequence[str] = (),
        overlap: bool = True,
        disable: Sequence[str] = (),
    ) -> None:
        with BOUNDARY:
            check_fusable(function)
            if disable:
                check_names(disable)
            functools.update_wrapper(self, function)  # first, as a fused function has these attributes, too
            self._named = named_arrays(function, dims) if dims else ()
        self.function: Any = function
        self.dims = dims
        self.donate = donate
        self.precision = precision
        self.overlap = overlap
        self.disable = disable
        self._disabled = tuple(sorted({*disable, *(() if overlap else ("horizontal_fusion",))}))
        self._dims = tuple(dict.fromkeys(d for row in self._named for d in row.dims if d is not None))
        self._donated = donated_arrays(function, donate) if donate else ()
        self._cache = PlanCache(function)
        self._fast_paths: tuple[FastPath, ...] = ()  # for arguments like those of the last calls
        self._lock = threading.Lock()
        self._is_traced = is_traced  # by torch.compile

    @functools.cached_property
    def _gives_out(self) -> bool:
        """Whether `out` names the result arrays, because the function has no argument of that name."""
        parameters = inspect.signature(self.function).parameters.values()
        return not any(p.name == "out" or p.kind is p.VAR_KEYWORD for p in parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_traced():
            return outside_call(self, args, kwargs)
        for path in self._fast_paths:
            result = path.call(args, kwargs)
            if result is not NOT_REPLAYED:
                return result
        with BOUNDARY:
            return self._called(args, kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call = OF_NUMPY) -> Any:
        """Run a call that the fast path of the last call does not serve."""
        out = kwargs.pop("out", None) if kwargs and self._gives_out else None
        try:
            shapes, sizes = self._shapes(args, kwargs) if self._named else (NO_SHAPES, NO_SIZES)
            form, roots = self._form(args, kwargs, shapes, call)
        except TracedArgument:
            return as_seen(self.function)(*args, **kwargs)  # a part of what is traced, or lazy
        except DeviceArgument:
            return device_call(self, args, kwargs if out is None else {**kwargs, "out": out})
        except ForeignArgument:
            entered = foreign_call(self.function, args, kwargs if out is None else {**kwargs, "out": out})
            return self._called(entered.args, entered.kwargs, entered)
        self._is_traced = tracing_test()
        version, arrays = self._version(form, roots, args, kwargs, shapes, sizes, call)
        donated = self._granted(version, arrays, args, kwargs)
        plan, numbers = version.plan, (*donated.values(),)
        if not any(p.frames is plan.frames and p.donated == numbers for p in self._fast_paths):
            path = fast_path_for(self, version, roots, args, kwargs, donated, call)
            self._fast_paths = (*(() if path is None else (path,)), *self._fast_paths)[:FAST_PATHS]
        if version.traced.updates:
            check_updates(version.plan, version.traced, arrays)
        if out is None:
            outputs = version.plan.run(arrays, sizes, donated=donated, place=call.memory)
        else:
            outputs = run_into(version.plan, version.traced, arrays, sizes, out, donated, call.memory)
        if version.traced.updates:
            write_back(version.traced, arrays, outputs)
        if call.library is not None:
            call.note_writes([*(arrays[n] for n, _ in version.traced.updates), *outputs])
            outputs = [call.leave(x) for x in outputs]
        return filled(version.traced.result, outputs, sizes)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan for arguments like these; nothing runs."""
        with BOUNDARY:
            return self.version_for(args, kwargs)[0].plan

    def bind(self, *args: Any, **kwargs: Any) -> BoundCall:
        """Bind the plan to these arrays: every ``run()`` makes the call on them, and overwrites one result.

        A result in the memory of a donated array changes what the next run reads.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> step = pto.fuse(lambda x: x + 1).bind(np.zeros(2, np.float32))
        >>> step.run()
        array([1., 1.], dtype=float32)
        """
        with BOUNDARY:
            call = foreign_call(self.function, args, kwargs)
            version, arrays, sizes = self.version_of(call)
            donated = self._granted(version, arrays, call.args, call.kwargs)
            return bound_call(version.plan, version.traced, arrays, sizes, donated, call)

    def version_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Version, list[Array], Sizes]:
        """Return the plan for some arguments, their arrays, and the sizes of the named dimensions."""
        return self.version_of(foreign_call(self.function, args, kwargs))

    def version_of(self, call: Call) -> tuple[Version, list[Array], Sizes]:
        """Return the plan for a call, its arrays, and the sizes of the named dimensions."""
        shapes, sizes = self._shapes(call.args, call.kwargs) if self._named else (NO_SHAPES, NO_SIZES)
        form, roots = self._form(call.args, call.kwargs, shapes, call)
        version, arrays = self._version(form, roots, call.args, call.kwargs, shapes, sizes, call)
        return version, arrays, sizes

    @property
    def versions(self) -> list[Version]:
        """The cached plans, in the order in which they were made."""
        return list(self._cache.recent)

    def verifier(self, atol: float | None, rtol: float | None) -> Any:
        """Return a function whose calls compare this one with numpy, for `pto.verify`."""
        from pypto.graph.verification.function_verifier import FunctionVerifier

        return FunctionVerifier(self, atol, rtol)

    def tune(self, *args: Any, budget: float = 20.0, **kwargs: Any) -> PlanTuning:
        """Autotune the plan for these arguments: measure other tile sizes and blockings, and keep the fastest.

        Parameters
        ----------
        *args, **kwargs
            The arguments of a call, whose arrays are copied.
        budget : float
            The seconds that the search may take. Each kernel measures at least one candidate.

        Returns
        -------
        PlanTuning
            The candidates with their times. The best configurations are stored on disk for later processes.

        Raises
        ------
        NotTuned
            When the budget is not positive, or kernels run on a device, in the interpreter, or under checks.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> f = pto.fuse(lambda x: np.exp(x).sum(axis=1))
        >>> report = f.tune(np.ones((64, 256), np.float32), budget=0.1)
        >>> report.function
        'lambda'
        """
        from pypto.graph.tune.tune import check_tunable, tuned_plan

        with BOUNDARY:
            check_tunable(self.__name__, budget)  # type: ignore[attr-defined]
            version, arrays, sizes = self.version_for(args, kwargs)
            plan, report = tuned_plan(version.traced, self.precision, self._disabled, arrays, sizes, budget)
        with self._lock:
            self._cache.replace(version, Version(plan, version.traced))
            self._fast_paths = ()
        return report

    def profile(self, *args: Any, **kwargs: Any) -> PlanProfile:
        """Profile the plan: run it step by step on copies of these arguments, and time every step.

        Returns
        -------
        PlanProfile
            A table of the steps; ``timeline(path)`` writes them for ui.perfetto.dev.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> f = pto.fuse(lambda x: np.exp(x) + 1)
        >>> found = f.profile(np.zeros(8, np.float32))
        >>> [step.form for step in found.steps]
        ['pointwise']
        """
        from pypto.graph.views.measured import measured

        return measured(self, args, kwargs)

    def emit(self, what: str, /, *args: Any, **kwargs: Any) -> str:
        """Return one level of the compilation for arguments like these as text; nothing runs.

        Parameters
        ----------
        what : str
            ``traced``, ``graph`` (rewritten), ``schedule``, ``plan``, or ``after:`` with a pass: ``after:fusion``.

        Raises
        ------
        OptionError
            When the level or pass does not exist, or the pass does not run for this function.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> f = pto.fuse(lambda x: np.exp(x) + 1)
        >>> print(f.emit("after:tiling", np.zeros(8, np.float32)), end="")
        schedule @lambda
          group %1, %3 stores %3: pointwise, parallel 8 by 8
        """
        with BOUNDARY:
            return emitted(what, partial(self.planned, args, kwargs))

    def planned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Version:
        """Make a fresh plan for some arguments, which calls do not use."""
        call = foreign_call(self.function, args, kwargs)
        shapes, sizes = self._shapes(call.args, call.kwargs) if self._named else (NO_SHAPES, NO_SIZES)
        return self._new_version(call.args, call.kwargs, shapes, sizes, call)

    def inspect(self, *args: Any, step: int = 0, target: str | None = None, **kwargs: Any) -> Inspection:
        """Return the levels of a kernel of the plan, from its source to machine code, linked by line.

        Parameters
        ----------
        *args, **kwargs
            The arguments of a call.
        step : int
            The step of the plan whose kernel is shown, compiled for the arguments of that step.
        target : str, optional
            A chip such as ``ascend910b2``, whose levels are shown instead of the CPU's.

        Raises
        ------
        ValueError
            When the step does not exist, or numpy runs it without a kernel.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> f = pto.fuse(lambda x: np.exp(x) + 1)
        >>> [level.name for level in f.inspect(np.zeros(8, np.float32)).levels][:2]
        ['tile-ir', 'optimized-ir']
        """
        from pypto.graph.views.inspecting import inspected

        return inspected(self, args, kwargs, step, target)

    def _repr_html_(self) -> str:
        from pypto.graph.views.cards import fused_card

        return fused_card(self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<fused {self.__name__}>"  # type: ignore[attr-defined]

    def _shapes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Shapes, Sizes]:
        """Return the shapes with named dimensions, and the dimensions' sizes in this call."""
        return shapes_of_call(self._named, self._dims, args, kwargs)

    def _form(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes, call: Call
    ) -> tuple[Hashable, Roots]:
        """Return the key of the plan cache for a call, and the roots of the paths to arrays from outside."""
        arrays: dict[int, Array] = {}
        others: list[Any] = []
        facts: list[Any] = [call.name] if call.name else []
        for x in args:
            collect(x, arrays, others, facts, shapes)
        if kwargs:
            facts.append(len(args))
            collect(kwargs, arrays, others, facts, shapes)
        return tuple(facts), Roots(self.function, list(arrays.values()), others, call.originals_of(arrays.values()))

    def _granted(self, version: Version, arrays: list[Array], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Donated:
        """Map results to the numbers of the donated inputs whose memory they are made in."""
        given = [(row.path, row.find(args, kwargs)) for row in self._donated if row.leaf(args, kwargs) is not None]
        return donated_inputs(version.plan, version.traced, arrays, given) if given else NO_DONATION

    def _version(
        self, form: Hashable, roots: Roots, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes, sizes: Sizes,
        call: Call,
    ) -> tuple[Version, list[Array]]:  # fmt: skip
        """Return the plan for some arguments with its arrays, and make it if necessary."""
        entry = self._cache.find(form, roots, sizes)
        if entry is None:
            with self._lock:
                entry = self._cache.find(form, roots, sizes)
                if entry is None:
                    self._cache.note_varying(form, roots)
                    version = self._new_version(args, kwargs, shapes, sizes, call)
                    given = version.traced.arrays[len(roots.arrays) : version.traced.given]
                    entry = Version(version.plan, without_arguments(version.traced)), given
                    self._cache.add(form, entry[0])
        version, given = entry
        self._cache.touch(version)
        return version, [*roots.arrays, *given]

    @without_collection()
    def _new_version(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes, sizes: Sizes, call: Call
    ) -> Version:
        check_call(self.function, args, kwargs)
        varying = frozenset(self._cache.varying)
        traced = trace_by_name(self.function, args, kwargs, shapes, self._dims, varying, call)
        guards = traced.graph.guards
        if guards is not None and not guards.hold(sizes):  # the answers for these sizes are others than for the hints
            hinted = {dim: replace(dim, hint=sizes[dim.name]) for dim in self._dims}
            shapes = {number: tuple(renamed(n, hinted) for n in shape) for number, shape in shapes.items()}
            traced = trace_by_name(self.function, args, kwargs, shapes, tuple(hinted.values()), varying, call)
        with logged(traced.graph.name) if "passes" in session().settings.log else nullcontext():
            traced = replace(traced, graph=rewritten(traced.graph, self._disabled))
            layouts, fixed = surroundings_of(traced)
            return Version(plan_of(traced.graph, layouts, fixed, self.precision, self._disabled), traced)
