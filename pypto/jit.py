"""`pto.jit`: a Python function as a kernel that is launched over a grid."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, overload

from pypto.errors import Diagnostic
from pypto.errors.frontend import NoSource
from pypto.errors.launch import NotLaunched, ReadOnlyArgument, UnsupportedArgument
from pypto.ir.types import ArrayType, Type, scalar
from pypto.ops.public import constexpr
from pypto.options import KernelOptions
from pypto.runtime.arrays import ArrayInfo, array_info, scalar_dtype
from pypto.runtime.launch import Grid, Pairs, Plan, check_grid, constant_key, disjoint, fingerprint, overlaps
from pypto.runtime.signature import Signature
from pypto.runtime.specialization import FactRecorder, Specialization, changing_entries, why

if TYPE_CHECKING:
    from pypto.frontend import ArgSpec, ConstSpec, KernelSource

_INTERPRETING: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("interpreting", default=False)
_MOST_ENTRIES: Final = 4096


class Kernel:
    """A kernel. Launch it over a grid of programs as ``kernel[grid](arguments…)``.

    Parameters
    ----------
    function : function
        What every program runs, in the kernel language.
    options : KernelOptions
        See `pypto.options`.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     y[:] = x[:] * 2
    >>> x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    >>> double[(1,)](x, y)
    >>> y
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(self, function: Callable[..., Any], options: KernelOptions) -> None:
        functools.update_wrapper(self, function)
        self.function: Any = function
        self.options = options
        self.signature = Signature.of(function if isinstance(function, FunctionType) else self.kernel_source.function)
        self._arity = len(self.signature.names)
        self.uninitialized: tuple[str, ...] = ()
        self._entries: dict[Any, tuple[Pairs, dict[bool, Plan]]] = {}
        self._known: dict[Any, list[Specialization]] = {}
        self._lock = threading.RLock()

    @functools.cached_property
    def compiler(self) -> Any:
        """The module `pypto.compile`, which is loaded when something is compiled."""
        import pypto.compile

        return pypto.compile

    @functools.cached_property
    def kernel_source(self) -> KernelSource:
        """The function's source, as the front end reads it."""
        from pypto.frontend import KernelSource

        return KernelSource.of(self.function)

    @functools.cached_property
    def interpreted(self) -> bool:
        return bool(self.options.interpret or self.compiler.session().settings.interpret)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        return functools.partial(self.launch, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._placed(NotLaunched(kernel=self.signature.kernel))

    def __repr__(self) -> str:
        return f"<kernel {self.signature.kernel}({', '.join(self.signature.names)})>"

    @property
    def specializations(self) -> list[Specialization]:
        """What was compiled so far, and why each version was needed."""
        return [s for known in self._known.values() for s in known]

    def launch(self, grid: Grid, /, *args: Any, **given: Any) -> None:
        """Run the kernel for every program of the grid; returns when all are done."""
        try:
            values = args if len(args) == self._arity and not given else self.signature.bind(args, given)
            sizes = check_grid(grid, self.signature, values)
            if self.interpreted or _INTERPRETING.get():
                self._interpret(sizes, values)
                return
            plan, addresses = self._plan(values)
        except Diagnostic as error:
            raise self._placed(error) from None
        programs, shared = sizes[0] * sizes[1] * sizes[2], self.compiler.session()
        if programs:
            threads = 1 if programs == 1 else self.options.num_threads or shared.threads
            size = plan.slots[4] * threads
            plan.run(sizes, values, addresses, shared.scratch.at_least(size) if size else 0, threads)

    def _placed(self, error: Diagnostic) -> Diagnostic:
        """A mistake in a launch, at the parameter that it is about."""
        if error.loc is not None or isinstance(error, NoSource):
            return error
        with contextlib.suppress(NoSource):
            node: Any = self.kernel_source.node
            args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            about = next((a for a in args if a.arg == error.fields.get("arg")), node)
            return type(error)(self.kernel_source.loc(about), error.others, **error.fields)
        return error

    def _plan(self, values: tuple[Any, ...]) -> tuple[Plan, list[int]]:
        """How to launch for these arguments, compiled if need be, and where their arrays are."""
        key, found = None, None
        try:
            key, addresses = fingerprint(values, self.signature.constant)
            found = self._entries.get(key)
        except (LookupError, TypeError, RuntimeError):  # no key, no hash, or a tensor without memory
            pass
        if found is not None:
            pairs, plans = found
            plan = plans.get(disjoint(pairs, addresses))
            if plan is not None and plan.fits(values):
                return plan, addresses
        infos, specs = self._describe(values)
        made = self._specialize(infos, specs)
        plan, (pairs, addresses) = Plan.of(made, infos), overlaps(made.program.written, infos)
        if key is not None and len(self._entries) < _MOST_ENTRIES:
            self._entries.setdefault(key, (pairs, {}))[1][disjoint(pairs, addresses)] = plan
        return plan, addresses

    # --- compiling ----------------------------------------------------------------------------------------------

    def compile(self, *args: Any, **given: Any) -> Specialization:
        """Compile for these arguments without running; gives what was compiled."""
        try:
            return self._specialize(*self._describe(self.signature.bind(args, given)))
        except Diagnostic as error:
            raise self._placed(error) from None

    def _describe(self, values: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, ArgSpec]]:
        """Arrays by what is known of them, and the kind of every argument."""
        infos: dict[str, Any] = {}
        specs: dict[str, ArgSpec] = {}
        kernel = self.signature.kernel
        for arg, given, constant in zip(self.signature.names, values, self.signature.constant, strict=True):
            infos[arg] = value = given.value if isinstance(given, constexpr) else given
            info = None if constant else array_info(value, kernel, arg)
            dtype = None if constant or info else scalar_dtype(value, kernel, arg)
            if info:
                infos[arg], specs[arg] = info, ArrayType(info.dtype, len(info.shape))
            else:
                specs[arg] = scalar(dtype) if dtype else self._constant(arg, value)
        return infos, specs

    def _constant(self, arg: str, value: Any) -> ConstSpec:
        """A compile-time value; it must have a hash, since versions are found by it."""
        from pypto.frontend import ConstSpec

        try:
            hash(value)
        except TypeError:
            got = f"a {type(value).__name__}, which has no hash, so it cannot be a constant"
            way = "pass an array, a number, or a hashable value for a `pto.constexpr` parameter"
            raise UnsupportedArgument(kernel=self.signature.kernel, arg=arg, got=got, way=way) from None
        return ConstSpec(value)

    def _specialize(self, infos: Mapping[str, Any], specs: Mapping[str, ArgSpec]) -> Specialization:
        """The version for these arguments, compiled if need be."""
        group = tuple((n, s if isinstance(s, Type) else constant_key(s.value)) for n, s in specs.items())
        with self._lock:
            known = self._known.setdefault(group, [])
            for s in reversed(known):
                if s.holds(infos, disjoint(*overlaps(s.program.written, infos))):
                    self._check_writable(s.program.written, infos)
                    return s
            known.append(self._compile(known, infos, specs))
            return known[-1]

    def _compile(
        self, known: list[Specialization], infos: Mapping[str, Any], specs: Mapping[str, ArgSpec]
    ) -> Specialization:
        timings: dict[str, float] = {}
        built, facts = self._build(infos, specs, changing_entries(known, infos), timings)
        written = self.compiler.written_arrays(built.function)
        self._check_writable(written, infos)
        noalias = disjoint(*overlaps(written, infos))
        reason = why(known, infos, noalias)
        program = self.compiler.compile_program(built, noalias, self.options, timings)
        types = tuple((n, str(s) if isinstance(s, Type) else repr(s.value)) for n, s in specs.items())
        made = Specialization(types, facts.guard, noalias, reason, timings, built.captures, program)
        if "specialize" in self.compiler.session().settings.log:
            print(f"pypto: {self.signature.kernel} compiled for {made}", file=sys.stderr)
        return made

    def _build(
        self, infos: Mapping[str, Any], specs: Mapping[str, ArgSpec], dynamic: Any, timings: dict[str, float]
    ) -> tuple[Any, FactRecorder]:
        """Tile IR, and the facts that it was built with."""
        facts = FactRecorder(self.signature.kernel, infos, dynamic, self.signature.declared)
        return self.compiler.to_ir(self.kernel_source, specs, facts, timings), facts

    def _check_writable(self, written: frozenset[str], infos: Mapping[str, Any]) -> None:
        for arg in sorted(written):
            if isinstance(infos[arg], ArrayInfo) and not infos[arg].writable:
                raise ReadOnlyArgument(kernel=self.signature.kernel, arg=arg)

    # --- interpreting -------------------------------------------------------------------------------------------

    def _interpret(self, sizes: tuple[int, int, int], values: tuple[Any, ...]) -> None:
        from pypto.interp import ArrayArg, run

        infos, specs = self._describe(values)
        timings: dict[str, float] = {}
        built, _ = self._build(infos, specs, frozenset(), timings)
        function = self.compiler.prepared(built.function, timings)
        self._check_writable(self.compiler.written_arrays(function), infos)
        arguments = []
        for v in function.args:
            info = infos[v.hint]
            if isinstance(info, ArrayInfo):
                strides = tuple(s * info.dtype.itemsize for s in info.strides)
                info = ArrayArg(v.hint, info.address, info.shape, strides, info.dtype)
            arguments.append(info)
        run(function, arguments, sizes, self.uninitialized)


