"""`pto.jit`: a Python function as a kernel that is launched over a grid.

`kernel` is what a launch goes through, `specialize` finds or compiles the version for its arguments, and `variants` are
kernels with the options of one launch.

Beside them: `generated` (kernels from source text), `manifest` and `records` (a second process), and `direct` (launches
by generated code).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, overload

from pypto.arguments import Boundary, check_function
from pypto.jit.kernel import Kernel
from pypto.loc import Caller
from pypto.options import KernelOptions

__all__ = ["Kernel", "jit"]
_ACCEPTED: Final = ("do_not_specialize_on_alignment", "noinline", "debug", "repr", "launch_metadata", "version")


@overload
def jit(function: Callable[..., Any]) -> Kernel: ...
@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(
    function: Callable[..., Any] | None = None, *, do_not_specialize: Iterable[str | int] | None = None, **options: Any
) -> Any:
    """Make a kernel of a function.

    Parameters
    ----------
    function : function
        Written in the kernel language.
    do_not_specialize : sequence of str or int
        Parameters, by name or number, of whose values no version is to make use; of an array, sizes and strides, but
        for those of 0 and 1.
    **options
        Fields of `pypto.options.KernelOptions`: ``interpret``, ``checked``, ``num_threads``, ``level``, ``fast_math``,
        ``affinity``, ``blocking`` and ``disable``.
        Accepted without a meaning here: ``do_not_specialize_on_alignment``, ``noinline``, ``debug``, ``repr``,
        ``launch_metadata`` and ``version``.

    Returns
    -------
    Kernel
        Launched as ``kernel[grid](arguments…)``.

    Raises
    ------
    OptionError
        When an option is unknown.
    """
    with Boundary(Caller.of(sys._getframe(1)).loc):
        chosen = KernelOptions().changed({name: x for name, x in options.items() if name not in _ACCEPTED})
        if chosen.disable:
            import pypto.compile

            pypto.compile.check_disabled(chosen.disable)
        check_function(function)
    make = functools.partial(Kernel, options=chosen, do_not_specialize=do_not_specialize or ())
    return make if function is None else make(function)
