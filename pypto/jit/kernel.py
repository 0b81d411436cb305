"""A kernel: what a launch goes through, from its arguments to a plan of native code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial, update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pypto.arguments import Boundary, describe, place_of
from pypto.errors.frontend import EmptySlice
from pypto.errors.launch import NotLaunched
from pypto.jit.specialize import build, plan_for, version_for
from pypto.jit.variants import check_affinity, variant_of, with_options
from pypto.options import KernelOptions
from pypto.runtime.arrays import stand_in
from pypto.runtime.launch import Grid, Pairs, Plan, Values, check_grid
from pypto.runtime.mode import MODE, PLAIN, only_profiled
from pypto.runtime.pickling import Pickled
from pypto.runtime.signature import Signature
from pypto.runtime.specialization import Specialization
from pypto.runtime.tensors import is_dispatched, is_traced
from pypto.runtime.versions import Versions

if TYPE_CHECKING:
    from pypto.frontend import KernelSource


class Kernel(Pickled, pickled=("function", "options", "opaque")):
    """A kernel. Launch it over a grid of programs as ``kernel[grid](arguments…)``.

    Options that may be tuned can stand among the arguments: ``kernel[grid](x, y, disable=("peeling",))`` runs the
    variant of `with_options`, which is the quicker way to launch one often.

    Parameters
    ----------
    function : function
        What every program runs, in the kernel language.
    options : KernelOptions
        See `pypto.options`.
    do_not_specialize : sequence of str or int
        Parameters, by name or number, of whose values no version is to make use.

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

    variant_of = variant_of
    build = build
    ignored_options: frozenset[str] = frozenset()  # of a launch, which mean nothing here
    lenient = False  # whether the rules are Triton's, where they are less strict

    def __init__(
        self, function: Callable[..., Any], options: KernelOptions, do_not_specialize: Iterable[str | int] = ()
    ) -> None:
        update_wrapper(self, function)
        self.function: Any = function
        self.fn = function
        self.options = options
        self.kind = type(self)
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.post_run_hooks: list[Callable[..., Any]] = []
        self.signature = Signature.of(function if isinstance(function, FunctionType) else self.kernel_source.function)
        check_affinity(options, self.signature)
        names = self.signature.names
        self.arg_names = list(names)
        self.opaque = frozenset(n if isinstance(n, str) else names[n] for n in do_not_specialize)
        self._arity = len(names) if self.signature.positional < 0 else -1
        self._bind = self.signature.bind if self.signature.positional < 0 else self.signature.bind_star
        self.boundary = Boundary(lambda error: place_of(error, lambda: self.kernel_source))
        self.uninitialized: tuple[str, ...] = ()
        self.memory: tuple[Any, ...] = ()
        self.tuned: frozenset[str] = frozenset()  # constants that a tuner tries
        self.threads_by: Any = None  # a `ThreadCount` that says on how many threads launches run, not the process
        self.origins: tuple[str, ...] = ()  # lines of a program that the kernel was generated from
        self.reported = set[str]()  # what was said of it when it was compiled
        self.entries: dict[Any, tuple[Pairs, dict[bool, Plan]]] = {}
        self.known: dict[Any, list[Specialization]] = {}
        self.lock = threading.RLock()
        self.backwards: list[Callable[..., None]] = []  # by hand, see `adjoint`
        self.variants: dict[KernelOptions, Kernel] = {}  # with the options of a launch
        self.table: Any = None  # what the native launcher knows of this kernel, once something was launched
        self._subscript: Callable[[Grid], Callable[..., None]] = self._first_subscript

    @cached_property
    def compiler(self) -> Any:
        """The module `pypto.compile`, which is loaded when something is compiled."""
        import pypto.compile

        return pypto.compile

    @cached_property
    def kernel_source(self) -> KernelSource:
        """The function's source, as the front end reads it."""
        from pypto.frontend import KernelSource

        return KernelSource.of(self.function)

    @cached_property
    def profiled(self) -> Kernel:
        """The kernel whose statements note their times, for `pto.profile`."""
        profiled = self.kind(self.function, replace(self.options, profile=True), self.opaque)
        profiled.add_pre_run_hook(only_profiled)
        return profiled

    @cached_property
    def modes(self) -> tuple[bool, bool]:
        """Whether all launches are interpreted, and whether they are checked."""
        wanted = self.options, self.compiler.session().settings
        return any(w.interpret for w in wanted), any(w.checked for w in wanted)

    @cached_property
    def checked(self) -> Kernel:
        """The kernel as `pto.checked` runs it."""
        options = replace(self.options, checked=True)
        return self if options == self.options else self.kind(self.function, options, self.opaque)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        if is_traced():
            from pypto.torch.graph.tracing import traced_subscript

            return traced_subscript(self, grid)
        return self._subscript(grid)

    def _first_subscript(self, grid: Grid) -> Callable[..., None]:
        self._make_table()
        return self._subscript(grid)

    def _make_table(self) -> None:
        """Have native code make the launches that it can, from now on."""
        launcher = None if any(self.modes) else self.compiler.session().launcher
        with self.lock:
            if launcher and not self.table:
                self.table = launcher.table(self, self.through_python, MODE, PLAIN)
            self._subscript = self.table.subscript if self.table else partial(partial, self.through_python)
            if self.table and type(self) is self.kind:
                self.__class__ = self.table.straight(self.kind)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.boundary:
            raise NotLaunched(kernel=self.signature.kernel)

    def __repr__(self) -> str:
        return f"<kernel {self.signature.kernel}({', '.join(self.signature.names)})>"

    def _repr_html_(self) -> str:
        from pypto.debug.cards import kernel_card

        return kernel_card(self)

    @property
    def specializations(self) -> list[Specialization]:
        """What was compiled so far, and why each version was needed."""
        return Versions(self.signature.kernel, (s for known in self.known.values() for s in known))

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call a function with the arguments of every launch, before it."""
        self.pre_run_hooks.append(hook)

    def add_post_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call a function with the arguments of every launch, when all programs are done."""
        self.post_run_hooks.append(hook)

    @Boundary()
    def run(self, *args: Any, grid: Grid, warmup: bool = False, **given: Any) -> Specialization | None:
        """`kernel[grid](…)`, or with `warmup` only what compiles for it."""
        if warmup:
            return self.warmup(*args, grid=grid, **given)
        self.launch(grid, *args, **given)
        return None

    def with_options(self, **options: Any) -> Kernel:
        """The kernel with other options, as `pto.jit` takes them; equal ones give the same kernel.

        Raises
        ------
        WrongOption
            When there is no such option, or its value is of another type.
        WrongPass
            When `disable` names a pass that there is not, or that code would not be right without.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> @pto.jit
        ... def double(x, y):
        ...     y[:] = x[:] * 2
        >>> plain = double.with_options(disable=("peeling",), num_threads=1)
        >>> x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
        >>> plain[(1,)](x, y)
        >>> y
        array([0., 2., 4., 6.], dtype=float32)
        """
        with self.boundary:
            return with_options(self, options)

    def warmup(self, *args: Any, grid: Grid = 1, **given: Any) -> Specialization:
        """Compile for these arguments without running. A dtype stands for an array of it, of which nothing is known."""
        kernel, given = variant_of(self, given)
        if kernel is not self:
            return kernel.warmup(*args, grid=grid, **given)
        with self.boundary:
            values = zip(self._bind(args, given), self.signature.constant, strict=True)
            return self.compiled(tuple(x if fixed else stand_in(x) for x, fixed in values), {})

    @Boundary()
    def launch(self, grid: Grid, /, *args: Any, **given: Any) -> None:
        """Run the kernel for every program of the grid; returns when all are done."""
        self._subscript(grid)(*args, **given)

    def bind(self, *args: Any, grid: Grid, **given: Any) -> Callable[[], None]:
        """A launch that is ready to be made, any number of times, on these arguments.

        Parameters
        ----------
        *args, **given
            The arguments of the kernel. Arrays are kept alive, and what changes about them until a call counts.
        grid : int, tuple or function
            As in ``kernel[grid]``.

        Returns
        -------
        callable
            Takes no arguments.

        Raises
        ------
        WrongArguments
            When an argument is missing, unknown, given twice or too many. All else is found out by the calls.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> @pto.jit
        ... def count(x):
        ...     x[pto.program_id(0)] += 1
        >>> x = np.zeros(3, np.int32)
        >>> step = count.bind(x, grid=(3,))
        >>> step(), step()
        (None, None)
        >>> x
        array([2, 2, 2], dtype=int32)
        """
        with self.boundary:
            values = self._bind(args, given)
        launch = self[grid]
        return self.table.prepared(grid, values) if self.table else partial(launch, *args, **given)

    def adjoint(self, backward: Callable[..., None]) -> Callable[..., None]:
        """Register a backward pass by hand, which `pto.adjoint` runs where a launch has the gradients that it names.

        It takes ``grid``, the arguments of the forward launch that it needs, and ``d_NAME`` for each gradient.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> @pto.jit
        ... def square(x, y):
        ...     y[:] = x[:] * x[:]
        >>> @square.adjoint
        ... def backward(grid, x, d_y, d_x):
        ...     d_x[:] = 2 * x * d_y
        >>> x, y, d_y, d_x = np.ones((4, 3), np.float32)
        >>> print(pto.verify(pto.adjoint(square, ["x"]))[1](x, y, d_y=d_y, d_x=d_x))
        backward: 1 programs, by hand as derived
          d_x: 3 elements, largest difference 0 (0 ulp)
        """
        self.backwards.append(backward)
        return backward

    @Boundary()
    def inspect(self, *args: Any, **given: Any) -> Any:
        """What a launch with these arguments runs, from the source down to machine code: an `Inspection`.

        Printed, it is the source with the type of every line; ``[level]`` is a level as text. A notebook, and
        the page of `save`, open on what became of every line: elements per pass, time (where ``profile=prof`` is given)
        and reasons. With ``target="ascend910b2"``, it is for that chip, with the memory plan and a timeline.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> @pto.jit
        ... def double(x, y):
        ...     y[:] = x[:] * 2
        >>> found = double.inspect(np.ones(4, np.float32), np.ones(4, np.float32))
        >>> [level.name for level in found.levels]
        ['tile-ir', 'optimized-ir', 'loop-ir', 'llvm-ir', 'assembly']
        """
        import pypto.debug.inspection

        kernel, given = variant_of(self, given)
        return pypto.debug.inspection.inspect(kernel, *args, **given)

    def through_python(self, grid: Grid, /, *args: Any, **given: Any) -> None:
        """A launch that native code does not make: the first of its kind, and wherever something else takes part."""
        with self.boundary:
            if is_dispatched((*args, *given.values())):
                from pypto.torch.graph.modes import dispatched_launch

                dispatched_launch(*variant_of(self, given), grid, args)
            else:
                self.launch_here(grid, *args, **given)

    def launch_here(self, grid: Grid, /, *args: Any, **given: Any) -> None:
        """A launch in Python that no mode of torch is to see, since there is none or it has seen it."""
        for hook in self.pre_run_hooks:
            hook(*args, **given)
        with self.boundary:
            kernel, others = variant_of(self, given) if given else (self, given)
            if kernel is not self:
                kernel.launch(grid, *args, **others)
            else:
                self._run_in_mode(grid, args, others)
        for hook in self.post_run_hooks:
            hook(*args, **given)

    def _run_in_mode(self, grid: Grid, args: Values, given: dict[str, Any]) -> None:
        values = args if len(args) == self._arity and not given else self._bind(args, given)
        sizes = check_grid(grid, self.signature, values)
        # No program meets an empty slice in a launch of none.
        with nullcontext() if all(sizes) else suppress(EmptySlice):
            MODE.get().run(self, sizes, values)

    def execute(self, sizes: tuple[int, int, int], values: Values) -> None:
        """Run the kernel on the backend."""
        plan, launch = self.ready(sizes, values)
        if sizes[0] * sizes[1] * sizes[2]:
            plan.run(*launch)

    def ready(self, sizes: tuple[int, int, int], values: Values) -> tuple[Plan, tuple[Any, ...]]:
        """A plan, and what its `run` takes for these arguments."""
        plan, addresses, leaves = plan_for(self, values)
        programs, shared = sizes[0] * sizes[1] * sizes[2], self.compiler.session()
        threads = 1 if programs == 1 else self.options.num_threads or (self.threads_by or shared).threads
        return plan, (sizes, leaves, addresses, shared.scratch_address(plan.slots[4] * threads), threads)

    # --- compiling ----------------------------------------------------------------------------------------------

    @Boundary()
    def compile(self, *args: Any, **given: Any) -> Any:
        """Compile for these arguments without running; gives what was compiled.

        With ``target="ascend910b2"``, it is compiled for that chip, as far as that needs no toolkit, and its `simulate`
        predicts launches there. With a target and nothing else, `simulate` compiles for the arguments that it is given.
        """
        kernel, given = variant_of(self, given)
        chip = given.pop("target", None) if "target" not in self.signature.names else None
        if chip is None:
            return kernel.compiled(args, given)
        import pypto.debug.simulate

        return pypto.debug.simulate.compile_for(kernel, chip, args, given)

    def compiled(self, args: tuple[Any, ...], given: dict[str, Any]) -> Specialization:
        """The version for these arguments, on the device that is chosen."""
        with self.boundary:
            return version_for(self, *describe(self.signature, self._bind(args, given)))

    # --- interpreting -------------------------------------------------------------------------------------------

    def interpret(
        self, sizes: tuple[int, int, int], values: Values, on_store: Callable[..., None] | None = None
    ) -> None:
        """Run the kernel in the interpreter; `on_store` is told of every store."""
        from pypto.debug.interpret import run_interpreted

        run_interpreted(self, sizes, values, on_store)
