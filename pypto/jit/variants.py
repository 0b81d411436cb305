"""Variants: a kernel with other options, such as those of one launch, which an autotuner tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.errors.launch import WrongOption
from pypto.options import TUNABLE, KernelOptions, suggestion
from pypto.runtime.signature import Signature

if TYPE_CHECKING:
    from pypto.jit.kernel import Kernel


def check_affinity(options: KernelOptions, signature: Signature) -> None:
    """Refuse an `affinity` to what is no parameter.

    Raises
    ------
    WrongOption
        That says which parameter may be meant.
    """
    name, names = options.affinity, signature.names
    if name and name not in names:
        way = suggestion(name, names, "did you mean `{}`? ") + f"it names an array: {', '.join(names)}"
        raise WrongOption(function=signature.kernel, problem=f"has no parameter `{name}` for `affinity`", way=way)


def variant_of(kernel: Kernel, given: dict[str, Any]) -> tuple[Kernel, dict[str, Any]]:
    """The kernel with the options among a launch's arguments, and the other arguments.

    A name that is a parameter of the kernel is that parameter.
    """
    chosen = {name: x for name, x in given.items() if name in TUNABLE and name not in kernel.signature.names}
    others = {name: x for name, x in given.items() if name not in chosen}
    return (with_options(kernel, chosen), others) if chosen else (kernel, given)


def with_options(kernel: Kernel, chosen: dict[str, Any]) -> Kernel:
    """The variant with some options; equal options give the same one, so that its versions are compiled once."""
    options = kernel.options.changed(chosen, kernel.signature.kernel)
    if "disable" in chosen:
        kernel.compiler.check_disabled(options.disable)
    with kernel.lock:
        if options == kernel.options:
            return kernel
        if options not in kernel.variants:
            kernel.variants[options] = kernel.kind(kernel.function, options, kernel.opaque)
        return kernel.variants[options]
