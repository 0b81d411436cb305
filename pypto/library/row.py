"""A row of the library says what an operator computes, by which kernels, how exactly, and at what cost.

The checked call, the documentation, the tests, the benchmark and the commands of an operator are derived from its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.backends.plugin import Plugin
from pypto.backends.registry import HOST, plugin_of
from pypto.errors.library import NoImplementation, NoSuchCase, OperandDtype
from pypto.ir.types import DType, bfloat16
from pypto.library.binding import Binder, Bound, allocator, backend_in_force, copied, empty
from pypto.library.call_cache import CallCache, CheckedCall
from pypto.library.signature import Signature, pair_of
from pypto.library.tolerance import TOLERANCES, Close, Tolerance
from pypto.markup import Shown
from pypto.options import suggestion
from pypto.runtime.tensors import is_observed, is_traced

Values = dict[str, Any]
Rng = np.random.Generator
SMALL: Final = "small"
MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class Implementation:
    """Kernels that compute an operator.

    Parameters
    ----------
    version : str
        The name of the implementation within the row; a call uses the first that fits.
    run : callable
        Launches the kernels. It gets all arguments and results by name, and writes only to results and effects.
    platforms : tuple of str
        The backends on which it runs, as in ``"cpu"`` or ``"ascend"``; empty means any backend.
    dtypes : tuple of str
        The dtypes of the first array; empty means all that the signature allows.
    """

    version: str
    run: Callable[..., None]
    platforms: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The backends on which it runs, as text."""
        return ", ".join(self.platforms) or "any backend"

    def fits(self, plugin: Plugin, dtype: DType) -> bool:
        """Says whether it runs on a backend with arrays of this dtype."""
        here = not self.platforms or any(plugin_of(platform) is plugin for platform in self.platforms)
        return here and (not self.dtypes or str(dtype) in self.dtypes)