@overload
def jit(function: Callable[..., Any]) -> Kernel: ...
@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function.

    Parameters
    ----------
    function : function
        Written in the kernel language.
    **options
        Fields of `pypto.options.KernelOptions`: ``interpret``, ``num_threads``, ``level``, ``fast_math``.

    Returns
    -------
    Kernel
        Launched as ``kernel[grid](arguments…)``.

    Raises
    ------
    OptionError
        When an option is unknown.
    """
    chosen = KernelOptions.of(options)
    if function is None:
        return lambda f: Kernel(f, chosen)
    return Kernel(function, chosen)


def interpret(kernel: Kernel, uninitialized: tuple[str, ...] = ()) -> Kernel:
    """The same kernel, run by the interpreter: slow, and with every access checked.

    Parameters
    ----------
    kernel : Kernel
        Any kernel.
    uninitialized : tuple of str
        Names of arrays that hold nothing before the launch; reading what no program wrote is then an error.
    """
    made = Kernel(kernel.function, replace(kernel.options, interpret=True))
    made.uninitialized = uninitialized
    return made


@contextlib.contextmanager
def interpreter() -> Iterator[None]:
    """Run all kernels in the interpreter for the length of a `with` block."""
    token = _INTERPRETING.set(True)
    try:
        yield
    finally:
        _INTERPRETING.reset(token)


def set_num_threads(count: int) -> None:
    """Use at most `count` threads for later launches; 0 is the machine's own number."""
    from pypto.compile import session

    session().threads_set = max(0, int(count))


def get_num_threads() -> int:
    """Threads of a launch."""
    from pypto.compile import session

    return session().threads
