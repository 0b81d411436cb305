"""`pto.verify` compares a launch, compiled and interpreted, and reports the first difference with its line."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.arguments import Boundary, describe, launched_kernel
from pypto.errors.interp import CompiledDiffers
from pypto.interp.memory import Segment, index_text
from pypto.ir.types import DType
from pypto.loc import UNKNOWN, Loc
from pypto.markup import Shown, card
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.copies import Span, merged, stand_in
from pypto.runtime.launch import check_grid

Array = np.ndarray[Any, Any]
# Relative difference that the order of sums and the stated ulp of functions may cause, by the bits of a float.
TOLERANCE: Final = MappingProxyType({64: 1e-11, 32: 1e-5, 16: 1e-2, 8: 2e-1})


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of an array that a launch wrote: its size, and the largest difference, in ulp for floats."""

    array: str
    elements: int
    largest: float
    ulp: float | None


@dataclass(frozen=True, slots=True)
class Verified(Shown):
    """The result of a comparison in which nothing differs by more than is allowed."""

    kernel: str
    programs: int
    arrays: tuple[Compared, ...]

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.programs} programs, compiled as interpreted"]
        for a in self.arrays:
            ulp = "" if a.ulp is None else f" ({a.ulp:.3g} ulp)"
            lines.append(f"  {a.array}: {a.elements} elements, largest difference {a.largest:.3g}{ulp}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from pypto.debug.cards import verified_card

        return verified_card(self)


@dataclass
class Recorder:
    """Records who stored each element last: the program, the number of the store, and the element of its tile."""

    locs: list[Loc] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    number: dict[Loc, int] = field(default_factory=dict)
    origins: dict[str, Array] = field(default_factory=dict)

    def __call__(self, segment: Segment, index: Array, chosen: Array, loc: Loc, program: int) -> None:
        if loc not in self.number:
            self.number[loc] = len(self.locs)
            self.locs.append(loc)
            self.shapes.append(np.shape(chosen))
        origin = self.origins.setdefault(segment.name, np.full((len(segment.data), 3), -1, np.int64))
        lanes = np.flatnonzero(np.asarray(chosen).ravel())
        flat = index.reshape(len(lanes), -1)
        origin[flat.ravel()] = np.stack([np.full(flat.size, program), np.full(flat.size, self.number[loc]),
                                         np.repeat(lanes, flat.shape[1])], 1)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verifier(Shown):
    """Launches a kernel compiled and interpreted; see `verify`."""

    kernel: Any
    atol: float | None
    rtol: float | None

    def __str__(self) -> str:
        kernel = self.kernel
        while hasattr(kernel, "completed"):
            kernel = kernel.fn
        name = kernel.signature.kernel
        return f"verify({name}): launch it as verify({name})[grid](arguments…) to compare compiled with interpreted"

    def _repr_html_(self) -> str:
        return card(*str(self).split(": ", 1))

    def __getitem__(self, grid: Any) -> Callable[..., Verified]:
        return partial(self.launch, grid)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Raises the kernel's own error, because a kernel needs a grid."""
        return self.kernel(*args, **given)

    @Boundary()
    def launch(self, grid: Any, /, *args: Any, **given: Any) -> Verified:
        """Launches, and compares. Afterwards the arrays hold the results of the compiled kernel."""
        kernel = self.kernel
        while hasattr(kernel, "completed"):  # wrappers that choose constants, by tuning or by rules
            given = kernel.completed(args, {**given, "grid": grid})
            grid, kernel = given.pop("grid"), kernel.fn
        kernel, given = kernel.variant_of(given)
        if kernel is not self.kernel:
            return Verifier(kernel, self.atol, self.rtol).launch(grid, *args, **given)
        signature = kernel.signature
        with kernel.boundary:
            values = signature.bind(args, given)
            sizes = check_grid(grid, signature, values)
        written = kernel.compile(*args, **given).program.written
        infos = {n: i for n, i in describe(signature, values)[0].items() if isinstance(i, ArrayInfo) and n in written}
        before, recorder = copied_spans(infos), Recorder()
        try:
            kernel.interpret(sizes, values, recorder)
            interpreted = copied_spans(infos)
        finally:
            for span in before:
                span.put_back()
        kernel[grid](*args, **given)
        arrays = ((name, info, stand_in(info, interpreted)) for name, info in infos.items())
        compared = tuple(self.compare(*array, recorder, sizes) for array in arrays)
        return Verified(signature.kernel, math.prod(sizes), compared)

    def compare(self, name: str, info: ArrayInfo, expected: Array, recorder: Recorder, sizes: Any) -> Compared:
        got = array_at(info)
        with np.errstate(all="ignore"):
            widened = np.longdouble if info.dtype.bits == 64 else np.float64
            x: Any = got.astype(widened)
            y: Any = expected.astype(widened)
            distance = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
            far = ~(distance <= self.allowed(info.dtype, y))
        if far.any():
            raise self.differs(name, info, got, expected, far, recorder, sizes)
        largest = float(np.max(distance, initial=0.0))
        ulp = float(np.max(distance / spacing(y, info.dtype), initial=0.0)) if info.dtype.is_float else None
        return Compared(name, got.size, largest, ulp)

    def allowed(self, dtype: DType, expected: Array) -> Array:
        """Returns the largest allowed difference of each element: 0 for integers."""
        usual = TOLERANCE[dtype.bits] if dtype.is_float else 0.0
        rtol = usual if self.rtol is None else self.rtol
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        atol = usual * scale if self.atol is None else self.atol
        return np.asarray(atol + rtol * np.where(np.isfinite(expected), np.abs(expected), 0))

    def differs(self, name: str, info: ArrayInfo, got: Array, expected: Array, far: Array, recorder: Recorder,
                sizes: tuple[int, int, int]) -> CompiledDiffers:  # fmt: skip
        """Builds the error of the first element that differs, in the order in which the programs stored them."""
        places = np.argwhere(far)
        low = info.reach[0] // info.dtype.itemsize
        flat = places @ np.array(info.strides, np.int64).reshape(-1) if places.shape[1] else np.zeros(1, np.int64)
        none = np.full((len(places), 3), -1, np.int64)
        origins = recorder.origins[name][flat - low] if name in recorder.origins else none
        first = int(np.lexsort(origins.T[::-1])[0])
        program, op, lane = map(int, origins[first])
        place = tuple(map(int, places[first]))
        x, y, _ = sizes
        who = f"({program % x}, {program // x % y}, {program // (x * y)})" if program >= 0 else "none"
        loc = recorder.locs[op] if op >= 0 else UNKNOWN
        return CompiledDiffers(loc, kernel=self.kernel.signature.kernel, array=name,
            index=index_text(info, int(flat[first])), got=f"{got[place]:.9g}", expected=f"{expected[place]:.9g}",
            count=len(places), total=far.size, program=who,
            element=element(recorder.shapes[op], lane) if op >= 0 else "an element that no program stores",
        )  # fmt: skip


def element(shape: tuple[int, ...], lane: int) -> str:
    """Returns the index of an element of a stored tile, as the author would write it."""
    if not shape:
        return "the number that it stores"
    index = ", ".join(str(int(i)) for i in np.unravel_index(lane, shape))
    return f"element [{index}] of the tile of shape {shape} that it stores"


def copied_spans(infos: dict[str, ArrayInfo]) -> list[Span]:
    """Copies of what arrays hold."""
    spans = merged([(i.address + i.reach[0], i.address + i.reach[1]) for i in infos.values()])
    for span in spans:
        span.restore()
    return spans


def array_at(info: ArrayInfo) -> Array:
    """Returns a numpy array over an array's own memory."""
    low, high = info.reach
    raw: Any = (ctypes.c_uint8 * (high - low)).from_address(info.address + low)
    strides = tuple(s * info.dtype.itemsize for s in info.strides)
    return np.ndarray(info.shape, info.dtype.numpy, raw, -low, strides) if high > low else np.empty(0, info.dtype.numpy)


def spacing(values: Array, dtype: DType) -> Array:
    """Returns the unit in the last place (ulp) at each value."""
    import ml_dtypes

    facts: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]  # it has no types
    finite = np.where(np.isfinite(values), np.abs(values), 0)
    exponent = np.frexp(np.maximum(finite, float(facts.tiny)))[1] - 1
    return np.asarray(float(facts.eps) * np.exp2(exponent.astype(np.float64)))


