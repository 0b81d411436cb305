"""`pto.jit`: a Python function as a kernel that is launched over a grid."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, overload

import pypto.compile as compiling
from pypto.errors.launch import NotLaunched, ReadOnlyArgument, UnsupportedArgument
from pypto.frontend import ArgSpec, ArraySpec, ConstSpec, KernelSource, ScalarSpec
from pypto.options import KernelOptions
from pypto.runtime.arrays import ArrayInfo, array_info, scalar_dtype
from pypto.runtime.launch import Grid, Overlaps, Plan, address_of, check_grid, fingerprint
from pypto.runtime.signature import Signature
from pypto.runtime.specialization import FactRecorder, Specialization, changing_entries, why

_INTERPRETING: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("interpreting", default=False)
_MOST_ENTRIES: Final = 4096


@dataclass(slots=True)
class Entry:
    """What a fingerprint leads to: launch plans by whether written arrays overlap no others."""

    overlaps: Overlaps
    plans: dict[bool, tuple[Specialization, Plan]]
    arrays: tuple[int, ...]


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
        self.function = function
        self.options = options
        self.signature = Signature.of(function)
        self.uninitialized: tuple[str, ...] = ()
        self._entries: dict[Any, Entry] = {}
        self._known: dict[Any, list[Specialization]] = {}
        self._lock = threading.RLock()

    @functools.cached_property
    def kernel_source(self) -> KernelSource:
        """The function's source, as the front end reads it."""
        return KernelSource.of(self.function)  # type: ignore[arg-type]  # a function, or `of` says what else it is

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotLaunched(kernel=self.signature.kernel)

    def __repr__(self) -> str:
        return f"<kernel {self.signature.kernel}({', '.join(self.signature.names)})>"

    @property
    def specializations(self) -> list[Specialization]:
        """What was compiled so far, and why each version was needed."""
        return [s for known in self._known.values() for s in known]

    def launch(self, grid: Grid, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """Run the kernel for every program of the grid; returns when all are done."""
        values = self.signature.bind(args, given)
        sizes = check_grid(grid, lambda: dict(zip(self.signature.names, values, strict=True)), self.signature.kernel)
        if self.options.interpret or _INTERPRETING.get() or compiling.session().settings.interpret:
            self._interpret(sizes, values)
            return
        key = fingerprint(values, self.signature.constant)
        entry = self._entries.get(key) if key is not None else None
        if entry is None:
            entry = self._entry(values, key)
        addresses = {i: address_of(values[i]) for i in entry.arrays}
        noalias = entry.overlaps.disjoint(addresses)
        found = entry.plans.get(noalias)
        if found is None or not found[0].is_current():
            entry = self._entry(values, key)
            found = entry.plans[noalias]
        if 0 not in sizes:
            self._run(found[1], sizes, values, addresses)

    def _run(self, plan: Plan, sizes: tuple[int, int, int], values: tuple[Any, ...], addresses: Mapping[int, int]) -> None:
        program, shared = plan.program, compiling.session()
        threads = self.options.num_threads or shared.threads
        size = program.artifact.scratch_bytes
        size += -size % 4096
        scratch = shared.scratch.at_least(size * max(threads, 1)) if size else 0
        block = plan.block(sizes, scratch, size, values, addresses)
        program.run(block.buffer_info()[0], sizes[0] * sizes[1] * sizes[2], threads)

    # --- compiling ----------------------------------------------------------------------------------------------

    def compile(self, *args: Any, **given: Any) -> Specialization:
        """Compile for these arguments without running; gives what was compiled."""
        values = self.signature.bind(args, given)
        infos, specs = self._describe(values)
        return self._specialize(values, infos, specs)

    def _describe(self, values: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, ArgSpec]]:
        """Arrays by what is known of them, and the kind of every argument."""
        infos: dict[str, Any] = {}
        specs: dict[str, ArgSpec] = {}
        name = self.signature.kernel
        for arg, value, constant in zip(self.signature.names, values, self.signature.constant, strict=True):
            value = value.value if type(value).__name__ == "constexpr" else value
            info = None if constant else array_info(value, name, arg)
            infos[arg] = info if info is not None else value
            if info is not None:
                specs[arg] = ArraySpec(info.dtype, len(info.shape))
            elif constant or value is None or not isinstance(value, bool | int | float) and scalar_dtype(value, name, arg) is None:
                specs[arg] = ConstSpec(self._constant(arg, value))
            else:
                dtype = scalar_dtype(value, name, arg)
                assert dtype is not None
                specs[arg] = ScalarSpec(dtype)
        return infos, specs

    def _constant(self, arg: str, value: Any) -> Any:
        """A compile-time value; it must have a hash, since versions are found by it."""
        try:
            hash(value)
        except TypeError:
            raise UnsupportedArgument(kernel=self.signature.kernel, arg=arg, got=f"a {type(value).__name__}, which is no array and no constant",
                                      way="pass an array, a number, or a hashable value for a `pto.constexpr` parameter") from None
        return value

    def _entry(self, values: tuple[Any, ...], key: Any) -> Entry:
        """Find or compile the version for new arguments and remember how to launch it."""
        infos, specs = self._describe(values)
        found = self._specialize(values, infos, specs)
        names = self.signature.names
        overlaps = Overlaps.make(found.program.written, names, infos)
        plan = Plan.make(found.program, found.program.artifact.abi, names, infos)
        arrays = tuple(i for i, n in enumerate(names) if isinstance(infos[n], ArrayInfo))
        with self._lock:
            entry = self._entries.get(key) if key is not None else None
            if entry is None:
                entry = Entry(overlaps, {}, arrays)
                if key is not None and len(self._entries) < _MOST_ENTRIES:
                    self._entries[key] = entry
            entry.plans[overlaps.disjoint({i: infos[names[i]].address for i in arrays})] = found, plan
        return entry

    def _specialize(self, values: tuple[Any, ...], infos: Mapping[str, Any], specs: Mapping[str, ArgSpec]) -> Specialization:
        group = tuple((n, s, type(s.value)) if isinstance(s, ConstSpec) else (n, s) for n, s in specs.items())
        with self._lock:
            known = self._known.setdefault(group, [])
            names = self.signature.names
            places = {i: v.address for i, v in enumerate(infos.values()) if isinstance(v, ArrayInfo)}
            for s in reversed(known):
                self._check_writable(s.program.written, infos)
                if s.holds(infos, Overlaps.make(s.program.written, names, infos).disjoint(places)):
                    return s
            return self._compile(known, infos, specs, places)

    def _compile(self, known: list[Specialization], infos: Mapping[str, Any], specs: Mapping[str, ArgSpec],
                 places: Mapping[int, int]) -> Specialization:
        facts = FactRecorder(self.signature.kernel, infos, changing_entries(known, infos), self.signature.declared)
        timings: dict[str, float] = {}
        built = compiling.to_ir(self.kernel_source, specs, facts, timings)
        written = compiling.written_arrays(built.function)
        self._check_writable(written, infos)
        noalias = Overlaps.make(written, self.signature.names, infos).disjoint(places)
        reason = why(known, infos, noalias)
        program = compiling.compile_program(built, noalias, self.options, timings)
        types = tuple((n, str(s.elem) + f"[{s.ndim}d]" if isinstance(s, ArraySpec) else str(s.dtype) if isinstance(s, ScalarSpec) else repr(s.value))
                      for n, s in specs.items())
        made = Specialization(types, facts.guard, noalias, reason, timings, built.captures, program)
        known.append(made)
        if "specialize" in compiling.session().settings.log:
            print(f"pypto: {self.signature.kernel} compiled for {made}", file=sys.stderr)
        return made

    def _check_writable(self, written: frozenset[str], infos: Mapping[str, Any]) -> None:
        for arg in sorted(written):
            if isinstance(infos[arg], ArrayInfo) and not infos[arg].writable:
                raise ReadOnlyArgument(kernel=self.signature.kernel, arg=arg)

    # --- interpreting -------------------------------------------------------------------------------------------

    def _interpret(self, sizes: tuple[int, int, int], values: tuple[Any, ...]) -> None:
        from pypto.interp import ArrayArg, run

        infos, specs = self._describe(values)
        facts = FactRecorder(self.signature.kernel, infos, frozenset(), self.signature.declared)
        timings: dict[str, float] = {}
        built = compiling.to_ir(self.kernel_source, specs, facts, timings)
        function = compiling.prepared(built.function, timings)
        self._check_writable(compiling.written_arrays(function), infos)
        arguments = []
        for v in function.args:
            info = infos[v.hint]
            if isinstance(info, ArrayInfo):
                strides = tuple(s * info.dtype.itemsize for s in info.strides)
                info = ArrayArg(v.hint, info.address, info.shape, strides, info.dtype)
            arguments.append(info)
        run(function, arguments, sizes, self.uninitialized)


@dataclass(frozen=True, slots=True)
class Launcher:
    """A kernel with its grid; call it with the arguments."""

    kernel: Kernel
    grid: Grid

    def __call__(self, *args: Any, **given: Any) -> None:
        self.kernel.launch(self.grid, args, given)


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
    compiling.session().threads_set = max(0, int(count))


def get_num_threads() -> int:
    """Threads of a launch."""
    return compiling.session().threads
