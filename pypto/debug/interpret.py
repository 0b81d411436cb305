"""`pto.interpret` runs a kernel in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pypto.arguments import BOUNDARY, check_kernel, describe
from pypto.interp import run
from pypto.runtime.arrays import array_info, check_writable
from pypto.runtime.tensors import note_written


def interpret(kernel: Any, uninitialized: tuple[str, ...] = (), memory: tuple[Any, ...] = ()) -> Any:
    """Return a kernel that the interpreter runs: slowly, and with a check of every access.

    Parameters
    ----------
    kernel : Kernel
        Any kernel.
    uninitialized : tuple of str
        Names of arrays that are uninitialised before the launch; to read an element that no program wrote is an error.
    memory : tuple of arrays
        Further arrays that the kernel reaches through addresses among its arguments.

    Returns
    -------
    Kernel
        A kernel that is launched like the original one.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def total(x, out):
    ...     out[0] = pto.sum(x[:], axis=0)
    >>> x, out = np.ones(4, np.float32), np.zeros(1, np.float32)
    >>> pto.interpret(total, uninitialized=("out",))[1](x, out)
    >>> out
    array([4.], dtype=float32)
    """
    with BOUNDARY:
        check_kernel(
            kernel, "pto.interpret", "run it under `with pto.interpreter():`, or check it by `pto.verify(f, …)`"
        )
    interpreted = kernel.kind(kernel.function, replace(kernel.options, interpret=True), kernel.opaque)
    interpreted.uninitialized, interpreted.memory = uninitialized, memory
    return interpreted


def run_interpreted(
    kernel: Any, sizes: tuple[int, int, int], values: tuple[Any, ...], on_store: Callable[..., None] | None
) -> None:
    """Runs a launch in the interpreter, which calls `on_store` for every store."""
    from pypto.debug.advice import advise
    from pypto.passes.analysis.memory_effects import written_names

    infos, specs = describe(kernel.signature, values)
    timings: dict[str, float] = {}
    built, _ = kernel.build(infos, specs, frozenset(), timings)
    advise(kernel, built, "", (), specs)
    function = kernel.compiler.prepared(built.function, timings)
    name, more, written = kernel.signature.kernel, enumerate(kernel.memory), written_names(function)
    check_writable(name, written, infos, kernel.lenient)
    note_written(written, infos)
    others: dict[str, Any] = {f"memory[{n}]": array_info(x, name, f"memory[{n}]") for n, x in more}
    run(function, [infos[v.hint] for v in function.args], sizes, kernel.uninitialized, others, on_store)