def verify(kernel: Any, /, *args: Any, atol: float | None = None, rtol: float | None = None, **kwargs: Any) -> Any:
    """Compares a kernel's compiled and interpreted runs, or a function on arrays with numpy; a difference is an error.

    Parameters
    ----------
    kernel : Kernel, AdjointKernel or Fused
        A kernel under `autotune` or `heuristics` is launched with the constants that these choose. For an adjoint, a
        handwritten backward pass is compared with the derived one, or else the derived kernels with interpreted ones.
        For a function under `pto.fuse`, each step of its plan is compared with numpy on the same arrays, and the
        results with those of the function itself.
    *args, **kwargs
        Arguments of a function on arrays; if there are none, ``verify(f)`` is called with them later.
    atol, rtol : float, optional
        The largest allowed difference is ``atol + rtol * |expected|``. The defaults allow for the order of sums and
        the stated error of functions: 1e-5 for float32, relative to the element and to the largest element.

    Returns
    -------
    Verifier
        For a kernel; it is launched as ``verify(kernel)[grid](arguments…)`` and returns the comparison. The arrays then
        hold the results of the compiled kernel.
    VerifiedFunction
        For a function on arrays and its arguments: the comparison. The arguments do not change.

    Raises
    ------
    CompiledDiffers
        At the line that stored the first differing element, with its program, index and both values.
    ArrayDiffers
        At the line of the function that asked for the first array that differs, with the kernel that wrote it.
    OutOfBounds, WriteRace, UninitializedRead
        If the interpreter finds one of them; the arrays are then unchanged.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def halve(x, y):
    ...     y[:] = x[:] / 2
    >>> print(pto.verify(halve)[1](np.arange(4, dtype=np.float32), np.zeros(4, np.float32)))
    halve: 1 programs, compiled as interpreted
      y: 4 elements, largest difference 0 (0 ulp)
    >>> double = pto.fuse(lambda x: x * 2)
    >>> print(pto.verify(double, np.ones(4, np.float32)).head())
    lambda: 1 steps compute what numpy does
    """
    kernel = launched_kernel(kernel)
    verifier = kernel.verifier(atol, rtol) if hasattr(kernel, "verifier") else Verifier(kernel, atol, rtol)
    return verifier(*args, **kwargs) if args or kwargs else verifier