@dataclass(frozen=True, repr=False)
class Operator(Shown):
    """A row of the library.

    Parameters
    ----------
    name : str
        The name under which `pypto.library` offers the operator.
    doc : str
        One line: what it computes.
    text : str
        The signature; see `Signature`.
    formula : str
        The formula in Markdown, with the steps at which numbers are rounded, and edge cases.
    source : str
        The origin of the formula.
    reference : callable
        Computes the results in float64 from all arguments, which it gets by name as numpy arrays. It returns the
        results and then the effects, in a tuple if there are several, and leaves its arguments unchanged.
    implementations : tuple of Implementation
    sizes : mapping of str to mapping of str to int
        Sizes of the names of dimensions: ``small`` for tests, ``model`` for the size in models, and others.
    sampler : callable, optional
        Makes arguments by name from a generator, sizes and a dtype. Other arrays are normal numbers; an optional
        array whose dimensions have no size is left out.
    edges : mapping of str to callable
        Edge cases by name: functions that make arguments by name from a generator.
    tolerance : mapping of str to Tolerance
        Tolerances of results and effects that do not have the default of their dtype.
    flops : callable, optional
        Computes the number of operations from the sizes by name (``n.t * n.d``).
    bytes : callable, optional
        Computes the bytes that have to be moved; by default, those of all arrays.
    effects : tuple of str
        Arguments that are written in place.
    peer : callable, optional
        Computes the operator in torch. It gets the module and the tensors by name.
    gradient : callable, optional
        Computes the gradients in torch. It gets the module and a namespace: all arguments (None for an absent array)
        and results by name, ``d_NAME`` for the incoming gradient of each result with floats, and ``wanted``, the names
        of the arguments by which to differentiate. It returns gradients by argument; one that is not there is 0. See
        `pypto.library.gradients`.
    no_gradient : str
        Why there is no gradient, in a sentence that follows "it has no gradient:".
    no_leading : str
        Why no array has free leading dimensions.
    prepared : callable, optional
        Makes further tensors for the peer once, before it is timed, such as weights in a layout of torch's own.
    is_elementwise : bool
        Whether each element of a result depends on the elements at its place alone.
    notes : str
        Further remarks for the documentation.
    items : str
        A dimension along which items are independent: each is computed from its own slices of the arguments, so that
        a check may compare some of them. Empty if there is none.
    limited : str
        The limit of its speed on a CPU, if it is less than 1.2 times as fast as torch, or far from the machine's rate.

    Examples
    --------
    >>> from pypto import library as lib
    >>> row = lib.rows["rms_norm"]
    >>> values = row.sample(np.random.default_rng(0), "small")
    >>> row(**values).shape == values["x"].shape
    True
    """

    name: str
    doc: str
    text: str
    formula: str
    source: str
    reference: Callable[..., Any]
    implementations: tuple[Implementation, ...]
    sizes: Mapping[str, Mapping[str, int]]
    sampler: Callable[[Rng, SimpleNamespace, DType], Values] | None = None
    edges: Mapping[str, Callable[[Rng], Values]] = field(default_factory=dict)
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    flops: Callable[[Any], float] | None = None
    bytes: Callable[[Any], float] | None = None
    effects: tuple[str, ...] = ()
    peer: Callable[[Any, Any], Any] | None = None
    gradient: Callable[[Any, Any], Mapping[str, Any]] | None = None
    no_gradient: str = ""
    no_leading: str = ""
    prepared: Callable[[Any, Any], Values] | None = None
    is_elementwise: bool = False
    notes: str = ""
    items: str = ""
    limited: str = ""
    # Where `pypto.routing` has installed a route, it chooses the implementation of calls that name no version.
    route: ClassVar[Any] = None

    def __repr__(self) -> str:
        return f"<operator {self.name}: {self.text}>"

    def _repr_html_(self) -> str:
        from pypto.library.card import operator_card

        return operator_card(self)

    @cached_property
    def signature(self) -> Signature:
        """Parses the signature from its text."""
        return Signature.parse(self.text)

    @property
    def why_no_gradient(self) -> str:
        """The reason in errors about a gradient that would be lost."""
        return self.no_gradient or "its row states none"

    def __call__(self, *args: Any, version: str = "", **given: Any) -> Any:
        """Checks all arguments, then computes the results.

        Parameters
        ----------
        *args, **given
            Arguments of the signature: numpy arrays, torch tensors, numbers.
        version : str
            The name of an implementation; by default, the first that fits.

        Returns
        -------
        array, tuple of arrays or None
            The results, of the same kind as the first argument; effects are written in place.

        Raises
        ------
        WrongOperands, OperandShape, OperandDtype, ReadOnlyArgument, RecordedArgument, RepeatedArgument,
        OverlappingOperands
            Before anything is written.
        LostGradient
            When a result would have no gradient, and autograd records an argument.
        NoImplementation
            When no implementation runs on this platform and dtype.
        """
        if is_traced():
            from pypto.torch.operators.calls import traced_call

            return traced_call(self.name, args, {**given, "version": version})
        with BOUNDARY:
            if self.route is not None and not version:
                return self.route(args, given)
            key = self.call_cache.key(args, given, version)
            call = self.call_cache.find(key)
            if call is not None:
                return call(args, given)
            if is_observed(args, given):
                from pypto.torch.operators.calls import operator_call

                return operator_call(self, args, given, version)
            bound = self.bind(args, given)
            call = self.checked_call(bound, dict(zip(self.signature.names, args, strict=False)) | given, version)
            results = call.results_of({**bound.values})
            self.call_cache.keep(key, call)
            return results

    @cached_property
    def call_cache(self) -> CallCache:
        """The calls that passed all checks."""
        return CallCache(self.signature, self.effects)

    def install(self, implementations: tuple[Implementation, ...]) -> None:
        """Replaces the implementations, and forgets the calls that know the old ones."""
        object.__setattr__(self, "implementations", implementations)
        vars(self).pop("call_cache", None)

    def checked_call(self, bound: Bound, given: Values, version: str) -> CheckedCall:
        """Returns what calls like a checked one launch and allocate."""
        run = self.implementation(backend_in_force(), bound.dtype, version).run
        values, outputs = bound.values, self.signature.outputs
        like = values[self.signature.inputs[0].name]
        numbers = [(name, values[name]) for name in self.signature.numbers if name in given]
        kinds = [(name, pair_of if isinstance(x, tuple) else type(x)) for name, x in numbers]
        return CheckedCall(
            self.binder,
            None if self.is_empty(bound) else run,
            {name: x for name, x in values.items() if name not in given},
            tuple((n, kind) for n, kind in kinds if kind is pair_of or isinstance(given[n], bool)),
            bound.dims,
            tuple((s.name, allocator(like, bound.shape(s), (s.dtypes or (bound.dtype,))[0])) for s in outputs),
            bound.leading,
        )

    def bind(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> Bound:
        """Checks arguments, and returns them by name."""
        return self.binder.bind(args, given)

    @cached_property
    def binder(self) -> Binder:
        """The checks of its arguments."""
        is_free = bool(self.items) and self.items == self.signature.free
        return Binder(self.name, self.signature, self.effects, self.why_no_gradient, is_free, self.no_leading)

    def implementation(self, plugin: Plugin, dtype: DType, version: str = "") -> Implementation:
        """Returns the first implementation that runs on a backend and dtype, or the named one."""
        for implementation in self.implementations:
            if implementation.fits(plugin, dtype) and version in ("", implementation.version):
                return implementation
        what = f"of version {version!r} for {dtype} here" if version else f"for {dtype} here"
        versions = "; ".join(
            f"{i.version} on {i.where}" + (f" for {', '.join(i.dtypes)}" if i.dtypes else "")
            for i in self.implementations
        )
        raise NoImplementation(operator=self.name, what=what, there=versions)

    def unchecked(self, dtype: str = "") -> Callable[..., None]:
        """Returns the kernels without checks, for callers that allocate all arguments themselves.

        Parameters
        ----------
        dtype : str
            The dtype of the first array; by default, the first that the signature allows.

        Returns
        -------
        callable
            A function that takes all arguments and results by name, including numbers and optional arrays.
        """
        return self.implementation(backend_in_force(), self.first_dtype(dtype)).run

    def outputs(self, bound: Bound) -> Values:
        """Allocates memory for the results."""
        like = bound.values[self.signature.inputs[0].name]
        return {s.name: empty(like, bound.shape(s), (s.dtypes or (bound.dtype,))[0]) for s in self.signature.outputs}

    def is_empty(self, bound: Bound) -> bool:
        """Says whether nothing is to compute: all results are empty, or there are none and the first array is empty."""
        written = [s.shape(bound.dims) for s in self.signature.outputs]
        shapes = written or [self.signature.inputs[0].shape(bound.dims)]
        return all(0 in shape for shape in shapes)

    def sample(self, rng: Rng, case: str = SMALL, dtype: str = "") -> Values:
        """Samples arguments of a size or an edge case, by name.

        Parameters
        ----------
        rng : numpy.random.Generator
        case : str
            One of `sizes` or `edges`.
        dtype : str
            The dtype of the first array; by default, the first that the signature allows.
        """
        known = {**self.edges, **self.sizes}
        if case not in known:
            cases, close_cases = ", ".join(sorted(known)), suggestion(case, known)
            raise NoSuchCase(operator=self.name, case=repr(case), suggestion=close_cases, there=cases)
        if case in self.edges:
            return self.edges[case](rng)
        return self.values(rng, SimpleNamespace(**self.sizes[case]), self.first_dtype(dtype))

    def first_dtype(self, dtype: str) -> DType:
        """Returns the dtype of the first array: the named one, or by default the first that the signature allows."""
        allowed = {name: d for d in self.signature.main_dtypes for name in (str(d), d.public)}
        if dtype and dtype not in allowed:
            text = " or ".join(map(str, self.signature.main_dtypes))
            first = self.signature.inputs[0].name
            raise OperandDtype(operator=self.name, arg=first, dtype=dtype, allowed=text)
        return allowed[dtype] if dtype else self.signature.main_dtypes[0]

    def values(self, rng: Rng, dims: SimpleNamespace, dtype: DType) -> Values:
        """Samples arguments of given sizes."""
        drawn = self.sampler(rng, dims, dtype) if self.sampler else {}
        others = {
            spec.name: normal(
                rng, spec.shape(vars(dims)), dtype if not spec.dtypes or dtype in spec.dtypes else spec.dtypes[0]
            )
            for spec in self.signature.inputs
            if spec.name not in drawn and spec.names <= vars(dims).keys()
        }
        return others | drawn

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that `check` runs: the small size and the edge cases."""
        return (SMALL, *self.edges)

    def results(self, values: Values, version: str = "") -> Values:
        """Computes on copies of the arguments, and returns results and effects by name."""
        copies = {name: copied(value) for name, value in values.items()}
        results = self(version=version, **copies)
        outputs = [spec.name for spec in self.signature.outputs]
        given = (results,) if len(outputs) == 1 else results or ()
        return dict(zip(outputs, given, strict=True)) | {name: copies[name] for name in self.effects}

    def arguments(self, values: Values) -> Values:
        """Returns all arguments, with numbers at their defaults and None for missing arrays."""
        absent = {spec.name: None for spec in self.signature.inputs if spec.is_optional}
        given = {n: pair_of(x) if type(self.signature.numbers.get(n)) is tuple else x for n, x in values.items()}
        return dict(self.signature.numbers) | absent | given

    def expected(self, values: Values) -> Values:
        """Returns the reference's results and effects by name."""
        names = [*(spec.name for spec in self.signature.outputs), *self.effects]
        expected_results = self.reference(**self.arguments(values))
        return dict(
            zip(names, expected_results if isinstance(expected_results, tuple) else (expected_results,), strict=True)
        )

    def tolerance_of(self, name: str, dtype: DType) -> Tolerance:
        """Returns the tolerance of a result."""
        return self.tolerance.get(name) or TOLERANCES.get(str(dtype), Close())

    def check(self, platform: str = HOST, case: str = "", **more: Any) -> Sequence[Any]:
        """Compares with the reference, on all cases and dtypes; see `pypto.library.checking.check`."""
        from pypto.library.checking import check

        return check(self, platform, case, **more)

    def moved(self, dims: Any) -> float:
        """Returns the bytes that have to be moved, for sizes by name."""
        if self.bytes is not None:
            return self.bytes(dims)
        first = self.signature.main_dtypes[0]
        every = (*self.signature.inputs, *self.signature.outputs)
        arrays = [spec for spec in every if spec.names <= vars(dims).keys()]
        return float(sum(int(np.prod(s.shape(vars(dims)))) * (s.dtypes or (first,))[0].itemsize for s in arrays))


def normal(rng: Rng, shape: tuple[int, ...], dtype: DType) -> Any:
    """Samples normal numbers of a shape and dtype; integers are uniform over the range of int8."""
    if dtype.is_int:
        return rng.integers(-127, 128, shape).astype(dtype.numpy)
    return rng.standard_normal(shape, np.float32).astype(dtype.numpy)


def bf(x: Any) -> Any:
    """Rounds to bfloat16 and returns float64, for references."""
    return np.asarray(x, np.float32).astype(bfloat16.numpy).astype(np.float64)


def f64(x: Any) -> Any:
    """Converts to float64, for references."""
    return np.asarray(x).astype(np.float64)
