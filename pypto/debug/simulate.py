"""`pto.simulate` predicts the time of a launch on a chip that need not be present, by the timing model."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pypto.arguments import BOUNDARY, Boundary, check_kernel, describe
from pypto.backends.base import ElementNumber, Slot, SlotNumber
from pypto.compile import attributes, prepared, session
from pypto.ir.core import Function
from pypto.markup import Shown, card
from pypto.ops.target import TargetConstants
from pypto.passes import optimize
from pypto.passes.analysis.memory_effects import written_names
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.launch import check_grid, disjoint, overlaps


@dataclass(frozen=True, slots=True)
class Simulator(Shown):
    """A kernel whose launches are predicted; see `simulate`."""

    kernel: Any
    target: str

    def __str__(self) -> str:
        name = self.kernel.signature.kernel
        return f"simulate({name}): launch it as simulate({name})[grid](arguments…) to predict its time on {self.target}"

    def _repr_html_(self) -> str:
        return card(*str(self).split(": ", 1))

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self.launch, grid)

    @Boundary()
    def simulate(self, *args: Any, grid: Any, **given: Any) -> Any:
        """Predicts a launch, with the grid by its name."""
        return self.launch(grid, *args, **given)

    def launch(self, grid: Any, /, *args: Any, **given: Any) -> Any:
        """Predicts a launch. Nothing runs, and nothing is written."""
        signature = self.kernel.signature
        with self.kernel.boundary:
            values = signature.bind(args, given)
            return predicted_launch(self.kernel, check_grid(grid, signature, values), values, self.target)


def compile_for(kernel: Any, chip: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Compiles a kernel for a chip; without arguments, returns a function that compiles for given arguments."""
    simulator = simulate(kernel, chip)
    if kernel.arg_names and not args and not given:
        return simulator
    with session().devices.chip(chip):
        specialization = kernel.compiled(args, given)
    specialization.simulator = simulator
    return specialization


def predicted_launch(
    kernel: Any,
    sizes: tuple[int, int, int],
    values: tuple[Any, ...],
    chip: str,
    since: Mapping[str, float] | None = None,
) -> Any:
    """Predicts the time of a launch on a chip; `since` as for `Backend.predict`."""
    infos, _ = describe(kernel.signature, values)
    backend = session().devices.chip(chip).backend
    function = function_of(kernel, values, lambda: backend.constants)
    return backend.predict(function, slot_number(infos), sizes, element_number(infos), since)


def function_of(kernel: Any, values: tuple[Any, ...], target: Callable[[], TargetConstants] | None = None) -> Function:
    """Returns the Tile IR from which a launch with these values is lowered."""
    infos, specs = describe(kernel.signature, values)
    built, _ = kernel.build(infos, specs, frozenset(), {}, target)
    function = prepared(built.function, {})
    noalias = disjoint(*overlaps(written_names(function), infos))
    function.attrs |= attributes(noalias, replace(kernel.options, checked=False, profile=False))
    return optimize(function)


def element_number(infos: Mapping[str, Any]) -> ElementNumber:
    """Returns a function from an array argument's name and an index to the integer there; None if there is none."""

    def number(arg: str, index: int) -> int | None:
        info = infos[arg]
        if not isinstance(info, ArrayInfo) or info.device or not info.dtype.is_int:
            return None
        at, size = index * info.dtype.itemsize, info.dtype.itemsize
        if not info.reach[0] <= at < info.reach[1]:
            return None
        return int.from_bytes(ctypes.string_at(info.address + at, size), sys.byteorder, signed=info.dtype.kind == "int")

    return number


def slot_number(infos: Mapping[str, Any]) -> SlotNumber:
    """Returns a function from a slot of the argument block to the integer that this launch passes in it."""

    def number(slot: Slot) -> int | None:
        info = infos[slot.arg]
        if isinstance(info, ArrayInfo):
            if slot.kind == "ptr":
                return None
            return (info.shape if slot.kind == "shape" else info.strides)[slot.dim]
        return int(info) if slot.dtype.is_int else None

    return number


def simulate(kernel: Any, target: str = "ascend910b2") -> Simulator:
    """A kernel whose launches are predicted for a chip, by a model of its units, memories and cores.

    `kernel.compile(target=…)` returns it too.

    Parameters
    ----------
    kernel : Kernel
        Any kernel.
    target : str
        A chip, such as ``ascend910b2``, ``ascend910_9382`` or ``ascend950pr_9589``.

    Returns
    -------
    Simulator
        Launched as ``simulate(kernel)[grid](arguments…)``, which gives a `Prediction`: cycles and time, how busy each
        unit is and which one limits, bytes, the lines that take longest, and a `timeline` for Perfetto. No device, no
        toolkit and no C++ compiler are needed.

    Notes
    -----
    A test compares the model with published series of times for adding two arrays (within 11 %). Integers that the
    kernel loads as scalars are read from the arguments. For anything else that depends on data, the model assumes
    typical values, and the prediction names the lines.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def add(x, y, out, BLOCK: pto.constexpr):
    ...     start = pto.program_id(0) * BLOCK
    ...     out[start:start + BLOCK] = x[start:start + BLOCK] + y[start:start + BLOCK]
    >>> x = np.zeros(1 << 20, np.float32)
    >>> found = pto.simulate(add)[256](x, x.copy(), x.copy(), BLOCK=4096)
    >>> found.limit, 3e-6 < found.seconds < 100e-6
    ('memory', True)
    """
    way = "take the kernels of its plan, `f.plan(…).kernels`, or run it under `pto.device('ascend-sim')`"
    with BOUNDARY:
        check_kernel(kernel, "pto.simulate", way)
    return Simulator(kernel, target)
