"""`pto.adjoint`: the backward kernel of a kernel."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pypto.arguments import Boundary, launched_kernel
from pypto.errors.gradients import NoGradient, WrongGradient
from pypto.gradients.card import ShownAdjoint
from pypto.gradients.handwritten import HandwrittenAdjoint, handwritten, is_gradient
from pypto.gradients.launch_cache import LaunchCache, PreparedLaunch, read_write_pairs
from pypto.gradients.launches import StepLaunch, run_steps, schedule, step_launch
from pypto.gradients.versions import (
    ATOMIC,
    BUDGET,
    ORDERED,
    Request,
    Step,
    Version,
    derive,
    described,
    launch_numbers,
    make_version,
)
from pypto.graph.codegen.writer import imports
from pypto.loc import Caller
from pypto.passes.adjoint.derive import Workspace, read_arrays
from pypto.passes.adjoint.footprint import LaunchNumbers
from pypto.runtime.arrays import ArrayInfo, array_info
from pypto.runtime.device_arrays import zero
from pypto.runtime.launch import check_grid
from pypto.runtime.launches import LaunchList

if TYPE_CHECKING:
    from pypto.jit import Kernel


@dataclass(frozen=True)
class LaunchPlan:
    """The plan of a launch: derived kernels, or a handwritten backward pass, with the facts about its arguments."""

    version: Version
    steps: tuple[Step, ...]
    numbers: LaunchNumbers
    infos: Mapping[str, Any]
    backward: HandwrittenAdjoint | None


class AdjointKernel(ShownAdjoint):
    """The derived backward of a kernel. Launch it as ``back[grid](arguments…, d_out=…, d_x=…)``.

    Attributes
    ----------
    kernel : Kernel
        The forward kernel.
    request : Request
        What `pto.adjoint` was asked for: `wrt`, `accumulate`, `max_trips`, `reuse`, `budget`.
    by_hand : str or None
        The backward pass under `Kernel.adjoint` that the last launch ran.
    """

    def __init__(self, kernel: Kernel, request: Request, is_always_derived: bool = False) -> None:
        self.__doc__ = f"The gradients of {kernel.signature.kernel} by {', '.join(request.wrt)}."
        self.kernel = kernel
        self.request = request
        self.by_hand: str | None = None
        self._is_always_derived = is_always_derived
        self._versions: list[Version] = []
        self._last: tuple[str, ...] = ()
        self._cache = LaunchCache(tuple(kernel.signature.constant))
        self._lock = threading.RLock()

    @property
    def wrt(self) -> tuple[str, ...]:
        """The arrays by which the kernel is differentiated."""
        return self.request.wrt

    def __repr__(self) -> str:
        return f"<adjoint of {self.kernel.signature.kernel} by {', '.join(self.wrt)}>"

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self.launch, grid)

    @property
    def source(self) -> str:
        """The derived kernels of the last launch, as source that can be pasted into a file.

        Raises
        ------
        WrongGradient
            Before the first launch: what is derived depends on the types of the arguments.
        """
        if not self._last:
            way = "launch it first, or ask `derive(grid, arguments…)`"
            raise WrongGradient(kernel=self.kernel.signature.kernel, problem="nothing was derived yet", way=way)
        return imports("".join(self._last)) + "".join(f"\n\n{text}" for text in self._last)

    @Boundary()
    def derive(self, grid: Any, /, *args: Any, **given: Any) -> str:
        """Returns the source that a launch with these arguments would run, without running it."""
        self._plan(grid, self.kernel._bind(args, self.split(given)[0]))
        return self.source

    @Boundary()
    def explain(self, grid: Any, /, *args: Any, **given: Any) -> str:
        """Explains what a launch with these arguments runs: its programs, sums, and saved values.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> @pto.jit
        ... def scale(x, w, y):
        ...     y[pto.program_id(0), :] = x[pto.program_id(0), :] * w[:]
        >>> x = np.ones((4, 8), np.float32)
        >>> print(pto.adjoint(scale, ["x", "w"]).explain(4, x, x[0], x))
        scale_adjoint_x_w: blocks of programs, one after the other
          d_x: stored once
          d_w: a partial gradient for each block, then their sum
          what the backward needs is computed again
        """
        from pypto.gradients.explain import explained

        plan = self._plan(grid, self.kernel._bind(args, self.split(given)[0]))
        if plan.backward is not None:
            return f"{plan.backward.name}: a backward pass by hand"
        return "\n".join(line for step in plan.steps for line in explained(step.derived, self._step_launch(plan, step)))

    @Boundary()
    def launch(self, grid: Any, /, *args: Any, **given: Any) -> None:
        """Writes the gradients of a launch of the forward kernel."""
        forward, gradients = self.split(given)
        values = self.kernel._bind(args, forward)
        key = self._cache.key(grid, values, gradients)
        prepared = self._cache.find(key)
        if prepared is None:
            prepared = self._prepare(grid, values, gradients)
            self._cache.add(key, prepared)
        in_place = prepared.version.in_place
        if prepared.is_empty:
            for name in set(self.wrt).difference(in_place.values()):
                zero(gradients[f"d_{name}"])
            return
        everything = dict(zip(self.kernel.signature.names, values, strict=True)) | gradients
        if prepared.backward is not None:
            prepared.backward.run(grid, everything)
        else:
            run_steps(prepared.steps, everything, in_place, self.wrt)

    @Boundary()
    def schedule(self, grid: Any, /, *args: Any, **given: Any) -> LaunchList:
        """Returns the derived kernels that a launch with these arguments runs, and their memory, as data.

        Arrays are contiguous. A handwritten backward pass is Python, so the schedule is always that of the derived one.
        """
        derived = AdjointKernel(self.kernel, replace(self.request, in_place=False), is_always_derived=True)
        plan = derived._plan(grid, self.kernel._bind(args, self.split(given)[0]))
        return schedule(plan, self.request)

    def derived(self) -> AdjointKernel:
        """Returns an adjoint that always uses derived kernels, even if there is a handwritten backward pass."""
        return AdjointKernel(self.kernel, self.request, is_always_derived=True)

    def verifier(self, atol: float | None, rtol: float | None) -> Any:
        """Returns the verifier for `pto.verify`."""
        from pypto.gradients.verify import AdjointVerifier

        return AdjointVerifier(self, atol, rtol)

    def stored(self, grid: Any, /, *args: Any, **given: Any) -> tuple[str, ...]:
        """Returns the float arrays that the forward kernel stores in a launch, in the order of its parameters."""
        return self._version(grid, self.kernel._bind(args, given))[0].results

    def in_place(self, grid: Any, /, *args: Any, **given: Any) -> tuple[str, ...]:
        """Returns the float arrays that the forward kernel reads and stores in a launch."""
        version = self._version(grid, self.kernel._bind(args, given))[0]
        return tuple(sorted(read_arrays(version.function).intersection(version.in_place.values())))

    def split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Splits arguments by name into those of the forward kernel and gradients, without irrelevant options."""
        names = self.kernel.signature.names
        gradients = {n: x for n, x in given.items() if is_gradient(n, names)}
        ignored = self.kernel.ignored_options.difference(names)
        return {n: x for n, x in given.items() if n not in gradients and n not in ignored}, gradients

    # --- versions -------------------------------------------------------------------------------------------------

    def _prepare(self, grid: Any, values: tuple[Any, ...], gradients: Mapping[str, Any]) -> PreparedLaunch:
        """Derives what a launch runs, and checks its arguments."""
        plan = self._plan(grid, values)
        given = self._check(plan.version, plan.infos, gradients)
        written = frozenset(f"d_{n}" for n in self.wrt)
        everything = dict(plan.infos) | {name: given[name] for name in gradients}
        pairs = read_write_pairs(everything, self._unread(plan.version), written)
        is_empty = 0 in plan.numbers.grid
        launches = () if is_empty else tuple(self._step_launch(plan, step) for step in plan.steps)
        return PreparedLaunch(plan.version, launches, is_empty, pairs, plan.backward)

    def _step_launch(self, plan: LaunchPlan, step: Step) -> StepLaunch:
        return step_launch(plan, step, self.request)

    def _plan(self, grid: Any, values: tuple[Any, ...]) -> LaunchPlan:
        """Returns the plan of a launch, derived if necessary."""
        version, infos, numbers = self._version(grid, values)
        if added := sorted(set(self.wrt).intersection(version.stored)):
            self._fail(
                f"`{added[0]}` is added to by `atomic_add`", "differentiate by the arrays that the sums are made of"
            )
        wanted = frozenset(f"d_{n}" for n in (*version.results, *self.wrt))
        backward = None if self._is_always_derived else handwritten(self.kernel, wanted)
        with self._lock:
            self.by_hand = backward.name if backward is not None else None
            if backward is not None:
                self._last = (backward.source,)
                return LaunchPlan(version, (), numbers, infos, backward)
            steps = derive(self.kernel, version, self.request, numbers)
            self._last = tuple(step.source for step in steps)
        return LaunchPlan(version, steps, numbers, infos, None)

    def _version(self, grid: Any, values: tuple[Any, ...]) -> tuple[Version, Mapping[str, Any], LaunchNumbers]:
        """Returns the forward IR for a launch, with the facts about its arguments."""
        infos, specs, key = described(self.kernel, values)
        numbers = launch_numbers(infos, check_grid(grid, self.kernel.signature, values))
        self._check_arrays(infos)
        version = self._known_version(key, infos, specs)
        numbers = version.numbers(numbers)
        if unstored := sorted(self.request.reuse - frozenset(version.stored)):
            self._fail(f"`{unstored[0]}` is to be reused, and is no array of floats that it stores", "leave it out")
        return version, infos, numbers

    def _known_version(self, key: tuple[Any, ...], infos: Mapping[str, Any], specs: Mapping[str, Any]) -> Version:
        """Returns the version that holds for some arguments, made if necessary."""
        with self._lock:
            version = next((v for v in self._versions if v.holds(key, infos)), None)
            if version is None:
                version = make_version(self.kernel, infos, specs, key, self.request)
                self._versions.append(version)
        return version

    # --- checks ---------------------------------------------------------------------------------------------------

    def _check_arrays(self, infos: Mapping[str, Any]) -> None:
        for name in self.wrt:
            info = infos[name]
            if not isinstance(info, ArrayInfo) or not info.dtype.is_float:
                problem = f"`{name}` is no array of floats"
                self._fail(problem, "differentiate by arrays of floats; pass a number as an array of one element")

    def _check(self, version: Version, infos: Mapping[str, Any], gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Checks that each gradient is present, matches its array, and overlaps no array that is read."""
        wanted = tuple(dict.fromkeys((*version.results, *self.wrt)))
        if missing := [f"d_{n}" for n in wanted if f"d_{n}" not in gradients]:
            self._fail(f"{', '.join(missing)} is missing", "pass one for each stored array, and each in `wrt`")
        if unknown := sorted(gradients.keys() - {f"d_{n}" for n in wanted}):
            self._fail(f"{unknown[0]} belongs to no stored array and to none in `wrt`", "leave it out")
        given = {f"d_{n}": self._checked(version, n, infos[n], gradients[f"d_{n}"]) for n in wanted}
        read = {n: x for n, x in infos.items() if isinstance(x, ArrayInfo) and n not in self._unread(version)}
        others = read | given
        for n in self.wrt:
            for name, info in others.items():
                if name != f"d_{n}" and overlap(given[f"d_{n}"], info):
                    self._fail(f"d_{n} overlaps `{name}`, which is read", "give it memory of its own")
        return given

    def _unread(self, version: Version) -> tuple[str, ...]:
        """Returns stored arrays that no derived kernel reads."""
        return tuple(n for n in version.stored if n not in self.request.reuse)

    def _checked(self, version: Version, n: str, info: Any, gradient: Any) -> Any:
        """Checks that the gradient of an array matches the array, and returns its facts."""
        gradient_info = array_info(gradient, self.kernel.signature.kernel, f"d_{n}")
        way = f"make it as `np.empty_like({n})`"
        if gradient_info is None or tuple(gradient_info.shape) != tuple(info.shape):
            self._fail(f"d_{n} must be an array of shape {tuple(info.shape)}", way)
        assert gradient_info is not None
        if gradient_info.dtype != info.dtype:
            self._fail(f"d_{n} is of {gradient_info.dtype}, and `{n}` of {info.dtype}", way)
        if n in self.wrt and not gradient_info.writable:
            self._fail(f"d_{n} is read-only", way)
        if n in version.by_pointers and tuple(gradient_info.strides) != tuple(info.strides):
            problem = f"d_{n} must have the strides of `{n}`, which the kernel reaches through pointers"
            self._fail(problem, f"{way}, or write the kernel with slices")
        return gradient_info

    def _fail(self, problem: str, way: str) -> None:
        raise WrongGradient(kernel=self.kernel.signature.kernel, problem=problem, way=way)


def overlap(a: Any, b: Any) -> bool:
    """Says whether two arrays may share memory, which means that their address ranges overlap."""
    first, last = a.reach
    start, end = b.reach
    return bool(a.address + first < b.address + end and b.address + start < a.address + last)


def adjoint(
    kernel: Kernel,
    wrt: Iterable[str],
    accumulate: str = ORDERED,
    max_trips: int | None = None,
    reuse: Iterable[str] = (),
    budget: int = BUDGET,
) -> AdjointKernel:
    """Derives the backward kernel of a kernel.

    It takes the forward's grid and arguments, and gradients by name as ``d_NAME``: it reads one for each float array
    that the kernel stores, and writes one (it does not add to it) for each of `wrt`. The order of sums over programs
    does not depend on the number of threads. Arguments have their values from before the forward launch. For an array
    that is updated in place, ``d_NAME`` is the gradient of its final value on entry, and of its initial value on exit.

    Parameters
    ----------
    kernel : Kernel
        A function under `pto.jit`, or `triton.jit`, that reads no element of an array which it has written before.
    wrt : iterable of str
        Arrays of floats by which it is differentiated.
    accumulate : {"ordered", "atomic"}
        How gradients of shared elements are summed: by partial gradients in a fixed order, or by atomics in any order.
    max_trips : int, optional
        The bound for trip counts that are unknown at launch: of a `while`, or a `for` up to a loaded number.
    reuse : iterable of str, optional
        Arrays that still hold the results of the forward launch, so that they are read instead of recomputed.
    budget : int, optional
        The limit in bytes of the values that loops save in each trip.

    Returns
    -------
    AdjointKernel
        ``back[grid](arguments…, d_out=…, d_x=…)``; ``back.source`` shows the kernels that it runs.

    Raises
    ------
    NoGradient
        At the first launch, with the line: for reads after writes, unbounded loops, and bit operations.
    WrongGradient
        When a name in `wrt` is no argument; after a launch, when a loop ran more often than `max_trips`.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def square(x, y):
    ...     y[:] = x[:] * x[:]
    >>> back = pto.adjoint(square, wrt=["x"])
    >>> x, y, d_y, d_x = np.ones((4, 3), np.float32)
    >>> back[1](x, y, d_y=d_y, d_x=d_x)
    >>> d_x
    array([2., 2., 2.], dtype=float32)
    """
    kernel = launched_kernel(kernel)
    names, reused = ((x,) if isinstance(x, str) else tuple(dict.fromkeys(x)) for x in (wrt, reuse))
    request = Request(names, accumulate, max_trips, frozenset(reused), budget)
    with Boundary(Caller.of(sys._getframe(1)).loc):
        check_request(kernel, request)
    return AdjointKernel(kernel, request)


def check_request(kernel: Any, request: Request) -> None:
    """Refuses invalid arguments of `adjoint`."""

    def fail(problem: str, way: str) -> NoReturn:
        name = kernel.signature.kernel if hasattr(kernel, "signature") else getattr(kernel, "__name__", kernel)
        raise WrongGradient(kernel=name, problem=problem, way=way)

    if not hasattr(kernel, "signature") and hasattr(kernel, "fn"):
        name = getattr(kernel, "__name__", "kernel")
        way = f"pass the kernel below the tuner, `{name}.fn`, and its constants to each launch"
        fail("what a tuner or heuristic chooses at a launch is not known", way)
    if not hasattr(kernel, "signature"):
        fail("it is no kernel", "decorate it: `@pto.jit`")
    accumulate, max_trips = request.accumulate, request.max_trips
    unknown = [n for n in (*request.wrt, *sorted(request.reuse)) if n not in kernel.signature.names]
    if unknown or not request.wrt:
        problem = f"`{unknown[0]}` is none of its arguments" if unknown else "`wrt` names no array"
        fail(problem, f"name some of {', '.join(kernel.signature.names)}")
    if accumulate not in (ORDERED, ATOMIC):
        fail(f"`accumulate` is {accumulate!r}", f"use {ORDERED!r} or {ATOMIC!r}")
    if max_trips is not None and (not isinstance(max_trips, int) or max_trips < 1):
        fail(f"`max_trips` is {max_trips!r}", "pass a positive integer")
    if not isinstance(request.budget, int) or request.budget < 0:
        fail(f"`budget` is {request.budget!r}", "pass a number of bytes")


__all__ = ["AdjointKernel", "NoGradient", "Workspace", "adjoint"]
